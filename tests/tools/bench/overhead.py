"""What measuring costs, as ratios in one run: each pass against the same workload without kernelscope, and the start of --help.

    python tests/tools/bench/overhead.py [--network lenet] [--mode train] [--restarts 6] [FRAMEWORK ...]
    python tests/tools/bench/overhead.py --device cuda --network resnet50 --batch 128 [--python PATH] pytorch

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import scipy.stats

from kernelscope.tracer.inside.plan import STEADY_VARIABLES
from kernelscope.tracer.outside import environments, turns
from kernelscope.tracer.outside.process import Child
from kernelscope.tracer.outside.staging import stage

PASSES = ("plain", "clean", "layers", "kernels")  # the first against itself: what is noise here
ON_GPU = ("plain", "clean", "layers", "kernels", "cupti")  # kernels: with the framework's own profiler
LIMITS = {"clean": 1.01, "layers": 1.05}
WINDOWS, STEPS = 16, 10
HELP_LIMIT_S = 0.3


@dataclass(frozen=True)
class Measured:
    """What runs with and without kernelscope. python: the framework's interpreter, None for its own environment."""

    framework: str
    network: str
    mode: str
    batch: int
    device: str
    precision: str | None
    python: str | None

    def start(self, side: str, folder: Path, staged: Path) -> Child:
        """Start one side's process in a folder."""
        environment = environments.resolve(self.framework, self.python)
        threads = str(len(os.sched_getaffinity(0)))
        heap = {key: value for key, value in STEADY_VARIABLES.items() if key.startswith("MALLOC")}
        variables = {**os.environ, **heap, **environment.variables, "PYTHONPATH": str(staged)}
        variables.update(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads)
        if self.device == "cpu":
            variables["CUDA_VISIBLE_DEVICES"] = ""
        collector = side if side == "cupti" else "framework"
        spec = {
            "framework": self.framework, "network": self.network, "mode": self.mode, "folder": ".",
            "pass": "kernels" if side == "cupti" else side, "batch": self.batch, "device": self.device,
            "seed": 0, "threads": int(threads), "batches": 8,
            "warmup": 30, "dropout": True, "data": None, "roots": [], "precision": self.precision, "layout": None,
            "autotune": None, "collector": collector, "collector_required": True, "device_profiler": collector == "framework",
        }  # fmt: skip
        module = "plain" if side == "plain" else "kernelscope.tracer.inside.child"
        return Child(environment.python, spec, folder, variables, 300, module)


def restart(measured: Measured, sides: Sequence[str], windows: int, steps: int) -> list[list[float]]:
    """Start a process for each side, in this order, and return the mean step of its windows, in ns."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        staged = stage(folder / "staged")
        shutil.copy(Path(__file__).with_name("plain.py"), staged / "plain.py")
        children = []
        try:
            for number, side in enumerate(sides):
                own = folder / str(number)
                own.mkdir()
                children.append(measured.start(side, own, staged))
            return _take_turns(children, windows, steps)
        finally:
            for child in children:
                child.stop()


def _take_turns(children: Sequence[Child], windows: int, steps: int) -> list[list[float]]:
    for child in children:
        child.answer()
    for child in children:
        child.tell(do="warmup")
    means: list[list[float]] = [[] for _ in children]
    for window, index in ((number, index) for number in range(windows) for index in turns.order(len(children), number)):
        times = children[index].tell(do="window", window=window, steps=steps)["step_ns"]
        means[index].append(statistics.fmean(times))
        children[index].wait_until_asleep()
    return means  # what they recorded is not wanted, and writing it would take longer than this


def in_turns(measured: Measured, names: Sequence[str], restarts: int, windows: int, steps: int) -> dict[str, list[list[float]]]:
    """Return per pass and restart the ratios of its windows to the plain process's; another one is started first each time."""
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for number in range(restarts):
        sides = list(range(len(names) + 1))  # the first is the plain process that all are divided by
        sides = sides[number % len(sides) :] + sides[: number % len(sides)]
        means = dict(zip(sides, restart(measured, [("plain", *names)[side] for side in sides], windows, steps), strict=True))
        for side, name in enumerate(names, 1):
            found[name].append([second / first for first, second in zip(means[0], means[side], strict=True)])
        said = ", ".join(f"{name} x{statistics.median(ratios[-1]):.3f}" for name, ratios in found.items())
        print(f"restart {number + 1} of {restarts}: {said}", flush=True)  # the machine may be had for minutes only
    return found


def show(measured: Measured, name: str, ratios: list[list[float]]) -> bool:
    """Print a pass's ratio, the median over restarts of their windows' median; return whether it is within its limit."""
    values = [statistics.median(windows) for windows in ratios]
    limit, middle = LIMITS.get(name), statistics.median(values)
    fine = limit is None or middle <= limit
    verdict = "" if limit is None else f"  limit {limit:.2f}: {'kept' if fine else 'EXCEEDED'}"
    low, high = _interval([ratio for windows in ratios for ratio in windows])
    print(f"{measured.framework:<11} {measured.network} {measured.mode:<6} {name:<8} x{middle:.3f}  restarts {min(values):.3f}"
          f" to {max(values):.3f}, windows' median {low:.3f} to {high:.3f}{verdict}", flush=True)  # fmt: skip
    return fine


def _interval(values: list[float]) -> tuple[float, float]:
    """Return the 95% interval of the median, by the order of the values (binomial, as sign tests have it)."""
    ordered = sorted(values)
    reach = int(scipy.stats.binom.ppf(0.025, len(ordered), 0.5))
    return ordered[max(reach - 1, 0)], ordered[min(len(ordered) - reach, len(ordered) - 1)]


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
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: all passes at once, CUPTI too")
    parser.add_argument("--python", help="interpreter of the frameworks")
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--windows", type=int, default=WINDOWS)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    names = given.frameworks or [row["framework"] for row in environments.list_all() if row["ready"]]
    fine = report_help()
    for name in names:
        measured = Measured(name, given.network, given.mode, given.batch, given.device, given.precision, given.python)
        together = [ON_GPU] if given.device == "cuda" else [(side,) for side in PASSES]
        for sides in together:
            for side, ratios in in_turns(measured, sides, given.restarts, given.windows, given.steps).items():
                fine &= show(measured, side, ratios)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
