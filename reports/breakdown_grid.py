"""The table of a breakdown as text: headings, lines with bars, and a last line with the total."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from statistics import median
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from kernelscope.analysis.accounting import host_rows
from kernelscope.analysis.kernels.short_names import short
from kernelscope.reports import breakdown_words, content, units
from kernelscope.reports.content import Row
from kernelscope.reports.text import printable

_SEPARATORS = re.compile(r"(?<=[/.])")
_LONG_PATH = 12  # characters: a longer common path is shown once above the table
TALL = 20  # rows of a breakdown shown, those with most time
_OUTLIER = 1.5  # times the median step, above which a step is marked
_ALL = "100.0%"
_LONG_NS = 1_000_000_000_000  # a whole of so many ns is shown in seconds
_RIGHT: dict[str, Any] = {"justify": "right", "no_wrap": True}
_FULL, _EIGHTHS = "█", " ▏▎▍▌▋▊▉"

# The keys that name a breakdown's row, and those shown beneath the name
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "layer": (("layer", "phase"), ()),
    "kernel": (("kernel",), ("kind", "phase", "library", "problem", "transpose", "layout", "algorithm", "dtype")),
    "layer-kernel": (
        ("kernel",),
        ("layer", "phase", "kind", "library", "problem", "transpose", "layout", "algorithm", "dtype", "method"),
    ),
    "kind": (("kind", "phase"), ()),
    "phase": (("phase",), ()),
    "step": (("step", "window"), ()),
    "operator": (("operator", "layer", "phase"), ()),
    "range": (("range", "activity", "phase"), ()),
    "idle": (("cause", "layer", "phase"), ()),
    "line": (("line", "text"), ("function", "file", "method")),
}


def heading(result: Mapping[str, Any]) -> list[str]:
    """Return the lines above the table: what it covers, and remarks."""
    title = " · ".join(printable(part) for part in breakdown_words.breakdown_of(result))
    what = printable(f"{breakdown_words.whole(result)} {breakdown_words.by(result)}")
    what += ", inclusive: rows overlap" if result.get("inclusive") else ""
    lines = [f"{title}: {what}" if title else what, printable(_beside(result)), breakdown_words.three_numbers(result)]
    lines += [printable(breakdown_words.added_up(result)), breakdown_words.rates(result["rows"])]
    if any(row.get("profiled_ns") is not None for row in result["rows"]):
        lines.append("calls, and times with calls, are of the lines pass: --columns line,text,count,profiled_ns")
    return [line for line in lines if line]


def keys(result: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that name a breakdown's rows, and those with details, shown beneath the name."""
    by = str(result["by"])
    if by == "kernel" and breakdown_words.of_functions(result):
        return ("kernel",), ("phase",)
    return (tuple(result["group"]), ()) if len(result.get("group", ())) > 1 else _KEYS.get(by, ((by,), ()))


def shared_path(result: Mapping[str, Any], most: int) -> str:
    """Return the path that all shown layer names share; empty if it is short."""
    names = [str(row["layer"]) for row in result["rows"][:most] if row.get("layer") and not str(row["layer"]).startswith("(")]
    if len(names) < 2 or keys(result)[0][:1] != ("layer",):
        return ""
    parts = [_SEPARATORS.split(name)[:-1] for name in names]
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(parts), max(parts), strict=False))
    path = "".join(part for part, _ in alike)
    return path if len(path) > _LONG_PATH else ""


def drawn(result: Mapping[str, Any], most: int, width: int) -> Table:
    """Return the table for short keys: the keys, then the numbers with a bar, which gets the room that is left.

    Rows beyond `most` are merged into one; rows of the host follow it.
    """
    unit, decimals = unit_of(result)
    device, host = host_rows.apart(result["by"], result["rows"])
    shown, rest = [*device[:most], *host], device[most:]
    named = [key for place, key in enumerate(keys(result)[0]) if not place or any(row.get(key) for row in result["rows"])]
    own: list[tuple[str, str, dict[str, Any]]] = [("own", "", _RIGHT)] if result.get("inclusive") else []
    path = shared_path(result, most)
    texts = [
        (value(row, named[0]).removeprefix(path if named[0] == "layer" else "") or f"(no {named[0]} known)",
         *(value(row, key).removeprefix(path if key == "layer" else "") for key in named[1:]),
         *(units.in_unit(row["own_ns"], unit, decimals) for _ in own),
         units.in_unit(breakdown_words.row_ns(row), unit, decimals),
         called(result, row), printable(row.get("method")))
        for row in shown
    ]  # fmt: skip
    bars = _room_for_bars(texts, width)
    whole = units.in_unit(breakdown_words.whole_ns(result), unit, decimals)
    of = printable(breakdown_words.whole(result))
    keyed = [(breakdown_words.noun(result, key), "" if place else of, {"overflow": "fold"}) for place, key in enumerate(named)]
    columns: list[tuple[str, str, dict[str, Any]]] = [
        *keyed, *own, (unit, whole, _RIGHT), ("share", _ALL, _RIGHT), ("", "", {"style": "blue", "width": bars, "no_wrap": True}),
        ("calls", "", _RIGHT), ("method", "", {"overflow": "fold", "style": "dim"}),
    ]  # fmt: skip
    longest = max((row["share"] for row in shown), default=1.0) or 1.0
    lines = [
        (*names_and_time, units.percent(row["share"]), bar(row["share"] / longest, bars), count, method)
        for row, (*names_and_time, count, method) in zip(shown, texts, strict=True)
    ]
    if rest:
        time, share = sums(rest)
        blank = [""] * (len(named) - 1 + len(own))
        both = ("", "") if own else (units.in_unit(time, unit, decimals), units.percent(share))
        lines.insert(most, (f"({len(rest)} more)", *blank, *both, "", "", ""))
    return _table(columns, lines, width)


