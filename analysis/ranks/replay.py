"""What a job would gain: its ranks' work and collectives are replayed with changes.

Each rank has its own work, which runs in order, and collectives, which no rank leaves before all have begun them and the transfer
is over. A rank passes the place in its work at which a collective ended only then. Work that hid a collective keeps its place in
it. A rank that sends a message and goes on is not held up by it: this counts as its own work. The error of an unchanged replay is
reported, and if it is too large, nothing is predicted. The idea is that of dPRO (Hu et al., MLSys 2022) and of ByteDance's study
of stragglers (Lin et al., OSDI 2025): slowdown = measured time / time with the mean of the ranks' work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.ranks import waiting
from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.parts import NO_LATE
from kernelscope.analysis.ranks.point_to_point import is_message
from kernelscope.analysis.ranks.recording import RankRecording
from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
MOST_ERROR = 0.05  # of the measured time: the largest error of an unchanged replay


@dataclass(frozen=True)
class Played:
    """A job to replay, in ns over all steps.

    begins, ends: [collectives, ranks], the place in a rank's own work at which it begins a collective, and at which the
    collective is over; NaN if the rank is not in it, and an infinite end if the rank goes on. transfer: in the same shape, the
    time from the last rank's begin. ended: in the same shape, how many of the collectives were over for the rank when it began
    this one. work: each rank's whole own work. waited: in the same shape, how long others waited for the rank's work before
    it. alike: whether all ranks are in all collectives and none is a message, so ranks should work alike between two of them.
    """

    begins: Float
    ends: Float
    transfer: Float
    ended: Int
    work: Float
    waited: Float
    alike: bool

    def time(self) -> float:
        """Return how long the job takes until its last rank is done."""
        ranks = np.arange(len(self.work))
        stalled = np.zeros((len(self.begins) + 1, len(ranks)))  # each rank's stall after so many collectives
        rows = zip(self.begins, self.ends, self.transfer, self.ended, strict=True)
        for number, (begins, ends, transfer, ended) in enumerate(rows):  # one by one: each waits for all
            over = np.nanmax(begins + stalled[ended, ranks]) + transfer
            stalled[number + 1] = np.fmax(stalled[number], over - ends)  # ranks that are not in it go on
        return float((self.work + stalled[-1]).max())

    def with_work(self, spans: Float) -> Played:
        """Return the job with other work. spans: [collectives + 1, ranks], from each begin to the next, and to the end."""
        reached = np.concatenate([np.zeros((1, spans.shape[1])), np.cumsum(spans, axis=0)])
        known = np.concatenate([np.zeros((1, spans.shape[1])), self.begins, self.work[None]])
        ranks = range(spans.shape[1])
        ends = np.column_stack([np.interp(self.ends[:, rank], known[:, rank], reached[:, rank]) for rank in ranks])
        return replace(self, begins=reached[1:-1], ends=ends, work=reached[-1])

    def scaled(self, factors: Float) -> Played:
        """Return the job with each rank's work multiplied: groups of ranks share no spans between collectives."""
        return replace(self, begins=self.begins * factors, ends=self.ends * factors, work=self.work * factors)

    def without(self, rank: int, surplus: float) -> Played:
        """Return the job with less work of a rank: where others waited for it, and if that is not enough, everywhere."""
        order = np.argsort(self.begins[:, rank], kind="stable")[: int((~np.isnan(self.begins[:, rank])).sum())]
        known = np.concatenate([[0.0], self.begins[order, rank], [self.work[rank]]])
        spans = np.maximum(np.diff(known), 0.0)
        cut = np.minimum(np.append(self.waited[order, rank], 0.0), spans)
        cut *= min(surplus / max(cut.sum(), 1.0), 1.0)
        left = spans - cut
        reached = np.concatenate([[0.0], np.cumsum(left * (1.0 - (surplus - cut.sum()) / max(left.sum(), 1.0)))])
        begins, ends, work = self.begins.copy(), self.ends.copy(), self.work.copy()
        begins[:, rank] = np.interp(begins[:, rank], known, reached)
        ends[:, rank] = np.where(np.isinf(ends[:, rank]), np.inf, np.interp(ends[:, rank], known, reached))
        work[rank] = reached[-1]
        return replace(self, begins=begins, ends=ends, work=work)

    def spans(self) -> Float:
        """Return the work from each begin of a collective to the next one, and to the end (see `with_work`)."""
        edges = np.concatenate([np.zeros((1, len(self.work))), self.begins, self.work[None]])
        return np.maximum(np.diff(edges, axis=0), 0.0)


