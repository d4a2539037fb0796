"""Which rows of a breakdown are shown, and in which order; what is left out stays as one row, so that the rows still add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from kernelscope.reports.table import Table, of_rows

Row = Mapping[str, Any]
_MOSTLY = 0.5  # of the time, that ranges must hold to tell more than kernels do
_EXAMPLES = 5
_SUMS = ("count", "duration_ns", "time_ns", "share")


class NotInTable(ValueError):
    """A column or rows that a table does not have; the text names what it has."""


def chosen(
    result: Mapping[str, Any], filters: Sequence[str] = (), sort: str | None = None, most: int | None = None
) -> dict[str, Any]:
    """Return a breakdown's envelope with the rows that were asked for.

    filters: COLUMN=PATTERN, where * is any text; a row must match all of them. sort: a column; numbers from the largest, text
    from a to z; "time" is time_ns. most: how many rows, those with most time unless sort says otherwise. Raises NotInTable, for
    filters that no row matches as well.
    """
    rows = list(result["rows"])
    columns = list(rows[0]) if rows else []
    sort = "time_ns" if sort == "time" else sort
    wanted = [text.partition("=") for text in filters]
    _check(rows, [*(name for name, _, _ in wanted), *([sort] if sort else [])])
    kept = [row for row in rows if all(_matches(row, name, pattern) for name, _, pattern in wanted)]
    if rows and not kept:
        raise NotInTable(f"no row matches; {_values(rows, wanted)}")
    if sort:
        number = any(isinstance(row[sort], int | float) for row in kept)
        kept.sort(key=lambda row: (row[sort] is None, -(row[sort] or 0) if number else str(row[sort])))
    elif most is not None and len(kept) > most:  # tables in the source's order keep it, and show what takes longest
        largest = set(map(id, sorted(kept, key=lambda row: -(row.get("time_ns") or row.get("duration_ns") or 0))[:most]))
        kept = [row for row in kept if id(row) in largest]
    kept = kept[:most]
    shown = set(map(id, kept))
    left = [row for row in rows if id(row) not in shown]
    return {**result, "rows": [*kept, _others(left, columns)] if left and not result.get("inclusive") else kept}


def with_columns(result: Mapping[str, Any], names: Sequence[str]) -> Table:
    """Return a breakdown's rows with these columns only, numbers as JSON has them; ["all"] is every one. Raises NotInTable."""
    rows = result["rows"]
    known = tuple(rows[0]) if rows else ()
    wanted = known if list(names) == ["all"] else tuple(names)
    _check(rows, wanted)
    return of_rows(f"breakdown by {result['by']}", rows, wanted, first=wanted)


def _check(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Raise NotInTable for a name that is no column of these rows."""
    for name in names:
        if rows and name not in rows[0]:
            raise NotInTable(f"no column {name!r}; there are {', '.join(rows[0])}")


def _matches(row: Row, name: str, pattern: str) -> bool:
    return fnmatchcase(str(row[name] or ""), pattern)


def _values(rows: Sequence[Row], wanted: Sequence[tuple[str, str, str]]) -> str:
    """Return what the rows have in the column of the filter that leaves none, the likest to its pattern first."""
    name, pattern = next(
        ((name, pattern) for name, _, pattern in wanted if not any(_matches(row, name, pattern) for row in rows)),
        (wanted[-1][0], wanted[-1][2]),
    )
    values = list(dict.fromkeys(str(row[name]) for row in rows if row[name]))
    like = get_close_matches(pattern.strip("*"), values, _EXAMPLES, 0.3)
    return f"values of {name} are such as {', '.join([*like, *(value for value in values if value not in like)][:_EXAMPLES])}"


def _others(rows: Sequence[Row], columns: Sequence[str]) -> dict[str, Any]:
    """Return rows added up."""
    whole: dict[str, Any] = dict.fromkeys(columns)
    whole[columns[0]] = f"({len(rows)} others)"
    for name in _SUMS:
        known = [row[name] for row in rows if row.get(name) is not None]
        whole[name] = sum(known) if known else None
    return whole


def finest(results: Mapping[str, Mapping[str, Any] | str]) -> str:
    """Return which breakdown tells most of a recording: by layer where it knows any, else by range, else by kernel.

    results: envelopes of these three, or the reason why there is none.
    """
    for by in ("layer", "range"):
        result = results.get(by)
        if result is None or isinstance(result, str) or (by == "range" and result["coverage"] < _MOSTLY):
            continue
        if any(_is_named(row[by]) for row in result["rows"]):
            return by
    return "kernel"


def _is_named(text: object) -> bool:
    return text is not None and not str(text).startswith("(")
