"""The tables of totals that torch.profiler and torch.autograd.profiler print, extracted from a program's other output.

A table is a line of dashes, a heading, a line of dashes, rows, a line of dashes, and lines such as "Self CPU time total: 7.1ms".
The dashes, or "=" in reStructuredText, show the positions of columns. People also post tables as Markdown, or without the
dashes: then at least two spaces are between cells, and the table ends with the first line that is no row; empty lines may be
between the heading and the rows, and the end of a code block between the rows and the sums. Where a web page made one space of
each run of them, and where rows do not stand below their titles, a row's cells are told by their forms, from the right.
Columns have been renamed over the years; `tables` gives each one name:

    name, self_cpu, cpu, cpu_average, self_device, device_total, device_average (text with units), self_cpu_share,
    self_device_share (with %), count, shapes, source (the program's own innermost line of the stack)

Some programs print a device's columns only, with or without the number of calls, and people leave columns out. Other columns
(memory, FLOPs) are listed in `others`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import markdown, text_tables
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.torch_table import summaries

_DASHES = re.compile(r"-{3,}|={3,}")
_RULE = re.compile(r"^.{0,200}?(?:-{4,}(?:\s+-{3,}){2,}|={4,}(?:\s+={3,}){2,})[\s|]*$")
_HEADING = re.compile(r"^.{0,200}?\bName[\s|].*\bCPU\b.*(?:# of Calls|Number of Calls|\bCalls\b)")
_APART = re.compile(r"\s{2,}|\s*\|\s*")  # what is between headings
# All titles that PyTorch has printed, and times as it prints them: what people post without the lines of dashes
_TITLE = re.compile(
    r"(?:Name|Overload Name|(?:Self )?[A-Z][A-Z0-9]*(?: total %| time avg| total| time| Mem| %)?"
    r"|# of Calls|Number of Calls|Calls|Input Shapes|Source Location|Node ID|Total [KMGT]?FLOP[sS])(?= |$)"
)
_TIME = re.compile(r"\d[\d.,]* ?(?:us|ms|s)")
# How cells look below titles: what tells them apart from the name before them where single spaces divide all
_CELLS = (
    (re.compile(r".* %"), r"-?[\d.,]+ ?%|--|nan%"),
    (re.compile(r".* Mem"), r"-?[\d.,]+ ?[KMGT]?[bB]|--"),
    (re.compile(r".*Calls"), r"[\d,]+"),
    (re.compile(r"Input Shapes"), r"\[.*\]"),
    (re.compile(r"Node ID"), r"-?\d+"),
    (re.compile(r"Total .*"), r"[\d.,]+|--"),
    (re.compile(r"(?:Self )?[A-Z][A-Z0-9]*(?: total| time| time avg)?"), r"-?[\d.,]+ ?(?:us|ms|s)"),
)
_MARK = re.compile(r"\s*(?P<mark>[#>*/]{0,3})")  # before the lines of a comment or a quotation
_TOTAL = re.compile(r"\b(?:Self )?(?P<what>\w+) time total:[\s*]*(?P<time>[\d.,]+ *(?:us|ms|s))[\s*]*$")
_OPERATOR = "aten::"  # what tells a summary of a profile of PyTorch from one of another program
_UNTITLED = re.compile(rf"[#>\s]{{0,200}}{_OPERATOR}\w+\s{{2,}}[\d.]+%\s+[\d.]+(?:us|ms|s)\s")
_SUMS = re.compile(r"\s*\|?[\s*]*(?:Self )?\w+ time total:")
_DEVICE = re.compile(r"(?:Self )?(?P<device>[A-Z][A-Z0-9]*) (?:total|time avg)$")
_OWN_DEVICE = re.compile(r"Self (?P<device>[A-Z][A-Z0-9]*)$")
_OF_DEVICE = re.compile(r"(?:Self )?(?P<device>[A-Z][A-Z0-9]*)(?: total| time avg)?(?: %)?")
_KNOWN = {
    "Name": "name", "Self CPU": "self_cpu", "Self CPU total": "self_cpu", "CPU total": "cpu", "CPU time": "cpu_average",
    "CPU time avg": "cpu_average", "Self CPU %": "self_cpu_share", "# of Calls": "count", "Number of Calls": "count",
    "Calls": "count", "Input Shapes": "shapes", "Source Location": "source",
}  # fmt: skip
_NOT_OWN = r"^$|^<|^(?:\S*/)?torch/|^nn\.Module: |^\.\.\."  # built-in functions, PyTorch itself, modules
_SHARE = re.compile(r"%$|time avg$")
_BELOW = 6  # lines below a table that may have its sums
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})\s*")  # the end of a code block in Markdown
_APART_FROM_ROWS, _SURE = 3, 5  # empty lines between a heading and its rows; titles of a heading that may have them
_LONGEST = 1 << 14  # characters of a heading


@dataclass
class OperatorTable:
    """One table. rows: its columns under the names of the module's documentation. device: the table's name for the accelerator,
    such as CUDA; empty without one. others: headings that are not read. totals: lines below it, such as {"CPU": "7.1ms"}.
    line: the line of its heading, counted from 1. unreadable: lines inside that are not rows. cut: it has no closing line.
    is_summary: it is one of people's own. sums_above: totals are those that the text has above it.
    """

    line: int
    rows: pd.DataFrame
    device: str
    others: list[str]
    totals: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    cut: bool = False
    is_summary: bool = False
    sums_above: bool = False


def _is_rule(line: str) -> bool:
    return len(line) <= _LONGEST and ("----" in line or "====" in line) and _RULE.match(line) is not None


def has_table(text: str) -> bool:
    """Return whether a text has the heading of a table."""
    lines = text.split("\n")
    return next(_headings(lines), None) is not None


def lacks_titles(text: str) -> bool:
    """Return whether a text has operators with a share and a time, and a sum below, as a table from which the titles were cut."""
    lines = text.split("\n")
    return any(map(_SUMS.match, (line.lstrip("# >") for line in lines))) and any(map(_UNTITLED.match, lines))


def tables(lines: Sequence[str]) -> list[OperatorTable]:
    """Return the tables among lines of text, in order: those with names."""
    result = []
    starts = list(_headings(lines))
    for heading, until in zip(starts, [*starts[1:], len(lines) + 1], strict=False):
        result.append(_table(lines, heading, until - 1))
    if len(result) == 1 and result[0].is_summary and not result[0].totals:
        result[0].totals = _sums_above(lines, result[0].line)
        result[0].sums_above = bool(result[0].totals)
    return [table for table in result if "name" in table.rows]


def _headings(lines: Sequence[str]) -> Iterator[int]:
    """Yield the positions of headings: next to a line of dashes, above the rule of a Markdown table, or above a row."""
    of_torch = any(_OPERATOR in line for line in lines)
    for number in range(len(lines) - 1):
        line = lines[number]
        if len(line) > _LONGEST:
            continue
        if of_torch and "|" in line and _is_summary(line, lines[number + 1]):
            yield number
            continue
        if "Name" not in line:
            continue
        titles = _titles(line)
        if not (titles or _HEADING.match(line) or _is_of_device(line)):
            continue
        ruled = (number > 0 and _is_rule(lines[number - 1])) or _is_rule(lines[number + 1])
        if (
            ruled
            or _is_markdown(line, lines[number + 1])
            or (titles and _row(line, lines[_first(lines, number, titles)], titles))
        ):
            yield number


def _first(lines: Sequence[str], heading: int, titles: Sequence[str]) -> int:
    """Return the position of the first row below a heading: empty lines may be between them if its many titles make it sure."""
    below = heading + 1
    near = range(below, min(below + _APART_FROM_ROWS + 1, len(lines)) if len(titles) >= _SURE else below)
    return next((at for at in near if lines[at].strip()), below)


def _titles(line: str) -> list[str]:
    """Return the titles in a line, if it has nothing but those of a profiler's table, with an own time; else none."""
    text = line[_mark_end(line, line) :].strip()
    found = re.split(r"\s{2,}", text)
    if len(found) == 1:
        found = _close_titles(" ".join(text.split()))
    mine = found[0] == "Name" and len(found) > 2 and len(set(found)) == len(found) and all(map(_TITLE.fullmatch, found))
    devices = {match["device"] for title in found if (match := _OF_DEVICE.fullmatch(title))} - {"CPU"}
    return found if mine and len(devices) < 2 and any(map(_is_own, found)) else []


