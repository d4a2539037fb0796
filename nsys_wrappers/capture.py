"""A run under nsys or nvprof: the command prefix for the program, and what is left when it has ended.

    prefix = prepare(tool, folder, NsysOptions(folder / "nsys", traces=CPU_TRACES))
    process = subprocess.Popen([*prefix, *program], pass_fds=...)
    ...
    capture = finish(tool, folder)
    if capture.exported:
        verification = verify.verify(capture.exported, emitted)

Files: folder/collector.json says which tool recorded, with its exact command. nsys has a folder of its own elsewhere for
temporary files, because these include sockets, whose paths must be short; `finish` moves what is left there into the folder.
nsys's reports and exports hold the environment of every process that it could read: see privacy.

The program receives the descriptors that were passed on (pass_fds), both under nsys and under nvprof. But nsys keeps copies of
them until the report is written, so a pipe that the program writes into ends seconds after the program: do not wait for that.
The program is not the process that was started but its grandchild, with another process id, in a session of its own. Signals to
the started process's group do not reach it: `stop` ends it. The program's stdout and stderr are pipes to nsys, which passes
them on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernelscope.nsys_wrappers import export, nvprof
from kernelscope.nsys_wrappers.command import CaptureError, nsys_command, nvprof_command, report_suffix
from kernelscope.nsys_wrappers.find import Tool, offered
from kernelscope.nsys_wrappers.options import NsysOptions, NvprofOptions, NvtxRange

NOTE = "collector.json"
_LOG_KEPT = 1 << 20
_POLL_S = 0.05
_GRACE_S = 2.0
_PREFIX = "kernelscope-nsys-"
_OF_NSYS, _OF_PROGRAM = ("TMPDIR",), ("NSYS_AGENT_TMP_DIR",)  # variables that name the run's temporary folder
_PROGRAM = "program"  # placeholder for the program while the command is built


@dataclass(frozen=True)
class _Note:
    """The content of collector.json. output, log: names in the folder. range: the NVTX range that starts the recording."""

    tool: str
    version: str
    output: str
    command: list[str]
    range: str | None = None
    log: str | None = None
    temporary: str | None = None


@dataclass(frozen=True)
class Capture:
    """What a run left. report: nsys's report or nvprof's database. exported: the SQLite file to read. None if there is none.

    version: of the tool that recorded. failures: what is missing, one line each, with the remedy.
    """

    version: str
    report: Path | None
    exported: Path | None
    failures: tuple[str, ...] = ()


def prepare(tool: Tool, folder: Path, options: NsysOptions | NvprofOptions) -> list[str]:
    """Return the prefix for a program's command line so that it runs under the tool; record it in folder/collector.json.

    The options must be those of tool.name, and their output must be inside the folder. Raises CaptureError for what this
    release cannot do, and if a capture of that name exists: nsys would keep it and put the new one elsewhere.
    """
    if any(path.is_file() for path in _left(options.output)):
        raise CaptureError(f"{options.output}: a capture of this name exists; remove it or choose another name")
    if isinstance(options, NvprofOptions):
        prefix = nvprof_command(tool, options, [_PROGRAM])[:-1]
        command = [Path(word).name if word.startswith(str(folder.absolute())) else word for word in prefix]
        _write(folder, _Note(tool.name, tool.version, options.output.name, command, log=options.log.name))
        return prefix
    temporary = tempfile.mkdtemp(prefix=_PREFIX)
    # the program keeps its own folder for temporary files
    environment = (("TMPDIR", tempfile.gettempdir()), *options.environment)
    options = replace(options, environment=environment, session=Path(temporary).name)
    try:
        prefix = nsys_command(tool, options, [_PROGRAM], offered(tool))[:-1]
    except CaptureError:
        os.rmdir(temporary)
        raise
    trigger = options.capture.text if isinstance(options.capture, NvtxRange) else options.capture
    # the folder may be moved and passed on, so its own path is not recorded
    command = [f"--output={options.output.name}" if word.startswith("--output=") else word for word in prefix]
    _write(folder, _Note(tool.name, tool.version, options.output.name, command, trigger, temporary=temporary))
    return ["/usr/bin/env", f"TMPDIR={temporary}", *prefix]


def finish(tool: Tool, folder: Path, wait_s: float = 60.0) -> Capture:
    """Return what a run that was prepared with this tool left in its folder, after the program has ended.

    Waits at most wait_s for an nsys that still writes its report: if the started process is killed, nsys's agent goes on and
    writes one. A left-over .qdstrm is imported, and the report is exported to SQLite beside it. Never raises for what the tool
    did or did not do: the failures say so.
    """
    try:
        note = _read(folder)
    except (OSError, ValueError, TypeError) as error:
        return Capture(tool.version, None, None, (f"{folder / NOTE}: cannot be read ({error}); record again",))
    if tool.name == "nvprof":
        return _finish_nvprof(tool, folder, note)
    failures = []
    if note.temporary:
        failures = _wait(tool, note.temporary, wait_s)
        _collect(tool, folder, note.output, Path(note.temporary))
        _write(folder, replace(note, temporary=None))
    report = _report(tool, folder, note, failures)
    exported = _export(tool, folder, note.output, report, failures) if report else None
    return Capture(tool.version, report, exported, tuple(failures))


def processes(folder: Path) -> list[int]:
    """Return the ids of a prepared nsys run's live processes: nsys, its agent, the program and its children.

    They are recognised by the run's temporary folder, which is named only in their environment.
    """
    temporary = _temporary(folder)
    return list(_processes(temporary, _OF_NSYS + _OF_PROGRAM)) if temporary else []


def stop(folder: Path, keep: bool = False) -> int:
    """Kill every process of a prepared nsys run (see `processes`), and return how many there were.

    keep: kill only the program; nsys then writes what it has recorded, for `finish`.
    """
    temporary = _temporary(folder)
    ended: set[int] = set()
    variables = _OF_PROGRAM if keep else _OF_PROGRAM + _OF_NSYS
    while temporary and (running := set(_processes(temporary, variables)) - ended):
        _kill(running)
        ended |= running
    return len(ended)


def _temporary(folder: Path) -> str | None:
    try:
        return _read(folder).temporary
    except (OSError, ValueError, TypeError):
        return None


def _left(output: Path) -> list[Path]:
    """Return all paths that a capture can leave: a report of either name, a stream, nvprof's database, an export."""
    names = [output.name, *(output.name + suffix for suffix in (".nsys-rep", ".qdrep", export.STREAM_SUFFIX, ".sqlite"))]
    return [output.with_name(name) for name in names]


