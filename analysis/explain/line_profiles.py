"""Explain the difference between two results of line_profiler: which lines of the program take longer, or execute more often.

Functions that correspond are compared line by line, and those within others do not count again (see line_functions). Lines are
paired by their text; without texts, by their numbers. Lines that replace each other at one place of a function are one cause.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.explain.device import CaptureSide
from kernelscope.analysis.explain.device.case import HOST_NOISE
from kernelscope.analysis.explain.device.labels import labels
from kernelscope.analysis.explain.line_functions import FunctionPair, Functions, functions, told
from kernelscope.analysis.explain.line_kinds import Kind, beginnings, is_compiled, kind_of, short
from kernelscope.analysis.explain.model import CLOSE, SIDES
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.notebook import Shown

SCHEMA = "kernelscope/explain/1"
_LEAST = 0.02  # of the longer side: a line that differs by less is no cause
_EVIDENCE = 0.2  # of a line's difference: lines of called functions that differ by less are not named
_CHANGED = 0.6  # of two lines' characters that are the same: with fewer, one is not the other
_SAME_LOOP = 0.5  # of the time: if lines with this share execute more often by one factor, the loop ran more often
_PARTS, _CALLED, _LONGEST, _NAMED = 8, 3, 60, 3
_NESTED = "the lines of {}, with what they call, are the whole; line_profiler's own cost per line is included"
_ALIKE = 1.2  # a line whose ratio is within this factor of that of all lines takes longer as all do
_MOST, _FEWEST = 0.8, 3  # the share of the time, and the number of lines, that take longer as all do
_LOWER = {"high": "medium", "medium": "low", "low": "low"}  # confidence where two functions of different names are compared
_MACHINE = (
    "run both with one interpreter, on one machine and with one version of line_profiler: no single line is the cause of what "
    "all lines share"
)
_LINES_ONLY = "line_profiler sees lines of Python only"
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
    """A line of one side. number, text: None if the side lacks it, and text if the recording has none.

    statement: the text of the whole statement that the line is in.
    """

    number: int | None
    text: str | None
    hits: int
    time_ns: int
    statement: str | None = None

    @classmethod
    def of(cls, lines: Sequence[Any], place: int, end: int, statements: Sequence[str | None]) -> _Line:
        """Return the line at a place before `end`, else one that is not there."""
        if place >= end:
            return cls(None, None, 0, 0)
        line = lines[place]
        return cls(int(line.line), _spaced(line.text), int(line.hits), int(line.time_ns), statements[place])


_NONE = _Line(None, None, 0, 0)


def _alike(a: _Line, b: _Line) -> bool:
    """Return whether one line may be the other, changed."""
    if a.number is None or b.number is None or a.text is None or b.text is None:
        return True
    return difflib.SequenceMatcher(None, a.text, b.text, autojunk=False).ratio() >= _CHANGED


def _spaced(text: object) -> str | None:
    """Return a line's text without its indentation; None if it is unknown."""
    return " ".join(text.split()) if isinstance(text, str) else None


@dataclass(frozen=True)
class _Row:
    """A line of both sides, or of one: the function it is in, and the line in A and in B.

    block: which lines stand at one place of the function in A and in B, so that some may replace others; None for lines that both
    sides have, or that were only added or removed.
    """

    function: str
    a: _Line
    b: _Line
    files: tuple[str, str]
    block: int | None = None

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The line's number in A and in B; None on a side that lacks it."""
        return self.a.number, self.b.number

    @property
    def texts(self) -> tuple[str | None, str | None]:
        """The line's text in A and in B; None on a side that lacks it, and if it is unknown."""
        return self.a.text, self.b.text

    @property
    def statements(self) -> tuple[str | None, str | None]:
        """The text of the statement that the line is in, in A and in B."""
        return self.a.statement, self.b.statement

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
    def is_rest(self) -> bool:
        """Whether it is no line, but the rest of a function's stated time."""
        return 0 in self.numbers

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
    found = functions(a.trace, b.trace)
    paired = [list(_paired(pair)) for pair in found.whole]
    rows = [row for mine in paired for row in mine]
    called = [row for pair in found.within if None not in pair.sides for row in _paired(pair)]
    totals = _totals(rows)
    same = a.path == b.path
    delta = totals[1] - totals[0]
    loop = _loop(paired[0])
    findings = [] if same else _findings(found.whole, paired, called, totals)
    close = abs(delta) < CLOSE * totals[0] and not findings
    side_facts = [_side(*one) for one in zip((a, b), names, totals, strict=True)]
    differs = [*_other_functions(found, totals), *_other_work(loop, _totals(paired[0]))]
    return Shown(
        {
            "schema": SCHEMA, "a": side_facts[0], "b": side_facts[1],
            "wall_delta_ns": delta, "wall_interval_ns": None, "significant": False if close else None, "floor_ns": None,
            "to_resolve": "profile both again on a quiet machine, over more iterations", "instrumentation_ns": 0,
            "parts_by": "line", "parts": _parts(rows, len(found.whole) > 1),
            "rows": [_plain(row, f"r{number}") for number, row in enumerate(rows)],
            "matches": [], "network": None, "mode": None, "batch": None,
            "differs": [] if same else differs, "differences": [],
            "missing": {key: {"kernels": _LINES_ONLY, "steps": "line_profiler keeps totals only"} for key in SIDES},
            "notes": _notes(found),
            "abstained": _abstained(same, close), "to_find_out": None,
            "findings": findings, "unexplained_ns": delta - sum(one["explains_ns"] for one in findings),
        }
    )  # fmt: skip


