"""A breakdown with chosen columns: for people with the tables' headings and a total, for programs with the names in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.kernels.short_names import short
from kernelscope.reports import breakdown_words, units
from kernelscope.reports.breakdown_grid import heading, unit_of
from kernelscope.reports.chosen_rows import HEADED, column_of
from kernelscope.reports.table import Table, of_rows

_TITLES = {column: title for title, column in HEADED.items() if title != "ms"}  # a unit, not a title
_OF_EXECUTIONS = (*breakdown_words.EXECUTIONS, "std_ns")
_EACH = "µs"  # of single executions


def with_columns(result: Mapping[str, Any], names: Sequence[str], reading: bool) -> Table:
    """Return a breakdown with only these columns; ["all"] selects every column. Raises NotInTable.

    reading: for people: with a title, all times in one unit, which the heading names, and the total in the last row.
    """
    rows = result["rows"]
    known = tuple(rows[0]) if rows else ()
    wanted = known if list(names) == ["all"] else tuple(column_of(rows, name, "show") for name in names)
    name = f"breakdown by {result['by']}"
    if not reading:
        return of_rows(name, rows, wanted, first=wanted)
    unit = unit_of(result)
    whole = {"time_ns": breakdown_words.whole_ns(result), "share": 1.0}
    cells = [[_shown(result, row.get(column), column, unit) for column in wanted] for row in rows]
    last = [_shown(result, whole[column], column, unit) if column in whole else None for column in wanted]
    text = next((place for place, column in enumerate(wanted) if not column.endswith("_ns") and column not in whole), None)
    if text is not None and not result.get("inclusive") and result["by"] != "step" and any(last):
        last[text] = breakdown_words.whole(result)
        cells.append(last)
    heads = tuple(_head(column, unit[0]) for column in wanted)
    return Table(name, heads, cells, heading(result)[0], heads)


def _head(column: str, unit: str) -> str:
    """Return the heading of a column: its name in words, and the unit of times."""
    title = _TITLES.get(column) or column.removesuffix("_ns")
    return f"{title}, {_EACH if column in _OF_EXECUTIONS else unit}" if column.endswith("_ns") else title


def _shown(result: Mapping[str, Any], value: Any, column: str, unit: tuple[str, int]) -> Any:
    """Return a cell for reading. unit: the unit of times, and their decimals."""
    if value is None or isinstance(value, str):
        return short(value) if value is not None and column == "kernel" else value
    value = breakdown_words.each(result, value) if column in ("count", "duration_ns") else value
    if column.endswith("_ns"):
        return units.in_unit(value, _EACH, 1) if column in _OF_EXECUTIONS else units.in_unit(value, *unit)
    if column == "share":
        return units.percent(value)
    return value
