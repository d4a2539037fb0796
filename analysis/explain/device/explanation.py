"""Explain the difference between two captures of device work: the account, findings that add up, and why none may be named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import COMPUTE, GRAPH, IDLE, KERNELS, TOTALS, WINDOW
from kernelscope.analysis.accounting.statistics import Difference
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.steps import DetectedSteps, Request
from kernelscope.analysis.explain import again
from kernelscope.analysis.explain.device import (
    abstention,
    account_rows,
    alignment,
    amounts,
    by_kind,
    calls,
    causes,
    counted,
    cut_names,
    functions,
    own_times,
    remarks,
    words,
)
from kernelscope.analysis.explain.device.alignment import Replacement
from kernelscope.analysis.explain.device.case import DeviceCase, DeviceFinding, case_of
from kernelscope.analysis.explain.device.causes import directives, faults
from kernelscope.analysis.explain.device.labels import labels
from kernelscope.analysis.explain.device.side import CaptureSide, DeviceSide, alike, is_totals, side_of, takes_all
from kernelscope.analysis.explain.model import CLOSE
from kernelscope.analysis.trace import MAIN, UNLISTED, Trace
from kernelscope.analysis.trace.notebook import Shown

SCHEMA = "kernelscope/explain/1"
_REPLACED = 20  # replacements that are listed
_PLACES = 2  # replacements in a finding's evidence
_OF_PROGRAMS = "compare two runs of one program; `advise` says of each capture alone what takes its time"
_CUT = "only the rows that take longest are printed, and no sum tells how much the others take"
_UNPRINTED = 0.1  # of a cause: more than this in rows that may be unprinted makes it unsure
_LESS_SURE = {"high": "medium", "medium": "low", "low": "low"}


def explain(
    a: CaptureSide, b: CaptureSide, request: Request | None = None, processes: tuple[Sequence[int], Sequence[int]] = ((), ())
) -> dict[str, Any]:
    """Explain why B takes longer or shorter than A, like analysis.explain: rows that add up to the difference, and findings.

    request: what to take as steps, and which device. processes: the step of each recorded process of both sides, ns; empty if
    there is one a side. Raises EvidenceError if a capture does not have what is asked for.
    """
    case = case_of(*sides_of(a, b, request or Request()))
    case.processes = processes
    case.replaced = alignment.renamed(case) if case.totals else alignment.replacements(case.a, case.b)
    if case.totals:
        _keep_kind(case)
    by_names = functions.moved(case) if case.of_functions else alignment.by_names(case)
    known = {name for one in by_names for name in one.a | one.b}
    others = [] if case.of_functions else case.replaced  # a function is only itself
    case.replaced = by_names + [one for one in others if not known & (one.a | one.b)]
    findings = _settled(case) if a.path != b.path else []
    return Shown(_result(case, findings))


def sides_of(a: CaptureSide, b: CaptureSide, request: Request) -> tuple[DeviceSide, DeviceSide]:
    """Return both sides with their steps and accounts, which are alike: of steps, of windows, of kernels or of totals."""
    a, b = alike(a, b)
    a, b = (CaptureSide(side.path, finding_steps.windowed(side.trace, request)) for side in (a, b))
    if all(is_totals(side.trace) for side in (a, b)):
        a, b = cut_names.apart(*own_times.alike(a, b))
    names = labels(a.path, b.path)
    whole = request.device is None and takes_all(a.trace, b.trace)
    result = _steps(a, b, request)
    captures = list(zip((a, b), names, result, strict=True))
    sides = [side_of(*one, request, whole) for one in captures]
    if {side.account.basis for side in sides} == {KERNELS, WINDOW}:  # kernels alone are no part of a window
        sides = [side_of(*one, request, whole, with_idle=True) for one in captures]
    return sides[0], sides[1]


def _keep_kind(case: DeviceCase) -> None:
    """Give a kernel that only its name tells from another one the kind of that one."""
    for one in case.replaced:
        (before,), (after,) = one.a, one.b
        names = case.rows["name"].astype("string").fillna("")
        case.rows.loc[(names == after).to_numpy(bool), "kind"] = case.rows.loc[(names == before).to_numpy(bool), "kind"].iloc[0]


def _steps(a: CaptureSide, b: CaptureSide, request: Request) -> tuple[DetectedSteps | None, DetectedSteps | None]:
    """Return the steps of both sides: among the candidates, the likeliest pair with the same kind and size of step."""
    tried = [finding_steps.candidates(side.trace, request) for side in (a, b)]
    if not all(tried):
        return None, None
    graphs = bool(len(a.trace.graphs) or len(b.trace.graphs))
    amounts = [[_amount(side.trace, one, graphs) for one in mine] for side, mine in zip((a, b), tried, strict=True)]

    def rank(places: tuple[int, int]) -> tuple[float, int]:
        mine, other = places
        apart = abs(float(np.log(amounts[1][other] / amounts[0][mine])))
        apart += 0.05 if tried[0][mine].method != tried[1][other].method else 0.0
        return (0.0 if apart < np.log(1.5) else apart, mine + other)

    mine, other = min(itertools.product(range(len(tried[0])), range(len(tried[1]))), key=rank)
    return tried[0][mine], tried[1][other]


def _amount(trace: Trace, steps: DetectedSteps, graphs: bool) -> float:
    """Return the amount of work in a step: by it, `_steps` sees whether both sides' steps are alike.

    It is the number of products, convolutions and attentions; if a side has graphs, the time of kernels and graphs instead.
    """
    tables = [trace.kernels, trace.graphs] if graphs else [trace.kernels]
    low, high, total = steps.table["start_ns"].min(), steps.table["end_ns"].max(), 0.0
    for table in tables:
        main = table["kind"].isin(MAIN).to_numpy(bool) if "kind" in table and not graphs else np.ones(len(table), dtype=bool)
        rows = table[main] if main.any() else table
        column = "start_ns" if steps.on_device or not rows["launch_ns"].notna().any() else "launch_ns"
        inside = rows[rows[column].between(low, high).fillna(False).to_numpy(bool)]
        total += float((inside["end_ns"] - inside["start_ns"]).sum()) if graphs else float(len(inside))
    return max(total / max(len(steps.table), 1), 0.5)


def _settled(case: DeviceCase) -> list[DeviceFinding]:
    """Return the findings that stand out from the noise, largest first. No row is in two of them."""
    if not case.comparable:
        return []
    result = []
    of_functions = functions.RULES if case.of_functions else None
    for rule in by_kind.RULES if case.counted_apart else of_functions or causes.rules():
        for finding in rule(case):
            if case.taken & set(finding.rows):
                continue
            stands_out = case.stands_out(case.rows_of(finding), finding.told)
            result += [finding] if stands_out else []
            if stands_out or finding.structural:
                case.taken |= set(finding.rows)
    if abstention.only_pace(case, result):
        return []
    return sorted(result, key=lambda finding: (finding.follows, -abs(_explains(case, finding))))


def _explains(case: DeviceCase, finding: DeviceFinding) -> int:
    return int(case.rows_of(finding)["delta_ns"].sum())


# --- plain data -----------------------------------------------------------------------------------------------------------------


def _result(case: DeviceCase, findings: list[DeviceFinding]) -> dict[str, Any]:
    a, b = case.a, case.b
    delta = b.account.step_ns - a.account.step_ns
    interval = _interval(case)
    difference = Difference(delta, interval)
    rows, owner = account_rows.rows(case, findings)
    other_work, programs = amounts.differ(case), amounts.other_programs(case)
    findings = [replace(one, confidence="low", remedy=_OF_PROGRAMS) for one in findings] if programs else findings
    lists_no_work = remarks.lists_no_work(case)
    if lists_no_work:
        findings = [replace(one, confidence="low", remedy=remarks.RECORD_KERNELS) for one in findings]
    plain = [_finding(case, finding, delta, owner, bool(other_work)) for finding in findings]
    abstained, to_find_out = abstention.abstained(case, findings)
    of_faults = [] if any(one.cause == faults.CAUSE for one in findings) else faults.note(case)
    copied = [] if programs else calls.of_copies(case)
    return {
        "schema": SCHEMA,
        "a": _side(a, case.processes[0]), "b": _side(b, case.processes[1]),
        "wall_delta_ns": delta,
        "wall_interval_ns": list(interval) if interval else None,
        "significant": difference.significant if findings or not abstention.alike(case) else False,
        "floor_ns": difference.detection_limit_ns,
        "to_resolve": again.OF_CAPTURES,
        "instrumentation_ns": 0,
        "parts_by": "what the device did",
        "parts": account_rows.parts(case),
        "rows": rows,
        "replaced": [_replacement(one) for one in case.replaced[:_REPLACED]],
        "matches": [],
        "network": None, "mode": None, "batch": None,
        "differs": [*remarks.other_ranks(case), *other_work], "differences": [],
        "missing": {"a": _missing(a), "b": _missing(b)},
        "devices": remarks.devices(case), "cut": lists_no_work or remarks.cut(case),
        "hidden": remarks.hidden(case, findings), "calls": None if programs else calls.sentence(case),
        "host_ns": None if programs or not calls.leads(case) else [int(side.facts["host_ns"]) for side in (a, b)],
        "notes": [*calls.of_waits(case), *copied, *remarks.notes(case, interval is not None), *of_faults,
                  *directives.note(case)],
        "abstained": abstained, "to_find_out": to_find_out,
        "findings": plain,
        "unexplained_ns": delta - sum(one["explains_ns"] for one in plain),
    }  # fmt: skip


def _side(side: DeviceSide, processes: Sequence[int]) -> dict[str, Any]:
    unseen = side.account.time_ns(part=IDLE, cause=idle_causes.UNSEEN) + side.account.time_ns(part=GRAPH)
    unseen += side.account.time_ns(name=UNLISTED)
    return {
        "name": side.label,
        "path": side.path,
        "framework": side.facts.get("framework"),
        "version": side.facts.get("version"),
        "hardware": side.hardware,
        "device": side.account.device,
        "step_ns": side.account.step_ns,
        "busy_ns": side.account.busy_ns,
        "devices": side.busy_ns,
        "recorded_step_ns": side.account.step_ns,
        "removed_ns": 0,
        "restarts": max(len(processes), 1),
        "windows": len(side.account.lengths),
        "steps": side.detected.sentence() if side.detected else None,
        "basis": side.account.basis,
        "printed_only": side.prints_longest_only,
        "counted": "operators" if side.lists_operators else side.facts.get("counted"),
        "iteration": side.facts.get("iteration"),
        "coverage": round(1 - unseen / max(side.account.step_ns, 1), 4),
        "layers": 0,
    }


def _missing(side: DeviceSide) -> dict[str, str]:
    if side.account.basis == TOTALS:
        iteration = side.facts.get("iteration")
        said = {
            "timeline": "durations are added up, even of work that ran at the same time",
            "steps": f"times are those of an iteration ({iteration})" if iteration else "totals have no steps",
        }
        return {**said, "shorter rows": _CUT} if side.prints_longest_only else said
    if side.detected is not None:
        return {}
    what = {
        WINDOW: "nothing repeats, so everything from the device's first work to its last is compared",
        KERNELS: "nothing repeats and the device is mostly idle, so only the kernels are compared",
    }
    return {"steps": what.get(side.account.basis, "")}


def _interval(case: DeviceCase) -> tuple[int, int] | None:
    """Return the interval (95%) of the difference of the mean steps; None with one step a side."""
    off = case.reach_of_steps_ns
    if off is None:
        return None
    delta = case.b.account.step_ns - case.a.account.step_ns
    return round(delta - off), round(delta + off)


def _replacement(one: Replacement) -> dict[str, Any]:
    return {
        "a": sorted(one.a), "b": sorted(one.b), "places": one.places, "a_count": one.a_count, "b_count": one.b_count,
        "a_ns": one.a_ns, "b_ns": one.b_ns, "delta_ns": one.b_ns - one.a_ns, "sentence": one.sentence(),
    }  # fmt: skip


def _finding(case: DeviceCase, finding: DeviceFinding, delta: int, owner: dict[str, str], other_work: bool) -> dict[str, Any]:
    explains = _explains(case, finding)
    rows = case.rows_of(finding)
    off = case.reach_ns(rows)
    names = set(rows.loc[(rows["part"] == COMPUTE).to_numpy(bool), "name"].dropna())
    instead = [one.sentence() for one in case.replaced if not case.totals and one.a | one.b <= names and one.tells_apart()][
        :_PLACES
    ]
    unprinted, computing = case.unsure_ns(rows), rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    caveat = f"Up to {words.duration(unprinted)} of this may be on the other side, too, in rows that were not printed."
    return {
        "cause": finding.cause,
        "title": finding.title,
        "explains_ns": explains,
        "interval_ns": None if off is None else [round(explains - off), round(explains + off)],
        "share": round(explains / delta, 4) if delta else None,
        "confidence": _confidence(case, finding, explains, off, other_work),
        "layers": [],
        "evidence": [
            *([caveat] if unprinted > _UNPRINTED * abs(explains) else []),
            *counted.conclusions(case, computing),
            *finding.evidence,
            *counted.sentences(case, computing),
            *([f"In the middle step: {'; '.join(instead)}."] if instead else []),
        ],
        "remedy": finding.remedy,
        "rows": list(dict.fromkeys(owner[str(row)] for row in rows["row"]))[:40],
    }


def _confidence(case: DeviceCase, finding: DeviceFinding, explains: int, off: float | None, other_work: bool) -> str:
    """Return how sure a finding is: a level lower if the work differs, or if steps without an interval differ little.

    It is medium at most if its interval includes zero.
    """
    delta = case.b.account.step_ns - case.a.account.step_ns
    noise = _interval(case) is None and abs(delta) < CLOSE * case.a.account.step_ns if off is None else abs(explains) <= off
    noise |= abs(explains) <= (case.reach_of_processes_ns or 0.0)
    unsure = noise and (off is None or finding.confidence == "high")
    if case.unsure_ns(case.rows_of(finding)) > _UNPRINTED * abs(explains):
        return "low"
    return _LESS_SURE[finding.confidence] if unsure or other_work else finding.confidence