def _is_summary(heading: str, rule: str) -> bool:
    """Return whether a line has the titles of a summary in Markdown."""
    return _is_markdown(heading, rule) and bool(summaries.titles(markdown.pipe_cells(heading)))


def _close_titles(text: str) -> list[str]:
    """Return the titles in a text that single spaces divide, though titles have spaces themselves; the text if it has others."""
    found = _TITLE.findall(text)
    whole = " ".join(found) == text and any(title.endswith("Calls") for title in found)  # words of a sentence may be titles
    return found if whole else [text]


def _is_own(title: str) -> bool:
    """Return whether a title is that of own times."""
    return title.startswith("Self ") and not title.endswith((" %", " Mem"))


def _row(heading: str, line: str, titles: Sequence[str]) -> list[str]:
    """Return the cells of a row below a heading without lines of dashes; none if the line is no such row."""
    if len(line) > _LONGEST:
        return []
    text = line[_mark_end(heading, line) :].strip()
    found = re.split(r"\s{2,}", text)
    more = len(found) - len(titles)
    if more > 0:  # two spaces in a name
        found = ["  ".join(found[: more + 1]), *found[more + 1 :]]
    elif more < 0:
        found = _close_cells(" ".join(text.split()), titles)
    own = [place for place, title in enumerate(titles) if _is_own(title)]
    return found if len(found) == len(titles) and all(_TIME.fullmatch(found[place]) for place in own) else []