def _totals(rows: Sequence[_Row]) -> tuple[int, int]:
    """Return the time of these lines in A and in B (ns)."""
    return sum(row.times_ns[0] for row in rows), sum(row.times_ns[1] for row in rows)


def _other_functions(found: Functions, totals: Sequence[int]) -> list[str]:
    """Say which functions of different names are compared, and which have no counterpart."""
    result = [
        f"two functions are compared, {pair.a.shown} in A and {pair.b.shown} in B, and may do different things"
        for pair in found.whole
        if pair.a is not None and pair.b is not None and pair.differs
    ]
    return [*result, *told(found, totals)]


def _notes(found: Functions) -> list[str]:
    """Return which functions are the whole, with their times if there are several, and what may count twice."""
    shown = [pair.shown for pair in found.whole]
    result = [_NESTED.format(", ".join(shown) if len(shown) > 1 else shown[0])]
    if len(shown) > 1:
        times = [" → ".join(duration(one.time_ns) if one is not None else "none" for one in pair.sides) for pair in found.whole]
        result.append(f"by function: {'; '.join(f'{name} {time}' for name, time in zip(shown, times, strict=True))}")
    if any(twice := found.twice()):
        a, b = map(duration, twice)
        result.append(f"lines that call another of these functions by name may count twice: at most {a} of A and {b} of B")
    if found.within:
        names = dict.fromkeys(one.shown for pair in found.within for one in pair.sides if one is not None)
        result.append(f"not counted again, since they may be within these: {', '.join(list(names)[:_PARTS])}")
    return result


def _abstained(same: bool, close: bool) -> str | None:
    if same:
        return "both sides are the same recording"
    return "the lines differ by less than two runs of one program do" if close else None


def _side(side: CaptureSide, name: str, total_ns: int) -> dict[str, Any]:
    return {
        "name": name, "path": side.path, "framework": None, "version": None, "step_ns": total_ns, "recorded_step_ns": total_ns,
        "removed_ns": 0, "restarts": None, "windows": 0, "steps": None, "basis": "lines", "coverage": 1.0, "layers": 0,
    }  # fmt: skip


def _paired(pair: FunctionPair) -> Iterator[_Row]:
    """Pair the lines of a function in both recordings: by text, or by number if a side has no texts."""
    lines = [
        list(one.lines.sort_values("line", kind="stable").itertuples(index=False)) if one is not None else []
        for one in pair.sides
    ]
    texts = [[_spaced(line.text) for line in side] for side in lines]
    statements = [_statements(side) for side in lines]
    known = all(text is not None for side in texts for text in side)
    keys = texts if known else [[line.line for line in side] for side in lines]
    matcher = difflib.SequenceMatcher(None, list(map(str, keys[0])), list(map(str, keys[1])), autojunk=False)
    names = [one.shown if one is not None else "" for one in pair.sides]
    files = (pair.a.file if pair.a is not None else "", pair.b.file if pair.b is not None else "")
    for block, (kind, first, last, other, end) in enumerate(matcher.get_opcodes()):
        for place in range(max(last - first, end - other)):
            mine = _Line.of(lines[0], first + place, last, statements[0])
            its = _Line.of(lines[1], other + place, end, statements[1])
            replaced = block if kind == "replace" else None
            if kind == "replace" and not _alike(mine, its):
                yield from (_Row(names[0], mine, _NONE, files, replaced), _Row(names[1], _NONE, its, files, replaced))
            else:
                yield _Row(names[mine.number is None], mine, its, files, replaced)


