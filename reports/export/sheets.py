"""The tables of an export, whatever file they go into: what was found (comparison, breakdowns) and what was recorded (the Trace).

Numbers are as everywhere: integer ns, bytes, shares of 1; unknown is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kernelscope.analysis.trace import TABLES, Column, Trace
from kernelscope.reports import explanation, tables
from kernelscope.reports.tables import Table

Envelope = Mapping[str, Any]

ABOUT, COLUMNS = "about", "columns"
_BREAKDOWN = (
    Column("count", "int64", "", "executions over all measured steps"),
    Column("duration_ns", "int64", "ns", "their durations added, over all measured steps; they may overlap"),
    Column("time_ns", "Int64", "ns", "conserved share of the mean step: the rows of a table add up to it exactly"),
    Column("share", "Float64", "1", "time_ns divided by the mean step"),
    Column("method", "string", "", "how the row was attributed; several where its parts differ"),
)
_PARTS = ("part", "delta_ns")
_CAUSES = ("number", "cause", "title", "delta_ns", "share", "confidence", "evidence", "remedy")


@dataclass(frozen=True)
class Sheet:
    """One table. columns: what is known of its columns: unit and meaning."""

    name: str
    frame: pd.DataFrame
    columns: Sequence[Column] = field(default=())


def of_comparison(result: dict[str, Any]) -> list[Sheet]:
    """Return all tables of a comparison or, made of one run, what is said of it; explanations are parts and causes."""
    found = [_sheet(table) for table in tables.comparison_tables(result)]
    for number, explained in enumerate(result.get("explanations") or [], 1):
        found += of_explanation(explained, f"explained_{number}_")
    return found


def of_explanation(result: Mapping[str, Any], prefix: str = "") -> list[Sheet]:
    """Return the parts of a difference and its causes; the deltas of each table add up to the difference, in ns."""
    whole = int(result["wall_delta_ns"])
    a, b = explanation.names(result)
    parts = [[part["part"], int(part["delta_ns"])] for part in result["parts"]]
    parts += [[explanation.INSTRUMENTATION, int(result["instrumentation_ns"])]]
    causes = [
        [number, found["cause"], found["title"], int(found["explains_ns"]), _share(found["explains_ns"], whole),
         found.get("confidence"), " ".join(map(str, found.get("evidence") or [])), found.get("remedy")]
        for number, found in enumerate(result["findings"], 1)
    ]  # fmt: skip
    rest = whole - sum(row[3] for row in causes)
    causes.append([None, None, explanation.UNEXPLAINED, rest, _share(rest, whole), None, None, None])
    sides = ("b", "a")
    return [
        _sheet(Table(f"{prefix}parts", (*sides, *_PARTS), [[b, a, *row] for row in parts])),
        _sheet(Table(f"{prefix}causes", (*sides, *_CAUSES), [[b, a, *row] for row in causes])),
    ]


def of_breakdowns(envelopes: Sequence[Envelope]) -> list[Sheet]:
    """Return the breakdowns that there are, each as by_<what makes a row>."""
    made = [envelope for envelope in envelopes if "unavailable" not in envelope]
    return [_sheet(tables.breakdown_table(envelope), f"by_{envelope['by']}", _BREAKDOWN) for envelope in made]


def of_trace(trace: Trace) -> list[Sheet]:
    """Return the Trace's tables that have rows, without columns that hold nothing."""
    found = []
    for name, columns in TABLES.items():
        rows: pd.DataFrame = getattr(trace, name)
        if len(rows):
            used = [column for column in columns if rows[column.name].notna().any()]
            found.append(Sheet(name, rows[[column.name for column in used]], used))
    return found


def about(facts: Mapping[str, Any], envelopes: Sequence[Envelope] = ()) -> Sheet:
    """Return what an export is of, and why a table is not there."""
    rows = [[name, value] for name, value in facts.items() if value is not None]
    rows += [[f"by_{part['by']} left out", part["unavailable"]] for part in envelopes if "unavailable" in part]
    return _sheet(Table(ABOUT, ("name", "value"), [[name, _text(value)] for name, value in rows]))


def described(sheets: Sequence[Sheet]) -> Sheet:
    """Return what the columns of these tables mean, as far as they are described."""
    rows = [[sheet.name, column.name, column.unit, column.meaning] for sheet in sheets for column in sheet.columns]
    return _sheet(Table(COLUMNS, ("table", "column", "unit", "meaning"), rows))


def blocks(rows: int, size: int = 50_000) -> Iterator[slice]:
    """Yield the rows of a large table in blocks."""
    for first in range(0, rows, size):
        yield slice(first, first + size)


def _sheet(table: Table, name: str | None = None, columns: Sequence[Column] = ()) -> Sheet:
    frame = pd.DataFrame({key: _typed([row[place] for row in table.rows]) for place, key in enumerate(table.columns)})
    return Sheet(name or table.name, frame, [column for column in columns if column.name in frame])


def _typed(values: list[Any]) -> pd.Series:
    """Return values of one kind as a column that may hold nulls; of several kinds as text."""
    kinds = {bool if isinstance(value, bool) else type(value) for value in values if value is not None}
    if kinds <= {int} and kinds:
        return pd.Series(values, dtype="Int64")
    if kinds <= {int, float} and kinds:
        return pd.Series(values, dtype="Float64")
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    return pd.Series([_text(value) for value in values], dtype="string")


def _text(value: Any) -> str | None:
    """Return a value as text that UTF-8 can hold; lists and the like as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf8", "backslashreplace").decode("utf8")


def _share(ns: float, whole: int) -> float | None:
    return float(ns) / whole if whole else None
