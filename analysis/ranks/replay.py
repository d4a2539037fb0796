"""What a job would gain: its ranks' work and collectives are played again, with something of them changed.

Each rank has work of its own, which goes on in order, and collectives, which nobody leaves before all have begun them and their
transfer is over. A rank goes past the place in its work at which a collective ended only when that is so. Work that hid a
collective keeps its place in it. Played unchanged, the job takes what it took but for an error, which is told: where it is too
large, nothing is predicted. The idea is that of dPRO (Hu et al., MLSys 2022) and of ByteDance's study of stragglers (Lin et al.,
OSDI 2025): slowdown = time as it was / time with the mean of the ranks' work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.ranks import waiting
from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.parts import NO_LATE
from kernelscope.analysis.ranks.point_to_point import is_message
from kernelscope.analysis.ranks.recording import RankRecording

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
MOST_ERROR = 0.05  # of the measured time, by which an unchanged job may be played wrongly


@dataclass(frozen=True)
class Played:
    """What is played, in ns of all steps together.

    begins, ends: [collectives, ranks], the place in a rank's own work at which it begins a collective, and at which the
    collective is over; NaN where it is not in it. transfer: of each collective. work: of each rank, all of its own.
    """

    begins: Float
    ends: Float
    transfer: Float
    work: Float

    def time(self) -> float:
        """Return how long the job takes until its last rank is done."""
        stalled = np.zeros(len(self.work))
        for begins, ends, transfer in zip(self.begins, self.ends, self.transfer, strict=True):  # one by one: each waits for all
            over = np.nanmax(begins + stalled) + transfer
            stalled = np.fmax(stalled, over - ends)  # whoever is not in it goes on
        return float((self.work + stalled).max())

    def with_work(self, spans: Float) -> Played:
        """Return the same with other work. spans: [collectives + 1, ranks], from each begin to the next one, and to the end."""
        reached = np.concatenate([np.zeros((1, spans.shape[1])), np.cumsum(spans, axis=0)])
        known = np.concatenate([np.zeros((1, spans.shape[1])), self.begins, self.work[None]])
        ranks = range(spans.shape[1])
        ends = np.column_stack([np.interp(self.ends[:, rank], known[:, rank], reached[:, rank]) for rank in ranks])
        return replace(self, begins=reached[1:-1], ends=ends, work=reached[-1])

    def scaled(self, factors: Float) -> Played:
        """Return the same with all work of each rank multiplied: groups of ranks have no spans between collectives in common."""
        return replace(self, begins=self.begins * factors, ends=self.ends * factors, work=self.work * factors)

    def spans(self) -> Float:
        """Return the work from each begin of a collective to the next one, and to the end (see `with_work`)."""
        edges = np.concatenate([np.zeros((1, len(self.work))), self.begins, self.work[None]])
        return np.maximum(np.diff(edges, axis=0), 0.0)


def played(places: Int, ranks: Sequence[RankRecording], clocks: Clocks) -> tuple[Played, float]:
    """Return a job to be played, and how long it took as measured, in ns. places: matched collectives, [collectives, ranks].

    It begins with the first rank's first step and ends with the last rank's last one, by corrected clocks.
    """
    begun = min(one.window_ns[0] - offset for one, offset in zip(ranks, clocks.offsets_ns, strict=True))
    over = max(one.window_ns[1] - offset for one, offset in zip(ranks, clocks.offsets_ns, strict=True))
    start, end = waiting.times(places, ranks)
    corrected = start - clocks.offsets_ns, end - clocks.offsets_ns
    inside = (corrected[0].min(axis=1) >= begun) & (corrected[1].max(axis=1) <= over)
    inside = np.flatnonzero(np.ma.filled(inside, False))
    order = inside[np.argsort(corrected[1][inside].mean(axis=1).filled(0.0), kind="stable")]
    transfer = np.maximum((corrected[1].mean(axis=1) - corrected[0].max(axis=1)).filled(0.0), 0.0)[order]
    columns = [_of_rank(one, places[:, number], int(begun + clocks.offsets_ns[number])) for number, one in enumerate(ranks)]
    begins, ends = (np.column_stack([column[at] for column in columns])[order] for at in (0, 1))
    message = is_message(waiting.of_first(places, ranks, ["group"])["group"])
    # who had sent a message before the other began to receive never waits in it
    sent = (corrected[1] < corrected[0].max(axis=1, keepdims=True)).filled(False) & message[:, None]
    ends = np.where(sent[order], np.inf, ends)
    work = np.array([column[2] for column in columns], dtype=float)
    in_order = np.where(np.isnan(begins), np.nan, np.fmax.accumulate(begins, axis=0))
    return Played(in_order, ends, transfer, work), float(over - begun)


def _of_rank(one: RankRecording, places: Int, since: int) -> tuple[Float, Float, float]:
    """Return the places in a rank's own work at which collectives begin and end, and all of that work; since: on its clock."""
    exposed = one.exposed
    pieces = exposed[exposed["collective"].isin(places)].sort_values("start_ns")
    start, end = (pieces[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    stalled = np.concatenate([[0], np.cumsum(end - start)])

    def own(at: Int) -> Float:
        """Return the work that is done by a time: what passed without what nothing hid."""
        place = np.searchsorted(start, at, side="right")
        last = np.clip(place - 1, 0, None)
        unfinished = np.where(place > 0, np.clip(end[last] - at, 0, None), 0) if len(end) else 0
        return np.asarray(at - since - (stalled[place] - unfinished), dtype=float)

    table = one.collectives
    begins, ends = (np.where(places >= 0, own(table[name].to_numpy(np.int64)[places]), np.nan) for name in ("start_ns", "end_ns"))
    return begins, ends, float(own(np.array([one.window_ns[1]]))[0])


def what_if(job: Played, measured_ns: float, late: Sequence[int]) -> tuple[float, dict[str, float]]:
    """Return by which part of the measured time the unchanged job is played wrongly, and the job's time with changes, ns.

    late: places of the ranks that others wait for most. Changes: NO_LATE (they work as long as the others on the mean),
    "balanced work" (all ranks work as long as the mean of them) and "no transfer" (a network that takes no time). Between two
    collectives ranks are compared; where groups of ranks have collectives of their own, in all of their work. Empty where the
    error is larger than MOST_ERROR.
    """
    error = job.time() / max(measured_ns, 1.0) - 1.0
    if abs(error) > MOST_ERROR:
        return error, {}
    changed = {"no transfer": replace(job, transfer=np.zeros(len(job.transfer)))}
    if np.isnan(job.begins).any():
        changed = {**_scaled(job, late), **changed}
        return error, {name: one.time() for name, one in changed.items()}
    spans = job.spans()
    mean = np.repeat(spans.mean(axis=1, keepdims=True), spans.shape[1], axis=1)
    changed = {"balanced work": job.with_work(mean), **changed}
    if len(late) and len(late) < spans.shape[1]:
        others = spans.copy()
        others[:, late] = np.delete(spans, late, axis=1).mean(axis=1, keepdims=True)
        changed = {NO_LATE: job.with_work(others), **changed}
    return error, {name: one.time() for name, one in changed.items()}


def _scaled(job: Played, late: Sequence[int]) -> dict[str, Played]:
    """Return the job with the work of all ranks made their mean, and with that of late ranks made the mean of the others."""
    factors = np.ones(len(job.work))
    others = np.delete(job.work, late)
    changed = {"balanced work": job.scaled(job.work.mean() / np.maximum(job.work, 1.0))}
    if len(late) and len(others):
        factors[list(late)] = np.minimum(others.mean() / np.maximum(job.work[list(late)], 1.0), 1.0)
        changed = {NO_LATE: job.scaled(factors), **changed}
    return changed
