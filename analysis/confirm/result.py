"""The result of trials as plain data: for each finding and each change, what was claimed and seen, and what to keep."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from kernelscope.analysis.confirm import verdicts
from kernelscope.analysis.confirm.candidates import Candidate, Claim
from kernelscope.analysis.confirm.interventions import SEPARATORS
from kernelscope.analysis.confirm.runs import TrialRun
from kernelscope.analysis.confirm.verdicts import CONFIRMED, FAILED, NOT_MET, PARTLY, Seen
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.recordings.run import WHOLE

SCHEMA = "kernelscope/confirm/1"
UNCHANGED = "unchanged"
_SHOWN = 3  # remaining pieces of advice
_NO_CHANGE, _NO_TIME = "no change from outside answers it", "for lack of time (--budget)"

Runs = Mapping[str, Sequence[TrialRun]]


@dataclass(frozen=True)
class Together:
    """Changes that were kept together.

    runs: of UNCHANGED and, under `name`, of all of them together. dropped: (change, the change beside it). alone: changes that
    helped but were not tried beside these for lack of time.
    """

    names: tuple[str, ...]
    name: str
    runs: Runs
    dropped: tuple[tuple[str, str], ...]
    alone: tuple[str, ...] = ()


def tried(candidates: Sequence[Candidate], runs: Runs) -> list[dict[str, Any]]:
    """Return a row for each change that was tried, largest saving first.

    Keys: name, topics, title and confidence (of what it answers, the last two for the costliest finding; None without any),
    claimed_ns, saved_ns, interval_ns, p (None if it gave no steps), verdict, reason, met (what it changed), results ("same",
    "differ", "not compared", or why they must differ), peak_bytes, keep, bound, cores (see Intervention).
    """
    base = runs[UNCHANGED]
    whole = {one.intervention.name: runs[one.intervention.name] for one in candidates if _worked(one, runs)}
    steps, others = {name: _steps(mine) for name, mine in whole.items()}, busy(runs) is not None
    seen = verdicts.seen(_steps(base), steps, others) if whole else {}
    rows = [_row(one, runs[one.intervention.name], seen.get(one.intervention.name), base) for one in candidates]
    return sorted(rows, key=lambda row: (row["saved_ns"] is None, -(row["saved_ns"] or 0)))


def _worked(candidate: Candidate, runs: Runs) -> bool:
    mine = runs[candidate.intervention.name]
    return all(run.step_ns is not None for run in mine) and (not candidate.intervention.changes or bool(mine[0].met))


def _steps(runs: Sequence[TrialRun]) -> list[int]:
    return [run.step_ns for run in runs if run.step_ns is not None]


def _row(candidate: Candidate, runs: Sequence[TrialRun], seen: verdicts.Seen | None, base: Sequence[TrialRun]) -> dict[str, Any]:
    one, last = candidate.intervention, runs[-1]
    first = candidate.findings[0] if candidate.findings else None
    missing = FAILED if last.step_ns is None else NOT_MET
    same = verdicts.same_results([run.values for run in base], [run.values for run in runs])
    results = one.results or {True: "same", False: "differ", None: "not compared"}[same]
    return {
        "name": one.name, "topics": [finding.topic for finding in candidate.findings], "title": first.title if first else None,
        "confidence": first.confidence if first else None, "claimed_ns": candidate.claimed_ns,
        "saved_ns": seen.saved_ns if seen else None,
        "interval_ns": list(seen.interval_ns) if seen else None, "p": seen.p if seen else None,
        "verdict": verdicts.verdict(seen, candidate.claimed_ns) if seen is not None else missing,
        "reason": last.reason or None, "met": list(last.met), "results": results, "peak_bytes": _peak(runs), "keep": one.keep,
        "bound": one.bound, "cores": one.cores,
    }  # fmt: skip


def _peak(runs: Sequence[TrialRun]) -> int | None:
    known = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return round(median(known)) if known else None


def of_findings(
    findings: Sequence[Claim], candidates: Sequence[Candidate], rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row for each finding, costliest first, with what the change that answers it best saved.

    candidates: all that answer findings, including those without a row in `rows` for lack of time. Keys: topic, title,
    confidence, claimed_ns, saved_ns, interval_ns, change (None if nothing was tried), verdict, reason.
    """
    return [_of_finding(one, candidates, rows) for one in sorted(findings, key=lambda one: -one.costs_ns)]


