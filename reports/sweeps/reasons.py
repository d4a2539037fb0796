"""Why frameworks differ, in up to three lines: the first cause of the largest differences at the same settings.

Of a sweep with one framework: the first pieces of advice on its slowest cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelscope.analysis.advise import advise
from kernelscope.analysis.comparisons.sweep_kinds import recorded
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.reports import advice, explanation, units
from kernelscope.reports.explanation import Result
from kernelscope.reports.sweeps import cells
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.text import printable

MOST = 3  # explanations take seconds each, so a sweep of many cells has no more of them either
_PARTS = 2  # named parts of a difference without a cause


@dataclass(frozen=True)
class Reason:
    """One line. much: a time with its unit. where: frameworks and settings. why: the cause or the advice. saves: of advice."""

    much: str
    where: str
    why: str
    saves: bool = False


def reasons(rows: Sequence[Row]) -> list[Reason]:
    """Return the lines; empty if no cell has a kernels pass. rows: see `cells.rows`."""
    known = [row for row in rows if cells.done(row) and row["step_ns"] and row.get("path") and recorded(row["path"])]
    groups = cells.compared(known)
    pairs = [(members[0], other) for members in groups for other in members[1:] if other["framework"] != members[0]["framework"]]
    pairs.sort(key=lambda sides: sides[0]["step_ns"] - sides[1]["step_ns"])
    if pairs:
        return [_difference(fast, slow, _where(slow, known)) for fast, slow in pairs[:MOST]]
    return _advice(max(known, key=lambda row: int(row["step_ns"])), known) if known else []


def _where(row: Row, rows: Sequence[Row]) -> str:
    """Return a cell's work, and its set-up if there are several."""
    varying = cells.varying(rows)
    return ", ".join([cells.work(row), *([cells.setup(row, varying)] if varying else [])])


def _difference(fast: Row, slow: Row, where: str) -> Reason:
    """Return the line of two cells at the same settings."""
    try:
        result = pair.read(Path(fast["path"]), Path(slow["path"])).explain()
    except EvidenceError as error:
        apart = units.signed(int(slow["step_ns"]) - int(fast["step_ns"]))
        return Reason(apart, printable(f"{slow['framework']} against {fast['framework']}, {where}", None), printable(error, 300))
    shown = explanation.scale(result)
    much = f"{shown.signed(explanation.total(result))} {shown.unit}"
    return Reason(much, f"{explanation.title(result)}, {where}", _why(result))


def _why(result: Result) -> str:
    """Return the first cause with its time; without one, why there is none, or the largest parts of the difference."""
    shown = explanation.scale(result)
    found, _ = explanation.causes(result)
    if found:
        first = found[0]
        about = ", ".join(filter(None, (first.share, f"confidence {first.confidence}")))
        return f"{shown.signed(first.delta_ns)} {shown.unit}: {first.title} ({about})"
    if result.get("abstained"):
        return f"no cause is named: {printable(result['abstained'], 300)}"
    parts = [part for part in explanation.parts(result) if part.label != explanation.INSTRUMENTATION]
    largest = sorted(parts, key=lambda part: -part.delta_ns)[:_PARTS]
    listed = ", ".join(f"{part.label} {shown.signed(part.delta_ns)} {shown.unit}" for part in largest)
    return f"no rule recognises the cause; largest parts: {listed}"


def _advice(row: Row, rows: Sequence[Row]) -> list[Reason]:
    """Return the lines on one cell."""
    where = printable(f"{row['framework']}, {_where(row, rows)}", None)
    try:
        pieces = advice.page(advise(Path(row["path"]))).first[:MOST]
    except EvidenceError as error:
        return [Reason(units.duration(row["step_ns"]), where, printable(error, 300))]
    return [Reason(piece["saves"], where, f"{piece['title']}; try: {piece['remedy']}", True) for piece in pieces]
