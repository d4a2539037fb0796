"""The tables of totals that torch.profiler and torch.autograd.profiler print, extracted from a program's other output.

A table is a line of dashes, a heading, a line of dashes, rows, a line of dashes, and lines such as "Self CPU time total: 7.1ms".
The dashes show the positions of columns. People also post tables as Markdown, or without the dashes: then at least two spaces
are between cells, and the table ends with the first line that is no row. Columns have been renamed over the years; `tables`
gives each one name:

    name, self_cpu, cpu, cpu_average, self_device, device_total, device_average (text with units), self_cpu_share,
    self_device_share (with %), count, shapes, source (the program's own innermost line of the stack)

Some programs print a device's columns only, with or without the number of calls, and people leave columns out. Other columns
(memory, FLOPs) are listed in `others`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import markdown, text_tables
from kernelscope.analysis.formats import unlisted

_DASHES = re.compile(r"-{3,}")
_RULE = re.compile(r"^.{0,200}?-{4,}(?:\s+-{3,}){2,}[\s|]*$")
_HEADING = re.compile(r"^.{0,200}?\bName[\s|].*\bCPU\b.*(?:# of Calls|Number of Calls|\bCalls\b)")
_APART = re.compile(r"\s{2,}|\s*\|\s*")  # what is between headings
# All titles that PyTorch has printed, and times as it prints them: what people post without the lines of dashes
_TITLE = re.compile(
    r"Name|Overload Name|(?:Self )?[A-Z][A-Z0-9]*(?: total| time| Mem)?|(?:Self )?[A-Z][A-Z0-9]*(?: total)? %"
    r"|[A-Z][A-Z0-9]* time avg|# of Calls|Number of Calls|Calls|Input Shapes|Source Location|Node ID|Total [KMGT]?FLOP[sS]"
)
_TIME = re.compile(r"\d[\d.,]*(?:us|ms|s)")
_MARK = re.compile(r"\s*(?P<mark>[#>*/]{0,3})")  # before the lines of a comment or a quotation
_TOTAL = re.compile(r"\b(?:Self )?(?P<what>\w+) time total:[\s*]*(?P<time>[\d.,]+ *(?:us|ms|s))[\s*]*$")
_DEVICE = re.compile(r"(?:Self )?(?P<device>[A-Z][A-Z0-9]*) (?:total|time avg)$")
_OF_DEVICE = re.compile(r"(?:Self )?(?P<device>[A-Z][A-Z0-9]*)(?: total| time avg)?(?: %)?")
_KNOWN = {
    "Name": "name", "Self CPU": "self_cpu", "Self CPU total": "self_cpu", "CPU total": "cpu", "CPU time": "cpu_average",
    "CPU time avg": "cpu_average", "Self CPU %": "self_cpu_share", "# of Calls": "count", "Number of Calls": "count",
    "Calls": "count", "Input Shapes": "shapes", "Source Location": "source",
}  # fmt: skip
_NOT_OWN = r"^$|^<|^(?:\S*/)?torch/|^nn\.Module: |^\.\.\."  # built-in functions, PyTorch itself, modules
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
    """Return the tables among lines of text, in order: those with names."""
    result = []
    starts = list(_headings(lines))
    for heading, until in zip(starts, [*starts[1:], len(lines) + 1], strict=False):
        result.append(_table(lines, heading, until - 1))
    return [table for table in result if "name" in table.rows]


def _headings(lines: Sequence[str]) -> Iterator[int]:
    """Yield the positions of headings: next to a line of dashes, above the rule of a Markdown table, or above a row."""
    for number in range(len(lines) - 1):
        line = lines[number]
        if "Name" not in line or len(line) > _LONGEST:
            continue
        titles = _titles(line)
        if not (titles or _HEADING.match(line) or _is_of_device(line)):
            continue
        ruled = (number > 0 and _is_rule(lines[number - 1])) or _is_rule(lines[number + 1])
        if ruled or _is_markdown(line, lines[number + 1]) or (titles and _row(line, lines[number + 1], titles)):
            yield number


def _titles(line: str) -> list[str]:
    """Return the titles in a line, if it has nothing but those of a profiler's table, with an own time; else none."""
    found = re.split(r"\s{2,}", line[_mark_end(line, line) :].strip())
    mine = found[0] == "Name" and len(found) > 2 and len(set(found)) == len(found) and all(map(_TITLE.fullmatch, found))
    devices = {match["device"] for title in found if (match := _OF_DEVICE.fullmatch(title))} - {"CPU"}
    return found if mine and len(devices) < 2 and any(map(_is_own, found)) else []


