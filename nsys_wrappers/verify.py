"""Does an exported capture hold what was requested? Plain SQL on nsys's or nvprof's export, compared with what was emitted.

nsys's exports differ by release: a range's text is in the row or in StringIds; the table of the export's own facts is
EXPORT_META_DATA or META_DATA_EXPORT; tables without rows are absent; DIAGNOSTIC_EVENT is newer than 2023.4. nvprof's databases
have other tables. The table names tell the tools apart.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Event types 59, 60, 70, 71 of ENUM_NSYS_EVENT_TYPE are ranges: pushed and popped, started and ended, of NVTX and of NVTXT.
_NVTX = {
    "text": "SELECT text, count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71) GROUP BY 1",
    "textId": "SELECT s.value, count(*) FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId"
    " WHERE e.eventType IN (59, 60, 70, 71) GROUP BY 1",
    "both": "SELECT coalesce(e.text, s.value), count(*) FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId"
    " WHERE e.eventType IN (59, 60, 70, 71) GROUP BY 1",
}
# Flag 2 is CUPTI_ACTIVITY_FLAG_MARKER_START.
_MARKERS = """SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_MARKER e LEFT JOIN StringTable s ON s._id_ = e.name
    WHERE e.flags & 2 GROUP BY 1"""
_VERSIONS = {
    "META_DATA_EXPORT": "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'",
    "EXPORT_META_DATA": "SELECT value FROM EXPORT_META_DATA WHERE name = 'EXPORT_PRODUCT_VERSION'",
}
_WITHOUT_IS_ENABLED = (2024, 2)  # seen with 2022.4, 2023.4 and 2024.2, reported for 2023.2 (github.com/NVIDIA/NVTX/issues/126)
_WARNING = 2  # ENUM_DIAGNOSTIC_SEVERITY_LEVEL
_NAMED = 3  # number of lost names that are listed

# nsys's reports of its own losses. Only these sentences are passed on: others may quote paths and variables.
_LOSSES = re.compile(
    r"Not all [\w ]{1,40} events might have been collected|[\w ]{1,40} profiling might have not been started correctly"
    r"|[\w ,.-]{0,80}\b(?:lost|dropped|overflow(?:ed)?|insufficient privilege)\b[\w ,.-]{0,80}",
    re.IGNORECASE,
)
_DRIVER = re.compile(r"CUDA driver version \((\d+\.\d+)\) is not supported .* driver version (\d+\.\d+)", re.DOTALL)


@dataclass(frozen=True)
class Verification:
    """What arrived of what was requested.

    emitted, recorded: NVTX ranges that the program opened, and those of the same names in the capture, each name counted at
    most as often as it was emitted. lost: number of missing ranges, by name. kernels: GPU kernels in the capture. graphs:
    executions of CUDA graphs recorded as one interval each. overhead_ns: time that nsys itself spent in the program's threads;
    None if unknown. missing: one line each, with reason and remedy. warnings: the tool's reports of possibly lost events.
    """

    emitted: int
    recorded: int
    lost: dict[str, int]
    kernels: int
    graphs: int
    overhead_ns: int | None
    missing: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as run.json stores it: {"nvtx": {"emitted": n, "recorded": m}, "kernels": n, "lost": {...}, ...}."""
        return {
            "nvtx": {"emitted": self.emitted, "recorded": self.recorded},
            "kernels": self.kernels,
            "graphs": self.graphs,
            "overhead_ns": self.overhead_ns,
            "lost": self.lost,
            "missing": list(self.missing),
            "warnings": list(self.warnings),
        }


def verify(exported: Path, emitted: Mapping[str, int], cuda: bool = False, version: str = "") -> Verification:
    """Compare the SQLite file that nsys exported (or nvprof wrote) with what the program emitted.

    emitted: how often a range of each name was opened. cuda: whether kernels were to be recorded. version: of the tool that
    recorded, if known better than from the file. Never raises for what the file lacks; an unreadable file gives one missing
    line.
    """
    total = sum(emitted.values())
    try:
        with closing(_open(exported)) as database:
            return _compare(_Export(database), emitted, cuda, version)
    except (sqlite3.Error, OSError) as error:
        reason = f"{exported}: cannot be read ({error}); export the report again"
        return Verification(total, 0, {name: count for name, count in emitted.items() if count}, 0, 0, None, (reason,), ())


def _open(exported: Path) -> sqlite3.Connection:
    """Open the file for reading; nothing stored in it may run."""
    database = sqlite3.connect(f"{exported.absolute().as_uri()}?mode=ro", uri=True)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")
    return database