def _close_cells(text: str, titles: Sequence[str]) -> list[str]:
    """Return the cells of a row that single spaces divide: those that have the form of their titles, and a name before them."""
    forms = [next((form for title, form in _CELLS if title.fullmatch(name)), None) for name in titles[1:]]
    if None in forms:
        return []
    match = re.fullmatch(" ".join(["(.+)", *(f"({form})" for form in forms)]), text)
    return [*match.groups()] if match else []


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
        return _markdown(lines, heading, until)
    above = heading > 0 and _is_rule(lines[heading - 1])
    if _are_close(lines[heading]) or not (above or _is_rule(lines[heading + 1])):
        return _by_forms(lines, heading, until)
    rule = lines[heading - 1] if above else lines[heading + 1]
    spans = [match.span() for match in _DASHES.finditer(rule)]
    first = heading + 2 if _is_rule(lines[heading + 1]) else heading + 1
    last = next((at for at in range(first, until) if _is_rule(lines[at])), until)
    frame, unread = text_tables.columns_at([line for line in lines[first:last] if line.strip()], spans)
    names = _names(lines[heading], spans)
    if _titles(lines[heading]) and not _has_times(names, frame):  # the rows do not stand below their titles
        apart = _by_forms(lines, heading, until)
        if len(apart.rows):
            return apart
    result = _named(heading, names, frame, len(unread), _totals(lines[last + 1 : until]))
    result.cut = last == until
    return result


def _are_close(heading: str) -> bool:
    """Return whether single spaces divide the titles of a heading."""
    return not re.search(r"\S\s{2,}\S", heading[_mark_end(heading, heading) :]) and bool(_titles(heading))


def _has_times(names: Sequence[str], frame: pd.DataFrame) -> bool:
    """Return whether a column of own times has any."""
    own = [place for place, name in enumerate(names) if _is_own(name)]
    return any(bool(frame[place].astype("string").str.fullmatch(_TIME.pattern).any()) for place in own)


def _by_forms(lines: Sequence[str], heading: int, until: int) -> OperatorTable:
    """Return the table with its heading at a line, whose rows tell their cells without the positions of columns.

    They follow until a line of dashes if one is below the heading, else until a line that is no row.
    """
    titles, made, unread, ruled = _titles(lines[heading]), [], 0, _is_rule(lines[heading + 1])
    first = heading + 2 if ruled else min(_first(lines, heading, titles), until)
    end = next((at for at in range(first, until) if _is_rule(lines[at])), until)
    last = first
    for last in range(first, end):
        cells = _row(lines[heading], lines[last], titles)
        if cells:
            made.append(cells)
        elif unlisted.is_cut(lines[last]) or (ruled and end < until and lines[last].strip()):
            unread += 1
        elif lines[last].strip() or not ruled:
            break
    else:
        last = end
    last += last < until and _is_rule(lines[last])
    frame = pd.DataFrame(made, columns=range(len(titles)), dtype="str")
    result = _named(heading, titles, frame, unread, _totals(lines[last:until]))
    result.cut = ruled and end == until
    return result


def _markdown(lines: Sequence[str], heading: int, until: int) -> OperatorTable:
    """Return the Markdown table with its heading at a line; its last rows may be a line of dashes and the sums below it."""
    names = markdown.pipe_cells(lines[heading])
    first = heading + 2
    last = next((at for at in range(first, until) if not markdown.pipe_cells(lines[at])), until)
    inside = [line for line in lines[first:last] if not re.fullmatch(markdown.PIPES, line)]
    frame, unread = markdown.pipe_rows([line for line in inside if not _SUMS.match(line)], len(names))
    sums = [line for row in inside if _SUMS.match(row) for line in _stacked(markdown.pipe_cells(row))]
    printed = "Name" in names and any(_TITLE.fullmatch(name) and _is_own(name) for name in names)
    titles = [] if printed else summaries.titles(names)
    if titles:
        frame = summaries.with_units(names, frame)
        names = [title or repr(name) for title, name in zip(titles, names, strict=True)]
    result = _named(heading, names, frame, len(unread), _totals(sums) | _totals(lines[last:until]))
    result.is_summary = bool(titles)
    return result


def _stacked(cells: list[str]) -> list[str]:
    """Return the lines of a row whose cells hold several, one below the other, as <br> divides them."""
    parts = [re.split(r"<br ?/?>", cell) for cell in cells]
    return [" ".join(part).strip() for part in itertools.zip_longest(*parts, fillvalue="")]


def _named(heading: int, names: list[str], frame: pd.DataFrame, unread: int, totals: dict[str, str]) -> OperatorTable:
    """Return a table with its columns under the names of the module's documentation."""
    device = next((match["device"] for name in names if (match := _DEVICE.match(name)) and match["device"] != "CPU"), "")
    if not device:  # people leave out all but own times
        devices = [match["device"] for name in names if (match := _OWN_DEVICE.match(name))]
        device = next((one for one in devices if one != "CPU"), "")
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
        elif line.strip() and not line.startswith("#") and not _FENCE.fullmatch(line):  # a Markdown heading may precede them
            break
    return result


def _sums_above(lines: Sequence[str], until: int) -> dict[str, str]:
    """Return the sums printed above a table if the text has each of them once: else they may be another profile's."""
    found = [(place, match) for place, line in enumerate(lines) if (match := _TOTAL.search(line))]
    sums = {match["what"]: match["time"].replace(" ", "") for place, match in found if place < until}
    return sums if len(sums) == len(found) else {}
