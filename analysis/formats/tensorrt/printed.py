"""Layers as TensorRT's tools print them, among other output.

trtexec --dumpProfile, whose columns changed over the years (the median since TensorRT 8.2, the layer last since 8.6):

    === Profile (50 iterations ) ===
      Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %
       conv       12.50           0.2500             0.2510     60.0
      Total       20.83           0.4166             0.4180    100.0

The profilers of the samples and of the many programs that copied them print the executions of each layer below
"========== NAME profile ==========", or, before TensorRT 5, only the mean above the line "Time over all layers".
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.tensorrt import log
from kernelscope.analysis.formats.tensorrt.layers import Profile, of_one_run, trace_of
from kernelscope.analysis.trace import Trace

_TITLES = (
    r"[ \t]*Layer +Time \(ms\) +Avg\. Time \(ms\)(?P<median> +Median Time \(ms\))? +Time(?: *%)?[ \t\r]*",
    r"[ \t]*Time ?\(ms\) +Avg\. ?\(ms\)(?P<last> +Median ?\(ms\))? +Time ?\(%\) +Layer[ \t\r]*",
    r"[ \t]*TensorRT layer name +Runtime, ?% +Invocations +Runtime, ?ms[ \t\r]*",
)
_HEADER = re.compile("|".join(f"(?:{titles})" for titles in _TITLES))
_ANY_HEADER = re.compile(f"^(?:{'|'.join(re.sub('[?]P<[a-z]+>', '?:', titles) for titles in _TITLES)})$", re.MULTILINE)
_SUM = re.compile(r"[ \t]*Time over all layers: *(?P<whole>\d+\.\d{3})(?:ms)?\b.*")
_ANY_SUM = re.compile(rf"^{_SUM.pattern.replace('?P<whole>', '')}$", re.MULTILINE)
_ITERATIONS = re.compile(r"=== .{0,200}?\bProfile \((\d{1,18}) iterations ?\) ===")
_TOTAL_RUNTIME = re.compile(r"=+ .* total runtime = ([\d.e+-]{1,40}) ms =+\s*")
_ABOVE, _BELOW = 3, 4  # lines above the titles that may have the iterations, and below the rows that may have the total
_NUMBER = r"\d+(?:\.\d*)?(?:e[+-]?\d+)?|-?nan|inf"
_MEAN_ROW = r"^(?P<name>.*?\S)\s+(?P<average>\d+\.\d{3})ms(?:\(.*\))?\s*$"
_CUT_NAME = 40  # characters of a name that the first profilers print
_WRAPPED = re.compile(r"[\s%\d.]{0,40}")  # an empty line, or what is left of one that a terminal wrapped
_RULE = re.compile(r"\s*[-=_]{8,}\s*")  # a line below the titles
_SHOWN = 8  # lines of tables that a message names


@dataclass(frozen=True)
class _Table:
    """A table: its profile, the line of its titles, or of its sum if it has none, counted from 1, and whether it is trtexec's."""

    profile: Profile
    line: int
    by_trtexec: bool = False


def matches(head: Head) -> bool:
    """Return whether the text has titles, or a sum, of one of the tables."""
    if not head.is_text or not any(sign in head.tables_text for sign in ("Layer", "layer name", "all layers")):
        return False
    text = log.PREFIX.sub("", head.tables_text)
    return _ANY_HEADER.search(text) is not None or _ANY_SUM.search(text) is not None


def read(path: Path) -> Trace:
    """Return the mean iteration; raise EvidenceError if no row has a usable time, or the file has several profiles."""
    text = log.PREFIX.sub("", "\n".join(stream.table_lines(path)))
    lines = text.split("\n")
    found = _tables(lines)
    tables = [table for table in found if len(table.profile.cells)]
    if not tables:
        place = f", line {found[0].line}" if found else ""
        raise EvidenceError(f"{path}{place}: no layer below the titles; run trtexec with --dumpProfile --separateProfileRun")
    first = tables[0]
    again = [table for table in tables[1:] if table.profile.cells.equals(first.profile.cells)]
    if len(tables) > 1 and not again and (joined := _joined(tables)) is not None:
        first, tables = joined, [joined]
    if len(again) + 1 < len(tables):
        places = ", ".join(str(table.line) for table in tables[:_SHOWN])
        raise EvidenceError(f"{path}: {len(tables)} different profiles (lines {places}); put each into a file of its own")
    if again:
        first.profile.left_out["profiles written twice"] = len(again)
    first.profile.place = f", line {first.line}"
    tool = {} if first.by_trtexec else {"tool": "IProfiler"}
    return trace_of(path, "tensorrt-table", first.profile, log.facts(text) | tool)


