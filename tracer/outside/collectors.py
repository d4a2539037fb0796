"""What records the kernels pass: which collectors work for a framework here, which one is used, and a child's pass under it.

| collector | what it is | what it records |
|---|---|---|
| framework | the framework's own profiler, and what oneDNN and MKL print | operators, the libraries' calls, kernels of a GPU |
| nsys | Nsight Systems, around the child | ranges, calls into the operating system, CUDA |
| nvprof | CUDA's old profiler, around the child | ranges and CUDA, on GPUs before compute capability 8.0 |
| cupti | CUPTI, inside the child | CUDA |

All of them use CUPTI, which allows one client per process. Beside nsys, nvprof and cupti, the framework's profiler therefore
records only the host. Its records and the libraries' lines are kept with every collector.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kernelscope.nsys_wrappers import capture, cuda_versions, find, nvprof, privacy, verify
from kernelscope.nsys_wrappers.command import CaptureError
from kernelscope.nsys_wrappers.find import Tool
from kernelscope.nsys_wrappers.options import CPU_TRACES, GPU_TRACES, NsysOptions, NvprofOptions
from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside import gpu, recipes
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import ChildError, UsageError
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.staging import stage
from kernelscope.tracer.outside.variants import Variant

NAMES = ("framework", "nsys", "nvprof", "cupti")
AUTO = "auto"
# These frameworks' profilers record a GPU's kernels with the operators that launched them; no other collector knows as much.
_RECORD_KERNELS = ("pytorch", "tensorflow", "jax", "keras")
_ORDER_OF_THESE = ("framework", "cupti", "nsys", "nvprof")
_ORDER_OF_OTHERS = ("nsys", "nvprof", "cupti", "framework")
_PROBE = "from kernelscope.tracer.inside import cupti; print(cupti.unavailable() or '')"
_PROBE_LIMIT_S = 120.0
_PRINTED_BY_NSYS = re.compile(
    r"^Generat(ing|ed)\b|^Importer error status|^Unable to retrieve the importer|^\s+/.*\.(qdstrm|nsys-rep|sqlite)$|^\[\d/\d\]"
    r"|^(Connection to the Agent|Processing|Collecting data|Exporting|WARNING: )"
)


@dataclass(frozen=True)
class Choice:
    """What records a side's kernels pass, and why. unavailable: preferred collectors -> why they are not available."""

    asked: str
    used: str
    reason: str
    unavailable: dict[str, str] = field(default_factory=dict)
    tool: Tool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for run.json."""
        record = {"asked": self.asked, "used": self.used, "reason": self.reason}
        return record if self.tool is None else {**record, "version": self.tool.version}


def order(framework: str, device: str) -> tuple[str, ...]:
    """Return the collectors in the order in which they are tried. On a CPU, the framework's own says more than any other."""
    own = framework.partition("-")[0] in _RECORD_KERNELS  # keras-torch is Keras
    return _ORDER_OF_THESE if device == "cpu" or own else _ORDER_OF_OTHERS


def choose(asked: str, framework: str, device: str, environment: Environment | None = None, nsys: str | None = None) -> Choice:
    """Return the collector to use; raise UsageError, with reason and remedy, if the requested one is not available.

    asked: one of NAMES or "auto", which takes the first that works. nsys: path of the nsys to use.
    """
    if nsys is not None and isinstance(result := find.examine("nsys", nsys), str):
        raise UsageError(f"--nsys {nsys}: {result}")
    if asked != AUTO:
        reason = usable(asked, framework, device, environment, nsys)
        if reason is not None:
            raise UsageError(f"--collector {asked}: {framework}: {reason}")
        return Choice(asked, asked, "asked for", tool=_tool(asked, nsys))
    refused: dict[str, str] = {}
    for name in order(framework, device):
        reason = usable(name, framework, device, environment, nsys)
        if reason is None:
            why = f"the first that works here, of {', '.join(order(framework, device))}"
            if device == "cpu":
                why = "on a CPU, the libraries' own output and the framework's profiler say the most"
            return Choice(asked, name, why, refused, _tool(name, nsys))
        refused[name] = reason
    reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    raise UsageError(f"--collector auto: {framework}: none is available: {reasons}")


