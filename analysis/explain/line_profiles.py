"""Explain the difference between two results of line_profiler: which lines of the program take longer, or execute more often.

One function stands for the whole of each side, the one with the largest total, so functions that it calls are not counted
twice. Its lines are paired by their text; without texts, by their numbers. Lines of the other functions are evidence only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.explain.device import CaptureSide
from kernelscope.analysis.explain.device.case import HOST_NOISE
from kernelscope.analysis.explain.device.labels import labels
from kernelscope.analysis.explain.model import CLOSE, SIDES
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.notebook import Shown

SCHEMA = "kernelscope/explain/1"
_LEAST = 0.02  # of the longer side: a line that differs by less is no cause
_EVIDENCE = 0.2  # of a line's difference: lines of called functions that differ by less are not named
_CHANGED = 0.6  # of two lines' characters that are the same: with fewer, one is not the other
_SAME_LOOP = 0.5  # of the time: if lines with this share execute more often by one factor, the loop ran more often
_PARTS, _CALLED, _LONGEST = 8, 3, 60
_NESTED = "the lines of {}, which includes what it calls, stand for the whole; line_profiler's own cost per line is included"
_LOOK = (
    "look at what this line calls: line_profiler shows lines of Python only; `kernelscope explain A.py B.py` records both "
    "programs and shows the kernels and waits in each line"
)
_SAME_NUMBER = "profile both over the same number of iterations, so that each line does the same work"
_MANY, _SHORT_NS = 1000, 50_000  # executions; each is so short that Python's own cost counts
_VECTORISE = (
    "one expression on whole arrays, a comprehension or a built-in function in place of the loop: an execution takes {0}, a "
    "large part of which is the interpreter's and line_profiler's own"
)
_LESS_OFTEN = "execute it less often: move it out of the loop, or process more at a time"


class _Line(NamedTuple):
    """A line of one side. number, text: None if the side lacks it, and text if the recording has none."""

    number: int | None
    text: str | None
    hits: int
    time_ns: int

    @classmethod
    def of(cls, lines: Sequence[Any], place: int, end: int) -> _Line:
        """Return the line at a place before `end`, else one that is not there."""
        if place >= end:
            return cls(None, None, 0, 0)
        return cls(int(lines[place].line), _spaced(lines[place].text), int(lines[place].hits), int(lines[place].time_ns))


_NONE = _Line(None, None, 0, 0)


def _alike(a: _Line, b: _Line) -> bool:
    """Return whether one line may be the other, changed."""
    if a.text is None or b.text is None:
        return True
    return difflib.SequenceMatcher(None, a.text, b.text, autojunk=False).ratio() >= _CHANGED


def _spaced(text: object) -> str | None:
    """Return a line's text without its indentation; None if it is unknown."""
    return " ".join(text.split()) if isinstance(text, str) else None


@dataclass(frozen=True)
class _Row:
    """A line of both sides, or of one: the function it is in, and the line in A and in B."""

    function: str
    a: _Line
    b: _Line

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The line's number in A and in B; None on a side that lacks it."""
        return self.a.number, self.b.number

    @property
    def texts(self) -> tuple[str | None, str | None]:
        """The line's text in A and in B; None on a side that lacks it, and if it is unknown."""
        return self.a.text, self.b.text

    @property
    def hits(self) -> tuple[int, int]:
        """How often the line executes in A and in B."""
        return self.a.hits, self.b.hits

    @property
    def times_ns(self) -> tuple[int, int]:
        """The line's time in A and in B, with what it calls (ns)."""
        return self.a.time_ns, self.b.time_ns

    @property
    def delta_ns(self) -> int:
        """The difference, B minus A."""
        return self.times_ns[1] - self.times_ns[0]

    @property
    def only(self) -> str | None:
        """The side that has the line; None if both do."""
        there = [side for side, number in zip(SIDES, self.numbers, strict=True) if number is not None]
        return there[0] if len(there) == 1 else None

    @property
    def replaced(self) -> bool:
        """Whether another line stands in its place on the other side."""
        return self.only is None and self.texts[0] != self.texts[1]

    @property
    def place(self) -> str:
        """Name the line: line 12, or line 12 (14 in B)."""
        a, b = self.numbers
        if a is None:
            return f"line {b} of B"
        return f"line {a} of A" if b is None else f"line {a}" + (f" ({b} in B)" if a != b else "")


