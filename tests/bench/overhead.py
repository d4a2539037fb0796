"""What measuring costs, as ratios in one run: each pass against the same workload without kernelscope, and the start of --help.

    python tests/bench/overhead.py [--network lenet] [--mode train] [--restarts 5] [FRAMEWORK ...]

The four processes of a framework take turns in short windows and are restarted several times; a pass's figure is the median
over windows of its window mean divided by the neighbouring window's of the plain process.
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

from kernelscope.tracer.outside import environments, turns
from kernelscope.tracer.outside.options import STEADY_VARIABLES
from kernelscope.tracer.outside.process import Child
from kernelscope.tracer.outside.staging import stage

SIDES = ("plain", "clean", "layers", "kernels")
LIMITS = {"clean": 1.01, "layers": 1.05}
WINDOWS, STEPS = 16, 10
HELP_LIMIT_S = 0.3


def window_means(framework: str, network: str, mode: str, folder: Path) -> dict[str, list[float]]:
    """Return the mean step time in ns of every window of every side, after one restart of all of them."""
    environment = environments.resolve(framework, None)
    staged = stage(folder / "staged")
    shutil.copy(Path(__file__).with_name("plain.py"), staged / "plain.py")
    threads = str(len(os.sched_getaffinity(0)))
    variables = {**os.environ, **STEADY_VARIABLES, **environment.variables, "PYTHONPATH": str(staged)}
    variables.update(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, CUDA_VISIBLE_DEVICES="")
    children = []
    for side in SIDES:
        (folder / side).mkdir()
        spec = {
            "framework": framework, "network": network, "mode": mode, "pass": side, "folder": str(folder / side), "batch": 64,
            "device": "cpu", "seed": 0, "threads": int(threads), "batches": 8, "warmup": 30, "dropout": True, "data": None,
            "roots": [],
        }  # fmt: skip
        module = "plain" if side == "plain" else "kernelscope.tracer.inside.child"
        children.append(Child(environment.python, spec, folder / side, variables, 300, module))
    try:
        for child in children:
            child.answer()
            child.tell(do="warmup")
        means: dict[str, list[float]] = {side: [] for side in SIDES}
        for window, index in turns.order(len(SIDES), WINDOWS):
            times = children[index].tell(do="window", window=window, steps=STEPS)["step_ns"]
            means[SIDES[index]].append(statistics.fmean(times))
            children[index].wait_until_asleep()
        for child in children:
            child.finish()
    finally:
        for child in children:
            child.stop()
    return means


def report_framework(framework: str, network: str, mode: str, restarts: int) -> bool:
    """Print one framework's ratios; return whether they are within the limits."""
    ratios: dict[str, list[float]] = {side: [] for side in SIDES[1:]}
    plain: list[float] = []
    for _ in range(restarts):
        with tempfile.TemporaryDirectory() as temporary:
            means = window_means(framework, network, mode, Path(temporary))
        plain += means["plain"]
        for side in SIDES[1:]:
            ratios[side].append(statistics.median(a / b for a, b in zip(means[side], means["plain"], strict=True)))
    fine = True
    print(f"{framework:<11} {network} {mode}: plain step {statistics.median(plain) / 1e6:.3f} ms (median)")
    for side, values in ratios.items():
        limit = LIMITS.get(side)
        middle = statistics.median(values)
        fine &= limit is None or middle <= limit
        verdict = "" if limit is None else f"  limit {limit:.2f}: {'kept' if middle <= limit else 'EXCEEDED'}"
        print(f"  {side:<8} x{middle:.3f}  restarts {min(values):.3f} to {max(values):.3f}{verdict}")
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
    parser.add_argument("--restarts", type=int, default=5)
    arguments = parser.parse_args()
    names = arguments.frameworks or [row["framework"] for row in environments.list_all() if row["ready"]]
    fine = report_help()
    for name in names:
        fine &= report_framework(name, arguments.network, arguments.mode, arguments.restarts)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
