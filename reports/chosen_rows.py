"""Choose and sort the rows of a breakdown; the others are merged into one row, so the rows still add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from kernelscope.analysis.accounting.breakdowns import BY
from kernelscope.analysis.accounting.levels import OUTSIDE_OF_STEPS
from kernelscope.reports import breakdown_words, units
from kernelscope.reports.breakdown_words import EXECUTIONS, RATE, row_ns

Row = Mapping[str, Any]
_MOSTLY, _SOME = 0.5, 0.02  # of the time: ranges, or layers, with less coverage say less than kernels
_EXAMPLES = 5
HEADED = {  # columns by their headings, where these differ from their names
    "calls": "count", "ms": "time_ns", "durations": "duration_ns", "deviation": "std_ns",
    **{title: key for key, title in EXECUTIONS.items()},
}  # fmt: skip
_EXTREMES = {"min_ns": min, "max_ns": max}
_IN_ORDER = ("line", "step")  # columns whose numbers give an order, so the smallest comes first
_SUMS = ("count", "duration_ns", "time_ns", "share")


class NotInTable(ValueError):
    """A table lacks the requested column or rows; the text names what it has."""


def chosen(
    result: Mapping[str, Any],
    filters: Sequence[str] = (),
    sort: str | None = None,
    most: int | None = None,
    group: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a breakdown's envelope with the requested rows.

    filters: COLUMN=PATTERN, where * is any text; a row must match all of them. sort: a column or its heading; numbers from the
    largest, text from a to z. most: number of rows, those with the most time unless sort is given. group: columns; rows that
    agree in them are added up, largest first, except what is outside steps. In a table of steps, the others become one row with
    their mean. Raises NotInTable, also if no row matches the filters.
    """
    rows, elsewhere = _of_range(result)
    wanted = [(column_of(rows, name, "filter by"), pattern) for name, _, pattern in (text.partition("=") for text in filters)]
    sort = column_of(rows, sort, "sort by") if sort else None
    group = [column_of(rows, name, "group by") for name in group]
    kept = [row for row in rows if all(_matches(row, name, pattern) for name, pattern in wanted)]
    if rows and not kept:
        raise NotInTable(f"no row matches; {_values(rows, wanted)}")
    left = _without(rows, kept)
    if group:
        own = [row for row in kept if "phase" in group or row.get("phase") != OUTSIDE_OF_STEPS]
        left += _without(kept, own)
        kept = _grouped(own, group)
        result = {**result, "by": result["by"] if result["by"] in group else group[0], "group": group}
    every = list(kept)
    if sort:
        kept.sort(key=_order(kept, sort))
    elif most is not None and len(kept) > most:  # keep the order of tables in source order, but choose the longest rows
        largest = set(map(id, sorted(kept, key=lambda row: -row_ns(row))[:most]))
        kept = [row for row in kept if id(row) in largest]
    kept = kept[:most]
    left += _without(every, kept)
    if left and not result.get("inclusive"):
        apart = [row for row in left if row.get("phase") == OUTSIDE_OF_STEPS]
        inside = _without(left, apart)
        matching = set(map(id, every)) if wanted else set()
        more = [row for row in inside if id(row) in matching]
        parts = ((more, " of these"), (_without(inside, more), ""), (apart, f", {OUTSIDE_OF_STEPS}"))
        others = _mean if result["by"] == "step" else _others
        kept += [others(some, list(every[0]), what) for some, what in parts if some]
    added_up = breakdown_words.added_up({**result, "rows": every})
    return {**result, "rows": kept + elsewhere, **({"added_up": added_up} if added_up else {})}


def _order(rows: Sequence[Row], column: str) -> Callable[[Row], tuple[bool, Any]]:
    """Return the sort key of rows: numbers from the largest, except those in _IN_ORDER; rows without a value come last."""
    number = any(isinstance(row[column], int | float) for row in rows)
    sign = 1 if column in _IN_ORDER else -1
    return lambda row: (row[column] is None, sign * (row[column] or 0) if number else str(row[column]))


def _of_range(result: Mapping[str, Any]) -> tuple[list[Row], list[Row]]:
    """Return a range's own rows, and one row for device work that ran meanwhile but was launched elsewhere."""
    rows = list(result["rows"])
    others = [row for row in rows if result.get("inside") and row.get("phase") == OUTSIDE_OF_STEPS]
    if not others:
        return rows, []
    meanwhile = _others(others, list(rows[0]), ", launched elsewhere") | {"count": None, "duration_ns": None}
    return _without(rows, others), [meanwhile] if meanwhile["time_ns"] else []