def _statements(lines: Sequence[Any]) -> list[str | None]:
    """Return the text of the statement that each line is in; None if it is unknown."""
    texts = [_spaced(line.text) for line in lines]
    begins = beginnings(zip((int(line.line) for line in lines), texts, strict=True))
    whole: dict[int, list[str]] = {}
    for begin, text in zip(begins, texts, strict=True):
        whole.setdefault(begin, []).append(text or "")
    return [" ".join(whole[begin]) or None for begin in begins]


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


def _label(row: _Row, named: bool = False) -> str:
    """Return a line's name in tables: its number and text. named: with its function."""
    text = _shown(row.texts[1] if row.texts[1] is not None else row.texts[0])
    if row.is_rest:
        return f"{row.function} {text}" if named else text
    return f"{f'{row.function}, ' if named else ''}{row.place}{f': {text}' if text else ''}"


def _shown(text: str | None) -> str:
    return "" if not text else text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _parts(rows: Sequence[_Row], named: bool) -> list[dict[str, Any]]:
    """Return the lines with the largest differences; the others are one part. named: with their functions."""
    ranked = sorted(rows, key=lambda row: -abs(row.delta_ns))
    parts = [{"part": _label(row, named), "delta_ns": row.delta_ns} for row in ranked[:_PARTS]]
    rest = ranked[_PARTS:]
    return [*parts, {"part": f"({len(rest)} more)", "delta_ns": sum(row.delta_ns for row in rest)}] if rest else parts


def _plain(row: _Row, name: str) -> dict[str, Any]:
    return {
        "row": name, "layer": row.function, "layer_a": None, "layer_b": None, "phase": None, "cell": _label(row),
        "a_ns": row.times_ns[0], "b_ns": row.times_ns[1], "delta_ns": row.delta_ns, "ci_low_ns": None, "ci_high_ns": None,
        "significant": None, "only": row.only, "a_count": row.hits[0], "b_count": row.hits[1], "name": None,
    }  # fmt: skip


# --- findings -------------------------------------------------------------------------------------------------------------------


def _findings(
    pairs: Sequence[FunctionPair], paired: Sequence[Sequence[_Row]], called: Sequence[_Row], totals: tuple[int, int]
) -> list[dict[str, Any]]:
    """Return the causes in all functions, largest first."""
    result, before = [], 0
    loop = _loop(paired[0])
    for pair, rows in zip(pairs, paired, strict=True):
        names = {id(row): f"r{before + place}" for place, row in enumerate(rows)}
        alike = _all_alike(rows)
        made = [_of_all(pair, alike)] if alike else []
        left = [row for row in rows if not any(row is one for one in alike)]
        groups = [group for group in _causes(left) if _stands_out(group, max(totals))]
        made += [_finding(group, called, loop) if len(group) == 1 else _replacement(group, pair) for group in groups]
        for one, group in zip(made, [*([alike] if alike else []), *groups], strict=True):
            lowered = _LOWER[one["confidence"]] if pair.differs else one["confidence"]
            result.append({**one, "confidence": lowered, "rows": [names[id(row)] for row in group]})
        before += len(rows)
    delta = totals[1] - totals[0]
    small = abs(delta) < CLOSE * totals[0]
    result = [
        {
            **one,
            "share": round(one["explains_ns"] / delta, 4) if delta else None,
            "confidence": "low" if small else one["confidence"],
        }
        for one in result
    ]
    return sorted(result, key=lambda one: -abs(one["explains_ns"]))