def _tables(lines: list[str]) -> list[_Table]:
    """Return all tables."""
    titles = [number for number, line in enumerate(lines) if ("ms)" in line or "Runtime" in line) and _HEADER.fullmatch(line)]
    bounds = [*titles, len(lines)]
    result = [_below(lines, start, end) for start, end in itertools.pairwise(bounds)]
    sums = [number for number, line in enumerate(lines) if "all layers" in line and _SUM.fullmatch(line)]
    return result + [_above(lines, number) for number in sums]


def _joined(tables: list[_Table]) -> _Table | None:
    """Return the table of which these are excerpts; None if they may be different profiles.

    Excerpts have no total and no iterations above them, different layers, and the same number of iterations and total by their
    averages and percentages.
    """
    cells = [table.profile.cells for table in tables]
    whole = pd.concat(cells, ignore_index=True)
    stated = any(table.profile.whole or table.profile.iterations or table.profile.calls is not None for table in tables)
    if (
        stated
        or whole["name"].duplicated().any()
        or len({tuple(sorted(map(str, one))) for one in cells}) > 1
        or not of_one_run(whole)
    ):
        return None
    left_out = Counter[str]()
    for table in tables:
        left_out.update(table.profile.left_out)
    profile = Profile(whole, left_out=dict(left_out), excerpts=len(tables))
    return _Table(profile, tables[0].line, tables[0].by_trtexec)


def _row(header: re.Match[str]) -> str:
    """Return the pattern of rows below these titles."""
    cells = ["total", "average", *(["median"] if header["median"] or header["last"] else []), "share"]
    numbers = r"\s+".join(rf"(?P<{cell}>{_NUMBER})" for cell in cells)
    if "Layer" not in header[0]:
        return rf"^\s*(?P<name>.*\S)\s+(?P<share>{_NUMBER})%\s+(?P<calls>\d+)\s+(?P<total>{_NUMBER})\s*$"
    if header[0].lstrip().startswith("Layer"):
        return rf"^\s*(?P<name>.*\S)\s+{numbers}\s*$"
    return rf"^\s*{numbers}\s+(?P<name>\S.*?)\s*$"


def _below(lines: list[str], start: int, end: int) -> _Table:
    """Return the table whose titles are in a line: up to its total, or else to the first line that is no row."""
    header = _HEADER.fullmatch(lines[start])
    assert header is not None  # the caller found it
    first = start + 1 + (start + 1 < end and _RULE.fullmatch(lines[start + 1]) is not None)
    texts = lines[first:end]
    cells = stream.extract(stream.strings_of(texts), _row(header))
    sums = np.flatnonzero((cells["name"] == "Total").fillna(False).to_numpy(dtype=bool))
    others = np.flatnonzero(cells["name"].isna().to_numpy(dtype=bool))
    if len(sums):
        last, whole = int(sums[0]), str(cells["total"].iloc[int(sums[0])])
    else:
        last, whole = next((int(number) for number in others if not unlisted.is_cut(texts[number])), len(texts)), None
    odd = [texts[number] for number in others[others < last]]
    rows = cells.iloc[:last].dropna(subset=["name"]).reset_index(drop=True)
    profile = Profile(rows, _iterations(lines, start), whole)
    if unread := sum(not (_WRAPPED.fullmatch(line) or unlisted.is_cut(line)) for line in odd):
        profile.left_out["lines of tables that are no rows"] = unread
    if "calls" in rows:
        _count_calls(profile, rows, texts[last : last + _BELOW])
    return _Table(profile, start + 1, "Invocations" not in header[0])


def _iterations(lines: list[str], start: int) -> int | None:
    """Return the number of iterations that a line above the titles states."""
    found = (_ITERATIONS.search(line) for line in lines[max(start - _ABOVE, 0) : start])
    return next((int(match[1]) for match in found if match), None)


def _count_calls(profile: Profile, rows: pd.DataFrame, below: list[str]) -> None:
    """Take the executions of each layer for the iterations if all are the same, and the total from the line below the rows."""
    calls = text_tables.counts(rows["calls"])
    if calls.nunique() == 1 and calls.notna().all():
        profile.iterations = int(calls.iloc[0])
    else:
        profile.calls = calls.fillna(1)
    profile.whole = next((match[1] for line in below if (match := _TOTAL_RUNTIME.fullmatch(line.strip()))), None)


def _above(lines: list[str], end: int) -> _Table:
    """Return the means that are printed above their sum, in the lines that are rows without a gap."""
    cells = stream.extract(stream.strings_of(lines[:end]), _MEAN_ROW)
    others = np.flatnonzero(cells["name"].isna().to_numpy(dtype=bool))
    rows = cells.iloc[int(others[-1]) + 1 if len(others) else 0 :].reset_index(drop=True)
    match = _SUM.fullmatch(lines[end])
    profile = Profile(rows, None, match["whole"] if match else None)
    cut = int((rows["name"].str.len() == _CUT_NAME).sum())
    if cut:
        profile.left_out["names cut short by the tool"] = cut
    return _Table(profile, end + 1)