def played(
    places: Int, ranks: Sequence[RankRecording], clocks: Clocks, blame: pd.DataFrame | None = None
) -> tuple[Played, float]:
    """Return a job to replay and its measured time (ns). places: matched collectives, [collectives, ranks].

    The job begins with the first rank's first step and ends with the last rank's last step, by corrected clocks. blame: who made
    others wait (see waiting.blamed), if known.
    """
    begun = min(one.window_ns[0] - offset for one, offset in zip(ranks, clocks.offsets_ns, strict=True))
    over = max(one.window_ns[1] - offset for one, offset in zip(ranks, clocks.offsets_ns, strict=True))
    start, end = waiting.corrected(places, ranks, clocks)
    going_on = waiting.going_on(places, ranks, clocks)
    inside = np.flatnonzero(np.ma.filled((start.min(axis=1) >= begun) & (end.max(axis=1) <= over), False))
    order = inside[np.argsort(end[inside].mean(axis=1).filled(0.0), kind="stable")]
    columns = [
        _of_rank(one, places[:, number], going_on[:, number], int(begun + clocks.offsets_ns[number]))
        for number, one in enumerate(ranks)
    ]
    begins, ends = (np.column_stack([column[at] for column in columns])[order] for at in (0, 1))
    work = np.array([column[2] for column in columns], dtype=float)
    message = is_message(waiting.of_first(places, ranks, ["group"])["group"])[order]
    start, end = start[order], end[order]
    waited = np.zeros(places.shape)
    if blame is not None:
        known = blame[blame["rank"] >= 0]
        at = tuple(known[name].to_numpy(np.int64) for name in ("collective", "rank"))
        np.add.at(waited, at, known["others_ns"].to_numpy(float))
    alike = not (message.any() or np.isnan(begins).any())
    transfer, ended = _transfers(start, end, message), _ended(start, end)
    return Played(begins, ends, transfer, ended, work, waited[order], alike), float(over - begun)


def _transfers(start: Any, end: Any, message: npt.NDArray[np.bool_]) -> Float:
    """Return how long collectives last for their ranks after the last one has begun, [collectives, ranks].

    All ranks leave a collective together, at their mean end: differences are clock errors. A message is over for each of its two
    ranks at that rank's own end. start, end: by corrected clocks; an end is masked if the rank goes on.
    """
    together = np.where(message[:, None], end.filled(0.0), end.mean(axis=1, keepdims=True).filled(0.0))
    return np.asarray(np.maximum(together - start.max(axis=1, keepdims=True).filled(0.0), 0.0))


def _ended(start: Any, end: Any) -> Int:
    """Return how many collectives, in this order, were over for each rank when it began each one: [collectives, ranks]."""
    reached = np.maximum.accumulate(end.filled(np.iinfo(np.int64).min), axis=0)
    ended = [np.searchsorted(reached[:, rank], start.data[:, rank], side="right") for rank in range(start.shape[1])]
    return np.asarray(np.minimum(np.column_stack(ended), np.arange(len(start))[:, None]))


def _of_rank(one: RankRecording, places: Int, going_on: npt.NDArray[np.bool_], since: int) -> tuple[Float, Float, float]:
    """Return the places in a rank's own work at which collectives begin and end, and its whole work. since: by its clock."""
    held_up = waiting.matched_as(np.where(going_on, -1, places), one)[one.exposed["collective"].to_numpy(np.int64)] >= 0
    start, end = (np.sort(edge[held_up]) for edge in intervals.edges(one.exposed))  # none overlap
    stalled = np.concatenate([[0], np.cumsum(end - start)])

    def own(at: Int) -> Float:
        """Return the work that is done by a time: the time that passed, less exposed collectives."""
        place = np.searchsorted(start, at, side="right")
        last = np.clip(place - 1, 0, None)
        unfinished = np.where(place > 0, np.clip(end[last] - at, 0, None), 0) if len(end) else 0
        return np.asarray(at - since - (stalled[place] - unfinished), dtype=float)

    table = one.collectives
    begins, ends = (np.where(places >= 0, own(table[name].to_numpy(np.int64)[places]), np.nan) for name in ("start_ns", "end_ns"))
    return begins, np.where(going_on, np.inf, ends), float(own(np.array([one.window_ns[1]]))[0])


def what_if(job: Played, measured_ns: float, late: Sequence[int]) -> tuple[float, dict[str, float]]:
    """Return the unchanged replay's error, as a share of the measured time, and the job's time with each change, ns.

    late: places of the ranks that others wait for most. Changes: NO_LATE (they work as long as the mean of the others),
    "balanced work" (all ranks work as long as their mean) and "no transfer" (a network that takes no time). Ranks are compared
    between two collectives; if groups of ranks have their own collectives, or ranks send messages, over all of their work.
    No times if the error exceeds MOST_ERROR.
    """
    error = job.time() / max(measured_ns, 1.0) - 1.0
    if abs(error) > MOST_ERROR:
        return error, {}
    changed = {"no transfer": replace(job, transfer=np.zeros_like(job.transfer))}
    if not job.alike:
        changed = {**_scaled(job, late), **changed}
        return error, {name: one.time() for name, one in changed.items()}
    job = replace(job, begins=np.maximum.accumulate(job.begins, axis=0))
    spans = job.spans()
    mean = np.repeat(spans.mean(axis=1, keepdims=True), spans.shape[1], axis=1)
    changed = {"balanced work": job.with_work(mean), **changed}
    if len(late) and len(late) < spans.shape[1]:
        others = spans.copy()
        others[:, late] = np.delete(spans, late, axis=1).mean(axis=1, keepdims=True)
        changed = {NO_LATE: job.with_work(others), **changed}
    return error, {name: one.time() for name, one in changed.items()}


def _scaled(job: Played, late: Sequence[int]) -> dict[str, Played]:
    """Return the job with each rank's work set to their mean, and with the work of late ranks set to the mean of the others."""
    others = np.delete(job.work, late)
    changed = {"balanced work": job.scaled(job.work.mean() / np.maximum(job.work, 1.0))}
    if len(late) and len(others):
        less = job
        for rank in late:
            less = less.without(rank, max(float(job.work[rank] - others.mean()), 0.0))
        changed = {NO_LATE: less, **changed}
    return changed