def applies(a: Trace, b: Trace) -> bool:
    """Return whether both recordings hold lines and nothing else that could be compared."""
    return all(len(trace.lines) > 0 and not any(map(len, (trace.kernels, trace.copies, trace.steps))) for trace in (a, b))


def explain(a: CaptureSide, b: CaptureSide) -> dict[str, Any]:
    """Explain why B takes longer or shorter than A, like analysis.explain: rows that add up to the difference, and findings."""
    names = labels(a.path, b.path)
    roots = [_root(side.trace) for side in (a, b)]
    rows = list(_paired(*roots))
    called = [row for both in _other_functions(a.trace, b.trace) for row in _paired(*both)]
    totals = [int(root["time_ns"].sum()) for root in roots]
    same = a.path == b.path
    causes = [] if same else [(row, f"r{number}") for number, row in enumerate(rows) if _stands_out(row, max(totals))]
    causes.sort(key=lambda cause: -abs(cause[0].delta_ns))
    delta = totals[1] - totals[0]
    loop = _loop(rows)
    findings = [_finding(*cause, (delta, totals[0]), called, loop) for cause in causes]
    close = abs(delta) < CLOSE * totals[0] and not findings
    side_facts = [_side(*one) for one in zip((a, b), names, totals, strict=True)]
    return Shown(
        {
            "schema": SCHEMA, "a": side_facts[0], "b": side_facts[1],
            "wall_delta_ns": delta, "wall_interval_ns": None, "significant": False if close else None, "floor_ns": None,
            "to_resolve": "profile both again on a quiet machine, over more iterations", "instrumentation_ns": 0,
            "parts_by": "line", "parts": _parts(rows),
            "rows": [_plain(row, f"r{number}") for number, row in enumerate(rows)],
            "matches": [], "network": None, "mode": None, "batch": None,
            "differs": [] if same else _other_work(loop, totals), "differences": [],
            "missing": {key: {"steps": "line_profiler keeps totals only"} for key in SIDES},
            "notes": [_NESTED.format(" and ".join(dict.fromkeys(str(side.trace.info["lines_root"]) for side in (a, b))))],
            "abstained": _abstained(same, close), "to_find_out": None,
            "findings": findings, "unexplained_ns": delta - sum(one["explains_ns"] for one in findings),
        }
    )  # fmt: skip


def _abstained(same: bool, close: bool) -> str | None:
    if same:
        return "both sides are the same recording"
    return "the lines differ by less than two runs of one program do" if close else None


def _side(side: CaptureSide, name: str, total_ns: int) -> dict[str, Any]:
    return {
        "name": name, "path": side.path, "framework": None, "version": None, "step_ns": total_ns, "recorded_step_ns": total_ns,
        "removed_ns": 0, "restarts": None, "windows": 0, "steps": None, "basis": "lines", "coverage": 1.0, "layers": 0,
    }  # fmt: skip


def _tail(functions: pd.Series) -> pd.Series:
    """Return functions' names without their classes, which are unique in a recording."""
    return functions.astype("string").str.rpartition(".")[2]


def _root(trace: Trace) -> pd.DataFrame:
    """Return the lines of the function that stands for the whole."""
    return trace.lines[(_tail(trace.lines["function"]) == str(trace.info["lines_root"])).to_numpy(bool)]