def column_of(rows: Sequence[Row], name: str, purpose: str) -> str:
    """Return the column with this name or heading: "calls" is count, "ms" is time_ns, "host" is host_ns.

    Raises NotInTable if there is none. purpose: what the column is for, in words.
    """
    if not rows:
        return name
    found = next((key for key in (name, HEADED.get(name, ""), f"{name}_ns") if key in rows[0]), None)
    if found is None:
        near = get_close_matches(name, [*rows[0], *HEADED, "time"], 1)
        instead = f"; did you mean {near[0]}?" if near else ""
        there = f"--by {name} has it" if name in BY else f"there are {', '.join(rows[0])}{instead}"
        raise NotInTable(f"no column {name!r} to {purpose}; {there}")
    return found


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return one row for each combination of values in these columns, longest first.

    Counts and times are added up; of single executions the mean, minimum and maximum are known, but not the median.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    result = [_added(same, dict(zip(names, key, strict=True))) for key, same in groups.items()]
    return sorted(result, key=lambda row: -row_ns(row))


def _added(rows: Sequence[Row], keys: Mapping[str, Any]) -> Row:
    """Return several rows as one. keys: the values that they share."""
    columns = [*keys, *(name for name in rows[0] if name not in keys and name in (*_SUMS, *EXECUTIONS))]
    known = {name: [row[name] for row in rows if row.get(name) is not None] for name in columns}
    added: dict[str, Any] = {name: sum(known[name]) for name in _SUMS if known.get(name)}
    added |= {name: least_or_most(known[name]) for name, least_or_most in _EXTREMES.items() if known.get(name)}
    timed = [row for row in rows if row.get("mean_ns") is not None]
    if timed:
        number = sum(row["count"] for row in timed)
        added["mean_ns"] = sum(row["mean_ns"] * row["count"] for row in timed) / number
    rated = [row for row in rows if row.get(RATE) is not None]
    if rated:
        added[RATE] = sum(row[RATE] * row["duration_ns"] for row in rated) / sum(row["duration_ns"] for row in rated)
    return {name: keys.get(name, added.get(name)) for name in columns}


def _without(rows: Sequence[Row], some: Sequence[Row]) -> list[Row]:
    among = set(map(id, some))
    return [row for row in rows if id(row) not in among]


def _matches(row: Row, name: str, pattern: str) -> bool:
    return fnmatchcase(str(row[name] or ""), pattern)


def _values(rows: Sequence[Row], wanted: Sequence[tuple[str, str]]) -> str:
    """Return values in the column of the filter that matches nothing, those most similar to its pattern first."""
    name, pattern = next(
        ((name, pattern) for name, pattern in wanted if not any(_matches(row, name, pattern) for row in rows)), wanted[-1]
    )
    values = list(dict.fromkeys(str(row[name]) for row in rows if row[name]))
    like = get_close_matches(pattern.strip("*"), values, _EXAMPLES, 0.3)
    return f"values of {name} include {', '.join([*like, *(value for value in values if value not in like)][:_EXAMPLES])}"


def _others(rows: Sequence[Row], columns: Sequence[str], what: str) -> dict[str, Any]:
    """Return rows added up. what: which rows they are, in words."""
    whole: dict[str, Any] = dict.fromkeys(columns)
    whole[columns[0]] = f"({units.counted(len(rows), 'other')}{what})"
    for name in _SUMS:
        known = [row[name] for row in rows if row.get(name) is not None]
        whole[name] = sum(known) if known else None
    return whole


def _mean(rows: Sequence[Row], columns: Sequence[str], what: str) -> dict[str, Any]:
    """Return the mean of steps as one row. what: which steps they are, in words."""
    whole = _others(rows, columns, f"{what}, mean")
    means = {name: whole[name] / len(rows) for name in _SUMS if whole.get(name)}
    return whole | {name: mean if name == "share" else round(mean) for name, mean in means.items()}


def finest(results: Mapping[str, Mapping[str, Any] | str]) -> str:
    """Return the most informative breakdown: by layer if those of a good part are known, else by range, else by kernel.

    results: envelopes of these breakdowns, or the reason why there is none. Ranges of totals may be nested, and are times of the
    host: kernels say more.
    """
    for by in ("layer", "range"):
        result = results.get(by)
        if result is None or isinstance(result, str) or result["coverage"] < (_SOME if by == "layer" else _MOSTLY):
            continue
        if by == "range" and result["window"] == "totals" and result["totals"]["kernel_sum_ns"]:
            continue
        if any(is_named(row[by]) for row in result["rows"]):
            return by
    return "kernel"


def is_named(text: object) -> bool:
    """Return whether a row has a real name, not one in parentheses."""
    return text is not None and not str(text).startswith("(")
