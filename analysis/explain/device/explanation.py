"""Explain the difference of two captures of device work: the account, findings in parts that add up, and when none is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import COMMUNICATION, COMPUTE, COPY, GRAPH, IDLE, KERNELS, WINDOW
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.steps import Found, Request
from kernelscope.analysis.explain.device import causes, words
from kernelscope.analysis.explain.device.case import Case, Finding, case_of, variance_of_mean
from kernelscope.analysis.explain.device.labels import labels
from kernelscope.analysis.explain.device.side import Capture, DeviceSide, side_of, takes_all
from kernelscope.analysis.notebook import Shown

SCHEMA = "kernelscope/explain/1"
_SMALLEST = 0.015  # of a step: as much as two runs of one program differ by
_PARTS = 8
_OPPOSED = 0.5  # share of the larger movement from which an opposite one is said to hide it


def explain(a: Capture, b: Capture, request: Request | None = None) -> dict[str, Any]:
    """Return why B takes another time than A, as analysis.explain does: rows that add up to the difference, and findings.

    request: what to take as steps, and which device. Raises EvidenceError where that is not in a capture.
    """
    request = request or Request()
    names = labels(a.path, b.path)
    whole = request.device is None and takes_all(a.trace, b.trace)
    found = _steps(a, b, request)
    sides = [side_of(side, name, steps, request, whole) for side, name, steps in zip((a, b), names, found, strict=True)]
    case = case_of(*sides)
    findings = _settled(case) if a.path != b.path else []
    return Shown(_result(case, findings))


def _steps(a: Capture, b: Capture, request: Request) -> tuple[Found | None, Found | None]:
    """Return the steps of both sides: of what they may be, the likeliest that are of one kind and size on both."""
    tried = [finding_steps.candidates(side.trace, request) for side in (a, b)]
    if not all(tried):
        return None, None
    best: tuple[tuple[float, int], Found, Found] | None = None
    for place, mine in enumerate(tried[0]):
        for other_place, other in enumerate(tried[1]):
            apart = _apart(a, mine, b, other)
            rank = (0.0 if apart < np.log(1.5) else apart, place + other_place)
            if best is None or rank < best[0]:
                best = (rank, mine, other)
    assert best is not None
    return best[1], best[2]


def _apart(a: Capture, mine: Found, b: Capture, other: Found) -> float:
    """Return by how much, as a logarithm, the numbers of main kernels in a step differ: what is no step on one side stands out."""
    counts = []
    for side, found in ((a, mine), (b, other)):
        kernels = side.trace.kernels
        main = kernels[
            kernels["kind"].isin(["gemm", "attention", "convolution forward", "convolution data gradient"]).to_numpy(bool)
        ]
        rows = main if len(main) else kernels
        column = "launch_ns" if rows["launch_ns"].notna().any() else "start_ns"
        inside = rows[column].between(found.table["start_ns"].min(), found.table["end_ns"].max()).fillna(False)
        counts.append(max(float(inside.sum()) / max(len(found.table), 1), 0.5))
    return abs(float(np.log(counts[1] / counts[0]))) + (0.05 if mine.method != other.method else 0.0)


def _settled(case: Case) -> list[Finding]:
    """Return the findings that stand out of the noise, those that account for most first; each row is in one of them."""
    found = []
    for rule in causes.rules():
        for finding in rule(case):
            rows = case.rows[case.rows["row"].isin(finding.rows).to_numpy(bool)]
            if not case.taken & set(finding.rows) and case.stands_out(rows):
                found.append(finding)
                case.taken |= set(finding.rows)
    return sorted(found, key=lambda finding: -abs(_explains(case, finding)))


def _explains(case: Case, finding: Finding) -> int:
    return int(case.rows.loc[case.rows["row"].isin(finding.rows).to_numpy(bool), "delta_ns"].sum())


# --- plain data -----------------------------------------------------------------------------------------------------------------


def _result(case: Case, findings: list[Finding]) -> dict[str, Any]:
    a, b = case.a, case.b
    delta = b.account.step_ns - a.account.step_ns
    interval = _interval(case)
    plain = [_finding(case, finding, delta) for finding in findings]
    abstained, to_find_out = _abstained(case, findings)
    return {
        "schema": SCHEMA,
        "a": _side(a), "b": _side(b),
        "wall_delta_ns": delta,
        "wall_interval_ns": list(interval) if interval else None,
        "significant": None if interval is None else not interval[0] <= 0 <= interval[1],
        "floor_ns": None if interval is None else round((interval[1] - interval[0]) / 2),
        "instrumentation_ns": 0,
        "parts_by": "part",
        "parts": _parts(case),
        "rows": _rows(case),
        "matches": [],
        "network": None, "mode": None, "batch": None,
        "differs": [], "differences": [],
        "missing": {"a": _missing(a), "b": _missing(b)},
        "hidden": _hidden(case, findings),
        "notes": _notes(case),
        "abstained": abstained, "to_find_out": to_find_out,
        "findings": plain,
        "unexplained_ns": delta - sum(one["explains_ns"] for one in plain),
    }  # fmt: skip


def _side(side: DeviceSide) -> dict[str, Any]:
    unseen = side.account.time_ns(part=IDLE, cause=idle_causes.UNSEEN) + side.account.time_ns(part=GRAPH)
    return {
        "name": side.name,
        "path": side.path,
        "framework": side.facts.get("framework"),
        "version": side.facts.get("version"),
        "hardware": side.hardware,
        "device": side.account.device,
        "step_ns": side.account.step_ns,
        "busy_ns": side.account.busy_ns,
        "recorded_step_ns": side.account.step_ns,
        "removed_ns": 0,
        "restarts": 1,
        "windows": len(side.account.lengths),
        "steps": side.found.sentence() if side.found else None,
        "basis": side.account.basis,
        "coverage": round(1 - unseen / max(side.account.step_ns, 1), 4),
        "layers": 0,
    }


def _missing(side: DeviceSide) -> dict[str, str]:
    if side.found is not None:
        return {}
    what = {
        WINDOW: "nothing repeats: all from the device's first work to its last is compared",
        KERNELS: "nothing repeats, and the device mostly idles: the kernels alone are compared",
    }
    return {"steps": what.get(side.account.basis, "")}


def _interval(case: Case) -> tuple[int, int] | None:
    """Return the interval (95%) of the difference of the mean steps, by their standard errors; None with fewer than 4 a side."""
    error = 0.0
    for side in (case.a, case.b):
        lengths = side.account.lengths.astype(float)
        if len(lengths) < 4:
            return None
        error += variance_of_mean(lengths)
    delta, reach = case.b.account.step_ns - case.a.account.step_ns, 2.0 * error**0.5
    return round(delta - reach), round(delta + reach)


def _finding(case: Case, finding: Finding, delta: int) -> dict[str, Any]:
    explains = _explains(case, finding)
    rows = case.rows[case.rows["row"].isin(finding.rows).to_numpy(bool)]
    error = case.standard_error_ns(rows)
    return {
        "cause": finding.cause,
        "title": finding.title,
        "explains_ns": explains,
        "interval_ns": None if error is None else [round(explains - 2 * error), round(explains + 2 * error)],
        "share": round(explains / delta, 4) if delta else None,
        "confidence": finding.confidence,
        "layers": [],
        "evidence": finding.evidence,
        "remedy": finding.remedy,
        "rows": rows["row"].tolist()[:40],
    }


def _abstained(case: Case, findings: list[Finding]) -> tuple[str | None, str | None]:
    a, b = case.a, case.b
    if a.path == b.path:
        return "both sides are the same recording", "name two different ones"
    if findings:
        return None, None
    delta = abs(b.account.step_ns - a.account.step_ns)
    if delta < _SMALLEST * min(a.account.step_ns, b.account.step_ns):
        return "the steps differ by less than two runs of one program do, and so does each part of them", None
    host = case.rows[(case.rows["part"] == IDLE).to_numpy(bool)]
    mostly = abs(int(host["delta_ns"].sum())) > 0.5 * delta
    why = (
        "the difference is of the host's own pace, by no more than two runs of one program can differ"
        if mostly
        else ("no part of the step differs by more than two runs of one program can")
    )
    return why, "record more steps, or each side several times"  # fmt: skip


def _label(row: Any) -> str:
    if row.part == IDLE:
        return f"(idle: {row.cause})"
    if row.part == COPY:
        return f"(copy {row.kind})" if row.kind != "set" else "(memory set)"
    if row.part == COMMUNICATION:
        return "(exposed communication)"
    return "(CUDA graph)" if row.part == GRAPH else str(row.kind) if isinstance(row.kind, str) else "unknown"


def _rows(case: Case) -> list[dict[str, Any]]:
    found = []
    for row in case.rows.itertuples():
        name = words.kernel(row.name) if row.part in (COMPUTE, COMMUNICATION) and isinstance(row.name, str) else row.detail
        there = [key for key in ("a", "b") if getattr(row, f"{key}_ns") or getattr(row, f"{key}_count")]
        found.append({
            "row": row.row, "layer": name if isinstance(name, str) else _label(row), "layer_a": None, "layer_b": None,
            "phase": None, "cell": _label(row), "a_ns": int(row.a_ns), "b_ns": int(row.b_ns), "delta_ns": int(row.delta_ns),
            "ci_low_ns": None, "ci_high_ns": None, "significant": None, "only": there[0] if len(there) == 1 else None,
            "a_count": round(float(row.a_count), 3), "b_count": round(float(row.b_count), 3),
            "name": row.name if isinstance(row.name, str) else None,
        })  # fmt: skip
    return found


def _parts(case: Case) -> list[dict[str, Any]]:
    label = pd.Series([_label(row) for row in case.rows.itertuples()], index=case.rows.index)
    sums = case.rows.groupby(label)["delta_ns"].sum()
    sums = sums.reindex(sums.abs().sort_values(ascending=False, kind="stable").index)
    shown, rest = sums.iloc[:_PARTS], sums.iloc[_PARTS:]
    found = [{"part": str(part), "delta_ns": int(ns)} for part, ns in shown.items()]
    return [*found, {"part": f"({len(rest)} more)", "delta_ns": int(rest.sum())}] if len(rest) else found


def _hidden(case: Case, findings: list[Finding]) -> str | None:
    """Return a sentence where what gets faster and what gets slower hide one another; None where they do not."""
    moves = [_explains(case, finding) for finding in findings]
    up, down = sum(ns for ns in moves if ns > 0), sum(ns for ns in moves if ns < 0)
    if min(up, -down) < _OPPOSED * max(up, -down) or not up:
        return None
    gains = [finding.cause for finding, ns in zip(findings, moves, strict=True) if ns < 0]
    losses = [finding.cause for finding, ns in zip(findings, moves, strict=True) if ns > 0]
    return (
        f"two movements hide each other: {words.ms(-down)} a step are won in {case.b.name} ({words.listed(gains)}) "
        f"and {words.ms(up)} are lost ({words.listed(losses)})"
    )


def _notes(case: Case) -> list[str]:
    notes = []
    for side in (case.a, case.b):
        steps = f": {side.found.sentence()}" if side.found else ""
        where = f" on {side.hardware}" if side.hardware else ""
        notes.append(f"{side.name} is {side.path}{where}{steps}")
        outside = side.account.outside
        lost = outside[outside["count"] > 0]
        if len(lost):
            parts = [
                f"{row.count_} {row.part} ({words.ms(row.duration_ns)})"
                for row in lost.rename(columns={"count": "count_"}).itertuples()
            ]
            notes.append(f"{side.name}, outside of steps: {', '.join(parts)}")
    notes.append("one recording of each side: how processes of one program differ is not in the interval")
    return notes
