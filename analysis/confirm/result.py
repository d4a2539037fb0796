"""What trials of changes came to, as plain data: of each what was claimed and seen, what to keep, what that saves together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelscope.analysis.confirm import verdicts
from kernelscope.analysis.confirm.interventions import Candidate
from kernelscope.analysis.confirm.runs import Run
from kernelscope.analysis.confirm.verdicts import CONFIRMED, FAILED, NOT_MET, PARTLY

SCHEMA = "kernelscope/confirm/1"
UNCHANGED = "unchanged"


Runs = Mapping[str, Sequence[Run]]


@dataclass(frozen=True)
class Together:
    """Changes that were kept together. runs: of UNCHANGED and of all of them, under `name`. dropped: (change, beside which)."""

    names: tuple[str, ...]
    name: str
    runs: Runs
    dropped: tuple[tuple[str, str], ...]


def tried(candidates: Sequence[Candidate], runs: Runs, advised: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each change that was tried, what saved most first.

    Keys: name, topics and title (of the advice that it answers; title None without any), claimed_ns, saved_ns, interval_ns, p
    (None where it gave no steps), verdict, reason, met (what it changed), results ("same", "differ", "not compared", or why they
    have to differ), peak_bytes, keep, bound.
    """
    base = runs[UNCHANGED]
    whole = {one.intervention.name: runs[one.intervention.name] for one in candidates if _worked(one, runs)}
    seen = verdicts.seen(_steps(base), {name: _steps(mine) for name, mine in whole.items()}) if whole else {}
    rows = [_row(one, runs[one.intervention.name], seen.get(one.intervention.name), base, advised) for one in candidates]
    return sorted(rows, key=lambda row: (row["saved_ns"] is None, -(row["saved_ns"] or 0)))


def _worked(candidate: Candidate, runs: Runs) -> bool:
    mine = runs[candidate.intervention.name]
    return all(run.step_ns is not None for run in mine) and (not candidate.intervention.changes or bool(mine[0].met))


def _steps(runs: Sequence[Run]) -> list[int]:
    return [run.step_ns for run in runs if run.step_ns is not None]


def _row(
    candidate: Candidate, runs: Sequence[Run], seen: verdicts.Seen | None, base: Sequence[Run], advised: Mapping[str, Any]
) -> dict[str, Any]:
    one, last = candidate.intervention, runs[-1]
    pieces = [piece for piece in advised["advice"] if piece["topic"] in one.topics]
    missing = FAILED if last.step_ns is None else NOT_MET
    same = verdicts.same_results([run.values for run in base], [run.values for run in runs])
    results = one.results or {True: "same", False: "differ", None: "not compared"}[same]
    return {
        "name": one.name, "topics": [piece["topic"] for piece in pieces], "title": pieces[0]["title"] if pieces else None,
        "claimed_ns": candidate.claimed_ns, "saved_ns": seen.saved_ns if seen else None,
        "interval_ns": list(seen.interval_ns) if seen else None, "p": seen.p if seen else None,
        "verdict": verdicts.verdict(seen, candidate.claimed_ns) if seen is not None else missing,
        "reason": last.reason or None, "met": list(last.met), "results": results, "peak_bytes": _peak(runs), "keep": one.keep,
        "bound": one.bound,
    }  # fmt: skip


def _peak(runs: Sequence[Run]) -> int | None:
    known = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return round(median(known)) if known else None


def worth_keeping(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the changes that helped and leave results as they are, what saved most first."""
    return [
        row["name"] for row in rows
        if row["verdict"] in (CONFIRMED, PARTLY) and not row["bound"] and row["results"] in ("same", "not compared")
    ]  # fmt: skip


def helps(before: Sequence[Run], after: Sequence[Run]) -> bool:
    """Return whether the second of two trials of the same rounds has surely shorter steps."""
    if any(run.step_ns is None for run in (*before, *after)):
        return False
    seen = verdicts.seen(_steps(before), {"": _steps(after)})[""]
    return seen.sure and seen.saved_ns > 0


def result(
    advised: Mapping[str, Any],
    rows: Sequence[dict[str, Any]],
    runs: Runs,
    together: Together | None,
    left_out: Sequence[Candidate],
) -> dict[str, Any]:
    """Return all of it.

    Keys: schema, path, framework, rounds, step_ns (of the unchanged program), peak_bytes, tried (rows), together (names,
    saved_ns, interval_ns, p, dropped) or None, keep (lines), left_out (names).
    """
    base = runs[UNCHANGED]
    names = list(together.names) if together else []
    return {
        "schema": SCHEMA, "path": advised["path"], "framework": advised["framework"], "rounds": len(base),
        "step_ns": round(median(_steps(base))), "peak_bytes": _peak(base), "tried": list(rows),
        "together": _together(together) if together else None,
        "keep": [row["keep"] for name in names for row in rows if row["name"] == name],
        "left_out": [one.intervention.name for one in left_out],
    }  # fmt: skip


def _together(together: Together) -> dict[str, Any]:
    base = _steps(together.runs[UNCHANGED])
    seen = verdicts.seen(base, {together.name: _steps(together.runs[together.name])})[together.name]
    return {
        "names": list(together.names), "step_ns": round(median(base)), "saved_ns": seen.saved_ns,
        "interval_ns": list(seen.interval_ns), "p": seen.p,
        "dropped": [{"name": name, "beside": beside} for name, beside in together.dropped],
    }  # fmt: skip
