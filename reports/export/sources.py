"""The sources of `export`: a comparison, a run or a capture, each with its Traces, its tables and a Markdown summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kernelscope.analysis.accounting.envelopes import envelopes
from kernelscope.analysis.comparisons import opening
from kernelscope.analysis.comparisons.comparison import compare
from kernelscope.analysis.device.busy import busy
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import archives, imported, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import TABLES, Trace
from kernelscope.reports.export import markdown, sheets
from kernelscope.reports.export.sheets import Sheet

# The tables of a comparison that apply to a single run
_OF_A_RUN = ("summary", "fairness", "settings", "passes")


_T = TypeVar("_T")


class _Plain(Protocol):
    def __call__(self, value: _T) -> _T: ...


@dataclass(frozen=True)
class Handling:
    """How a command treats exported data. version: kernelscope's, for the exports.

    plain, trace: make plain data and a Trace shareable. warn: prints the warnings in the info of a capture.
    """

    version: str
    plain: _Plain
    trace: Callable[[Trace], Trace]
    warn: Callable[[Mapping[str, Any]], None]


class Source(Protocol):
    """Something that can be exported; everything is read on demand."""

    def facts(self) -> dict[str, Any]:
        """Return facts about the export."""

    def traces(self) -> list[tuple[str, Trace]]:
        """Return the Traces with the names of their sides; raise EvidenceError if one is not available."""

    def sheets(self) -> list[Sheet]:
        """Return its tables, the one about it first."""

    def markdown(self) -> str:
        """Return its summary."""


def source(path: Path, handling: Handling) -> Source:
    """Return the source at a path; raise EvidenceError if it cannot be exported."""
    path = archives.folder(path)
    kind = kind_of(path)
    if kind is Kind.SWEEP:
        raise EvidenceError(f"{path}: a sweep; `report` writes its tables as CSV and Parquet, or name one of its cells")
    if kind is Kind.IMPORT:
        return ImportedSource(path, handling)
    if kind is Kind.COMPARISON:
        return Comparison(path.parent if path.is_file() else path, handling)
    if kind in (Kind.RUN, Kind.RUNS, Kind.SIDES):
        return OneRun(path, handling)
    return CaptureSource(path, handling)


def _of_result(result: Mapping[str, Any], handling: Handling) -> dict[str, Any]:
    names = ("created", "mode", "batch", "device", "threads", "conditions")
    known = {name: result.get(name) for name in names}
    return {
        "kernelscope": handling.version,
        **known,
        "network": result["network"].get("name"),
        "sides": ", ".join(result["frameworks"]),
    }


def _side(run: Run) -> tuple[str, Trace]:
    return f"{run.name} {run.record.get('version') or ''}".strip(), run.trace()


class Comparison:
    """A folder that `compare` wrote. Its tables only need compare.json."""

    def __init__(self, folder: Path, handling: Handling):
        self._folder, self._handling = folder, handling
        self._result = handling.plain(opening.comparison(folder))

    def facts(self) -> dict[str, Any]:
        """See Source."""
        return _of_result(self._result, self._handling)

    def traces(self) -> list[tuple[str, Trace]]:
        """See Source."""
        return [_side(run) for run in opening.runs([self._folder])[0]]

    def sheets(self) -> list[Sheet]:
        """See Source."""
        found = sheets.of_comparison(self._result)
        return [sheets.about({**self.facts(), **sheets.sides_of(self._result)}), *found, sheets.described(found)]

    def markdown(self) -> str:
        """See Source."""
        return markdown.comparison(self._result)


class OneRun:
    """A run folder. It is already shareable, except that reasons for missing data name the folder itself."""

    def __init__(self, path: Path, handling: Handling):
        self._run, self._handling = Run(path), handling

    @cached_property
    def _result(self) -> dict[str, Any]:
        made: dict[str, Any] = self._handling.plain(compare([self._run]))
        return made

    @cached_property
    def _breakdowns(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = self._handling.plain(envelopes(self._run.trace()))
        return made

    def facts(self) -> dict[str, Any]:
        """See Source."""
        return _of_result(self._result, self._handling)

    def traces(self) -> list[tuple[str, Trace]]:
        """See Source."""
        return [_side(self._run)]

    def sheets(self) -> list[Sheet]:
        """See Source."""
        found = [sheet for sheet in sheets.of_comparison(self._result) if sheet.name in _OF_A_RUN]
        found += [*sheets.of_breakdowns(self._breakdowns), *sheets.of_trace(self._run.trace())]
        return [sheets.about(self.facts(), self._breakdowns), *found, sheets.described(found)]

    def markdown(self) -> str:
        """See Source."""
        return markdown.run(self._result, self._breakdowns)


class CaptureSource:
    """A capture that `import` can read."""

    def __init__(self, path: Path, handling: Handling):
        self._handling, self._trace = handling, handling.trace(reading.read(path))
        handling.warn(self._trace.info)

    @cached_property
    def _record(self) -> dict[str, Any]:
        """The content of import.json, as far as reports need it."""
        tables = {name: len(getattr(self._trace, name)) for name in TABLES if len(getattr(self._trace, name))}
        return {"info": self._trace.info, "sources": [], "devices": busy(self._trace), "tables": tables}

    @cached_property
    def _breakdowns(self) -> list[dict[str, Any]]:
        return envelopes(self._trace)

    def facts(self) -> dict[str, Any]:
        """See Source."""
        return {"kernelscope": self._handling.version, **self._record["info"].get("source", {})}

    def traces(self) -> list[tuple[str, Trace]]:
        """See Source."""
        tool = self._record["info"].get("source", {})
        return [(" ".join(str(tool[key]) for key in ("tool", "version") if tool.get(key)) or "capture", self._trace)]

    def sheets(self) -> list[Sheet]:
        """See Source."""
        found = [*sheets.of_breakdowns(self._breakdowns), *sheets.of_trace(self._trace)]
        return [sheets.about(self.facts(), self._breakdowns), *found, sheets.described(found)]

    def markdown(self) -> str:
        """See Source."""
        return markdown.capture(self._record, self._breakdowns)


class ImportedSource(CaptureSource):
    """A folder that `import` wrote, with stored breakdowns."""

    def __init__(self, path: Path, handling: Handling):
        self._imported, self._handling = imported.Imported(path), handling
        handling.warn(self._imported.record["info"])

    @cached_property
    def _trace(self) -> Trace:  # type: ignore[override]
        return self._handling.trace(self._imported.trace())

    @cached_property
    def _record(self) -> dict[str, Any]:
        made: dict[str, Any] = self._handling.plain(self._imported.record)
        return made

    @cached_property
    def _breakdowns(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = self._handling.plain(self._imported.breakdowns())
        return made
