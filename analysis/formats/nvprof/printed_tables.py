"""Tables that nvprof prints: summaries and traces of GPU activities and API calls, unified memory; as text or CSV.

The log may also hold the program's own output, before, between and after. nvprof's output follows a banner with the process
(==PID==, or ======== when it reads a file):

    ==123== Profiling result:                        GPU activities and API calls, in one table since CUDA 9
    ==123== API calls:                               a separate table before CUDA 9
    ==123== Unified Memory profiling result:
    ==123== NVTX result:                             ranges; under each one the summary again, of the work inside it
    ======== Device "Tesla K80 (0)"                  in --print-summary-per-gpu
    ======== CPU profiling result (bottom up):

Text has a unit at every value, or with -u a line of units under the header; CSV always has a line of units.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import markdown, stream, text_tables
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.nvprof import untitled

_SECTIONS = (
    "Profiling result|NVTX result|API calls|Unified Memory profiling result|CPU profiling result|Event result|Metric result"
    "|Trace result"
)
_OTHER_NAMES = {"Trace result": "Profiling result"}  # where metrics or events precede it
_COUNTERS = ("Metric result", "Event result")
_COUNTER = r'\s*\d+ {2,}\S|"(?:[^"]|""){1,200}","(?:[^"]|""){1,9000}",\d+,"'  # in CSV the device and the kernel come first
_END = r"\s*(?:```|~~~)?\s*"  # of a table: a blank line, or the end of code in Markdown
_BANNER = rf"(?:(?<!=)={{2,}}(?P<process>\d+)={{2,}}|^\s*={{4,}}) +(?P<section>{_SECTIONS})\b"
_PROFILED = r"(?<!=)={2,}(\d+)={2,} NVPROF is profiling process (\d+)"
_HEADER = r'^\s*"?(?:(?:Type"?(?:,|\s+)"?)?Time\(%\)|Start"?(?:,|\s+)"?Duration|Count\s+Avg Size|Device"?,"?Count)'
_DEVICE = r'^\s*(?:={2,}(?:\d+={2,})? )?\s*Device "(?P<device>[^"]*)"\s*$'
_IDLE = "No kernels were profiled."
_CPU_FAULTS = r"^\s*Total CPU Page faults: (\d{1,12})\s*$"
_WARNING = r"(?<!=)={2,12}(?:\d{1,10}={2,12})? Warning: (?:(?P<count>\d{1,12}) )?(?P<text>[A-Z a-z][^./\n]{0,300})"
_LANDMARK = rf"^{_IDLE}|{_HEADER}|^\s*={{2,}}\d*={{2,}}|={{2,}}\d+={{2,}} |{_DEVICE}|{_CPU_FAULTS}"
_UNITS = {"", "%", "ns", "us", "ms", "s", "B", "KB", "MB", "GB", "TB", "B/s", "KB/s", "MB/s", "GB/s", "TB/s"}
_TITLE = r"\S+(?: \S+)*"
_TYPE = r"[A-Z][A-Za-z]+(?: [A-Za-z()]+)*"
_KNOWN_TYPES = "GPU activities|API calls"  # of rows in which someone left out the colon
_MEASURES = ("Time(%)", "Time", "Avg", "Min", "Max")  # a summary's columns with a unit
_TYPE_ALONE = rf"^\s*{_TYPE}:\s*$"
_LONGEST_HEADER = 4000
_MOST_WARNINGS = 20
_MOST_TABLES = 300  # a log has a few per process and device: more are not nvprof's
# patterns of the first cell of every row, by the column's title
_FIRST_CELLS = {"Start": r"^[\d.,e+-]+(?:[num]?s)?$", "Time(%)": r"^[\d.,e+-]+%?$", "Count": r"^[\d,]+$"}


@dataclass(frozen=True)
class PrintedTable:
    """One table. rows: cells as text, columns by title (an untitled column of names is Name here); units: from the units row.

    section: from the banner before, "Profiling result" if there was none; process, device: from the banners, None if unknown;
    line: the line of the header, counted from 1; unreadable: numbers of its lines that are not rows; damaged: how many more,
    whose numbers are unknown; cut: numbers of its lines that say that others were cut out, as "(...)" does.
    """

    section: str
    process: int | None
    device: str | None
    line: int
    rows: pd.DataFrame
    units: dict[str, str]
    unreadable: tuple[int, ...]
    damaged: int
    cut: tuple[int, ...] = ()


@dataclass
class NvprofOutput:
    """The printed output. processes: all that nvprof says it profiled; idle: whether it says that no kernels were profiled.

    announced: whether the line that announces a result is there. warnings: nvprof's warnings, up to the end of the first
    sentence, with the number of records that they give, 0 if none. cpu_faults: page faults of the CPU, by process, None if the
    process is unknown. counters: rows of hardware metrics and events.
    """

    tables: list[PrintedTable] = field(default_factory=list)
    processes: set[int] = field(default_factory=set)
    idle: bool = False
    announced: bool = False
    warnings: dict[str, int] = field(default_factory=dict)
    cpu_faults: dict[int | None, int] = field(default_factory=dict)
    counters: int = 0


@dataclass(frozen=True)
class _PrintedPlace:
    """What identifies a table: the banners before it, its header and its units."""

    section: str = "Profiling result"
    process: int | None = None
    device: str | None = None
    header: str = ""
    units: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Block:
    """The lines of a table: its header, its first row, and the line after its last row."""

    header: int
    first: int
    end: int


def read(path: Path | str) -> NvprofOutput:
    """Return the tables of a log; raise EvidenceError if it cannot be read."""
    return parse(stream.table_lines(path), str(path))


def parse(lines: Sequence[str], name: str) -> NvprofOutput:
    """Return the tables among these lines; name: the file's name in messages.

    Tables of one section, process and device with the same header and units are merged: nvprof prints one for every NVTX range.
    """
    result = pc.match_substring_regex(stream.strings_of(lines), pattern=_LANDMARK)
    marks = np.asarray(pc.indices_nonzero(result)).tolist()
    output, place = NvprofOutput(), _PrintedPlace()
    blocks: dict[_PrintedPlace, list[_Block]] = {}
    for position, index in enumerate(marks):
        line = lines[index].rstrip("\r")
        if match := re.search(_PROFILED, line):
            output.processes.add(_number(match[2]))
        elif match := re.search(_BANNER, line):
            section = _OTHER_NAMES.get(match["section"], match["section"])
            place = _PrintedPlace(section, _number(match["process"]) if match["process"] else None)
            output.announced |= section in ("Profiling result", "API calls")
            output.counters += _counters(section, lines, index + 1)
        elif match := re.match(_DEVICE, line):
            place = _PrintedPlace(place.section, place.process, match["device"])
        elif match := re.search(_WARNING, line):
            _warn(output, match)
        elif match := re.match(_CPU_FAULTS, line):
            output.cpu_faults[place.process] = int(match[1])
        elif line.startswith(_IDLE):
            output.idle = True
        elif titles := header_of(line):
            end = marks[position + 1] if position + 1 < len(marks) else len(lines)
            units = _units(line, lines[index + 1].rstrip("\r"), titles) if index + 1 < end else {}
            block = _Block(index, index + 1 + bool(units), end)
            blocks.setdefault(replace(place, header=line.strip(), units=tuple(units.items())), []).append(block)
    blocks = blocks or _untitled(lines)
    if len(blocks) > _MOST_TABLES:
        raise EvidenceError(f"{name}: {len(blocks)} different tables, more than {_MOST_TABLES}; split the file")
    for place, parts in blocks.items():
        try:
            output.tables.append(_table(lines, parts, place))
        except pa.ArrowInvalid as error:
            reason = str(error).splitlines()[0] if str(error) else "no CSV"
            raise EvidenceError(f"{name}, line {parts[0].header + 1}: table cannot be read ({reason}); print it again") from error
    output.processes |= {table.process for table in output.tables if table.process is not None}
    return output


def _untitled(lines: Sequence[str]) -> dict[_PrintedPlace, list[_Block]]:
    """Return rows of summaries in a text without any titles: tables end at the next such row with other columns."""
    found = np.asarray(pc.indices_nonzero(pc.match_substring_regex(stream.strings_of(lines), pattern=untitled.ANY))).tolist()
    headers = [(index, header) for index in found if (header := untitled.titles(lines[index]))]
    starts = [one for place, one in enumerate(headers) if not place or one[1] != headers[place - 1][1]]
    result: dict[_PrintedPlace, list[_Block]] = {}
    for place, (index, header) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(lines)
        result.setdefault(_PrintedPlace(header=header), []).append(_Block(index, index, end))
    return result


def _counters(section: str, lines: Sequence[str], first: int) -> int:
    """Return the number of rows of metrics or events, which begin with a number of invocations, before the next message."""
    if section not in _COUNTERS:
        return 0
    end = next((number for number in range(first, len(lines)) if lines[number].lstrip().startswith("==")), len(lines))
    return sum(re.match(_COUNTER, lines[number]) is not None for number in range(first, end))


def header_of(line: str) -> list[str]:
    """Return the column titles if the line is the header of one of nvprof's tables, else none."""
    if len(line) > _LONGEST_HEADER or not re.match(_HEADER, line):
        return []
    titles = text_tables.cells(line) if "," in line else re.findall(_TITLE, line)
    titles = [title.rstrip("*") for title in titles]
    if titles and titles[-1] == "" and "Count" in titles:
        titles[-1] = "Name"
    usual = "Name" in titles and len(set(titles)) == len(titles)
    return titles if usual else []


