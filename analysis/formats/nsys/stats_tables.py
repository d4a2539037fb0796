"""Tables that `nsys stats` (and `nsys profile --stats=true`) prints, alone or among other output.

Formats column, table, csv and tsv, of every version from 2019 to 2026. Tables are introduced in different ways:

    Processing [a.sqlite] with [.../2024.6.2/.../reports/cuda_gpu_kern_sum.py](nvtx-name:base)...    since 2021
     ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):                                                 since 2022
    [5/8] Executing 'gpukernsum' stats report                                                        profile --stats=true
    CUDA Kernel Statistics:                                                                          2020, 2021
    CUDA Kernel Statistics (nanoseconds)                                                             2019, 2020

and a CSV file that nsys wrote itself (`-o`) holds only the table. Tables that people quote often lack the introduction, or are
Markdown. Reports were renamed in 2023.1; StatsTable has the new names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import markdown, stream, text_tables
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.nsys import local_numbers

# reports whose names changed in 2023.1
_NEW_NAMES = {
    "cudaapisum": "cuda_api_sum", "cudaapitrace": "cuda_api_trace", "gputrace": "cuda_gpu_trace",
    "gpukernsum": "cuda_gpu_kern_sum", "gpukerngbsum": "cuda_gpu_kern_gb_sum", "gpusum": "cuda_gpu_sum",
    "gpumemtimesum": "cuda_gpu_mem_time_sum", "gpumemsizesum": "cuda_gpu_mem_size_sum", "apigpusum": "cuda_api_gpu_sum",
    "kernexecsum": "cuda_kern_exec_sum", "kernexectrace": "cuda_kern_exec_trace", "osrtsum": "osrt_sum",
    "nvtxsum": "nvtx_sum", "nvtxppsum": "nvtx_pushpop_sum", "nvtxpptrace": "nvtx_pushpop_trace", "nvtxsesum": "nvtx_startend_sum",
    "nvtxsssum": "nvtx_startend_sum", "nvtxkernsum": "nvtx_kern_sum", "nvtxgpuproj": "nvtx_gpu_proj_trace",
    "openaccsum": "openacc_sum", "openmpevtsum": "openmp_sum", "vulkanapisum": "vulkan_api_sum",
}  # fmt: skip
# titles of 2019 to 2021, mostly without the text in brackets
_OLD_TITLES = {
    "CUDA API Statistics": "cuda_api_sum",
    "CUDA Kernel Statistics": "cuda_gpu_kern_sum",
    "CUDA Memory Operation Statistics (by time)": "cuda_gpu_mem_time_sum",
    "CUDA Memory Operation Statistics (nanoseconds)": "cuda_gpu_mem_time_sum",
    "CUDA Memory Operation Statistics": "cuda_gpu_mem_size_sum",
    "Operating System Runtime API Statistics": "osrt_sum",
    "NVTX Push-Pop Range Statistics": "nvtx_pushpop_sum",
    "NVTX Start-End Range Statistics": "nvtx_startend_sum",
    "NVTX Range Statistics": "nvtx_sum",
}

_CELL = r'"?[A-Za-z][A-Za-z0-9 /()%._-]*"?'
_FIRST_CELL = r'"?(?:Time ?\(%\)|Start|Total|Name|NVTX Range|Range|PID|API Start)[A-Za-z0-9 /()%._-]*"?'
_CSV_HEADER = rf"{_FIRST_CELL}(?:[,\t]{_CELL}){{2,}}\s*"
_RULE = r"\s*-{2,}(?:\s+-{2,})+\s*"  # below the header of a table in columns
_LANDMARK = (
    r"^(?:Processing \[.*|SKIPPED: .*|\s*\*\* .*\(.*\):?\s*|\s*\[\d+/\d+\] Executing '.*"
    rf"|[A-Z][A-Za-z -]* Statistics(?: \([^)]*\))?:?\s*|[\s|]*-{{2,}}[\s-]*|\+-[-+]+\+\s*"
    rf"|[\[{{]\s*|<!DOCTYPE html>|<table>|\s*```.*|{markdown.PIPES}|{_CSV_HEADER})$"
)
_PROCESSING = re.compile(r"Processing \[(?P<input>[^\]]*)\] with \[(?P<script>[^\]]*)\](?:\((?P<options>[^)]*)\))?\s*\.\.\.")
_HEADING = re.compile(r"\s*\*\* .* \((?P<report>\w+)(?:[^\w()][^()]*)?\):?\s*$")
_EXECUTING = re.compile(r"\s*\[\d+/\d+\] Executing '(?P<report>\w+)[^']*' stats report")
_STATISTICS = re.compile(r"\s*(?P<title>[A-Z][A-Za-z -]* Statistics)(?: \((?P<unit>[^)]*)\))?:?\s*$")
_VERSION = re.compile(r"/(\d{4}\.\d+\.\d+)(?:\.\d+)?/")
_TITLE = re.compile(r"(?P<title>[^()]*[^()\s])\s*\((?P<unit>[^()]*)\)$")
# a CSV header must have one of these columns, which other lines of words and commas do not
_KNOWN_TITLES = {"Total Time", "Total", "Start", "Projected Start", "API Start", "Total Range Time", "TAvg"}
_FREE = ("Kernel Name", "Name", "Operation", "Range")  # the column of names, which may contain any text
_MOST_COLUMNS = 100  # the widest report has 27
_MOST_TABLES = 300  # nsys has some 60 reports
_LONGEST_HEADER = 4000
_MEASURES = ("Total Time", "Total", "Avg", "Min", "Max")  # columns to which the unit in an old title applies
_SIZES = ("Bytes", "StcSMem", "DymSMem")  # 2020.4, which writes Start(sec), has them in bytes without saying so
_OTHER_FORMATS = re.compile(r"^\s*(?:\[|\{|<!DOCTYPE html>|<table>)\s*$")


@dataclass(frozen=True)
class StatsTable:
    """One table. rows: cells as text, columns by their titles without units; units: by column, where the title names one.

    report: the report's name since 2023, None if the file does not say. input: the file from which the report was made, as
    printed. options: the report's options, such as "nvtx-name:base". line: the line of the header, counted from 1. unreadable:
    lines of the table that are not rows; cut: further lines that say that rows were cut out, as "(...)" does. foreign: whether
    no line is a row, and their numbers seem to be in a locale's format.
    """

    report: str | None
    input: str | None
    options: str
    line: int
    rows: pd.DataFrame
    units: dict[str, str]
    unreadable: int
    cut: int = 0
    foreign: bool = False


@dataclass
class StatsOutput:
    """The printed output. version: of nsys, such as 2024.6.2; skipped: reports without data, and the reason as printed."""

    tables: list[StatsTable] = field(default_factory=list)
    version: str | None = None
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Start:
    """The start of a table: the lines of its header and first row, and how to split rows: at spans, or at ",", tab or "|"."""

    header: int
    first: int
    cut: list[tuple[int, int]] | str


@dataclass
class _StatsPlace:
    """The description of the next table, as far as the lines read so far give it."""

    report: str | None = None
    input: str | None = None
    options: str = ""
    unit: str | None = None


def read(path: Path | str) -> StatsOutput:
    """Return the tables of a file; raise EvidenceError if it cannot be read, or holds reports in another format."""
    return parse(stream.table_lines(path), str(path))


def parse(lines: Sequence[str], name: str) -> StatsOutput:
    """Return the tables among these lines; name: the file's name in messages."""
    if any(line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]
    parts = pc.match_substring_regex(stream.strings_of(lines), pattern=_LANDMARK)
    stops = np.flatnonzero(np.asarray(parts))
    output, place, done = StatsOutput(), _StatsPlace(), -1
    for index in map(int, stops):
        line = lines[index]
        if index <= done or _introduces(line, place, output):
            continue
        if _OTHER_FORMATS.match(line) and place.report is not None:
            raise EvidenceError(f"{name}, line {index + 1}: nsys stats printed JSON or HTML; use --format csv")
        start = _start(lines, index)
        if start is None:
            continue
        later = int(np.searchsorted(stops, start.first))
        done = int(stops[later]) if later < len(stops) else len(lines)
        rows = lines[start.first : done]
        # only the border that ends a boxed table belongs to it
        done -= 0 if line.startswith("+-") else 1
        if len(output.tables) >= _MOST_TABLES:
            raise EvidenceError(f"{name}, line {index + 1}: more than {_MOST_TABLES} tables; split the file")
        try:
            output.tables.append(_table(lines[start.header], rows, start, place))
        except pa.ArrowInvalid as error:
            reason = str(error).splitlines()[0] if str(error) else "no CSV"
            raise EvidenceError(f"{name}, line {start.header + 1}: table cannot be read ({reason}); print it again") from error
        place.report, place.unit, place.options = None, None, ""
    return output


