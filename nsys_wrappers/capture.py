"""A run under nsys or nvprof: what to put before the program, and what is left when it has ended.

    prefix = prepare(tool, folder, NsysOptions(folder / "nsys", traces=CPU_TRACES))
    process = subprocess.Popen([*prefix, *program], pass_fds=...)
    ...
    capture = finish(folder)
    if capture.exported:
        verification = verify.verify(capture.exported, emitted)

What the program sees: descriptors that the process was given (pass_fds) reach the program under nsys and under nvprof. But nsys
keeps copies of them until the report is written, so the end of a pipe that the program writes into comes seconds after the
program's own end: do not wait for it. The program is not the process that was started but a grandchild of it, with another
process id, in a session of its own, which signals to the started process's group do not reach: `stop` ends it. stdout and
stderr of the program are pipes to nsys, which passes them on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelscope.nsys_wrappers.find import Tool
from kernelscope.nsys_wrappers.options import NsysOptions, NvprofOptions


@dataclass(frozen=True)
class Capture:
    """What a run left. report: nsys's report or nvprof's database; exported: the SQLite file to read; None where there is none.

    version: of the tool that recorded. failures: one line each, with the remedy: what could not be had or had to be finished
    by hand.
    """

    version: str
    report: Path | None
    exported: Path | None
    failures: tuple[str, ...] = ()


def prepare(tool: Tool, folder: Path, options: NsysOptions | NvprofOptions) -> list[str]:
    """Return what to put before a program's command line so that it runs under the tool, and note it in folder/collector.json.

    tool.name says which one it is; the options must be of the same. Raises CaptureError for what this release cannot do.
    """
    raise NotImplementedError


def finish(folder: Path, wait_s: float = 60.0) -> Capture:
    """Return what a prepared run left in its folder, when the program has ended.

    Waits for an nsys that still writes its report, at most wait_s. A left-over .qdstrm is imported and the report exported to
    SQLite beside it. Never raises for what nsys did: the failures say it.
    """
    raise NotImplementedError


def stop(folder: Path) -> int:
    """End every process of a prepared run: nsys, its agent and the program, whatever they do. Returns how many there were."""
    raise NotImplementedError