class _Export:
    """The tables of an export; a missing table counts as empty."""

    def __init__(self, database: sqlite3.Connection):
        self._database = database
        self._tables = {str(name) for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        yield from self._database.execute(query, values)

    def has(self, table: str) -> bool:
        return table in self._tables

    def count(self, *tables: str) -> int:
        return sum(int(next(self.rows(f"SELECT count(*) FROM {table}"))[0]) for table in tables if self.has(table))  # noqa: S608

    def columns(self, table: str) -> set[str]:
        return {str(row[1]) for row in self.rows(f"PRAGMA table_info({table})")}

    def ranges(self) -> dict[str, int]:
        """Return how many ranges of each name were recorded."""
        if self.has("NVTX_EVENTS"):
            query = _NVTX[self._text()]
        elif self.has("CUPTI_ACTIVITY_KIND_MARKER") and self.has("StringTable"):
            query = _MARKERS
        else:
            return {}
        return {str(name): int(count) for name, count in self.rows(query) if name is not None}

    def _text(self) -> str:
        """Return where this release stores the text of ranges."""
        columns = self.columns("NVTX_EVENTS")
        if "textId" not in columns or not self.has("StringIds"):
            return "text"
        return "both" if "text" in columns else "textId"

    def version(self) -> str:
        """Return the version of the nsys that exported, usually the one that recorded."""
        for table, query in _VERSIONS.items():
            if self.has(table):
                return "".join(str(value) for (value,) in self.rows(query))
        return ""

    def diagnostics(self) -> list[str]:
        """Return nsys's own warnings and errors, each once."""
        if not self.has("DIAGNOSTIC_EVENT"):
            return []
        query = "SELECT DISTINCT text FROM DIAGNOSTIC_EVENT WHERE severity >= ? AND text IS NOT NULL ORDER BY text"
        return [str(text) for (text,) in self.rows(query, _WARNING)]

    def overhead_ns(self) -> int | None:
        """Return the time that nsys spent in the program's threads; None if unknown."""
        if not self.has("PROFILER_OVERHEAD"):
            return None
        total = next(self.rows('SELECT sum("end" - start) FROM PROFILER_OVERHEAD'))[0]
        return None if total is None else int(total)


def _compare(export: _Export, emitted: Mapping[str, int], cuda: bool, version: str) -> Verification:
    found = export.ranges() if any(emitted.values()) else {}
    recorded = {name: min(count, found.get(name, 0)) for name, count in emitted.items()}
    lost = {name: count - recorded[name] for name, count in emitted.items() if count > recorded[name]}
    diagnostics = export.diagnostics()
    kernels = export.count("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    graphs = export.count("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    missing = []
    if lost:
        missing.append(_lost_ranges(sum(emitted.values()), lost, bool(found), version or export.version()))
    if cuda and not kernels:
        missing.append(_no_kernels(export, graphs, diagnostics))
    warnings = sorted({match.group(0).strip() for text in diagnostics if (match := _LOSSES.search(text))})
    if (driver := _driver(diagnostics)) and kernels:
        warnings.append(driver)
    if graphs and kernels:
        whole = f"{graphs} executions of CUDA graphs are recorded as a whole"
        warnings.append(f"{whole}; for their kernels, record with cuda_graph_trace=node")
    return Verification(
        sum(emitted.values()),
        sum(recorded.values()),
        lost,
        kernels,
        graphs,
        export.overhead_ns(),
        tuple(missing),
        tuple(warnings),
    )


def _lost_ranges(emitted: int, lost: Mapping[str, int], any_found: bool, version: str) -> str:
    names = ", ".join(repr(name) for name in list(lost)[:_NAMED]) + (", ..." if len(lost) > _NAMED else "")
    count = sum(lost.values())
    parts = re.match(r"(\d+)\.(\d+)", version)
    if count == emitted and parts and (int(parts[1]), int(parts[2])) <= _WITHOUT_IS_ENABLED:
        return (
            f"none of {emitted} NVTX ranges was recorded ({names}): nsys {version} has no nvtxDomainIsEnabled, so the package "
            "nvtx emits nothing under it from 0.2.12 on; install nvtx 0.2.11 or a newer nsys, or emit through the C library as "
            "kernelscope's own ranges do"
        )
    if count == emitted and not any_found:
        return (
            f"none of {emitted} NVTX ranges was recorded ({names}): NVTX was not traced, or the program's NVTX did not find the "
            "tool; trace nvtx, and check that NVTX_INJECTION64_PATH reaches the program"
        )
    return (
        f"{count} of {emitted} NVTX ranges were lost ({names}): the recording did not cover them, or was ended before they were "
        "written; record the whole program and let it end by itself"
    )


def _driver(diagnostics: list[str]) -> str | None:
    for text in diagnostics:
        if match := _DRIVER.search(text):
            return f"the driver's CUDA {match[1]} is newer than this nsys, made for {match[2]}; install one made for {match[1]}"
    return None


def _no_kernels(export: _Export, graphs: int, diagnostics: list[str]) -> str:
    """Return why there is no kernel, as far as the capture shows."""
    if graphs:
        return f"no kernel was recorded, but {graphs} executions of CUDA graphs as a whole; record with cuda_graph_trace=node"
    if driver := _driver(diagnostics):
        return f"no kernel was recorded: {driver}"
    calls = export.count("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
    if calls:
        return (
            f"no kernel was recorded, but {calls} CUDA calls: another profiler in the process uses CUPTI, or this nsys is "
            "older than the CUDA in use; switch the framework's profiler off, or install a newer nsys"
        )
    return (
        "no kernel and no CUDA call was recorded: the driver's libcuda.so.1 is missing, the program used no GPU, or CUDA was not "
        "traced; check with nvidia-smi"
    )