def chosen(options: RunOptions, variant: Variant, nsys: str | None = None) -> Choice:
    """Return the collector of one side of a run; raises as `choose` does."""
    environment = variant.environment
    return choose(options.collector, environment.framework, options.device, environment, nsys)


def usable(
    collector: str, framework: str, device: str, environment: Environment | None = None, nsys: str | None = None
) -> str | None:
    """Return None if the collector works for this framework on this device ("cpu" or "cuda"), else one line that says why not.

    Without an environment, what would have to be tried in it counts as unavailable.
    """
    if device == "cpu" and "cpu" not in recipes.variants(framework):
        return f"{framework} runs on GPUs only; use --device cuda on a machine that has one"
    if collector == "framework":
        return None if framework != "cudnn" else "cuDNN and cuBLAS have no profiler of their own; use --collector nsys or cupti"
    if collector == "nsys":
        tool = _nsys(nsys)
        return tool if isinstance(tool, str) else find.usable(tool)
    if device == "cpu":
        return f"{collector} records only work of GPUs, and this runs on a CPU; use --collector framework or nsys"
    if collector == "nvprof":
        old = _nvprof()
        return old if isinstance(old, str) else None
    return _cupti(framework, environment)


def _nsys(path: str | None) -> Tool | str:
    if path is not None:
        return find.examine("nsys", path)
    result = _installed("nsys", os.environ.get("KERNELSCOPE_NSYS"), os.environ.get("PATH"))
    return result or "; ".join(find.failures("nsys")) or "not found; install Nsight Systems, or give its path with --nsys"


def _nvprof() -> Tool | str:
    devices = gpu.find().devices
    refusal = nvprof.refusal(devices[0].compute_capability) if devices else None
    why = refusal or "not found; install the CUDA toolkit (11 or 12), or set KERNELSCOPE_NVPROF to its path"
    result = _installed("nvprof", os.environ.get("KERNELSCOPE_NVPROF"), os.environ.get("PATH"))
    return why if refusal or result is None else result


@cache
def _installed(name: str, *_: str | None) -> Tool | None:
    """Find a profiler once for all frameworks; the other arguments are the variables that affect the search."""
    return find.find(name)


def _tool(collector: str, nsys: str | None) -> Tool | None:
    tool = _nsys(nsys) if collector == "nsys" else _nvprof() if collector == "nvprof" else None
    return tool if isinstance(tool, Tool) else None


