"""The tables of an export for every file format: results (comparison, breakdowns) and the recording (the Trace).

Numbers are integer ns, bytes and shares of 1, as everywhere; unknown is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kernelscope.analysis.trace import TABLES, Trace
from kernelscope.reports import comparison_tables, explanation, tables
from kernelscope.reports.columns import TABLES as RESULTS
from kernelscope.reports.columns import DescribedColumn
from kernelscope.reports.table import Table

Envelope = Mapping[str, Any]

ABOUT, COLUMNS = "about", "columns"
_LABEL = "NAME"  # stands for a side's label in the descriptions of columns
_CAUSES = ("cause", "title", "explains_ns", "share", "confidence", "layers", "evidence", "remedy")


@dataclass(frozen=True)
class Sheet:
    """One table. columns: descriptions of its columns, as far as there are any."""

    name: str
    frame: pd.DataFrame
    columns: Sequence[DescribedColumn] = field(default=())


def of_comparison(result: dict[str, Any]) -> list[Sheet]:
    """Return all tables of a comparison (possibly of a single run), with account and causes of each explanation."""
    sides = result["frameworks"]
    found = [_sheet(table, table.name, sides) for table in comparison_tables.comparison_tables(result)]
    for number, explained in enumerate(result.get("explanations") or [], 1):
        found += of_explanation(explained, f"explained_{number}_")
    return found


def of_explanation(result: Mapping[str, Any], prefix: str = "") -> list[Sheet]:
    """Return the account of a difference and its causes; delta_ns and explains_ns add up to the difference, in ns."""
    account = [dict(row) for row in result["rows"]]
    account.append({"layer": explanation.INSTRUMENTATION, "delta_ns": int(result["instrumentation_ns"])})
    whole = int(result["wall_delta_ns"])
    causes = [{**found, "evidence": " ".join(map(str, found.get("evidence") or []))} for found in result["findings"]]
    rest = whole - sum(int(found["explains_ns"]) for found in causes)
    causes.append({"title": explanation.UNEXPLAINED, "explains_ns": rest, "share": rest / whole if whole else None})
    names = tuple(dict.fromkeys(name for row in account for name in row))
    return [
        _sheet(Table(f"{prefix}account", names, [[row.get(name) for name in names] for row in account]), "account"),
        _sheet(Table(f"{prefix}causes", _CAUSES, [[row.get(name) for name in _CAUSES] for row in causes]), "findings"),
    ]


def sides_of(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the sides of each explanation of a comparison, for the table about."""
    found = {}
    for number, explained in enumerate(result.get("explanations") or [], 1):
        a, b = explanation.names(explained)
        found[f"explained_{number}"] = f"A is {a}, B is {b}"
    return found


def of_breakdowns(envelopes: Sequence[Envelope]) -> list[Sheet]:
    """Return the available breakdowns, named by_<key>."""
    made = [tables.breakdown_table(envelope) for envelope in envelopes if "unavailable" not in envelope]
    return [_sheet(Table(f"by_{table.name}", table.columns, table.rows), "breakdown") for table in made]


def of_trace(trace: Trace) -> list[Sheet]:
    """Return the Trace's non-empty tables, without empty columns."""
    found = []
    for name, columns in TABLES.items():
        rows: pd.DataFrame = getattr(trace, name)
        if len(rows):
            used = [
                DescribedColumn(column.name, column.unit, column.meaning) for column in columns if rows[column.name].notna().any()
            ]
            found.append(Sheet(name, rows[[column.name for column in used]], used))
    return found


def about(facts: Mapping[str, Any], envelopes: Sequence[Envelope] = ()) -> Sheet:
    """Return facts about an export, and why tables are missing."""
    rows = [[name, value] for name, value in facts.items() if value is not None]
    rows += [[f"by_{part['by']} left out", part["unavailable"]] for part in envelopes if "unavailable" in part]
    return _sheet(Table(ABOUT, ("name", "value"), [[name, _text(value)] for name, value in rows]))


def described(sheets: Sequence[Sheet]) -> Sheet:
    """Return the descriptions of these tables' columns."""
    rows = [[sheet.name, column.name, column.unit, column.meaning] for sheet in sheets for column in sheet.columns]
    return _sheet(Table(COLUMNS, ("table", "column", "unit", "meaning"), rows))


def blocks(rows: int, size: int = 50_000) -> Iterator[slice]:
    """Yield the rows of a large table in blocks."""
    for first in range(0, rows, size):
        yield slice(first, first + size)


def _sheet(table: Table, described: str | None = None, sides: Sequence[str] = ()) -> Sheet:
    """Return a table with the column descriptions of the table `described` in reports.columns."""
    frame = pd.DataFrame({key: _typed([row[place] for row in table.rows]) for place, key in enumerate(table.columns)})
    known: dict[str, DescribedColumn] = {}
    for column in RESULTS[described].columns if described is not None and described in RESULTS else ():
        names = [column.name.replace(_LABEL, side) for side in sides] if _LABEL in column.name else [column.name]
        known |= {name: DescribedColumn(name, column.unit, column.meaning) for name in names}
    return Sheet(table.name, frame, [known[name] for name in table.columns if name in known])


def _typed(values: list[Any]) -> pd.Series:
    """Return values of one type as a nullable column; of several types as text."""
    kinds = {bool if isinstance(value, bool) else type(value) for value in values if value is not None}
    if kinds <= {int} and kinds:
        return pd.Series(values, dtype="Int64")
    if kinds <= {int, float} and kinds:
        return pd.Series(values, dtype="Float64")
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    return pd.Series([_text(value) for value in values], dtype="string")


def _text(value: Any) -> str | None:
    """Return a value as text that UTF-8 can encode; lists and mappings as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf8", "backslashreplace").decode("utf8")


def _share(ns: float, whole: int) -> float | None:
    return float(ns) / whole if whole else None
