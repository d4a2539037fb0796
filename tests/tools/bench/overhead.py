"""What measuring costs, as ratios in one run: each pass against the same workload without kernelscope, and the start of --help.

    python tests/tools/bench/overhead.py [--network lenet] [--mode train] [--restarts 6] [FRAMEWORK ...]

Each pass takes turns with the plain process in short windows, A B B A B A A B, and both are restarted several times. A pass's
figure is the median over windows of its window mean divided by the neighbouring window's of the plain process, and then the
median over restarts; which of the two is started first alternates, because that alone makes a difference of some percent.
The heap is kept steady in both (see plan.STEADY_VARIABLES), else page faults drown everything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kernelscope.tracer.inside.plan import STEADY_VARIABLES
from kernelscope.tracer.outside import environments, turns
from kernelscope.tracer.outside.process import Child
from kernelscope.tracer.outside.staging import stage

PASSES = ("plain", "clean", "layers", "kernels")  # the first against itself: what is noise here
LIMITS = {"clean": 1.01, "layers": 1.05}
WINDOWS, STEPS = 16, 10
HELP_LIMIT_S = 0.3


def ratio(framework: str, network: str, mode: str, sides: tuple[str, str], folder: Path) -> float:
    """Return one restart's step time of the second side as a ratio to that of the first, which is started first."""
    environment = environments.resolve(framework, None)
    staged = stage(folder / "staged")
    shutil.copy(Path(__file__).with_name("plain.py"), staged / "plain.py")
    threads = str(len(os.sched_getaffinity(0)))
    heap = {key: value for key, value in STEADY_VARIABLES.items() if key.startswith("MALLOC")}
    variables = {**os.environ, **heap, **environment.variables, "PYTHONPATH": str(staged)}
    variables.update(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, CUDA_VISIBLE_DEVICES="")
    children = []
    for number, side in enumerate(sides):
        own = folder / str(number)
        own.mkdir()
        spec = {
            "framework": framework, "network": network, "mode": mode, "pass": side, "folder": ".", "batch": 64,
            "device": "cpu", "seed": 0, "threads": int(threads), "batches": 8, "warmup": 30, "dropout": True, "data": None,
            "roots": [],
        }  # fmt: skip
        module = "plain" if side == "plain" else "kernelscope.tracer.inside.child"
        children.append(Child(environment.python, spec, own, variables, 300, module))
    try:
        return _take_turns(children)
    finally:
        for child in children:
            child.stop()


def _take_turns(children: list[Child]) -> float:
    for child in children:
        child.answer()
    for child in children:
        child.tell(do="warmup")
    means: list[list[float]] = [[], []]
    for window, index in ((number, index) for number in range(WINDOWS) for index in turns.order(2, number)):
        times = children[index].tell(do="window", window=window, steps=STEPS)["step_ns"]
        means[index].append(statistics.fmean(times))
        children[index].wait_until_asleep()
    for child in children:
        child.finish()
    return statistics.median(second / first for first, second in zip(*means, strict=True))


def report_framework(framework: str, network: str, mode: str, restarts: int) -> bool:
    """Print one framework's ratios; return whether they are within the limits."""
    fine = True
    for name in PASSES:
        values = []
        for number in range(restarts):
            with tempfile.TemporaryDirectory() as temporary:
                if number % 2:
                    values.append(1 / ratio(framework, network, mode, (name, "plain"), Path(temporary)))
                else:
                    values.append(ratio(framework, network, mode, ("plain", name), Path(temporary)))
        limit, middle = LIMITS.get(name), statistics.median(values)
        fine &= limit is None or middle <= limit
        verdict = "" if limit is None else f"  limit {limit:.2f}: {'kept' if middle <= limit else 'EXCEEDED'}"
        print(f"{framework:<11} {network} {mode:<6} {name:<8} x{middle:.3f}  "
              f"restarts {min(values):.3f} to {max(values):.3f}{verdict}", flush=True)  # fmt: skip
    return fine


def report_help() -> bool:
    """Print how long `kernelscope --help` takes beside the bare interpreter; return whether it is within the limit."""
    command = [sys.executable, "-m", "kernelscope.cli.main", "--help"]
    taken = {"bare python": [sys.executable, "-c", "pass"], "kernelscope --help": command}
    medians = {}
    for name, arguments in taken.items():
        times = []
        for _ in range(11):
            start = time.perf_counter()
            subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - start)
        medians[name] = statistics.median(times)
        print(f"{name}: {medians[name]:.3f} s (median of {len(times)}, {min(times):.3f} to {max(times):.3f})")
    kept = medians["kernelscope --help"] <= HELP_LIMIT_S
    print(f"  x{medians['kernelscope --help'] / medians['bare python']:.1f} of the bare interpreter; "
          f"limit {HELP_LIMIT_S} s: {'kept' if kept else 'EXCEEDED'}")  # fmt: skip
    return kept


def main() -> int:
    """Measure and print; return 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", help="default: all that are set up")
    parser.add_argument("--network", default="lenet")
    parser.add_argument("--mode", default="train")
    parser.add_argument("--restarts", type=int, default=6)
    arguments = parser.parse_args()
    names = arguments.frameworks or [row["framework"] for row in environments.list_all() if row["ready"]]
    fine = report_help()
    for name in names:
        fine &= report_framework(name, arguments.network, arguments.mode, arguments.restarts)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