def header_of(line: str) -> list[str]:
    """Return the column titles if the line is the header of a CSV or TSV table that nsys could have written, else none."""
    if len(line) > _LONGEST_HEADER or not re.fullmatch(_CSV_HEADER, line):
        return []
    titles = text_tables.cells(line.rstrip("\r"), "\t" if "\t" in line else ",")
    known = [_split_title(title)[0] for title in titles]
    return titles if _KNOWN_TITLES & set(known) and len(set(known)) == len(known) else []


def printed_headings(lines: Sequence[str]) -> Iterator[list[tuple[str, str | None]]]:
    """Yield the titles, each with its unit, of each table in columns or Markdown that starts among these lines."""
    for index, line in enumerate(lines):
        start = _start(lines, index) if "-" in line else None
        if start is not None and start.cut not in (",", "\t"):
            yield [_split_title(title) for title in _titles(lines[start.header], start)]


def _introduces(line: str, place: _StatsPlace, output: StatsOutput) -> bool:
    """Read from a line what it says about the next table; return whether it says anything."""
    if match := _PROCESSING.match(line):
        place.report = _new_name(PurePosixPath(match["script"].replace("\\", "/")).stem)
        place.input, place.options, place.unit = match["input"], match["options"] or "", None
        version = _VERSION.search(match["script"].replace("\\", "/"))
        output.version = version[1] if version else output.version
    elif line.startswith("SKIPPED: "):
        output.skipped[place.report or "report"] = line.removeprefix("SKIPPED: ").strip()
        place.report = None
    elif match := _HEADING.match(line) or _EXECUTING.match(line):
        place.report, place.unit = _new_name(match["report"]), None
    elif match := _STATISTICS.match(line):
        titled = f"{match['title']} ({match['unit']})"
        place.report, place.unit = _OLD_TITLES.get(titled, _OLD_TITLES.get(match["title"])), _old_unit(match["unit"])
    else:
        return False
    return True


