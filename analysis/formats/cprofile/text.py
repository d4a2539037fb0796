"""Statistics that pstats prints of cProfile's or profile's result: how long each Python function ran.

    8362 function calls (2 primitive calls) in 0.906 seconds

       ncalls  tottime  percall  cumtime  percall filename:lineno(function)
       8361/1    0.906    0.000    0.906    0.006 /home/me/run.py:2(f)

A function's own time (tottime) excludes the functions that it calls: these times add up to the whole in the first line. Its
cumulative time includes them. Own times become rows of the host's work, cumulative ones the totals of ranges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed, unlisted
from kernelscope.analysis.trace import UNLISTED, Trace, conform

_WHOLE = r"^\s*(?P<calls>\d+) function calls?(?: \(\d+ primitive calls?\))? in (?P<seconds>\d+\.\d+) (?:CPU )?seconds\s*$"
_REDUCED = r"^\s*List reduced from (?P<all>\d{1,9}) to \d{1,9} due to restriction\b"
_TITLES = r"^\s*ncalls\s+tottime\s+percall\s+cumtime\s+percall\s+filename:lineno\(function\)\s*$"
_ROW = (
    r"^\s*(?P<calls>\d{1,18})(?:/\d{1,18})?\s+(?P<own>\d{1,9}\.\d{1,9})\s+\d+\.\d+\s+(?P<cumulative>\d{1,9}\.\d{1,9})\s+\d+\.\d+"
    r"\s+(?P<function>\S.*?)\s*$"
)
_PLACE = r"^(?P<file>.*):(?P<line>\d{1,9})\((?P<function>.*)\)$"
_BUILT_IN = r"^\{(?:built-in )?(?:method |function )?(?P<function>.*?)\}$"
# What is left out of a path: up to installed packages, to Python's own library, or else to a file's folder
_OUTSIDE = (r"^.*/(?:site|dist)-packages/", r"^.*/[Pp]ython\d[\d.]*/(?:[Ll]ib/)?", r"^.*/(?=[^/]+/[^/]+$)")
_MOST_TABLES = 300  # nobody looks at more
_SIGN = re.compile(f"{_WHOLE}|{_TITLES}", re.MULTILINE)


def matches(head: Head) -> bool:
    """Return whether the text has the first line or the titles of pstats' tables."""
    return head.is_text and any(_SIGN.match(line) for line in head.tables_text.splitlines() if len(line) < 200)


@dataclass(frozen=True)
class _Table:
    """One printed table. line: of its titles, counted from 1. whole_ns: the time of the whole, None if it is not printed.

    functions: how many there are, printed or not; None if that is not printed.
    """

    line: int
    rows: pd.DataFrame
    whole_ns: int | None
    calls: str | None
    unread: int
    functions: int | None = None


def read(path: Path) -> Trace:
    """Return functions with their own time; raise EvidenceError if no table has rows."""
    tables = _tables(stream.table_lines(path))
    if not tables:
        raise EvidenceError(f"{path}: no table of pstats with a function; print one with pstats.Stats(...).print_stats()")
    first = tables[0]
    alike = [first, *(one for one in tables[1:] if one.calls and (one.whole_ns, one.calls) == (first.whole_ns, first.calls))]
    table = max(alike, key=lambda one: int(one.rows["own"].sum()))
    result = Trace(
        info={
            "source": {"format": "cprofile", "tool": "cProfile", "version": None, "schema": None},
            "clock": "none",
            "devices": [],
            "unavailable": {
                "times": "cProfile keeps totals only",
                "lines": "cProfile times whole functions; line_profiler times their lines",
                "layers": "cProfile knows functions of Python, no layers",
            },
            "counted": "functions",
        }
    )
    remarks = printed.Remarks(result)
    for other in tables:
        if other is not table:
            same = "the same profile" if other in alike else "another profile, which is not read; split the file"
            remarks.note(f"the table of line {other.line} shows {same}, not counted again with that of line {table.line}")
    remarks.count("lines of tables that are no rows", table.unread)
    remarks.note("times are printed to 1 ms; cProfile's own cost per call is included, and functions that call often pay most")
    _fill(result, table, remarks)
    return result


def _tables(lines: Sequence[str]) -> list[_Table]:
    """Return the tables with rows, in order; raise EvidenceError if there are too many."""
    strings = stream.strings_of([line if len(line) < 200 else "" for line in lines])
    titles = np.flatnonzero(stream.starts_with(strings, _TITLES))
    if len(titles) > _MOST_TABLES:
        raise EvidenceError(f"{len(titles):,} tables of pstats, more than {_MOST_TABLES}; split the file")
    wholes, reduced = (stream.extract(strings, pattern).dropna() for pattern in (_WHOLE, _REDUCED))
    result = []
    for number, at in enumerate(titles.tolist()):
        end = int(titles[number + 1]) if number + 1 < len(titles) else len(lines)
        stop = next((place for place in range(at + 1, end) if not lines[place].strip()), end)
        begin = int(titles[number - 1]) if number else -1
        above, counted = (one[(one.index > begin) & (one.index < at)] for one in (wholes, reduced))
        whole = text_tables.nanoseconds(above["seconds"].iloc[-1:], "s").dropna()
        rows, unread = _rows(lines[at + 1 : stop])
        if len(rows):
            calls = next(iter(above["calls"].iloc[-1:]), None)
            functions = max(map(int, counted["all"]), default=None)  # the first of several restrictions
            result.append(_Table(at + 1, rows, int(whole.iloc[0]) if len(whole) else None, calls, unread, functions))
    return result


