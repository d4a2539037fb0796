"""When an explanation must not name causes, and what would make it possible."""

from __future__ import annotations

from kernelscope.analysis.accounting import fairness
from kernelscope.analysis.accounting.breakdowns import layer_labels
from kernelscope.analysis.accounting.cell_labels import NO_LAYER
from kernelscope.analysis.accounting.levels import OPAQUE_GRAPH, OUTSIDE, UNSEEN
from kernelscope.analysis.explain import again, noise, onnx_nodes, program
from kernelscope.analysis.explain.model import Case, Side

LEAST_COVERAGE = 0.8
# Two runs of one program can differ by this much by where memory lies; intervals over a few restarts may not show it
SMALLEST_DIFFERENCE = 0.015  # of the faster side's step


def coverage(side: Side) -> float:
    """Return the share of a side's recorded time that is known by layer or, without layers, by kind."""
    cells = side.cells
    known = ~cells["cause"].isin([OUTSIDE, UNSEEN, OPAQUE_GRAPH]) & (cells["kind"].fillna("") != "unknown")
    if cells["layer"].notna().any() and side.facts.get("network"):
        known = ~layer_labels(cells).isin(NO_LAYER)
    return float(cells["time_ns"].where(known, 0).sum() / max(cells["time_ns"].sum(), 1))


def _recorded_once(case: Case) -> tuple[str, str] | None:
    """Return why a single recording of each side cannot show causes, and what to do; None if it can."""
    if program.same(case):
        return (
            "both sides ran the same program, arguments, settings and versions on one machine: the difference is chance or load",
            f"if the difference matters, {again.of_sides(case.a, case.b, case.account.restarts)}",
        )
    busy = {side.name: cores for side in (case.a, case.b) if (cores := noise.busy(side)) is not None}
    if not busy:
        return None
    return (
        f"other processes kept {' and '.join(f'{cores:.1f}' for cores in busy.values())} cores busy while {' and '.join(busy)} "
        f"{'was' if len(busy) == 1 else 'were'} recorded, which makes any step longer",
        f"record {'it' if len(busy) == 1 else 'both'} again when the machine is idle",
    )


def _only_waiting(case: Case) -> tuple[str, str] | None:
    """Return that a step is longer only by waiting, because other processes kept cores busy: the work takes as long as before.

    With restarts this needs very many busy cores, as three restarts of one side may all have met them by chance.
    """
    account, used = case.account, case.account.processor
    cores = noise.disturbed(case.a, case.b)
    if not account.floor and all(noise.busy(side) is None for side in (case.a, case.b)):
        return None
    if used is None or cores is None or used.significant is not False or not account.wall.significant:
        return None
    times = " and ".join(f"{ns / 1e6:.3g}" for ns in (used.a_ns, used.b_ns))
    return (
        f"the steps need about as much processor time ({times} ms), and other processes kept up to {cores:.1f} cores busy: "
        "the difference is how long they waited for a core",
        "record it again when the machine is idle",
    )


def unfair(a: Side, b: Side) -> list[str]:
    """Return the fairness checks that failed, in words; empty if none failed or none could be made."""
    network = a.facts.get("network")
    if not network or a.check is None or b.check is None:
        return []
    names = (a.name, b.name) if a.name != b.name else ("A", "B")
    report = fairness.check(dict(zip(names, (a.check, b.check), strict=True)), network)
    failed = report.rows[report.rows["status"] == fairness.FAIL]
    return [f"{row['check']} ({row['framework']}: {row['detail'] or row['value']})" for row in failed.to_dict("records")]


def _to_attribute(side: Side) -> str:
    """Return what to do if little of a side's time could be attributed."""
    if again.recorded_by(side.facts) == again.CAPTURE:
        return "record it with ranges around its layers and with its kernels; see docs/captures.md"
    return f"see which lines take the rest: kernelscope breakdown {side.path} --by line"


def reason(case: Case, force: bool) -> tuple[str, str] | None:
    """Return why no cause can be named and what to do about it; None if causes can be named."""
    a, b, account = case.a, case.b, case.account
    if account.floor and a.path != b.path:
        once = _recorded_once(case)
        if once is not None:
            return once
    for side in (a, b):
        known = coverage(side)
        if known < LEAST_COVERAGE:
            return (
                f"only {known:.0%} of the time of {side.name} could be attributed (at least {LEAST_COVERAGE:.0%} is needed)",
                _to_attribute(side),
            )
    if not force and onnx_nodes.unlike(a, b):
        return (
            "the sides have next to no node in common, so their times say nothing about a cause",
            "record the same model on both sides; kernelscope breakdown shows what each side ran",
        )
    failed = [] if force else unfair(a, b)
    if failed:
        return f"the two sides did not do the same work: {'; '.join(failed)}", "make them equal, or explain with --force"
    if a.path == b.path:
        return "both sides are the same recording", "name two different ones"
    wall = account.wall
    faster = min(wall.a_ns, wall.b_ns)
    waiting = _only_waiting(case)
    if waiting is not None:
        return waiting
    if wall.significant is False and not account.seen_by_processor:
        limit_ms = (wall.floor_ns or 0) / 1e6
        limit = f"{limit_ms:,.0f}" if limit_ms >= 100 else f"{limit_ms:.3g}"
        return (
            f"the difference is within the noise: differences under {limit} ms cannot be seen in these recordings",
            again.of_sides(a, b, account.restarts),
        )
    if abs(wall.delta_ns) < SMALLEST_DIFFERENCE * faster:
        return (
            f"the difference is under {SMALLEST_DIFFERENCE:.1%} of a step, as much as two runs of one program can differ by",
            f"if so small a difference matters, {again.of_sides(a, b, account.restarts)}",
        )
    return None