def _other_functions(a: Trace, b: Trace) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the lines of each other function that both sides have."""
    first, second = (dict(iter(trace.lines.groupby(_tail(trace.lines["function"]), sort=False))) for trace in (a, b))
    for name in first:
        if name in second and name not in (a.info["lines_root"], b.info["lines_root"]):
            yield first[name], second[name]


def _paired(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[_Row]:
    """Pair the lines of a function in both recordings: by text, or by number if a side has no texts."""
    lines = [list(side.sort_values("line", kind="stable").itertuples(index=False)) for side in (a, b)]
    texts = [[_spaced(line.text) for line in side] for side in lines]
    known = all(text is not None for side in texts for text in side)
    keys = texts if known else [[line.line for line in side] for side in lines]
    matcher = difflib.SequenceMatcher(None, list(map(str, keys[0])), list(map(str, keys[1])), autojunk=False)
    functions = [str(side[0].function).rpartition(".")[2] if side else "" for side in lines]
    for kind, first, last, other, end in matcher.get_opcodes():
        for place in range(max(last - first, end - other)):
            mine = _Line.of(lines[0], first + place, last)
            its = _Line.of(lines[1], other + place, end)
            if kind == "replace" and not _alike(mine, its):
                yield from (_Row(functions[0], mine, _NONE), _Row(functions[1], _NONE, its))
            else:
                yield _Row(functions[mine.number is None], mine, its)


def _stands_out(row: _Row, whole_ns: int) -> bool:
    """Return whether a line's difference is larger than that of two runs of one program."""
    if abs(row.delta_ns) < _LEAST * whole_ns:
        return False
    alike = row.only is None and not row.replaced and row.hits[0] == row.hits[1]
    return not alike or abs(row.delta_ns) > HOST_NOISE * max(row.times_ns)


def _loop(rows: Sequence[_Row]) -> tuple[int, int] | None:
    """Return how often the loop ran on each side if that differs: as often as the lines that take most of the time execute."""
    sums: dict[tuple[int, int], int] = {}
    for row in rows:
        if row.only is None and min(row.hits) > 1:
            sums[row.hits] = sums.get(row.hits, 0) + max(row.times_ns)
    if not sums:
        return None
    times = max(sums, key=sums.__getitem__)
    enough = sums[times] >= _SAME_LOOP * sum(max(row.times_ns) for row in rows)
    return times if enough and times[0] != times[1] else None


def _other_work(loop: tuple[int, int] | None, totals: Sequence[int]) -> list[str]:
    """Return a sentence if the loop ran more often on one side."""
    if loop is None:
        return []
    each = [f"{duration(ns / count)} in {key.upper()}" for key, count, ns in zip(SIDES, loop, totals, strict=True)]
    return [f"the loop runs {loop[0]:,} times in A and {loop[1]:,} times in B; per iteration, all takes {' and '.join(each)}"]


def _label(row: _Row) -> str:
    """Return a line's name in tables: its number and text."""
    text = _shown(row.texts[1] if row.texts[1] is not None else row.texts[0])
    return f"{row.place}{f': {text}' if text else ''}"


def _shown(text: str | None) -> str:
    return "" if not text else text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _parts(rows: Sequence[_Row]) -> list[dict[str, Any]]:
    """Return the lines with the largest differences; the others are one part."""
    ranked = sorted(rows, key=lambda row: -abs(row.delta_ns))
    parts = [{"part": _label(row), "delta_ns": row.delta_ns} for row in ranked[:_PARTS]]
    rest = ranked[_PARTS:]
    return [*parts, {"part": f"({len(rest)} more)", "delta_ns": sum(row.delta_ns for row in rest)}] if rest else parts


def _plain(row: _Row, name: str) -> dict[str, Any]:
    return {
        "row": name, "layer": row.function, "layer_a": None, "layer_b": None, "phase": None, "cell": _label(row),
        "a_ns": row.times_ns[0], "b_ns": row.times_ns[1], "delta_ns": row.delta_ns, "ci_low_ns": None, "ci_high_ns": None,
        "significant": None, "only": row.only, "a_count": row.hits[0], "b_count": row.hits[1], "name": None,
    }  # fmt: skip