def _causes(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """Yield the lines that are one cause: those that replace each other at one place of the function, or a line by itself.

    What is in no printed line is no cause.
    """
    blocks: dict[int, list[_Row]] = {}
    for row in rows:
        if row.block is not None and row.only is not None and not row.is_rest:
            blocks.setdefault(row.block, []).append(row)
    together = [group for group in blocks.values() if len({row.only for row in group}) == len(SIDES)]
    yield from together
    grouped = {id(row) for group in together for row in group}
    yield from ([row] for row in rows if id(row) not in grouped and not row.is_rest)


def _stands_out(group: Sequence[_Row], whole_ns: int) -> bool:
    """Return whether the difference of lines is larger than that of two runs of one program."""
    delta = sum(row.delta_ns for row in group)
    if abs(delta) < _LEAST * whole_ns:
        return False
    alike = all(row.only is None and not row.replaced and row.hits[0] == row.hits[1] for row in group)
    return not alike or abs(delta) > HOST_NOISE * max(_totals(group))


def _all_alike(rows: Sequence[_Row]) -> list[_Row]:
    """Return the lines that take longer by one factor with equal executions, if they are most of a function; else none."""
    equal = [row for row in rows if row.only is None and row.hits[0] == row.hits[1] and min(row.times_ns) > 0]
    totals, times = _totals(rows), _totals(equal)
    if not equal or abs(times[1] - times[0]) <= HOST_NOISE * max(times):
        return []
    ratio = times[1] / times[0]
    alike = [row for row in equal if ratio / _ALIKE <= row.times_ns[1] / row.times_ns[0] <= ratio * _ALIKE]
    covered = all(part >= _MOST * whole for part, whole in zip(_totals(alike), totals, strict=True))
    many = sum(max(row.times_ns) >= _LEAST * max(totals) for row in alike) >= _FEWEST
    return alike if covered and many else []


def _of_all(pair: FunctionPair, rows: Sequence[_Row]) -> dict[str, Any]:
    """Return the finding that every line takes longer by one factor: not the program, but what runs it."""
    a, b = _totals(rows)
    slow, fast = (0, 1) if a > b else (1, 0)
    files = rows[0].files
    by_cython = is_compiled(files[fast]) and not is_compiled(files[slow])
    by = f"{SIDES[fast].upper()} is compiled by Cython ({files[fast]})"
    ratio, why = max(a, b) / min(a, b), by if by_cython else "another interpreter, machine or setting"
    ratios = sorted(max(row.times_ns) / min(row.times_ns) for row in rows if max(row.times_ns) >= _LEAST * max(a, b))
    remedy = f"compile it as A is (Cython, {files[fast]})" if by_cython else _MACHINE
    return {
        "cause": "all lines alike",
        "title": f"{pair.shown}, every line takes {ratio:.2g} times as long in {SIDES[slow].upper()} as in "
        f"{SIDES[fast].upper()}, with equal executions: {why}; {duration(a)} in A, {duration(b)} in B",
        "explains_ns": b - a, "interval_ns": None, "share": None, "confidence": "high" if by_cython else "medium", "layers": [],
        "evidence": [
            f"{len(rows)} lines execute equally often on both sides, and the long ones take {ratios[0]:.2g} to {ratios[-1]:.2g} "
            "times as long. The time of short lines includes line_profiler's own cost on each side."
        ],
        "remedy": remedy if b > a else f"keep the compiled one ({files[fast]})" if by_cython else "", "rows": [],
    }  # fmt: skip


def _replacement(group: Sequence[_Row], pair: FunctionPair) -> dict[str, Any]:
    """Return the finding on lines of A that others replace in B."""
    sides = [sorted((row for row in group if row.only == key), key=lambda row: -max(row.times_ns)) for key in SIDES]
    delta = sum(row.delta_ns for row in group)
    spans = [_span([row.numbers[side] or 0 for row in rows]) for side, rows in enumerate(sides)]
    listed = [", ".join(_timed(row) for row in _longest(rows)) for rows in sides]
    whole = [duration(sum(max(row.times_ns) for row in rows)) for rows in sides]
    verb = "is" if spans[0].startswith("line ") else "are"
    slow = sides[0] if delta < 0 else sides[1]
    return {
        "cause": "other line",
        "title": f"{pair.shown}, {spans[0]} of A {verb} replaced by {spans[1]} of B: {whole[0]} in A ({listed[0]}); "
        f"{whole[1]} in B ({listed[1]})",
        "explains_ns": delta, "interval_ns": None, "share": None, "confidence": "high", "layers": [],
        "evidence": [*_executions(sides), *_work(slow)],
        "remedy": _of_slow(slow, delta) or (_vectorise(slow[0], 1) or _LOOK if delta > 0 else ""), "rows": [],
    }  # fmt: skip


def _span(numbers: Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _longest(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the few lines that take a noticeable part of these lines' time; rows: longest first."""
    least = _LEAST * sum(max(row.times_ns) for row in rows)
    return [row for row in rows[:_NAMED] if max(row.times_ns) >= least] or rows[:1]


def _timed(row: _Row) -> str:
    side = SIDES.index(row.only or SIDES[0])
    text = _shown(row.statements[side])
    return f"{f'`{text}`' if text else f'line {row.numbers[side]}'} {duration(row.times_ns[side])}"


def _executions(sides: Sequence[Sequence[_Row]]) -> list[str]:
    """Return how often the longest line of each side executes, and how long each execution takes."""
    rows = [side[0] for side in sides]
    each = [
        f"{key.upper()}: {row.hits[side]:,} {'time' if row.hits[side] == 1 else 'times'}, "
        f"{duration(row.times_ns[side] / row.hits[side])} each"
        for side, (key, row) in enumerate(zip(SIDES, rows, strict=True))
        if row.hits[side]
    ]
    return [f"Executions of the longest: {'; '.join(each)}."] if each else []


def _kind(row: _Row, side: int) -> Kind | None:
    """Return what a line does on one side; None if its text does not tell."""
    text, hits, time_ns = row.statements[side], row.hits[side], row.times_ns[side]
    if text is None:
        return None
    return kind_of(text, hits, time_ns) or short(hits, time_ns, row.files[side])


def _slow_kind(rows: Sequence[_Row]) -> tuple[Kind | None, str]:
    """Return what lines do, on the side where they take longer, if one kind takes most of their time; and that side."""
    if not rows:
        return None, ""
    totals = _totals(rows)
    side = 0 if totals[0] > totals[1] else 1
    times: dict[str, int] = {}
    kinds = {}
    for row in rows:
        if (kind := _kind(row, side)) is not None:
            times[kind.name] = times.get(kind.name, 0) + row.times_ns[side]
            kinds[kind.name] = kind
    name = max(times, key=times.__getitem__, default="")
    return (kinds[name] if name and times[name] > totals[side] / 2 else None), SIDES[side].upper()


def _work(rows: Sequence[_Row]) -> list[str]:
    """Say what the lines do on the side where they take longer: the same sentence whichever side is called B."""
    kind, side = _slow_kind(rows)
    return [f"There, {side} {kind.what}."] if kind is not None else []


def _of_slow(rows: Sequence[_Row], delta: int) -> str:
    """Return what to do about lines that are slower, if their texts tell what they do; keep what is faster in B."""
    kind, side = _slow_kind(rows)
    if kind is None:
        return ""
    return kind.remedy if delta > 0 else f"keep B's lines; where {side}'s remain in use: {kind.remedy}"


def _finding(group: Sequence[_Row], called: Sequence[_Row], loop: tuple[int, int] | None) -> dict[str, Any]:
    """Return a line's difference as a finding."""
    (row,) = group
    same = row.only is None and not row.replaced
    more = row.hits[0] != row.hits[1]
    return {
        "cause": "other line" if not same else "executions of a line" if more else "longer line",
        "title": _title(row), "explains_ns": row.delta_ns, "interval_ns": None, "share": None,
        "confidence": "medium" if same and not more else "high", "layers": [],
        "evidence": [*_each(row), *_work(group), *_within(row, called)], "remedy": _remedy(row, loop), "rows": [],
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
    """Return what to do about a line that makes B slower; about one that makes it faster, only if what replaced it is known."""
    if row.delta_ns <= 0:
        return _of_slow([row], row.delta_ns) if row.only is not None or row.replaced else ""
    same_loop = row.only is None and row.hits == loop
    if (kind := kind_of(row.statements[1], row.hits[1], row.times_ns[1])) is not None and not same_loop:
        return kind.remedy
    if not same_loop and (said := _vectorise(row, 1)):
        return said
    if row.only is not None or row.replaced or row.hits[1] <= row.hits[0]:
        return _LOOK
    return _SAME_NUMBER if row.hits == loop else _LESS_OFTEN


def _vectorise(row: _Row, side: int) -> str:
    """Return the remedy for a line that executes often and takes so short that Python's own cost counts; else empty."""
    hits, time_ns = row.hits[side], row.times_ns[side]
    return _VECTORISE.format(duration(time_ns / hits)) if hits >= _MANY and time_ns < _SHORT_NS * hits else ""
