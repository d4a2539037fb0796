"""Causes of the difference between two results of line_profiler, from the paired lines of their functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.explain.device.case import HOST_NOISE
from kernelscope.analysis.explain.line_profiles.functions import FunctionPair
from kernelscope.analysis.explain.line_profiles.kinds import Kind, is_compiled, kind_of, short
from kernelscope.analysis.explain.line_profiles.rows import Row, loop_counts, shortened, times_of
from kernelscope.analysis.explain.model import CLOSE, SIDES

_CALLED, _NAMED = 3, 3
_LEAST = 0.02  # of the longer side: a line that differs by less is no cause
_LEAST_OF_CALLS = 0.01  # likewise, of a line that calls a function with other arguments
_WAVERS = "Two runs of one program may differ by as much in such a line."
_EVIDENCE = 0.2  # of a line's difference: lines of called functions that differ by less are not named
_ALIKE = 1.2  # a line whose ratio is within this factor of that of all lines takes longer as all do
_MOST, _FEWEST = 0.8, 3  # the share of the time, and the number of lines, that take longer as all do
_LOWER = {"high": "medium", "medium": "low", "low": "low"}  # confidence where two functions of different names are compared
_MACHINE = (
    "run both with one interpreter, on one machine and with one version of line_profiler: no single line is the cause of what "
    "all lines share"
)
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


def causes(
    pairs: Sequence[FunctionPair],
    paired: Sequence[Sequence[Row]],
    called: Sequence[Row],
    totals: tuple[int, int],
    sure: bool = True,
) -> list[dict[str, Any]]:
    """Return the causes in all functions, largest first. sure: whether the difference is not line_profiler's own cost."""
    result, before = [], 0
    loop = loop_counts(paired[0])
    for pair, rows in zip(pairs, paired, strict=True):
        names = {id(row): f"r{before + place}" for place, row in enumerate(rows)}
        alike = _all_alike(rows)
        made = [_of_all(pair, alike)] if alike else []
        left = [row for row in rows if not any(row is one for one in alike)]
        groups = [group for group in _groups(left) if _stands_out(group, max(totals))]
        made += [_finding(group, called, loop) if len(group) == 1 else _replacement(group, pair) for group in groups]
        for one, group in zip(made, [*([alike] if alike else []), *groups], strict=True):
            lowered = _LOWER[one["confidence"]] if pair.differs else one["confidence"]
            result.append({**one, "confidence": lowered, "rows": [names[id(row)] for row in group]})
        before += len(rows)
    delta = totals[1] - totals[0]
    small = abs(delta) < CLOSE * totals[0] or not sure
    result = [
        {
            **one,
            "share": round(one["explains_ns"] / delta, 4) if delta else None,
            "confidence": "low" if small else one["confidence"],
        }
        for one in result
    ]
    return sorted(result, key=lambda one: -abs(one["explains_ns"]))


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the lines that are one cause: those that replace each other at one place of the function, or a line by itself.

    What is in no printed line is no cause.
    """
    blocks: dict[int, list[Row]] = {}
    for row in rows:
        if row.block is not None and row.only is not None and not row.is_rest:
            blocks.setdefault(row.block, []).append(row)
    together = [group for group in blocks.values() if len({row.only for row in group}) == len(SIDES)]
    yield from together
    grouped = {id(row) for group in together for row in group}
    yield from ([row] for row in rows if id(row) not in grouped and not row.is_rest)


def _stands_out(group: Sequence[Row], whole_ns: int) -> bool:
    """Return whether the difference of lines is larger than that of two runs of one program."""
    delta = sum(row.delta_ns for row in group)
    if len(group) == 1 and group[0].by_call and abs(delta) > HOST_NOISE * max(times_of(group)):
        return abs(delta) >= _LEAST_OF_CALLS * whole_ns
    if abs(delta) < _LEAST * whole_ns:
        return False
    alike = all(row.only is None and not row.replaced and row.hits[0] == row.hits[1] for row in group)
    return not alike or abs(delta) > HOST_NOISE * max(times_of(group))


def _all_alike(rows: Sequence[Row]) -> list[Row]:
    """Return the lines that take longer by one factor with equal executions, if they are most of a function; else none."""
    equal = [row for row in rows if row.only is None and not row.by_call and row.hits[0] == row.hits[1] and min(row.times_ns) > 0]
    totals, times = times_of(rows), times_of(equal)
    if not equal or abs(times[1] - times[0]) <= HOST_NOISE * max(times):
        return []
    ratio = times[1] / times[0]
    alike = [row for row in equal if ratio / _ALIKE <= row.times_ns[1] / row.times_ns[0] <= ratio * _ALIKE]
    covered = all(part >= _MOST * whole for part, whole in zip(times_of(alike), totals, strict=True))
    many = sum(max(row.times_ns) >= _LEAST * max(totals) for row in alike) >= _FEWEST
    return alike if covered and many else []


def _of_all(pair: FunctionPair, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the finding that every line takes longer by one factor: not the program, but what runs it."""
    a, b = times_of(rows)
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


def _replacement(group: Sequence[Row], pair: FunctionPair) -> dict[str, Any]:
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