# --- findings -------------------------------------------------------------------------------------------------------------------


def _finding(
    row: _Row, name: str, whole: tuple[int, int], called: Sequence[_Row], loop: tuple[int, int] | None
) -> dict[str, Any]:
    """Return a line's difference as a finding. whole: the difference of the sides, and A's time (ns)."""
    delta, whole_ns = whole
    same = row.only is None and not row.replaced
    sure = "medium" if same and row.hits[0] == row.hits[1] else "high"
    return {
        "cause": "other line" if not same else "executions of a line" if row.hits[0] != row.hits[1] else "longer line",
        "title": _title(row), "explains_ns": row.delta_ns, "interval_ns": None,
        "share": round(row.delta_ns / delta, 4) if delta else None,
        "confidence": "low" if abs(delta) < CLOSE * whole_ns else sure, "layers": [],
        "evidence": [*_each(row), *_within(row, called)], "remedy": _remedy(row, loop), "rows": [name],
    }  # fmt: skip


def _title(row: _Row) -> str:
    """Return what differs in a line, before a colon its place, after it its text and times."""
    a, b = (duration(ns) for ns in row.times_ns)
    code = [f"`{_shown(text)}`, " if text else "" for text in row.texts]
    head = f"{row.function}, {row.place}"
    if row.only is not None:
        side = SIDES.index(row.only)
        return f"{row.function}, line {row.numbers[side]} is in {row.only.upper()} only: {code[side]}{(a, b)[side]}"
    if row.replaced:
        return f"{head} was changed: {code[0]}{a} in A; {code[1]}{b} in B"
    if row.hits[0] != row.hits[1]:
        often = f"executes {row.hits[1]:,} times instead of {row.hits[0]:,}"
        if (row.hits[1] - row.hits[0]) * row.delta_ns < 0:
            often = f"takes {'longer' if row.delta_ns > 0 else 'less time'}, though it {often}"
        return f"{head} {often}: {code[1]}{a} in A, {b} in B"
    return f"{head} takes {'longer' if row.delta_ns > 0 else 'less time'}: {code[1]}{a} in A, {b} in B"


def _each(row: _Row) -> list[str]:
    """Return how often the line executes, and how long each execution takes."""
    each = [
        f"{key.upper()}: {hits:,} {'time' if hits == 1 else 'times'}, {duration(ns / hits)} each"
        for key, hits, ns in zip(SIDES, row.hits, row.times_ns, strict=True)
        if hits
    ]
    return [f"Executions: {'; '.join(each)}."] if each else []


def _within(row: _Row, called: Sequence[_Row]) -> list[str]:
    """Return the lines of profiled functions that the line calls which differ most in the same direction."""
    calls = {name for text in row.texts if text for name in re.findall(r"(\w+)\s*\(", text)}
    large = [one for one in called if one.function in calls and one.delta_ns * row.delta_ns > 0]
    large = [one for one in large if abs(one.delta_ns) >= _EVIDENCE * abs(row.delta_ns)]
    large.sort(key=lambda one: -abs(one.delta_ns))
    return [f"Within it: {_title(one)}." for one in large[:_CALLED]]


def _remedy(row: _Row, loop: tuple[int, int] | None) -> str:
    """Return what to do about a line that makes B slower; empty for one that makes it faster."""
    if row.delta_ns <= 0:
        return ""
    often = row.hits != loop or row.only is not None
    if often and row.hits[1] >= _MANY and row.times_ns[1] < _SHORT_NS * row.hits[1]:
        return _VECTORISE.format(duration(row.times_ns[1] / row.hits[1]))
    if row.only is not None or row.replaced or row.hits[1] <= row.hits[0]:
        return _LOOK
    return _SAME_NUMBER if row.hits == loop else _LESS_OFTEN