def _write(folder: Path, note: _Note) -> None:
    (folder / NOTE).write_text(json.dumps(asdict(note), indent=1), encoding="utf8")


def _read(folder: Path) -> _Note:
    note = _Note(**json.loads((folder / NOTE).read_text(encoding="utf8")))
    # the file may come from elsewhere: it must not name files outside the folder, or another folder to remove
    if any(name is not None and Path(name).name != name for name in (note.output, note.log)):
        raise ValueError("it names files outside the folder")
    if note.temporary is not None and os.path.split(note.temporary)[0] != tempfile.gettempdir():
        raise ValueError("it names temporary files elsewhere")
    if note.temporary is not None and not os.path.basename(note.temporary).startswith(_PREFIX):
        raise ValueError("it names a temporary folder that is not ours")
    return note


def _processes(temporary: str, variables: tuple[str, ...], name: bytes = b"") -> Iterator[int]:
    """Yield the processes whose environment sets one of the variables to that folder. name: only programs of this name."""
    marks = {os.fsencode(f"{variable}={temporary}") for variable in variables}
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
            program = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue  # it ended meanwhile, or belongs to another user
        if marks & set(environment.split(b"\0")) and (not name or os.path.basename(program) == name):
            yield int(entry)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _wait(tool: Tool, temporary: str, wait_s: float) -> list[str]:
    """Wait until nsys's own processes have ended, or kill them after wait_s; return what failed, one line each.

    If the started process is killed together with nsys's launcher, the agent does not notice that the program has ended, and
    goes on recording: it is told to stop, and writes its report.
    """
    started = time.monotonic()
    failures: list[str] = []
    while running := list(_processes(temporary, _OF_NSYS, b"nsys")):
        passed = time.monotonic() - started
        if passed > wait_s:
            _kill(running)
            return [f"nsys {tool.version} still ran {wait_s:.0f} s after the program and was killed; record fewer steps"]
        if not failures and passed > _GRACE_S and _abandoned(temporary, running):
            failures = [
                f"nsys {tool.version} was killed, and its agent wrote what it had: the end of the recording may be missing"
            ]
            _stop_session(tool, temporary, wait_s - passed)
            _kill(running)
        time.sleep(_POLL_S)
    return failures


