"""Judge whether candidate steps repeat, by the kernels that each step launches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.steps.model import LEAST, DetectedSteps, Float, Int, StreamWork
from kernelscope.analysis.trace import conform

# Least share of all kernels that the steps must have in common
_COMMON = 0.7
# Steps at either end whose kernels are less alike than this to the usual step's are warm-up or cut off
_ALIKE = 0.75
# A first step more than this many times as long as the longest other one also did something else
_LONGER = 3.0
# A step this many times as long as the usual one was interrupted, if at most this share of the steps is
_INTERRUPTED, _RARE = 5.0, 0.1  # times the usual step, and share of the steps
_COVERED = 0.3  # least share of the device's time from the first step to the last
_LARGEST = 30_000_000  # largest table: steps times kernel names


def judged(
    work: StreamWork, method: str, source: str, begins: Int, ends: Int | None = None, thread: int | None = None
) -> DetectedSteps | None:
    """Return the steps that begin at these times, each ending where the next begins; None if they do not repeat.

    begins: sorted. ends: when their markers end. If a marker ends right before the next one begins, the last step is whole too.
    """
    if len(begins) < LEAST or not len(work):
        return None
    edges = begins
    if ends is not None and len(begins) > 1:
        period = float(np.median(np.diff(begins)))
        if float(np.median(begins[1:] - ends[:-1])) < 0.05 * period and float(ends[-1] - begins[-1]) > 0.5 * period:
            edges = np.append(begins, ends[-1])
    if len(edges) * len(work.names) > _LARGEST:
        return None  # so many can only be pieces of steps
    counts = _counts(work.at, work.name, edges)
    first, last = _steady(counts, np.diff(edges))
    if last - first < LEAST:
        return None
    kept = counts[first:last]
    covered = covering(work, edges[first : first + 1], edges[last : last + 1])
    if covered < _COVERED:
        return None
    common = _common(kept)
    if common < _COMMON:
        return None
    table = pd.DataFrame({"start_ns": edges[first:last], "end_ns": edges[first + 1 : last + 1]})
    table = table.assign(step=np.arange(first, last), warmup=False, thread=work.thread if thread is None else thread)
    usual = _uninterrupted(np.diff(edges)[first:last])
    table, kept = table[usual].reset_index(drop=True), kept[usual]
    alike = float(np.median(_likeness(kept, np.median(kept, axis=0))))
    sure = "high" if common >= 0.97 and len(kept) >= 3 else "medium" if common >= 0.9 and alike >= 0.9 else "low"
    sure = "low" if _differ_beside(work, edges[first : last + 1]) else sure
    cut = len(counts) - last + _unfinished(work, edges)
    steps, by_device = conform("steps", table), not work.by_launch
    return DetectedSteps(
        method,
        source,
        steps,
        round(common, 4),
        sure,
        covered=round(covered, 4),
        on_device=by_device,
        warmup=first,
        cut=cut,
        interrupted=int((~usual).sum()),
    )


def covering(work: StreamWork, begins: Int, ends: Int) -> float:
    """Return the share of the device's time that lies in disjoint spans, sorted by their begins."""
    lasted = work.end - work.start
    place = np.searchsorted(begins, work.at, side="right") - 1
    mine = (place >= 0) & (work.at < ends[np.maximum(place, 0)])
    return float(lasted[mine].sum() / max(lasted.sum(), 1))


def _counts(at: Int, name: Int, edges: Int) -> Float:
    """Return how often work of each name occurs in each step."""
    position = np.searchsorted(edges, at, side="right") - 1
    inside = (position >= 0) & (position < len(edges) - 1)
    counts = np.zeros((len(edges) - 1, int(name.max(initial=-1)) + 1), dtype=np.float64)
    np.add.at(counts, (position[inside], name[inside]), 1.0)
    return counts


def _differ_beside(work: StreamWork, edges: Int) -> bool:
    """Return whether other streams have more work than the busiest one, and a different amount in each step.

    Prefetching and communication are little work, or regular.
    """
    at, name = work.beside
    counts = _counts(at, name, edges)
    own = np.count_nonzero((work.at >= edges[0]) & (work.at < edges[-1]))
    return bool(counts.sum() > own) and _common(counts) < _COMMON


def _uninterrupted(lengths: Int) -> npt.NDArray[np.bool_]:
    """Return which steps were not interrupted. Rare steps many times as long as the usual one were: the loop did other work."""
    usual = lengths <= _INTERRUPTED * float(np.median(lengths))
    return usual if (~usual).sum() <= _RARE * len(lengths) else np.ones(len(lengths), dtype=bool)


def _unfinished(work: StreamWork, edges: Int) -> int:
    """Return 1 if work after the last step begins another one."""
    return int(bool((work.at >= edges[-1]).any()))


def _common(counts: Float) -> float:
    """Return the share of all kernels that match the usual step's kernels and their counts."""
    usual = np.median(counts, axis=0)
    return float(np.minimum(counts, usual).sum() / max(counts.sum(), 1.0, usual.sum() * len(counts)))


def _likeness(counts: Float, usual: Float) -> Float:
    """Return how alike each step's kernels are to the usual step's, from 0 to 1 (Jaccard index of multisets)."""
    both, either = np.minimum(counts, usual).sum(axis=1), np.maximum(counts, usual).sum(axis=1)
    return np.asarray(np.divide(both, either, out=np.zeros_like(both), where=either > 0))


def _steady(counts: Float, lengths: Int) -> tuple[int, int]:
    """Return the range of steps that remains when unlike steps at either end are dropped."""
    later = counts[len(counts) // 3 :] if len(counts) > 3 else counts
    like = _likeness(counts, np.median(later, axis=0))
    bar = min(_ALIKE, 0.9 * float(np.median(like[-len(later) :])))
    first, last = 0, len(counts)
    while first < last - LEAST and (like[first] < bar or lengths[first] > _LONGER * lengths[first + 1 :].max()):
        first += 1
    while last > first + LEAST and like[last - 1] < bar:
        last -= 1
    return first, last
