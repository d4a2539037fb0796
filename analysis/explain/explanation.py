"""Explain the difference of two sides: the account, the causes that rules find in it, and when no cause may be named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting import fairness
from kernelscope.analysis.explain import abstention, again, causes, changed_lines, claims, noise, onnx_nodes, sides
from kernelscope.analysis.explain.account import account as make_account
from kernelscope.analysis.explain.account import parts
from kernelscope.analysis.explain.alignment import align
from kernelscope.analysis.explain.causes import changed_code, other_work, work
from kernelscope.analysis.explain.model import Account, Case, Match, Side
from kernelscope.analysis.formats.onnxruntime import first_run
from kernelscope.analysis.trace import plain
from kernelscope.analysis.trace.notebook import Shown

__all__ = ["Side", "explain"]

SCHEMA = "kernelscope/explain/1"
MOST_UNMATCHED = 0.2  # of the layers' time on either side: if more is in layers without a counterpart, confidence is lower
_HOW = "rerun"  # an option on how passes were made, not on what ran
_OTHER_WORK = (work.MORE, work.OTHER, other_work.FUNCTION, other_work.LAYERS)  # a changed line is the remedy for these
_LOWER = {"high": "medium", "medium": "low", "low": "low"}


def explain(a: Side, b: Side, *, mapping: Mapping[str, str] | None = None, force: bool = False) -> dict[str, Any]:
    """Explain why B takes more or less time than A; return the plain data that reports draw (see docs/explain-json.md).

    mapping: names of A's layers to the corresponding names in B. Raises EvidenceError if the sides did different work, unless
    `force`, and then `differs` says so. Times are integer ns per step, and sum(row["delta_ns"] for row in rows) +
    instrumentation_ns == wall_delta_ns.
    """
    a, b = sides.with_distinct_names(a, b)
    differs = [*sides.same_work(a, b), *onnx_nodes.unlike(a, b)]
    if not force:
        sides.refuse_different_work(a, b)
    matches = align(a.layers, b.layers, dict(mapping) if mapping else None)
    account = make_account(a, b, matches)
    case = Case(a, b, matches, account, differences(a, b))
    case.changes = changed_lines.changed(case)
    abstained = abstention.reason(case, force)
    result = []
    if abstained is None:
        suspicions = [suspicion for rule in causes.rules(onnx_nodes.both_compute(a, b)) for suspicion in rule(case)]
        result = claims.settle(case, suspicions)
    restless = noise.restless(case.a, case.b, account.restarts)
    findings = [claims.as_dict(finding, account) for finding in result]
    if restless is not None or unmatched(case) > MOST_UNMATCHED or _first_runs(case):
        findings = [{**finding, "confidence": _LOWER[finding["confidence"]]} for finding in findings]
    if account.wall.significant is False or onnx_nodes.doubt(a, b):
        # processor time shows that something changed, not how much longer a step is; other models differ in all
        findings = [{**finding, "confidence": "low"} for finding in findings]
    findings = [{**one, "confidence": "low"} if changed_lines.elsewhere(case, one["cause"]) else one for one in findings]
    for finding in findings[:1]:
        named = changed_lines.named(case, result[0].granted, finding["cause"])
        if named and finding["cause"] != changed_code.LINES:
            finding["evidence"] = [named[1], *finding["evidence"]]
            if finding["cause"] in _OTHER_WORK:
                finding["remedy"] = changed_lines.remedy(case, named[0])
    unexplained = account.wall.delta_ns - sum(finding["explains_ns"] for finding in findings)
    to_find_out = abstained[1] if abstained else None if findings else _lines_of(case)
    reasons = {"abstained": abstained[0] if abstained else None, "to_find_out": to_find_out}
    parts = {**_numbers(case), **_context(case, differs), **reasons}
    if abstained is not None and account.wall.significant is False:
        parts["significant"] = False
    return Shown({**parts, "changes": case.changes, "findings": findings, "unexplained_ns": unexplained})


def differences(a: Side, b: Side) -> dict[str, tuple[Any, Any]]:
    """Return the settings, versions, options and variables in which two sides differ: name -> (value of A, value of B).

    Values that only one side states have None on the other; between frameworks these are left out, as one may not have the
    setting. The names of users' own scripts are not settings.
    """
    stated = {}
    for name, side in (("a", a), ("b", b)):
        stated[name] = {part: side.facts.get(part) or {} for part in ("settings", "versions")}
    table = fairness.differences(stated)
    same = a.framework == b.framework
    result = {str(row.setting): (_known(row.a), _known(row.b)) for row in table.itertuples()}
    result = {name: pair for name, pair in result.items() if same or None not in pair}
    for part in ("options", "variables"):
        left, right = (side.facts.get(part) or {} for side in (a, b))
        for name in dict.fromkeys([*left, *right]):
            if left.get(name) != right.get(name) and name != _HOW and not (name == "network" and sides.are_scripts(a, b)):
                result[name] = (left.get(name), right.get(name))
    return result


def unmatched(case: Case) -> float:
    """Return the share of the layers' time in layers without a counterpart, on the side that has more of it.

    Between runs of one framework it is 0: there such layers are a cause of their own.
    """
    if case.same_framework:
        return 0.0
    alone = {match.label for match in case.matches if not (match.a and match.b)}
    rows = case.rows[~case.rows["layer"].str.startswith("(").fillna(True).to_numpy(bool)]
    lonely = rows[rows["layer"].isin(list(alone)).to_numpy(bool)]
    shares = [float(lonely[name].sum()) / max(float(rows[name].sum()), 1.0) for name in ("a_ns", "b_ns")]
    return max(shares)


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def _numbers(case: Case) -> dict[str, Any]:
    """Return the account as plain data."""
    account, wall = case.account, case.account.wall
    by, largest = parts(account)
    return {
        "schema": SCHEMA,
        "a": _side(case.a, account, "a", wall.a_ns),
        "b": _side(case.b, account, "b", wall.b_ns),
        "wall_delta_ns": wall.delta_ns,
        "wall_interval_ns": list(wall.interval_ns) if wall.interval_ns else None,
        "significant": wall.significant or (account.seen_by_processor if wall.significant is False else None),
        "floor_ns": wall.floor_ns,
        "to_resolve": again.of_sides(case.a, case.b, account.restarts),
        "processor": _processor(account),
        "instrumentation_ns": account.instrumentation_ns,
        "parts_by": by,
        "parts": [{"part": part.part, "delta_ns": part.delta_ns} for part in largest],
        "rows": _rows(account),
        "matches": [_match(match) for match in case.matches],
    }


def _processor(account: Account) -> dict[str, Any] | None:
    """Return the processor time of both steps in ns, and the interval of the difference; None if not recorded."""
    used = account.processor
    if used is None:
        return None
    return {"a_ns": used.a_ns, "b_ns": used.b_ns, "interval_ns": list(used.interval_ns) if used.interval_ns else None}


def _side(side: Side, account: Account, key: str, step_ns: int) -> dict[str, Any]:
    return {
        "name": side.name,
        "path": side.path,
        "framework": side.framework,
        "version": side.facts.get("version"),
        "step_ns": step_ns,
        "recorded_step_ns": account.recorded_ns[key],
        "removed_ns": account.removed_ns[key],
        "restarts": int(side.windows["restart"].nunique()),
        "windows": len(side.windows),
        "coverage": round(abstention.coverage(side), 4),
        "layers": len(side.layers),
    }


def _rows(account: Account) -> list[dict[str, Any]]:
    rows = account.rows.drop(columns=["a_count", "b_count"])
    there = {side: rows.index.isin(account.of_side(side)["row"]) for side in ("a", "b")}
    rows = rows.assign(only=pd.Series("a", index=rows.index).mask(there["b"], "b").mask(there["a"] & there["b"]))
    return [{name: value.item() if hasattr(value, "item") else value for name, value in row.items()} for row in plain.rows(rows)]


def _match(match: Match) -> dict[str, Any]:
    return {"a": list(match.a), "b": list(match.b), "label": match.label, "confidence": round(match.confidence, 3),
            "how": match.how, "note": match.note}  # fmt: skip


def _context(case: Case, differs: list[str]) -> dict[str, Any]:
    a, b = case.a, case.b
    shared = {name: a.facts.get(fact) for name, fact in (("network", "network_name"), ("mode", "mode"), ("batch", "batch"))}
    settings = [{"setting": name, "a": pair[0], "b": pair[1]} for name, pair in case.differences.items()]
    return {
        **shared,
        "differs": differs,
        "differences": settings,
        "missing": {"a": a.missing, "b": b.missing},
        "notes": _notes(case),
    }


def _in_turns(a: Side, b: Side) -> bool:
    """Return whether both sides were recorded in one session or in turns, so that drift affects both alike."""
    times = [sorted(side.facts.get("restarts_created") or [str(side.facts.get("created"))]) for side in (a, b)]
    first, second = times
    return first == second or (len(first) > 1 and len(second) > 1 and first[0] < second[-1] and second[0] < first[-1])


def _notes(case: Case) -> list[str]:
    """Return what a reader must know about how the numbers were made."""
    a, b = case.a, case.b
    notes = [*_of_recordings(case), *filter(None, [_grows(case)])]
    cores = noise.disturbed(a, b)
    if cores is not None:
        notes.append(
            f"other processes kept up to {cores:.1f} cores busy meanwhile: steps and their parts include waiting for cores"
        )
    if a.clean_ns is not None and b.clean_ns is not None and not case.account.floor and not _in_turns(a, b):
        notes.append(f"recorded at different times: the difference includes the machine's drift; record {again.in_turns(a, b)}")
    if unmatched(case) > MOST_UNMATCHED:
        notes.append(
            f"{unmatched(case):.0%} of the layers' time is in layers without a counterpart: --map tells which correspond"
        )
    doubt = onnx_nodes.doubt(a, b)
    notes += [doubt] if doubt and not onnx_nodes.unlike(a, b) else []
    if first := _first_runs(case):
        notes.append(
            f"only the first run of the session was recorded in {' and '.join(first)}: {first_run.SETS_UP}; record several"
        )
    for side in (a, b):
        if not side.layers:
            notes.append(f"{side.name}: the capture names no layers, so kinds and kernels are explained")
    return notes


def _first_runs(case: Case) -> list[str]:
    """Return the sides of which only the first run of a session was recorded."""
    return [side.name for side in (case.a, case.b) if first_run.is_alone(side.trace)]


def _of_recordings(case: Case) -> list[str]:
    """Return notes on clean passes, restarts and windows, and on the basis of intervals."""
    notes, account = [], case.account
    if case.a.clean_ns is None or case.b.clean_ns is None:
        notes.append("not both sides have a clean pass: steps are compared as recorded, including the cost of recording")
    if account.wall.significant is False and account.seen_by_processor:
        notes.append("the step times alone are too noisy to tell; processor time shows the difference")
    if account.floor:
        when = "" if _in_turns(case.a, case.b) else ", at different times"
        allowed = f"intervals allow for {account.floor:.0%} between two processes of one program"
        notes.append(f"one recording of each side{when}: {allowed}")
        restless = noise.restless(case.a, case.b, account.restarts)
        if restless is not None:
            notes.append(f"processes of one program differ by up to {restless:.0%} here: record several of each side to be sure")
    elif account.restarts == 1 and account.samples is not None:
        notes.append("one recording of each side: intervals do not cover how processes differ from one another")
    if account.samples is None:
        notes.append(f"{_few_windows(case)}: how much of the difference is noise is not known")
    return notes


def _few_windows(case: Case) -> str:
    """Return why there is no interval: a single window of a side, or of both."""
    few = [side.name for side in (case.a, case.b) if len(side.windows) == 1]
    return f"{'a single window' if len(few) != 1 else f'a single window in {few[0]}'}, so there is no interval"


def _lines_of(case: Case) -> str | None:
    """Say what to look at if no rule finds anything; None unless both sides are runs, which have lines."""
    if any(again.recorded_by(side.facts) == again.CAPTURE for side in (case.a, case.b)):
        return None
    return (
        " and ".join(f"kernelscope breakdown {side.path} --by line" for side in (case.a, case.b))
        + " show which lines take longer"
    )


def _grows(case: Case) -> str | None:
    """Note changed lines that take more time than the earlier clean steps can differ by; None if there are none."""
    ends = case.account.wall.interval_ns
    moved = sum(row["delta_ns"] or 0 for row in case.changes)
    if ends is None or abs(moved) <= max(map(abs, ends)):
        return None
    return (
        f"the changed lines take {moved / 1e6:+.3g} ms a step in the pass that times them, after the clean steps, which differ "
        "by less: their work may grow while the program runs; record later steps, too (--steps A:B)"
    )