def _new_name(report: str) -> str:
    return _NEW_NAMES.get(report, report)


def _old_unit(text: str | None) -> str | None:
    """Return the unit in the brackets of a title, such as (nanoseconds), (KiB) or (by size in KiB); None if there is none."""
    unit = (text or "").rsplit(" ", 1)[-1]
    return unit if unit in text_tables.TIME_POWERS or unit.lower() in text_tables.DECIMAL_SIZES else None


def _start(lines: Sequence[str], index: int) -> _Start | None:
    """Return the start of a table if this line, as its header or a border, starts one."""
    line = lines[index]
    spans = [match.span() for match in itertools.islice(re.finditer("-+", line), _MOST_COLUMNS)]
    if len(spans) < _MOST_COLUMNS:
        if re.fullmatch(_RULE, line) and index and lines[index - 1].strip():
            return _Start(index - 1, index + 1, spans)
        if re.fullmatch(markdown.PIPES, line) and index and markdown.same_pipes(lines[index - 1], line):
            return _Start(index - 1, index + 1, "|")
        if line.startswith("+-") and [text[:1] for text in lines[index + 1 : index + 3]] == ["|", "+"]:
            return _Start(index + 1, index + 3, spans)
    if header_of(line):
        return _Start(index, index + 1, "\t" if "\t" in line else ",")
    return None


def _table(header: str, lines: Sequence[str], start: _Start, place: _StatsPlace) -> StatsTable:
    named = [_split_title(title) for title in _titles(header, start)]
    names = [title for title, _ in named]
    stop = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    table, unread, cut = _rows(lines[:stop], names, start.cut)
    # names with line ends leave an empty line behind: later lines count if they have the shape of a row
    after = [line for line in lines[stop:] if line.strip()]
    if after:
        table = pd.concat([table, _rows(after, names, start.cut)[0]], ignore_index=True)
    units = {title: unit or (place.unit if title in _MEASURES else None) for title, unit in named}
    sizes = dict.fromkeys(_SIZES, "B") if units.get("Start") == "sec" else {}
    known = sizes | {title: unit for title, unit in units.items() if unit}
    foreign = table.empty and local_numbers.are_foreign(lines)
    return StatsTable(place.report, place.input, place.options, start.header + 1, table, known, unread, cut, foreign)


def _titles(header: str, start: _Start) -> list[str]:
    """Return the titles of a header, with their units."""
    if start.cut == "|":
        return markdown.pipe_cells(header)
    return header_of(header) if isinstance(start.cut, str) else [header[first:last].strip() for first, last in start.cut]


def _rows(lines: Sequence[str], titles: list[str], cut: list[tuple[int, int]] | str) -> tuple[pd.DataFrame, int, int]:
    """Return the lines that are rows of a table, how many are not, and how many further ones say that rows were cut out."""
    if cut == "|":
        table, unread = markdown.pipe_rows(lines, len(titles))
    elif isinstance(cut, str):
        free = next((titles.index(title) for title in _FREE if title in titles), len(titles) - 1)
        table, unread = text_tables.delimited(lines, len(titles), free, cut)
    else:
        table, unread = text_tables.columns_at(lines, cut)
    table.columns = pd.Index(titles)
    table = table.loc[:, ~table.columns.duplicated()]
    if cut not in (",", "\t"):
        table = local_numbers.plain(table)
    measure = next((title for title in titles if title in _KNOWN_TITLES), None)
    if measure is not None:
        good = table[measure].str.match(r"[\d.,]+\u2026?$").fillna(False).astype(bool)
        unread += [" ".join(cell for cell in cells if cell) for cells in table[~good].fillna("").to_numpy(dtype=object)]
        table = table[good].reset_index(drop=True)
    dots = sum(map(unlisted.is_cut, unread))
    return table, len(unread) - dots, dots


def _split_title(title: str) -> tuple[str, str | None]:
    """Return a column's title and unit; titles of older versions become the newer ones."""
    match = _TITLE.match(title)
    name, unit = (match["title"], match["unit"]) if match else (title, None)
    return {"Average": "Avg", "Minimum": "Min", "Maximum": "Max"}.get(name, name), unit
