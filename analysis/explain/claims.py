"""From suspicions to findings: each ns of the difference is granted once, and what may be noise is not granted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.statistics import interval
from kernelscope.analysis.explain import noise
from kernelscope.analysis.explain.model import INSTRUMENTATION, Account, Case, Suspicion

SMALLEST_SHARE = 0.02  # of the wall difference: nobody would act on a smaller cause
SMALLEST_GUESS = 0.25  # of it, for causes that are only plausible, if each side was recorded once
WHOLE = 0.01  # of the wall difference: findings this close to it explain all of it
LEAST_REST = 0.3  # of either side's step: a smaller rest does not show how everything else changes
LEADING = ("different devices",)  # listed first, whatever their size: all else depends on them
_PLAUSIBLE = 2  # precedence of what is left over (see Suspicion)
_BY_COUNT = ("more work", "more parameters")  # causes that are counted, not timed: named even if noise hides their cost
LISTED_ROWS = 40  # rows of a finding that are listed, largest first: the others are in the account


@dataclass(frozen=True)
class Finding:
    """A cause with the ns that it was granted by row (positive: it makes B slower), and their interval if there is one."""

    suspicion: Suspicion
    granted: dict[str, int]
    interval_ns: tuple[int, int] | None

    @property
    def explains_ns(self) -> int:
        """How much of the wall difference it explains."""
        return sum(self.granted.values())


def settle(case: Case, suspicions: list[Suspicion]) -> list[Finding]:
    """Return the findings, those that explain most of the difference first.

    Recorded differences that decide rows by themselves are granted first (precedence), then larger claims. Over all findings, a
    row grants at most its own difference, in its own sign. Suspicions smaller than SMALLEST_SHARE of the wall difference, or
    with zero in their interval, are dropped and take nothing. If that leaves none, causes that are counted are named.
    """
    account = case.account
    left = {str(row): int(delta) for row, delta in account.rows["delta_ns"].items()}
    left[INSTRUMENTATION] = account.instrumentation_ns
    findings = []
    for suspicion in sorted(suspicions, key=lambda one: (one.precedence, -abs(sum(_granted(one, left).values())))):
        granted = _granted(suspicion, left)
        result = Finding(suspicion, granted, _interval(account, granted))
        claimed = sum(suspicion.claims.values())  # if what is left turns the sign, the title would be wrong
        if _worth(result, account) and claimed * result.explains_ns > 0 and not _moves_with_all(result, account):
            findings.append(result)
            for row, amount in granted.items():
                left[row] -= amount
    sign = 1 if account.wall.delta_ns >= 0 else -1
    if not findings:
        findings = _counted(suspicions, left, account)
    if account.floor and case.a.framework == case.b.framework:
        findings = _within(findings, account, sign)
    return sorted(findings, key=lambda result: (result.suspicion.cause not in LEADING, -sign * result.explains_ns))


def _counted(suspicions: list[Suspicion], left: dict[str, int], account: Account) -> list[Finding]:
    """Return findings on differences in what was executed: these are certain, but the cost of each is not."""
    least = max(1.0, SMALLEST_SHARE * abs(account.wall.delta_ns))
    findings = []
    for suspicion in suspicions:
        granted = _granted(suspicion, left)
        explains = sum(granted.values())
        if suspicion.cause not in _BY_COUNT or abs(explains) < least or explains * account.wall.delta_ns <= 0:
            continue
        confidence = "medium" if suspicion.confidence == "high" else suspicion.confidence
        findings.append(Finding(replace(suspicion, confidence=confidence), granted, _interval(account, granted)))
        for row, amount in granted.items():
            left[row] -= amount
    return findings


def _within(findings: list[Finding], account: Account, sign: int) -> list[Finding]:
    """Return findings that together explain no more than the difference plus what other findings take off it.

    The findings granted last give way: in single recordings of one framework, rows also move by chance, in both directions.
    Between frameworks nearly all rows differ, so what the causes claim beyond the difference is shown as unexplained, with its
    sign.
    """
    allowed = abs(account.wall.delta_ns) + sum(max(0, -sign * one.explains_ns) for one in findings)
    kept = []
    for one in findings:
        mine = sign * one.explains_ns
        if mine > allowed > 0:
            granted = {row: round(ns * allowed / mine) for row, ns in one.granted.items()}
            one = Finding(one.suspicion, granted, one.interval_ns)
        if mine > 0 and (allowed <= 0 or abs(one.explains_ns) < max(1.0, SMALLEST_SHARE * abs(account.wall.delta_ns))):
            continue
        allowed -= max(0, sign * one.explains_ns)
        kept.append(one)
    return kept


def _granted(suspicion: Suspicion, left: dict[str, int]) -> dict[str, int]:
    """Return what rows still have of a suspicion's claims."""
    granted = {}
    for row, claim in suspicion.claims.items():
        rest = left.get(row, 0)
        amount = min(abs(round(claim)), abs(rest)) * (1 if rest > 0 else -1)
        if amount and claim * rest > 0:
            granted[row] = amount
    return granted