def _is_own(title: str) -> bool:
    """Return whether a title is that of own times."""
    return title.startswith("Self ") and not title.endswith((" %", " Mem"))


def _row(heading: str, line: str, titles: Sequence[str]) -> list[str]:
    """Return the cells of a row below a heading without lines of dashes; none if the line is no such row."""
    if len(line) > _LONGEST:
        return []
    found = re.split(r"\s{2,}", line[_mark_end(heading, line) :].strip())
    more = len(found) - len(titles)
    if more > 0:  # two spaces in a name
        found = ["  ".join(found[: more + 1]), *found[more + 1 :]]
    own = [place for place, title in enumerate(titles) if _is_own(title)]
    return found if len(found) == len(titles) and all(_TIME.fullmatch(found[place]) for place in own) else []


def _mark_end(heading: str, line: str) -> int:
    """Return where a line begins behind the mark of a comment, if the heading has that mark."""
    match = _MARK.match(heading)
    mark = match["mark"] if match else ""
    at = len(line) - len(line.lstrip())
    return at + len(mark) if mark and line.startswith(mark, at) else 0


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
    return len(rule) <= _LONGEST and re.fullmatch(markdown.PIPES, rule) is not None and markdown.same_pipes(heading, rule)


def _table(lines: Sequence[str], heading: int, until: int) -> OperatorTable:
    """Return the table with its heading at a line; until: where it ends at the latest."""
    if _is_markdown(lines[heading], lines[heading + 1]):
        names = markdown.pipe_cells(lines[heading])
        first = heading + 2
        last = next((at for at in range(first, until) if not markdown.pipe_cells(lines[at])), until)
        frame, unread = markdown.pipe_rows(lines[first:last], len(names))
        return _named(heading, names, frame, len(unread), _totals(lines[last:until]))
    above = heading > 0 and _is_rule(lines[heading - 1])
    if not above and not _is_rule(lines[heading + 1]):
        return _without_rules(lines, heading, until)
    rule = lines[heading - 1] if above else lines[heading + 1]
    spans = [match.span() for match in _DASHES.finditer(rule)]
    first = heading + 2 if _is_rule(lines[heading + 1]) else heading + 1
    last = next((at for at in range(first, until) if _is_rule(lines[at])), until)
    frame, unread = text_tables.columns_at([line for line in lines[first:last] if line.strip()], spans)
    result = _named(heading, _names(lines[heading], spans), frame, len(unread), _totals(lines[last + 1 : until]))
    result.cut = last == until
    return result


def _without_rules(lines: Sequence[str], heading: int, until: int) -> OperatorTable:
    """Return the table with its heading at a line, whose rows follow until a line that is none."""
    titles, made, cut, last = _titles(lines[heading]), [], 0, heading + 1
    for last in range(heading + 1, until):
        cells = _row(lines[heading], lines[last], titles)
        if cells:
            made.append(cells)
        elif unlisted.is_cut(lines[last]):
            cut += 1
        else:
            break
    else:
        last = until
    frame = pd.DataFrame(made, columns=range(len(titles)), dtype="str")
    return _named(heading, titles, frame, cut, _totals(lines[last:until]))


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
    if "source" in rows:
        rows = rows.assign(source=_callers(rows["source"], np.asarray(named_rows, dtype=bool)))
    named = rows[named_rows].reset_index(drop=True)  # rows without a name continue a stack
    return OperatorTable(heading + 1, named, device, others, totals, unread)


def _callers(sources: pd.Series, begins: npt.NDArray[np.bool_]) -> pd.Series:
    """Return for each row that begins a stack the innermost line of it that is the program's own; null if there is none."""
    stacks = pd.Series(np.cumsum(begins), index=sources.index)
    own = sources[~sources.astype("string").str.strip().str.contains(_NOT_OWN).fillna(True).to_numpy(bool)]
    first = own.astype("string").str.strip().groupby(stacks[own.index]).first()
    return stacks.map(first)


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