def _cupti(framework: str, environment: Environment | None) -> str | None:
    """Ask the framework's interpreter in a separate process, because asking initialises CUDA."""
    if environment is None:
        return f"{framework} is not set up; create its environment with `kernelscope env create {framework}`"
    with temporary.folder() as folder:
        variables = {**os.environ, **environment.variables, "PYTHONPATH": str(stage(Path(folder)))}
        try:
            done = subprocess.run(
                [str(environment.python), "-c", _PROBE], env=variables, cwd=folder, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=_PROBE_LIMIT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return f"{environment.python} could not be checked for CUPTI: {error}"
    if done.returncode:
        last = done.stderr.decode("utf8", "replace").strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return f"{environment.python} could not be checked for CUPTI: {last[0]}"
    return done.stdout.decode("utf8", "replace").strip() or None


class ToolCollector:
    """A child's kernels pass under nsys or nvprof (see process.Collector). Raises ChildError for what this release cannot do.

    keep: keep nsys's report beside its export. It holds the environment of every process (see privacy), which run folders, made
    to be passed on, otherwise never contain.
    """

    def __init__(self, tool: Tool, folder: Path, device: str, keep: bool = False):
        folder = folder.resolve()  # the profiler's programs run elsewhere
        self._tool, self._folder, self._device, self._keep = tool, folder, device, keep
        options: NsysOptions | NvprofOptions
        if tool.name == "nsys":
            options = NsysOptions(folder / "nsys", CPU_TRACES if device == "cpu" else GPU_TRACES)
        else:
            options = NvprofOptions(folder / "nvprof.sqlite", folder / "nvprof.log")
        try:
            self.prefix = capture.prepare(tool, folder, options)
        except CaptureError as error:
            raise ChildError(f"{tool.name}: {error}") from error

    def variables(self) -> dict[str, str]:
        """Return the variables without which the child's ranges do not arrive, whatever its own environment: NVTX's library."""
        library = find.nvtx_library()
        return {"KERNELSCOPE_NVTX_LIBRARY": library} if library else {}

    def processes(self) -> list[int]:
        """Return the ids of the profiler's and the child's processes."""
        return capture.processes(self._folder)

    def stop(self) -> None:
        """Kill all of them, and keep what the profiler had written by then."""
        capture.stop(self._folder)
        self._made_private(capture.finish(self._tool, self._folder, wait_s=0.0))

    def of_child(self, lines: list[str]) -> list[str]:
        """Return the lines of a child's log that the profiler did not print itself."""
        return [line for line in lines if not _PRINTED_BY_NSYS.search(line)]

    def finish(self, emitted: Mapping[str, int], versions: Mapping[str, str], wait_s: float) -> dict[str, Any]:
        """Return what was recorded, compared with the ranges that the child opened, after it has ended; see verify.as_dict.

        `failures` has a line for everything that is missing. Raises nothing for what the profiler did, but OSError if the
        folder has no space for it.
        """
        capture.stop(self._folder, keep=True)
        try:
            result = capture.finish(self._tool, self._folder, wait_s)
        except OSError as error:  # no space for what nsys wrote elsewhere
            raise OSError(error.errno, error.strerror, str(self._folder)) from error
        outcome = {"version": result.version, "failures": [*result.failures, *self._made_private(result)]}
        if result.exported is None:
            return {**outcome, "nvtx": {"emitted": sum(emitted.values()), "recorded": None}, "kernels": None}
        on_gpu = self._device != "cpu"
        verified = verify.verify(result.exported, emitted, cuda=on_gpu, version=result.version).as_dict()
        old = cuda_versions.warning(self._tool, versions.get("cuda", "")) if on_gpu else None
        return {**outcome, **verified, "warnings": [*verified["warnings"], *([old] if old else [])]}

    def _made_private(self, result: capture.Capture) -> list[str]:
        """Remove the environments of the machine's processes from what is kept; return what was lost by that."""
        if self._tool.name != "nsys":
            return []
        messages = []
        if result.exported is not None:
            try:
                privacy.without_environments(result.exported)
            except sqlite3.Error as error:
                result.exported.unlink()
                lost = f"removed, as it holds environments that cannot be blanked ({error})"
                messages.append(f"{result.exported}: {lost}; record again")
        originals = [path for path in self._folder.glob("nsys.*") if path.suffix != ".sqlite"]
        if self._keep or not originals:
            return messages
        for path in originals:
            path.unlink()
        if result.exported is None:
            messages.append("nsys's files were removed: they hold the environment of every process; --keep-reports keeps them")
        return messages


def problems(verified: Mapping[str, Any]) -> list[str]:
    """Return one line for everything requested that a recording lacks."""
    return [*verified.get("failures", ()), *verified.get("missing", ())]


def merged(recordings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return sums over the recordings of all repeats, by folder, for run.json; a number unknown in one of them is unknown."""

    def total(values: Sequence[int | None]) -> int | None:
        return None if None in values else sum(value for value in values if value is not None)

    each = list(recordings.values())
    lost: dict[str, int] = {}
    for one in each:
        for name, count in one.get("lost", {}).items():
            lost[name] = lost.get(name, 0) + count
    return {
        "nvtx": {key: total([one["nvtx"][key] for one in each]) for key in ("emitted", "recorded")},
        "kernels": total([one["kernels"] for one in each]),
        "lost": lost,
        "missing": list(dict.fromkeys(line for one in each for line in problems(one))),
        "warnings": list(dict.fromkeys(line for one in each for line in one.get("warnings", ()))),
        "folders": {folder: dict(one) for folder, one in recordings.items()},
    }
