"""Explain the difference between two results of line_profiler: which lines of the program take longer, or execute more often.

Functions that correspond are compared line by line, and those within others do not count again (see functions). Lines that
replace each other at one place of a function are one cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.explain.device.labels import labels
from kernelscope.analysis.explain.device.side import CaptureSide
from kernelscope.analysis.explain.line_profiles.findings import causes
from kernelscope.analysis.explain.line_profiles.functions import Functions, functions, told
from kernelscope.analysis.explain.line_profiles.rows import Row, loop_counts, own_cost, pair_lines, shortened, times_of
from kernelscope.analysis.explain.model import CLOSE, SIDES
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.notebook import Shown

_PARTS = 8
SCHEMA = "kernelscope/explain/1"
_NESTED = "the lines of {}, with what they call, are the whole; line_profiler's own cost per line is included"
_LINES_ONLY = "line_profiler sees lines of Python only"


def applies(a: Trace, b: Trace) -> bool:
    """Return whether both recordings hold lines and nothing else that could be compared."""
    return all(len(trace.lines) > 0 and not any(map(len, (trace.kernels, trace.copies, trace.steps))) for trace in (a, b))


def explain(a: CaptureSide, b: CaptureSide) -> dict[str, Any]:
    """Explain why B takes longer or shorter than A, like analysis.explain: rows that add up to the difference, and findings."""
    names = labels(a.path, b.path)
    found = functions(a.trace, b.trace)
    paired = [list(pair_lines(pair)) for pair in found.whole]
    rows = [row for mine in paired for row in mine]
    called = [row for pair in found.within if None not in pair.sides for row in pair_lines(pair)]
    totals = times_of(rows)
    same = a.path == b.path
    delta = totals[1] - totals[0]
    loop = loop_counts(paired[0])
    doubt = _doubt(rows, totals)
    findings = [] if same else causes(found.whole, paired, called, totals, sure=doubt is None)
    close = abs(delta) < CLOSE * totals[0] and not findings
    side_facts = [_side(*one) for one in zip((a, b), names, totals, strict=True)]
    differs = [*_other_functions(found, totals), *_other_work(loop, times_of(paired[0]))]
    return Shown(
        {
            "schema": SCHEMA, "a": side_facts[0], "b": side_facts[1],
            "wall_delta_ns": delta, "wall_interval_ns": None, "significant": False if close else None, "floor_ns": None,
            "to_resolve": "profile both again on a quiet machine, over more iterations", "instrumentation_ns": 0,
            "parts_by": "line", "parts": _parts(rows, len(found.whole) > 1),
            "rows": [_plain(row, f"r{number}") for number, row in enumerate(rows)],
            "matches": [], "network": None, "mode": None, "batch": None,
            "differs": [] if same else differs, "differences": [], "own_cost": doubt,
            "missing": {key: {"kernels": _LINES_ONLY, "steps": "line_profiler keeps totals only"} for key in SIDES},
            "notes": _notes(found),
            "abstained": _abstained(same, close), "to_find_out": None,
            "findings": findings, "unexplained_ns": delta - sum(one["explains_ns"] for one in findings),
        }
    )  # fmt: skip


def _doubt(rows: Sequence[Row], totals: Sequence[int]) -> str | None:
    """Say that line_profiler's own cost may be the whole difference, if it is not less; else None."""
    delta, cost = totals[1] - totals[0], own_cost(rows)
    if not delta or (cost[1] - cost[0]) / delta < 1:
        return None
    hits = [f"{sum(row.hits[side] for row in rows):,}" for side in range(len(SIDES))]
    return (
        f"line_profiler's own cost may be the whole difference: it is at most {duration(cost[0])} in A and {duration(cost[1])} "
        f"in B ({' and '.join(hits)} executions); time both without it (timeit)"
    )


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


def _other_work(loop: tuple[int, int] | None, totals: Sequence[int]) -> list[str]:
    """Return a sentence if the loop ran more often on one side."""
    if loop is None:
        return []
    each = [f"{duration(ns / count)} in {key.upper()}" for key, count, ns in zip(SIDES, loop, totals, strict=True)]
    return [f"the loop runs {loop[0]:,} times in A and {loop[1]:,} times in B; per iteration, all takes {' and '.join(each)}"]


def _label(row: Row, named: bool = False) -> str:
    """Return a line's name in tables: its number and text. named: with its function."""
    text = shortened(row.texts[1] if row.texts[1] is not None else row.texts[0])
    if row.is_rest:
        return f"{row.function} {text}" if named else text
    return f"{f'{row.function}, ' if named else ''}{row.place}{f': {text}' if text else ''}"


def _parts(rows: Sequence[Row], named: bool) -> list[dict[str, Any]]:
    """Return the lines with the largest differences; the others are one part. named: with their functions."""
    ranked = sorted(rows, key=lambda row: -abs(row.delta_ns))
    parts = [{"part": _label(row, named), "delta_ns": row.delta_ns} for row in ranked[:_PARTS]]
    rest = ranked[_PARTS:]
    return [*parts, {"part": f"({len(rest)} more)", "delta_ns": sum(row.delta_ns for row in rest)}] if rest else parts


def _plain(row: Row, name: str) -> dict[str, Any]:
    return {
        "row": name, "layer": row.function, "layer_a": None, "layer_b": None, "phase": None, "cell": _label(row),
        "a_ns": row.times_ns[0], "b_ns": row.times_ns[1], "delta_ns": row.delta_ns, "ci_low_ns": None, "ci_high_ns": None,
        "significant": None, "only": row.only, "a_count": row.hits[0], "b_count": row.hits[1], "name": None,
    }  # fmt: skip
