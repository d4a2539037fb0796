"""The tables of totals that torch.profiler and torch.autograd.profiler print, extracted from a program's other output.

A table is a line of dashes, a heading, a line of dashes, rows, a line of dashes, and lines such as "Self CPU time total: 7.1ms".
The dashes show the positions of columns. People also post tables as Markdown. Columns have been renamed over the years; `tables`
gives each one name:

    name, self_cpu, cpu, self_device, device_total, device_average (text with units), self_cpu_share, self_device_share (with %),
    count, shapes

Some programs print a device's columns only, with or without the number of calls. Other columns (memory, FLOPs, source
locations) are listed in `others`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats.torch_table import calls

_DASHES = re.compile(r"-{3,}")
_RULE = re.compile(r"^.{0,200}?-{4,}(?:\s+-{3,}){2,}[\s|]*$")
_HEADING = re.compile(r"^.{0,200}?\bName[\s|].*\bCPU\b.*(?:# of Calls|Number of Calls|\bCalls\b)")
_APART = re.compile(r"\s{2,}|\s*\|\s*")  # what is between headings
_TOTAL = re.compile(r"\b(?:Self )?(?P<what>\w+) time total:[\s*]*(?P<time>[\d.,]+ *(?:us|ms|s))[\s*]*$")
_DEVICE = re.compile(r"(?:Self )?(?P<device>[A-Z][A-Z0-9]*) (?:total|time avg)$")
_KNOWN = {
    "Name": "name", "Self CPU": "self_cpu", "Self CPU total": "self_cpu", "CPU total": "cpu", "CPU time": "cpu_average",
    "Self CPU %": "self_cpu_share", "# of Calls": "count", "Number of Calls": "count", "Calls": "count", "Input Shapes": "shapes",
}  # fmt: skip
_SHARE = re.compile(r"%$|time avg$")
_BELOW = 6  # lines below a table that may have its sums
_LONGEST = 1 << 14  # characters of a heading


@dataclass
class OperatorTable:
    """One table. rows: its columns under the names of the module's documentation. device: the table's name for the accelerator,
    such as CUDA; empty without one. others: headings that are not read. totals: lines below it, such as {"CPU": "7.1ms"}.
    line: the line of its heading, counted from 1. unreadable: lines inside that are not rows. cut: it has no closing line.
    """

    line: int
    rows: pd.DataFrame
    device: str
    others: list[str]
    totals: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    cut: bool = False


def _is_rule(line: str) -> bool:
    return len(line) <= _LONGEST and "----" in line and _RULE.match(line) is not None


def has_table(text: str) -> bool:
    """Return whether a text has the heading of a table."""
    lines = text.split("\n")
    return next(_headings(lines), None) is not None


def tables(lines: Sequence[str]) -> list[OperatorTable]:
    """Return the tables among lines of text, in order: those with names and numbers of calls, or what these follow from."""
    result = []
    starts = list(_headings(lines))
    for heading, until in zip(starts, [*starts[1:], len(lines) + 1], strict=False):
        result.append(_table(lines, heading, until - 1))
    return [
        table for table in result if "name" in table.rows and ("count" in table.rows or set(calls.COLUMNS) <= set(table.rows))
    ]


def _headings(lines: Sequence[str]) -> Iterator[int]:
    """Yield the positions of headings: next to a line of dashes, or above the rule of a Markdown table."""
    for number in range(len(lines) - 1):
        line = lines[number]
        if "Name" not in line or len(line) > _LONGEST or not (_HEADING.match(line) or _is_of_device(line)):
            continue
        above = number > 0 and _is_rule(lines[number - 1])
        if above or _is_rule(lines[number + 1]) or _is_markdown(line, lines[number + 1]):
            yield number


def _is_of_device(line: str) -> bool:
    """Return whether a line has the headings of a table with times of a device only."""
    if "Self " not in line or " time avg" not in line:
        return False
    cells = set(_APART.split(line.strip()))
    device = next(
        (match["device"] for cell in sorted(cells) if (match := _DEVICE.fullmatch(cell)) and match["device"] != "CPU"), ""
    )
    return {"Name", f"Self {device}", f"Self {device} %", f"{device} total", f"{device} time avg"} <= cells


def _is_markdown(heading: str, rule: str) -> bool:
    return len(rule) <= _LONGEST and re.fullmatch(text_tables.PIPES, rule) is not None and text_tables.same_pipes(heading, rule)


def _table(lines: Sequence[str], heading: int, until: int) -> OperatorTable:
    """Return the table with its heading at a line; until: where it ends at the latest."""
    if _is_markdown(lines[heading], lines[heading + 1]):
        names = text_tables.pipe_cells(lines[heading])
        first = heading + 2
        last = next((at for at in range(first, until) if not text_tables.pipe_cells(lines[at])), until)
        frame, unread = text_tables.pipe_rows(lines[first:last], len(names))
        return _named(heading, names, frame, len(unread), _totals(lines[last:until]))
    above = heading > 0 and _is_rule(lines[heading - 1])
    rule = lines[heading - 1] if above else lines[heading + 1]
    spans = [match.span() for match in _DASHES.finditer(rule)]
    first = heading + 2 if _is_rule(lines[heading + 1]) else heading + 1
    last = next((at for at in range(first, until) if _is_rule(lines[at])), until)
    frame, unread = text_tables.columns_at([line for line in lines[first:last] if line.strip()], spans)
    result = _named(heading, _names(lines[heading], spans), frame, len(unread), _totals(lines[last + 1 : until]))
    result.cut = last == until
    return result


def _named(heading: int, names: list[str], frame: pd.DataFrame, unread: int, totals: dict[str, str]) -> OperatorTable:
    """Return a table with its columns under the names of the module's documentation."""
    device = next((match["device"] for name in names if (match := _DEVICE.match(name)) and match["device"] != "CPU"), "")
    own = {
        f"Self {device}": "self_device",
        f"Self {device} %": "self_device_share",
        f"{device} total": "device_total",
        f"{device} time avg": "device_average",
    }
    known = _KNOWN | own
    kept: dict[int, str] = {}
    for place, name in enumerate(names):
        if name in known and known[name] not in kept.values():
            kept[place] = known[name]
    rows = frame[list(kept)].set_axis(list(kept.values()), axis=1)
    others = [name for name in names if name not in known and not _SHARE.search(name)]
    named_rows = rows["name"].notna() if "name" in rows else np.zeros(len(rows), dtype=bool)
    named = rows[named_rows].reset_index(drop=True)  # rows without a name continue a stack
    return OperatorTable(heading + 1, named, device, others, totals, unread)


def _names(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the headings of columns, split at spaces, as a title longer than its column shifts those after it."""
    apart = re.split(r"\s{2,}", line.strip(" |\t\r\n"))
    if len(apart) >= len(spans) and apart[-len(spans)] == "Name":
        return apart[-len(spans) :]
    inside = [line[start:end].strip(" |") for start, end in spans]
    inside[-1] = line[spans[-1][0] :].strip(" |")
    if "Name" in inside:
        return inside
    return apart[: len(spans)] + [""] * (len(spans) - len(apart))


def _totals(lines: Sequence[str]) -> dict[str, str]:
    """Return the sums printed directly below a table, by "CPU" or the device's name."""
    result: dict[str, str] = {}
    for line in lines[:_BELOW]:
        match = _TOTAL.search(line)
        if match:
            result[match["what"]] = match["time"].replace(" ", "")
        elif line.strip() and not line.startswith("#"):  # a Markdown heading may precede them
            break
    return result