def _longest(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the few lines that take a noticeable part of these lines' time; rows: longest first."""
    least = _LEAST * sum(max(row.times_ns) for row in rows)
    return [row for row in rows[:_NAMED] if max(row.times_ns) >= least] or rows[:1]


def _timed(row: Row) -> str:
    side = SIDES.index(row.only or SIDES[0])
    text = shortened(row.statements[side])
    return f"{f'`{text}`' if text else f'line {row.numbers[side]}'} {duration(row.times_ns[side])}"


def _executions(sides: Sequence[Sequence[Row]]) -> list[str]:
    """Return how often the longest line of each side executes, and how long each execution takes."""
    rows = [side[0] for side in sides]
    each = [
        f"{key.upper()}: {row.hits[side]:,} {'time' if row.hits[side] == 1 else 'times'}, "
        f"{duration(row.times_ns[side] / row.hits[side])} each"
        for side, (key, row) in enumerate(zip(SIDES, rows, strict=True))
        if row.hits[side]
    ]
    return [f"Executions of the longest: {'; '.join(each)}."] if each else []


def _kind(row: Row, side: int) -> Kind | None:
    """Return what a line does on one side; None if its text does not tell."""
    text, hits, time_ns = row.statements[side], row.hits[side], row.times_ns[side]
    if text is None:
        return None
    return kind_of(text, hits, time_ns) or short(hits, time_ns, row.files[side])


def _slow_kind(rows: Sequence[Row]) -> tuple[Kind | None, str]:
    """Return what lines do, on the side where they take longer, if one kind takes most of their time; and that side."""
    if not rows:
        return None, ""
    totals = times_of(rows)
    side = 0 if totals[0] > totals[1] else 1
    times: dict[str, int] = {}
    kinds = {}
    for row in rows:
        if (kind := _kind(row, side)) is not None:
            times[kind.name] = times.get(kind.name, 0) + row.times_ns[side]
            kinds[kind.name] = kind
    name = max(times, key=times.__getitem__, default="")
    return (kinds[name] if name and times[name] > totals[side] / 2 else None), SIDES[side].upper()


def _work(rows: Sequence[Row]) -> list[str]:
    """Say what the lines do on the side where they take longer: the same sentence whichever side is called B."""
    kind, side = _slow_kind(rows)
    return [f"There, {side} {kind.what}."] if kind is not None else []


def _of_slow(rows: Sequence[Row], delta: int) -> str:
    """Return what to do about lines that are slower, if their texts tell what they do; keep what is faster in B."""
    kind, side = _slow_kind(rows)
    if kind is None:
        return ""
    return kind.remedy if delta > 0 else f"keep B's lines; where {side}'s remain in use: {kind.remedy}"


def _finding(group: Sequence[Row], called: Sequence[Row], loop: tuple[int, int] | None) -> dict[str, Any]:
    """Return a line's difference as a finding."""
    (row,) = group
    same = row.only is None and not row.replaced
    more = row.hits[0] != row.hits[1]
    return {
        "cause": "other line" if not same else "executions of a line" if more else "longer line",
        "title": _title(row), "explains_ns": row.delta_ns, "interval_ns": None, "share": None,
        "confidence": _sure(row), "layers": [],
        "evidence": [*_each(row), *_wavers(row), *_work(group), *_within(row, called)], "remedy": _remedy(row, loop), "rows": [],
    }  # fmt: skip


def _sure(row: Row) -> str:
    """Return how sure a line's difference is: two runs of a line, and of calls of one function, differ by themselves, too."""
    if row.by_call:
        return "medium" if abs(row.delta_ns) > HOST_NOISE * max(row.times_ns) else "low"
    return "medium" if row.only is None and not row.replaced and row.hits[0] == row.hits[1] else "high"


def _wavers(row: Row) -> list[str]:
    return [_WAVERS] if row.by_call and _sure(row) == "low" else []


def _title(row: Row) -> str:
    """Return what differs in a line, before a colon its place, after it its text and times."""
    a, b = (duration(ns) for ns in row.times_ns)
    code = [f"`{shortened(text)}`, " if text else "" for text in row.texts]
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


def _each(row: Row) -> list[str]:
    """Return how often the line executes, and how long each execution takes."""
    each = [
        f"{key.upper()}: {hits:,} {'time' if hits == 1 else 'times'}, {duration(ns / hits)} each"
        for key, hits, ns in zip(SIDES, row.hits, row.times_ns, strict=True)
        if hits
    ]
    return [f"Executions: {'; '.join(each)}."] if each else []


def _within(row: Row, called: Sequence[Row]) -> list[str]:
    """Return the lines of profiled functions that the line calls which differ most in the same direction."""
    calls = {name for text in row.texts if text for name in re.findall(r"(\w+)\s*\(", text)}
    large = [one for one in called if one.function in calls and one.delta_ns * row.delta_ns > 0]
    large = [one for one in large if abs(one.delta_ns) >= _EVIDENCE * abs(row.delta_ns)]
    large.sort(key=lambda one: -abs(one.delta_ns))
    return [f"Within it: {_title(one)}." for one in large[:_CALLED]]


def _remedy(row: Row, loop: tuple[int, int] | None) -> str:
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


def _vectorise(row: Row, side: int) -> str:
    """Return the remedy for a line that executes often and takes so short that Python's own cost counts; else empty."""
    hits, time_ns = row.hits[side], row.times_ns[side]
    return _VECTORISE.format(duration(time_ns / hits)) if hits >= _MANY and time_ns < _SHORT_NS * hits else ""