def _rows(lines: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """Return function, count, own and cumulative (ns) and the rounding of times (ns) of each row, and how many are no rows."""
    rows = stream.extract(stream.strings_of(lines), _ROW)
    good = rows.dropna().reset_index(drop=True)
    good = good.assign(
        count=text_tables.counts(good["calls"]), own=text_tables.nanoseconds(good["own"], "s"),
        cumulative=text_tables.nanoseconds(good["cumulative"], "s"), step=text_tables.resolution(good["own"], "s"),
    )  # fmt: skip
    good = good[(good["count"] > 0).fillna(False).to_numpy(bool)].dropna().reset_index(drop=True)
    dots = sum(map(unlisted.is_cut, lines))
    return good, len(rows) - len(good) - dots


def _fill(result: Trace, table: _Table, remarks: printed.Remarks) -> None:
    """Add the functions' own times and the rest of the whole as host work, and the cumulative times as ranges."""
    rows = table.rows.assign(name=_names(table.rows["function"]))
    result.totals = conform(
        "totals",
        pd.DataFrame({"table": "ranges", "name": rows["name"], "count": rows["count"], "duration_ns": rows["cumulative"]}),
    )
    work = rows[(rows["own"] > 0).to_numpy(bool)]
    parts = [pd.DataFrame({"name": work["name"], "count": work["count"], "duration_ns": work["own"]})]
    whole_ns = _whole(table, remarks) or 0
    rest = whole_ns - int(work["own"].sum())
    step = int(rows["step"].max())
    if 2 * rest > step * (len(rows) + 1):
        parts.append(pd.DataFrame({"name": [UNLISTED], "count": [0], "duration_ns": [rest]}))
        remarks.note(
            f"the rows are {1 - rest / whole_ns:.1%} of the time: functions that were not printed took "
            f"{rest / 1e9:,.3f} of {whole_ns / 1e9:,.3f} s"
        )
    kernels = pd.concat(parts, ignore_index=True).assign(device="cpu", kind="unknown", attribution="none")
    result.kernels = conform("kernels", kernels)
    if result.kernels.empty:
        result.info["unavailable"]["kernels"] = "every printed function took less than half of what is printed"


def _whole(table: _Table, remarks: printed.Remarks) -> int | None:
    """Return the time of the whole: the printed one, or the largest cumulative time if that is larger; None if none tells it.

    A cumulative time tells the whole if it includes other functions and is no less than all own times together.
    """
    rows = table.rows
    place = int(rows["cumulative"].to_numpy(dtype=np.int64).argmax())
    longest, itself, own = int(rows["cumulative"].iloc[place]), int(rows["own"].iloc[place]), int(rows["own"].sum())
    rounding = int(rows["step"].max()) * (len(rows) + 1) // 2
    if table.whole_ns is not None and longest <= table.whole_ns + rounding:
        return table.whole_ns
    if table.whole_ns is not None or (longest > itself and longest + rounding >= own):
        name = _names(rows["function"]).iloc[place]
        printed_ns = None if table.whole_ns is None else f"{table.whole_ns / 1e9:,.3f} s"
        missing = "no time of the whole is printed" if printed_ns is None else f"the printed time of the whole is {printed_ns}"
        remarks.note(
            f"{missing} above line {table.line}: the largest cumulative time counts as the whole, {longest / 1e9:,.3f} s of "
            f"{name} with what it calls; what ran outside of it is unknown"
        )
        return max(longest, own)
    lacks = table.functions - len(rows) if table.functions else 0
    which = f"{lacks:,} of {table.functions:,} functions were not printed" if lacks > 0 else "the rows may be a part of it"
    remarks.note(f"neither a line above line {table.line} nor a cumulative time tells the time of the whole: {which}")
    return None


def _names(functions: pd.Series) -> pd.Series:
    """Return names that two profiles share although their programs lie in different folders and lines moved.

    A function is named with its file, from an installed package on, and with its line only if the file has several of that name.
    """
    parts = stream.extract(stream.strings_of(functions), _PLACE)
    file = whole = parts["file"].str.replace("\\", "/", regex=False)
    for pattern in _OUTSIDE:
        file = file.where(file != whole, whole.str.replace(pattern, "", regex=True))
    plain = (file + ": " + parts["function"]).where(file != "", parts["function"])  # Python 2 prints :0(dot) of built-in ones
    again = plain.duplicated(keep=False) & plain.notna()
    plain = plain.where(~again, plain + " at line " + parts["line"])
    built_in = functions.astype("string").str.replace(_BUILT_IN, r"\g<function>", regex=True).str.replace("'", "")
    return plain.fillna(built_in)