def _interval(account: Account, granted: dict[str, int]) -> tuple[int, int] | None:
    """Return the interval of a finding's ns: the rows' samples, each times the share that was granted."""
    if account.samples is None or account.by_restart is None or not granted:
        return None
    wall, explained = account.wall, sum(granted.values())
    if abs(explained - wall.delta_ns) <= WHOLE * abs(wall.delta_ns):
        return _of_whole(account)  # clean times are less noisy than the sum of recorded rows
    delta = account.rows["delta_ns"]
    share = np.array([granted.get(str(row), 0) / whole if whole else 0.0 for row, whole in delta.items()])
    fixed = granted.get(INSTRUMENTATION, 0)  # a difference of wall times, whose noise the wall's own interval shows
    result = interval(explained, account.samples @ share + fixed, account.by_restart @ share + fixed)
    larger = account.rows[["a_ns", "b_ns"]].max(axis=1).to_numpy(dtype=float)
    return noise.widened(result, explained, account.floor * float((larger * np.abs(share)).sum()))


def _of_whole(account: Account) -> tuple[int, int] | None:
    """Return the interval of the whole difference; if only processor time shows it, one with the same relative width."""
    wall, used = account.wall, account.processor
    if wall.significant is not False or not account.seen_by_processor or used is None or used.interval_ns is None:
        return wall.interval_ns
    low, high = sorted(round(wall.delta_ns * end / used.delta_ns) for end in used.interval_ns)
    return low, high


def _worth(finding: Finding, account: Account) -> bool:
    """Return whether a finding is large enough to name and not noise."""
    suspicion = finding.suspicion
    guessed = account.floor > 0 and (suspicion.precedence == _PLAUSIBLE or suspicion.confidence != "high")
    least = SMALLEST_GUESS if guessed else SMALLEST_SHARE
    if abs(finding.explains_ns) < max(1.0, least * abs(account.wall.delta_ns)):
        return False
    ends = finding.interval_ns
    return ends is None or not ends[0] <= 0 <= ends[1]


def _moves_with_all(finding: Finding, account: Account) -> bool:
    """Return whether a finding's rows in single recordings change no more than all other rows do: the machine was slower.

    This is not asked of recorded differences that decide rows by themselves, nor of findings that are certain from what was
    executed.
    """
    suspicion = finding.suspicion
    if not account.floor or not finding.granted or suspicion.precedence == 0 or suspicion.confidence == "high":
        return False
    rows = account.rows
    granted = pd.Series(finding.granted).abs().reindex(rows.index).fillna(0.0)
    mine = ((granted > 0) & (granted >= rows["delta_ns"].abs() / 2)).to_numpy(bool)  # only a small part of other rows is its own
    rest = rows[~mine & (rows["a_ns"] > 0).to_numpy() & (rows["b_ns"] > 0).to_numpy()]
    both = ["a_ns", "b_ns"]
    own, others = rows.loc[mine, both].sum(), rest[both].sum()
    if (others <= LEAST_REST * rows[both].sum()).any():
        return False
    ways = (both, both[::-1])  # in both directions
    return all(_moves_alike(own[one], own[other], others[other] / others[one], account.floor) for one, other in ways)


def _moves_alike(from_ns: float, to_ns: float, factor: float, floor: float) -> bool:
    """Return whether rows change by no more than a factor predicts."""
    change = to_ns - from_ns
    beyond = change - from_ns * (factor - 1)
    return bool(beyond * change <= 0 or abs(beyond) < floor * max(from_ns, to_ns))


def as_dict(finding: Finding, account: Account) -> dict[str, Any]:
    """Return a finding as plain data. layers: those of its significant rows, largest difference first."""
    suspicion, wall = finding.suspicion, account.wall.delta_ns
    ordered = sorted(finding.granted, key=lambda row: -abs(finding.granted[row]))
    named = account.rows.reindex([row for row in ordered if row != INSTRUMENTATION])
    layers = named.loc[named["significant"].fillna(True).astype(bool), "layer"]
    return {
        "cause": suspicion.cause,
        "title": suspicion.title,
        "explains_ns": finding.explains_ns,
        "interval_ns": list(finding.interval_ns) if finding.interval_ns else None,
        "share": round(finding.explains_ns / wall, 4) if wall else None,
        "confidence": suspicion.confidence,
        "layers": list(dict.fromkeys(layers)),
        "evidence": suspicion.evidence,
        "remedy": suspicion.remedy,
        "rows": ordered[:LISTED_ROWS],
    }