def of_steps(result: Mapping[str, Any], most: int, width: int) -> Table:
    """Return the table of steps: the time of each, its ratio to the mean step, and marks at unusually long ones."""
    unit, decimals = unit_of(result)
    rows, mean = result["rows"], max(int(result["step_ns"] or 0), 1)
    times = [int(row["duration_ns"]) for row in rows]
    usual, longest = median(times or [0]), max(times, default=1) or 1
    windows = any(row.get("window") is not None for row in rows)
    bars = max(min(width - 60, 24), 4)
    lines = [
        (units.in_unit(time, unit, decimals), units.percent(time / mean), bar(time / longest, bars), value(row, "step"),
         *([value(row, "window")] if windows else []), f"{time / usual:.1f} times the median" if time > _OUTLIER * usual else "")
        for row, time in zip(rows[:most], times, strict=False)
    ]  # fmt: skip
    if len(rows) > most:
        lines.append(("", "", "", f"({len(rows) - most} more)", *([""] if windows else []), ""))
    named: list[tuple[str, str, dict[str, Any]]] = [("step", "mean", {}), *([("window", "", {})] if windows else [])]
    columns: list[tuple[str, str, dict[str, Any]]] = [
        (unit, units.in_unit(mean, unit, decimals), _RIGHT), ("of the mean", _ALL, _RIGHT),
        ("", "", {"style": "blue", "width": bars, "no_wrap": True}), *named, ("", "", {"overflow": "fold", "style": "yellow"}),
    ]  # fmt: skip
    return _table(columns, lines, width)


def _table(columns: Sequence[tuple[str, str, dict[str, Any]]], lines: Sequence[tuple[str, ...]], width: int) -> Table:
    """Return a table of these lines, with a text for each column. columns: heading, footer, and options of rich."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), show_edge=False, pad_edge=False, header_style="bold", show_footer=True)
    for head, footer, look in columns:
        table.add_column(head, footer, **look)
    texts_of = list(zip(*lines, strict=True)) or [()] * len(columns)
    widths = [look.get("width") or max(map(cell_len, (head, footer, *own)))
              for (head, footer, look), own in zip(columns, texts_of, strict=True)]  # fmt: skip
    if lines and sum(widths) + len(columns) - 1 <= width:
        table.add_row(*(Text("\n".join(own)) for own in texts_of))  # nothing wraps: rich draws one row of many lines much faster
    else:
        for line in lines:
            table.add_row(*map(Text, line))
    return table


def _room_for_bars(texts: Sequence[tuple[str, ...]], width: int) -> int:
    """Return the width of bars, 4 to 24, that leaves room for these texts and their shares."""
    taken = sum(max(5, *map(cell_len, column)) + 1 for column in zip(*texts, strict=True)) + len(_ALL) + 1 if texts else 0
    return max(min(width - taken, 24), 4)


def bar(share: float, width: int) -> str:
    """Return a bar of `share` (0 to 1) of `width` columns, to an eighth of a column."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return _FULL * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def value(row: Row, key: str) -> str:
    """Return a row's key as text, empty if unknown."""
    return printable(row[key], 200) if row.get(key) is not None else ""


def named(row: Row, key: str) -> str:
    """Return a row's key as text: kernels by their short name, lines without a statement by their function."""
    text = row.get(key)
    if key == "text" and text is None:
        return value(row, "function")
    return (
        printable(short(text), None)
        if key == "kernel" and text is not None and not str(text).startswith("(")
        else value(row, key)
    )


def called(result: Mapping[str, Any], row: Row) -> str:
    """Return how often a row was executed, per step if there are steps."""
    each = breakdown_words.each(result, row.get("count") or None)  # rows in which nothing ran have none
    if each is None:
        return units.count(None)
    return units.count(round(each)) if abs(each - round(each)) < 0.005 else f"{each:,.2f}"


def sums(rows: Sequence[Row]) -> tuple[int, float]:
    """Return the time and the share of several rows."""
    return sum(breakdown_words.row_ns(row) for row in rows), sum(row["share"] for row in rows)


def unit_of(result: Mapping[str, Any]) -> tuple[str, int]:
    """Return the unit of a breakdown's times and the number of decimals."""
    whole = breakdown_words.whole_ns(result)
    # when the total is in seconds, row lengths vary widely: ms read better than decimals of a second
    unit = units.common_unit([whole])
    if whole >= _LONG_NS:
        return "s", units.decimals_for([whole], "s")
    unit = "ms" if unit == "s" or result.get("window", "steps") != "steps" else unit
    return unit, units.decimals_for([whole], unit)


def _beside(result: Mapping[str, Any]) -> str:
    """Return the facts beside a breakdown: batch, conditions, pass with the clean step, coverage."""
    if result.get("pass") == "lines" and (result.get("source") or {}).get("tool") == "line_profiler":
        return "the lines of the function with the longest total, with what they call; line_profiler's own cost is included"
    parts = [text] if (text := content.batch(result)) else []
    parts += [content.conditions(result["conditions"])] if result.get("conditions") else []
    if result.get("pass"):
        clean = result.get("clean_step_ns")
        against = f" (clean step {units.duration(clean)})" if clean else ""
        parts.append(f"{result['pass']} pass{against}")
    steps = units.counted(result["steps"], "time" if result.get("inside") else "step") if result["steps"] else ""
    of = f" of {result['coverage_of']}" if result["by"] == "layer" and result.get("coverage_of") else ""
    parts.append(", ".join(part for part in (steps, f"{breakdown_words.known(result)}{of}") if part))
    return " · ".join(parts)