def _abandoned(temporary: str, running: list[int]) -> bool:
    """Return whether nsys's agent is the only process left of a run."""
    return len(running) == 1 and not any(_processes(temporary, _OF_PROGRAM))


def _stop_session(tool: Tool, temporary: str, limit_s: float) -> None:
    """Make a session's agent write what it recorded; whether it did so shows in what it leaves."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            [str(tool.path), "stop", f"--session={Path(temporary).name}"], env={**os.environ, "TMPDIR": temporary},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit_s, check=False,
        )  # fmt: skip


def _collect(tool: Tool, folder: Path, output: str, temporary: Path) -> None:
    """Move the report or stream that nsys left in its temporary folder into the capture's folder, and remove the former."""
    for suffix in (report_suffix(tool), export.STREAM_SUFFIX):
        target = folder / f"{output}{suffix}"
        for path in sorted(temporary.glob(f"nsys-report-*{suffix}")):
            if not target.exists():
                shutil.move(path, target)
    shutil.rmtree(temporary, ignore_errors=True)


def _report(tool: Tool, folder: Path, note: _Note, failures: list[str]) -> Path | None:
    """Return the report, made from the stream if there is only that; None if there is neither, or if that failed."""
    for suffix in (".nsys-rep", ".qdrep"):
        if (report := folder / f"{note.output}{suffix}").is_file():
            return report
    stream = folder / f"{note.output}{export.STREAM_SUFFIX}"
    if not stream.is_file():
        failures.append(_nothing(tool, note))
        return None
    report = folder / f"{note.output}{report_suffix(tool)}"
    try:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            export.import_stream(tool, stream, Path(work)).replace(report)
        stream.unlink()
        return report
    except export.ExportError as error:
        failures.append(f"{stream}: {error}; {_remedy(tool, stream, str(error))}")
    except OSError as error:
        failures.append(f"{stream}: cannot be imported here ({error.strerror or error}); free some space and import it")
    return None


def _remedy(tool: Tool, stream: Path, error: str) -> str:
    if "incomplete" in error:
        return "nsys ended before it had written all of it, and nothing can be recovered; record again"
    return f"run QdstrmImporter -i {stream.name} from a complete installation of nsys {tool.version} or later"


def _nothing(tool: Tool, note: _Note) -> str:
    if note.range:
        return f"nsys {tool.version} recorded nothing: the range {note.range!r} never began; check that the program opens it"
    return f"nsys {tool.version} left no report: it or its agent was killed, or could not start the program; see its output"


def _export(tool: Tool, folder: Path, output: str, report: Path, failures: list[str]) -> Path | None:
    exported = folder / f"{output}.sqlite"
    try:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            export.export_report(tool, report, Path(work)).replace(exported)
        return exported
    except export.ExportError as error:
        failures.append(f"{report}: {error}; export it with a newer nsys: nsys export --type sqlite {report.name}")
    except OSError as error:
        failures.append(f"{report}: no space for its export ({error.strerror or error}); free some and export it")
    return None


def _finish_nvprof(tool: Tool, folder: Path, note: _Note) -> Capture:
    """Return nvprof's database, which is both report and export, and the failures that its log reports."""
    database = folder / note.output
    try:
        with (folder / (note.log or "")).open("rb") as log:
            failures = nvprof.failures(log.read(_LOG_KEPT).decode("utf8", "replace"))
    except OSError:
        failures = []
    if database.is_file() and database.stat().st_size:
        return Capture(tool.version, database, database, tuple(failures))
    failures = failures or [f"nvprof {tool.version} left no profile: it was killed, or could not start; see its output"]
    return Capture(tool.version, None, None, tuple(failures))
