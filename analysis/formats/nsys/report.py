"""Nsight Systems' own reports (.nsys-rep, .qdrep, .qdstrm): exported by an installed nsys, as their format is not published."""

from __future__ import annotations

import re
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.nsys.trace import read_tables
from kernelscope.analysis.trace import Trace
from kernelscope.nsys_wrappers import export
from kernelscope.nsys_wrappers.find import Tool
from kernelscope.tracer.inside import temporary

# The beginning of the files, in all versions since 2021; in reports, 2025 and later write the version there.
_REPORT = re.compile(rb"NVIDIA (?:Tegra Profiler|Nsight Systems) Report (?:(\d{4})@(\d{1,2})@(\d{1,2})@)?")
_STREAM = re.compile(rb".{0,16}NVIDIA (?:Tegra Profiler|Nsight Systems) Stream (?:(\d{4})\.(\d{1,2})\.(\d{1,2})\b)?", re.DOTALL)
# Older reports give the version only in the folder where nsys was installed.
_INSTALLED = re.compile(rb"(?:nsight-systems(?:-cli)?/|NsightSystems-(?:[a-z]+-)?)(20\d\d)\.(\d{1,2})\.(\d{1,2})\b")
_NAMED = re.compile(r"\b(20\d\d)[@.](\d{1,2})[@.](\d{1,3})\b")  # in nsys's message about a report that is too new for it
_SEARCHED = 4 << 20


def matches(head: Head) -> bool:
    """Return whether the file begins like a report, or like a stream that was not imported yet."""
    return bool(_REPORT.match(head.content) or _STREAM.match(head.content))


def read(path: Path) -> Trace:
    """Return the Trace of a report; if it cannot be exported here, raise EvidenceError that says what is needed."""
    try:
        with path.open("rb") as file:
            start = file.read(_SEARCHED)
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    stream = bool(_STREAM.match(start))
    version = _version(start)
    tool = export.suitable(version)
    if tool is None:
        raise EvidenceError(f"{path}: reading a report needs nsys, and none is installed; {_remedy(path, version, stream)}")
    try:
        with temporary.folder() as folder:
            exported = export.export_report(tool, path, Path(folder), stream=stream)
            with Database(exported) as database:
                trace = read_tables(database, "nsys-report")
    except export.ExportError as error:
        raise EvidenceError(f"{path}: {error}; {_remedy_of_failure(path, version, tool, str(error), stream)}") from error
    except OSError as error:
        raise EvidenceError(f"{path}: no room for the export ({error.strerror or error}); set TMPDIR to a larger disk") from error
    if version:
        trace.info["source"]["recorded_with"] = _dotted(version)
    if _is_older(tool, version):
        _doubt(trace, path, version, tool, stream)
    return trace


def _doubt(trace: Trace, path: Path, version: tuple[int, ...], tool: Tool, stream: bool) -> None:
    """Warn if an nsys older than the recording exported it; raise EvidenceError if the export holds no device work."""
    doubt = f"recorded by nsys {_dotted(version)} and exported by nsys {tool.version} ({tool.path}), which is older"
    if not any(len(table) for table in (trace.kernels, trace.graphs, trace.copies)):
        raise EvidenceError(f"{path}: {doubt}, without any device work; {_remedy(path, version, stream)}")
    trace.info.setdefault("warnings", []).append(f"{doubt}: events may be missing; {_remedy(path, version, stream)}")


def _remedy_of_failure(path: Path, version: tuple[int, ...], tool: Tool, message: str, stream: bool) -> str:
    """Return the remedy for a failed export; message: nsys's error, which may name the version that recorded."""
    if not version:
        named = [tuple(int(part) for part in match.groups()) for match in _NAMED.finditer(message)]
        version = max((one for one in named if _is_older(tool, one)), default=())
    if _is_older(tool, version):
        return f"it was recorded by nsys {_dotted(version)}; {_remedy(path, version, stream)}"
    return f"copy it again if it is damaged, else {_remedy(path, version, stream)}"


def _remedy(path: Path, version: tuple[int, ...], stream: bool) -> str:
    """Return which nsys can export the report, and how."""
    wanted = f"nsys {_dotted(version)} or later" if version else "an nsys at least as new as the one that recorded it"
    first = f"QdstrmImporter -i {path.name}, then " if stream else ""
    name = path.with_suffix(".nsys-rep").name if stream else path.name
    return f"export it with {wanted}: {first}nsys export --type sqlite {name}"


def _is_older(tool: Tool, version: tuple[int, ...]) -> bool:
    return tool.release[: len(version)] < version


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(start: bytes) -> tuple[int, ...]:
    """Return the version that recorded, as numbers; empty if the file does not say."""
    for match in (_REPORT.match(start), _STREAM.match(start), _INSTALLED.search(start)):
        if match and match.group(1):
            return tuple(int(part) for part in match.groups())
    return ()