def _warn(output: NvprofOutput, match: re.Match[str]) -> None:
    """Add a warning, with the sum of the numbers if several processes got it."""
    text = match["text"].strip()
    if text in output.warnings or len(output.warnings) < _MOST_WARNINGS:
        output.warnings[text] = output.warnings.get(text, 0) + int(match["count"] or 0)


def _number(digits: str) -> int:
    """Return a process id, at most ten digits: no system has longer ones."""
    return int(digits[:10])


def _table(lines: Sequence[str], blocks: list[_Block], place: _PrintedPlace) -> PrintedTable:
    titles, units = header_of(place.header), dict(place.units)
    rows_of = _csv_rows if "," in place.header else _text_rows
    inside: list[str] = []
    after: list[str] = []
    for block in blocks:
        body = [line.rstrip("\r") for line in lines[block.first : block.end]]
        stop = next((number for number, line in enumerate(body) if re.fullmatch(_END, line)), len(body))
        inside += body[:stop]
        after += [line for line in body[stop:] if line.strip()]
    table, unread = rows_of(inside, titles)
    # a program's output may have split the table with an empty line: later lines count if they have the shape of a row
    if after:
        table = pd.concat([table, rows_of(after, titles)[0]], ignore_index=True)
    if "Type" in table:
        table["Type"] = table["Type"].str.rstrip(":").ffill()
    left = Counter(text for text in unread if not _is_remark(text))
    unreadable: list[int] = []
    cut: list[int] = []
    for number in (number for block in blocks for number in range(block.first, block.end)) if left else ():
        text = lines[number].rstrip("\r")
        if left[text]:
            left[text] -= 1
            (cut if unlisted.is_cut(text) else unreadable).append(number + 1)
    damaged = sum(left.values())  # rows with an invalid first cell, of which only the last cell is known
    header = blocks[0].header + 1
    return PrintedTable(place.section, place.process, place.device, header, table, units, tuple(unreadable), damaged, tuple(cut))


