"""The command lines of nsys and nvprof: pure functions of typed options that know what each release can do.

Commands are lists of arguments and never reach a shell. There is no `--` before the program, because nsys 2022.4 takes it for
an ambiguous option. nsys and nvprof expand "%h", "%p" and "%q{VARIABLE}" in file names, so a "%" in ours is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelscope.nsys_wrappers.find import Tool
from kernelscope.nsys_wrappers.options import NsysOptions, NvprofOptions, NvtxRange

OLDEST = (2021,)
_REPORT_RENAMED = (2021, 4)  # from .qdrep to .nsys-rep
# The first release known to have an option, for installations whose help could not be read.
_SINCE = {
    "--capture-range-end": (2021, 4),
    "--cuda-graph-trace": (2022, 2),
    "--gpu-metrics-device": (2021, 2),
    "--gpu-metrics-devices": (2024, 6),
    "--osrt-backtrace-threshold": (2021, 1),
}
_LONGEST_NS = 2**31 - 1  # the most that nsys accepts; 2023.4 and 2024.2 refuse more, 2022.4 some
_TRACE = re.compile(r"[a-z0-9-]+")
_DEVICES = re.compile(r"\d+|all|cuda-visible")


class CaptureError(Exception):
    """A capture is impossible as requested: one line that says why, and what to do instead."""


def report_suffix(tool: Tool) -> str:
    """Return the suffix of this nsys's reports."""
    return ".nsys-rep" if tool.release >= _REPORT_RENAMED else ".qdrep"


def nsys_command(tool: Tool, options: NsysOptions, program: Sequence[str], offered: frozenset[str] = frozenset()) -> list[str]:
    """Return the command that runs the program under `nsys profile`.

    offered: the options of this installation, as `find.offered` reads them from its help; if empty, its release decides. Raises
    CaptureError for options that it lacks or that contradict each other.

    nsys never signals the program when recording ends (--kill=none), and waits only for the program, not for processes that it
    leaves behind (--wait=primary).
    """
    _check(tool, options, program)
    command = [
        str(tool.path), "profile", f"--output={_literal(options.output)}", f"--trace={','.join(options.traces) or 'none'}",
        f"--sample={'process-tree' if options.cpu_sampling else 'none'}",
        f"--cpuctxsw={'process-tree' if options.context_switches or options.cpu_sampling else 'none'}",
        "--kill=none", "--wait=primary",
    ]  # fmt: skip
    command += [f"--session-new={options.session}"] if options.session else []
    environment = dict(options.environment)
    if options.capture is not None:
        command += _capture_range(options.capture, _has(tool, "--capture-range-end", offered))
    if isinstance(options.capture, NvtxRange):
        # otherwise only registered strings start a recording, and ranges pushed by name do not
        environment["NSYS_NVTX_PROFILER_REGISTER_ONLY"] = "0"
    if environment:
        command.append("--env-var=" + ",".join(f"{name}={value}" for name, value in environment.items()))
    if "osrt" in options.traces and not options.cpu_sampling and _has(tool, "--osrt-backtrace-threshold", offered):
        command.append(f"--osrt-backtrace-threshold={_LONGEST_NS}")  # else each call that waits 80 us copies 6 kB of stack
    command += _cuda(tool, options, offered)
    command += [f"--delay={options.delay_s}"] if options.delay_s else []
    command += [f"--duration={options.duration_s}"] if options.duration_s else []
    command += ["--stats=true"] if options.stats else []
    return [*command, *program]


def nvprof_command(tool: Tool, options: NvprofOptions, program: Sequence[str]) -> list[str]:
    """Return the command that runs the program under nvprof; raise CaptureError without a program."""
    _check_program(program)
    command = [str(tool.path), "--export-profile", _literal(options.output), "--log-file", _literal(options.log)]
    # we do not need counters of unified memory, and without permission for them nvprof fails
    command += ["--unified-memory-profiling", "off"]
    command += ["--profile-from-start", "off"] if options.capture else []
    command += ["--track-memory-allocations", "on"] if options.memory_usage else []
    return [*command, *program]