def _of_finding(finding: Claim, candidates: Sequence[Candidate], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = [one.intervention.name for one in candidates if finding in one.findings]
    mine = [row for row in rows if row["name"] in names]
    given = {"topic": finding.topic, "title": finding.title, "confidence": finding.confidence, "claimed_ns": finding.costs_ns}
    timed = [row for row in mine if row["saved_ns"] is not None]
    if not timed:
        reason = mine[0]["reason"] if mine else _NO_TIME if names else _NO_CHANGE
        said = {"verdict": mine[0]["verdict"] if mine else FAILED, "reason": reason}
        return {**given, "saved_ns": None, "interval_ns": None, "change": mine[0]["name"] if mine else None, **said}
    best = max(timed, key=lambda row: (_seen(row).sure, row["saved_ns"]))
    verdict = verdicts.verdict(_seen(best), finding.costs_ns)
    return {
        **given, "saved_ns": best["saved_ns"], "interval_ns": best["interval_ns"], "change": best["name"], "verdict": verdict,
        "reason": None,
    }  # fmt: skip


def _seen(row: Mapping[str, Any]) -> Seen:
    return Seen(row["saved_ns"], tuple(row["interval_ns"]), row["p"])


def worth_keeping(rows: Sequence[Mapping[str, Any]], busy: Mapping[str, float] | None = None) -> list[str]:
    """Return the names of the changes that helped and leave results unchanged, largest saving first.

    busy: see `busy`. Next to busy processes, changes of threads may help or hurt only because of these.
    """
    return [
        row["name"] for row in rows
        if row["verdict"] in (CONFIRMED, PARTLY) and not row["bound"] and row["results"] in ("same", "not compared")
        and not (busy and row["cores"])
    ]  # fmt: skip


def busy(runs: Runs) -> dict[str, float] | None:
    """Return how many cores other processes kept busy during trials, and of how many; None if few or unknown."""
    known = [run for mine in runs.values() for run in mine if run.foreign_cores is not None and run.cores]
    return core_use.others(median(run.foreign_cores or 0.0 for run in known), known[0].cores) if known else None


def helps(before: Sequence[TrialRun], after: Sequence[TrialRun]) -> bool:
    """Return whether the second of two trials of the same rounds certainly has shorter steps."""
    if any(run.step_ns is None for run in (*before, *after)):
        return False
    others = busy({"before": before, "after": after}) is not None
    seen = verdicts.seen(_steps(before), {"": _steps(after)}, others)[""]
    return seen.sure and seen.saved_ns > 0


def result(
    path: str,
    record: Mapping[str, Any],
    findings: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    runs: Runs,
    together: Together | None,
    left_out: Sequence[Candidate],
    after: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all results. path: of the recording. record: its run.json. after: from a recording of the program with all that is
    kept; may be empty.

    Keys: schema, path, framework, program (whether its one step is a whole program), rounds, step_ns (of the unchanged
    program), peak_bytes, busy, findings (of_findings), tried (rows), together (names, step_ns, saved_ns, interval_ns, p,
    dropped, alone; from separate runs) or None, keep (lines; none if those runs show no effect), left_out (names), account and
    remains (see `after`; None and empty if not recorded).
    """
    base = runs[UNCHANGED]
    both = _together(together) if together else None
    names = both["names"] if both and _seen(both).sure else []
    return {
        "schema": SCHEMA, "path": path, "framework": str(record["framework"]),
        "program": record["options"]["mode"] == WHOLE, "rounds": len(base),
        "step_ns": round(median(_steps(base))), "peak_bytes": _peak(base), "busy": busy(runs),
        "findings": list(findings), "tried": list(rows),
        "together": both,
        "keep": _to_keep([row["keep"] for name in names for row in rows if row["name"] == name]),
        "left_out": [one.intervention.name for one in left_out], "account": after.get("account"),
        "remains": after.get("remains", []),
    }  # fmt: skip


def _to_keep(lines: Sequence[str]) -> list[str]:
    """Return the lines to keep; those that add to one variable as one."""
    values: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition("=")
        values.setdefault(name if name in SEPARATORS else line, []).append(value)
    return [
        f"{name}={shlex.quote(SEPARATORS[name].join(several))}" if name in SEPARATORS else name
        for name, several in values.items()
    ]


def after(explained: Mapping[str, Any], advised: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a recording with all that is kept.

    explained: its explanation against the original recording (analysis.explain). advised: its advice (analysis.advise). Keys:
    account (a_ns, b_ns, parts_by and parts: part, delta_ns; the largest, and the rest as one), remains (title, saves_ns,
    at_most).
    """
    account = {"a_ns": explained["a"]["step_ns"], "b_ns": explained["b"]["step_ns"]}
    account |= {name: explained[name] for name in ("parts_by", "parts")}
    remains = [{name: piece[name] for name in ("title", "saves_ns", "at_most")} for piece in advised["advice"][:_SHOWN]]
    return {"account": account, "remains": remains}


def _together(together: Together) -> dict[str, Any]:
    base = _steps(together.runs[UNCHANGED])
    others = busy(together.runs) is not None
    seen = verdicts.seen(base, {together.name: _steps(together.runs[together.name])}, others)[together.name]
    return {
        "names": list(together.names), "step_ns": round(mean(base)), "saved_ns": seen.saved_ns,
        "interval_ns": list(seen.interval_ns), "p": seen.p,
        "dropped": [{"name": name, "beside": beside} for name, beside in together.dropped], "alone": list(together.alone),
    }  # fmt: skip