def _units(header: str, line: str, titles: list[str]) -> dict[str, str]:
    """Return the columns' units if the line under a header is a row of units, else nothing."""
    if "," in header:
        cells = text_tables.cells(line)
        if len(cells) != len(titles) or not set(cells) <= _UNITS or not any(cells):
            return {}
        return {title: unit for title, unit in zip(titles, cells, strict=True) if unit}
    result = list(re.finditer(r"\S+", line))
    if not result or not {match[0] for match in result} <= _UNITS:
        return {}
    measures = [title for title in titles if title in _MEASURES]
    if result[0][0] == "%" and measures[:1] == ["Time(%)"] and len(result) == len(measures):
        return {title: match[0] for title, match in zip(measures, result, strict=True)}  # whatever someone did to its spaces
    ends = [match.end() for match in re.finditer(_TITLE, header)]  # values are right-aligned under titles
    return {titles[int(np.abs(np.array(ends) - match.end()).argmin())]: match[0] for match in result}


def _csv_rows(lines: list[str], titles: list[str]) -> tuple[pd.DataFrame, list[str]]:
    table, unread = text_tables.delimited(lines, len(titles), titles.index("Name"))
    table.columns = pd.Index(titles)
    return _checked(table, unread, titles)


def _text_rows(lines: list[str], titles: list[str]) -> tuple[pd.DataFrame, list[str]]:
    lines = markdown.without_marks(stream.strings_of(lines)).to_pylist()
    if titles[0] != "Type":
        table, unread = text_tables.spaced(lines, len(titles))
        table.columns = pd.Index(titles)
        return _checked(table, unread, titles)
    # the type is only in the first row of each kind: it is moved before the name, which may hold any text
    typed = rf"(?:({_TYPE}):|({_KNOWN_TYPES}))?(\s+[\d.]+%?\s)|({_KNOWN_TYPES}):?(\s+\S+\s)"  # the latter: a damaged share
    typed_row = rf"^\s*(?:{typed})(\s*(?:\S+\s+){{{len(titles) - 3}}})(.*)$"
    strings = stream.strings_of(_with_types(lines))
    moved = pc.replace_substring_regex(strings, pattern=typed_row, replacement=r"\3\5\6\1\2\4: \7").to_pylist()
    table, unread = text_tables.spaced([str(line) for line in moved], len(titles) - 1)
    table.columns = pd.Index(titles[1:])
    found = table["Name"].str.extract(rf"^(?P<Type>{_TYPE}|): (?P<Name>.*)$")
    table["Name"] = found["Name"]
    table.insert(0, "Type", found["Type"].where(found["Type"] != "", None).ffill())  # even of a row that is not used
    return _checked(table, unread, titles)