def _literal(path: Path) -> str:
    return str(path.absolute()).replace("%", "%%")


def _has(tool: Tool, option: str, offered: frozenset[str]) -> bool:
    return option in offered if offered else tool.release >= _SINCE[option]


def _capture_range(capture: NvtxRange | str, range_end: bool) -> list[str]:
    end = "--capture-range-end=stop" if range_end else "--stop-on-range-end=true"
    if not isinstance(capture, NvtxRange):
        return ["--capture-range=cudaProfilerApi", end]
    domain = f"@{capture.domain}" if capture.domain is not None else ""
    return ["--capture-range=nvtx", f"--nvtx-capture={capture.text}{domain}", end]


def _cuda(tool: Tool, options: NsysOptions, offered: frozenset[str]) -> list[str]:
    command = []
    if _has(tool, "--cuda-graph-trace", offered):
        command += [f"--cuda-graph-trace={options.cuda_graph_trace}"] if options.cuda_graph_trace else []
    elif options.cuda_graph_trace == "graph":
        raise CaptureError(
            f"nsys {tool.version} always records the nodes of CUDA graphs; request node, or use nsys 2022.2 or later"
        )
    if options.memory_usage:
        command.append("--cuda-memory-usage=true")
    if options.gpu_metrics:
        names = [name for name in ("--gpu-metrics-devices", "--gpu-metrics-device") if _has(tool, name, offered)]
        if not names:
            raise CaptureError(f"nsys {tool.version} cannot sample the GPU's counters; use nsys 2021.2 or later")
        command.append(f"{names[0]}={','.join(options.gpu_metrics)}")
    return command


def _check(tool: Tool, options: NsysOptions, program: Sequence[str]) -> None:
    """Raise CaptureError for what no release can do, and for releases that are too old."""
    _check_program(program)
    if tool.release < OLDEST:
        raise CaptureError(f"nsys {tool.version} is older than 2021, the oldest supported; install a newer one")
    for name in options.traces:
        if not _TRACE.fullmatch(name):
            raise CaptureError(f"nsys cannot trace {name!r}; use cuda, nvtx, osrt, cudnn, cublas, ...")
    _check_traces(options)
    if isinstance(options.capture, NvtxRange) and (not options.capture.text or "@" in options.capture.text):
        raise CaptureError(
            f"nsys cannot start at range {options.capture.text!r}: it takes what follows @ for a domain; rename the range"
        )
    for device in options.gpu_metrics:
        if not _DEVICES.fullmatch(device):
            raise CaptureError(f"{device!r} is not a GPU for gpu_metrics; give its number, or all")
    for name, value in options.environment:
        if "," in value or not name.isidentifier():
            raise CaptureError(
                f"nsys cannot set {name}: names must be identifiers, and values must not contain a comma; set it outside nsys"
            )
    if min(options.delay_s, options.duration_s) < 0:
        raise CaptureError("delay_s and duration_s are seconds and cannot be negative")


def _check_traces(options: NsysOptions) -> None:
    for what, wanted, trace in (
        ("a capture range of cudaProfilerApi", options.capture == "cudaProfilerApi", "cuda"),
        ("cuda_graph_trace", options.cuda_graph_trace, "cuda"),
        ("memory_usage", options.memory_usage, "cuda"),
        ("a capture range of NVTX", isinstance(options.capture, NvtxRange), "nvtx"),
    ):
        if wanted and trace not in options.traces:
            raise CaptureError(f"{what} needs the trace {trace}; add it to the traces")


def _check_program(program: Sequence[str]) -> None:
    if not program or not program[0] or program[0].startswith("-"):
        named = f"{program[0]!r} is not a program" if program else "there is no program to run"
        raise CaptureError(f"{named}; give its path")
