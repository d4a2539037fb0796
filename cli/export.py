"""Write a run, a comparison or a capture for other tools: Perfetto, chrome JSON, CSV, Parquet, Excel or Markdown."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelscope.analysis.run import Run
    from kernelscope.analysis.trace import Trace
    from kernelscope.reports.export.sheets import Sheet

NAME = "export"
HELP = "write what was recorded or found in other tools' formats"
FORMATS = ("perfetto", "chrome", "csv", "parquet", "xlsx", "markdown")
_FOLDERS = ("csv", "parquet")
_EXAMPLES = {"perfetto": "trace.pftrace", "chrome": "trace.json.gz", "xlsx": "tables.xlsx", "markdown": "summary.md"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="PATH", help="a folder that `run`, `compare` or `import` wrote, or a capture")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
        help="perfetto, chrome: every event, for ui.perfetto.dev and the like; a comparison's sides begin together with their "
        "first measured steps. csv, parquet: a folder with a file a table. xlsx: a sheet a table. markdown: a summary",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="file, or folder for csv and parquet; traces are packed if it ends in .gz",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists; in a folder, the files that are written")


def run(arguments: argparse.Namespace) -> int:
    """Read what is named, write OUT, say on stderr what was written."""
    from kernelscope.tracer.outside.errors import InputError

    target, form = Path(arguments.output), arguments.format
    _check(target, form, arguments.force)
    source = _source(Path(arguments.path))
    try:
        said = _write(form, source, target)
    except OSError as error:
        raise InputError(f"{target}: not writable: {error.strerror or error}; name another place") from error
    for line in said:
        print(f"kernelscope: {line}", file=sys.stderr)
    print(f"exported: {target}", file=sys.stderr)
    return 0


def _write(form: str, source: _Source, target: Path) -> list[str]:
    """Write OUT; a file gets its name when it is complete. Return what has to be said of it."""
    if form in _FOLDERS:
        return _WRITERS[form](source, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    growing = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        said = _WRITERS[form](source, growing)
        growing.replace(target)
    finally:
        growing.unlink(missing_ok=True)
    return said


def _check(target: Path, form: str, force: bool) -> None:
    """Raise InputError where something would be lost, or OUT is of the wrong kind."""
    from kernelscope.tracer.outside.errors import InputError

    if form in _FOLDERS:
        if target.exists() and not target.is_dir():
            raise InputError(f"{target}: is a file; {form} is a folder with a file a table: name a folder")
        if target.is_dir() and any(target.iterdir()) and not force:
            raise InputError(f"{target}: is not empty; name another folder or pass --force to write into it")
        return
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / _EXAMPLES[form]}")
    if target.exists() and not force:
        raise InputError(f"{target}: exists; name another file or pass --force to replace it")


@dataclass
class _Source:
    """What is exported. result: of a comparison, or of the run alone; record: as of an import, for a capture."""

    runs: list[Run] = field(default_factory=list)
    result: dict[str, Any] | None = None
    trace: Trace | None = None
    record: dict[str, Any] | None = None
    envelopes: Sequence[Mapping[str, Any]] = ()

    @property
    def alone(self) -> bool:
        """Whether it is one Trace."""
        return self.trace is not None or len(self.runs) == 1

    def traces(self) -> list[tuple[str, Trace]]:
        """Return the Traces with the names of their sides."""
        if self.trace is not None:
            return [(_capture_name(self.record or {}), self.trace)]
        return [(f"{run.name} {run.record.get('version') or ''}".strip(), run.trace()) for run in self.runs]


def _source(path: Path) -> _Source:
    """Open what is named; raise EvidenceError when it is nothing that can be exported."""
    from kernelscope.analysis import archives, imported
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.cli import report

    path = archives.folder(path)
    if (path / "sweep.json").is_file():
        raise EvidenceError(f"{path}: a sweep; `report` writes its tables as CSV and Parquet, or name one of its cells")
    if imported.is_imported(path):
        capture = imported.Imported(path)
        return _Source(trace=capture.trace(), record=capture.record, envelopes=capture.breakdowns())
    if path.is_dir() and ((path / "compare.json").is_file() or any(path.glob("*/run.json")) or (path / "run.json").is_file()):
        recorded = report.recorded_comparison([path])
        runs, left_out = report.opened([path])
        return _of_runs(runs, left_out, recorded)
    return _of_capture(path)


def _of_runs(runs: list[Run], left_out: list[dict[str, Any]], recorded: dict[str, Any] | None) -> _Source:
    from kernelscope.analysis.comparison import compare
    from kernelscope.cli import report

    result = recorded or compare(runs, left_out)
    return _Source(runs, result, envelopes=report.breakdowns(runs[0]) if len(runs) == 1 else ())


def _of_capture(path: Path) -> _Source:
    import kernelscope.analysis as ka
    from kernelscope.analysis.breakdowns import BY, breakdowns
    from kernelscope.analysis.devices import busy
    from kernelscope.analysis.trace import TABLES
    from kernelscope.cli import warn

    trace = ka.read(path)
    warn.about(trace)
    made = breakdowns(trace, tuple(BY))
    envelopes = [
        {"by": by, "unavailable": one, "rows": []} if isinstance(one, str) else one.as_dict() for by, one in made.items()
    ]
    tables = {name: len(getattr(trace, name)) for name in TABLES if len(getattr(trace, name))}
    record = {"info": trace.info, "sources": [], "devices": busy(trace), "tables": tables}
    return _Source(trace=trace, record=record, envelopes=envelopes)


def _capture_name(record: Mapping[str, Any]) -> str:
    source = record.get("info", {}).get("source", {})
    return " ".join(str(source[key]) for key in ("tool", "version") if source.get(key)) or "capture"


def _facts(source: _Source) -> dict[str, Any]:
    """Return what an export says of itself."""
    import importlib.metadata

    facts: dict[str, Any] = {"kernelscope": importlib.metadata.version("kernelscope")}
    if source.result is not None:
        facts |= {name: source.result.get(name) for name in ("created", "mode", "batch", "device", "threads", "conditions")}
        return {**facts, "network": source.result["network"].get("name"), "sides": ", ".join(source.result["frameworks"])}
    info = (source.record or {}).get("info", {})
    return {**facts, **{f"capture: {key}": value for key, value in info.get("source", {}).items()}}


def _events(source: _Source) -> list[tuple[str, Any, Trace, int]]:
    """Return name, events, Trace and the time that becomes 0 of every side; raise EvidenceError where nothing has a time."""
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.reports.export.events import events, origins

    sides = source.traces()
    found = [events(trace) for _, trace in sides]
    if not any(part.slices or part.counters for part in found):
        raise EvidenceError("nothing in it has a time, as in summaries; export its tables: --format csv, parquet or xlsx")
    zero = origins([trace for _, trace in sides], found)
    return [(name, part, trace, at) for (name, trace), part, at in zip(sides, found, zero, strict=True)]


def _untimed(sides: Sequence[tuple[str, Any, Trace, int]]) -> list[str]:
    return [f"{name}: {count:,} rows of {table} have no times and are left out" for name, part, *_ in sides
            for table, count in part.untimed.items()]  # fmt: skip


def _perfetto(source: _Source, target: Path) -> list[str]:
    from kernelscope.reports.export import perfetto

    sides = _events(source)
    about = "; ".join(f"{name} {value}" for name, value in _facts(source).items() if value is not None)
    perfetto.write([(name, part, at) for name, part, _, at in sides], about, target)
    return _untimed(sides)


def _chrome(source: _Source, target: Path) -> list[str]:
    from kernelscope.reports.export import chrome

    sides = _events(source)
    chrome.write([(name, part, trace.memory, at) for name, part, trace, at in sides], _facts(source), target)
    return _untimed(sides)


def _sheets(source: _Source) -> list[Sheet]:
    from kernelscope.reports.export import sheets

    found = [] if source.result is None else sheets.of_comparison(source.result)
    if source.alone:
        found = [sheet for sheet in found if sheet.name in ("summary", "fairness", "settings", "passes")]
        found += [*sheets.of_breakdowns(source.envelopes), *sheets.of_trace(source.traces()[0][1])]
    return [sheets.about(_facts(source), source.envelopes), *found, sheets.described(found)]


def _csv(source: _Source, target: Path) -> list[str]:
    from kernelscope.reports.export import csv_files

    csv_files.write(_sheets(source), target)
    return []


def _parquet(source: _Source, target: Path) -> list[str]:
    from kernelscope.reports.export import parquet

    parquet.write(_sheets(source), target)
    return []


def _xlsx(source: _Source, target: Path) -> list[str]:
    from kernelscope.reports.export import excel

    return excel.write(_sheets(source), target)


def _markdown(source: _Source, target: Path) -> list[str]:
    from kernelscope.reports.export import markdown

    if source.result is None:
        text = markdown.capture(source.record or {}, source.envelopes)
    else:
        text = markdown.run(source.result, source.envelopes) if source.alone else markdown.comparison(source.result)
    target.write_text(text, encoding="utf8")
    return []


_WRITERS = {
    "perfetto": _perfetto, "chrome": _chrome, "csv": _csv, "parquet": _parquet, "xlsx": _xlsx, "markdown": _markdown,
}  # fmt: skip