def _with_types(lines: list[str]) -> list[str]:
    """Return the lines with each type on a line of its own, as where someone broke a row, joined to the next row."""
    alone = pc.match_substring_regex(stream.strings_of(lines), pattern=_TYPE_ALONE)
    places = np.asarray(pc.indices_nonzero(alone)).tolist()
    if not places:
        return lines
    result = list(lines)
    for place in reversed(places):
        result[place : place + 2] = [f" {' '.join(result[place].split())} {line}" for line in result[place + 1 : place + 2]]
    return result


def _checked(table: pd.DataFrame, unread: list[str], titles: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows with a valid first cell, and the other lines."""
    first = next((title for title in titles if title in _FIRST_CELLS), None)
    if first is None or not len(table):
        return table, unread
    good = table[first].str.match(_FIRST_CELLS[first]).fillna(False).astype(bool)
    if first == "Count":
        good |= table[first].isna()  # page faults have no count in CSV
    unread = unread + list(table.loc[~good].iloc[:, -1].fillna("").astype("str"))
    return table[good].reset_index(drop=True), unread


def _is_remark(line: str) -> bool:
    """Return whether a line is one of nvprof's remarks, which are not rows: legends, totals of faults, empty results."""
    return bool(re.match(r"\s*(?:No \w+(?: \w+)? were|Total CPU|Total remote|\w+: [A-Z][a-z]+ |This can happen)", line))
