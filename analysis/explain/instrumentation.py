"""What recording itself cost: taken out of the rows where it must have been spent, and shown as its own where that is unknown.

The traced pass is slower than the clean one by a known amount. Where the layers pass, which costs little, tells what each layer
and phase takes, each gives back what the traced pass took longer (`anchored_factors`): first of its host time, because recorders
work between the events that they record; then of operators that the recorder timed itself; last of kernels that their library
timed. What is then left between the layers pass and the clean one, which are two processes of one program, is a factor
common to all rows, within BOUND.

Where no layers pass knows the layers, each (layer, phase) gives back time in proportion to the events recorded in it, at most
MOST_PER_EVENT_NS for each (`event_factors`): first what host time it has, then of operators that the recorder timed itself. What
no row can give back stays in the row "instrumentation". A traced pass that was the faster one is such another process, too.

Source of the ideas: each number from the least instrumented run that has it, as in XSP (Li et al., IPDPS 2020), and per-event
calibration, as in RL-Scope (Gleeson et al., MLSys 2021).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.breakdowns import layer_labels
from kernelscope.analysis.partition import DEVICE

Float = npt.NDArray[np.float64]

# What recording one event costs at most: 2 to 9 us were measured of torch.profiler, XLA's, MXNet's and oneDNN's records. What the
# traced pass took beyond that was noise, and no row can have been its place.
MOST_PER_EVENT_NS = 10_000.0
BOUND = 1.25  # of the common factor: processes of one program that differ by more were in different states
SELF_TIMED = ("onednn", "mkl", "cudnn", "cublas", "cutlass")  # take the time around the computation alone
LEAST_OF_OPERATORS = 0.1  # which operators keep of what the recorder timed itself: they did compute
_ROUNDS = 50  # each gives what full groups could not take to the others; a group is full after one, so groups bound it too


def event_factors(cells: pd.DataFrame, time_ns: Float, events: pd.Series[float], cost_ns: float) -> Float:
    """Return by which factor to multiply each cell's time so that `cost_ns` is taken out near what was recorded.

    cells: with layer, phase, cause, library; time_ns: of each per step. events: recorded per step, by (layer, phase) with null as
    "". Where less than cost_ns can have been spent on events, less is taken out. Recording makes no step shorter: a negative
    cost is that of two processes of one program, and a factor common to all rows, within BOUND.
    """
    if cost_ns < 0:
        return np.full(len(cells), min(1 - cost_ns / max(float(time_ns.sum()), 1.0), BOUND))
    cause = cells["cause"].astype("string")
    host = (cause.notna() & ~cause.str.startswith(DEVICE).fillna(False)).to_numpy(dtype=bool)
    by_recorder = (cause.isna() & ~cells["library"].isin(SELF_TIMED).fillna(False)).to_numpy(dtype=bool)
    keys = pd.MultiIndex.from_frame(cells[["layer", "phase"]].astype("string").fillna(""))
    group, found = pd.factorize(keys)
    weight = np.asarray(events.reindex(pd.MultiIndex.from_tuples(list(found))).fillna(0.0), dtype=np.float64)
    factors, open_ns, left = np.ones(len(cells)), MOST_PER_EVENT_NS * weight, cost_ns
    for tier, least in ((host, 0.0), (by_recorder, LEAST_OF_OPERATORS)):
        there = np.bincount(group, weights=np.where(tier, time_ns, 0.0), minlength=len(found)).astype(float)
        taken = _poured(left, weight, np.minimum(there * (1 - least), open_ns))
        factor = 1.0 - np.divide(taken, there, out=np.zeros_like(there), where=there > 0)
        factors = np.where(tier, factor[group], factors)
        open_ns, left = open_ns - taken, left - float(taken.sum())
    return factors


def anchored_factors(cells: pd.DataFrame, time_ns: Float, layers_ns: pd.Series[float], clean_ns: float) -> Float:
    """Return by which factor to multiply each cell's time so that layers and phases take what the layers pass says.

    cells: with layer, phase, cause, library and kind; time_ns: of each per step. layers_ns: per step, by (label of the layer,
    phase) as `labels` gives them; groups that it does not have are scaled as all are together.
    """
    group, found = pd.factorize(labels(cells))
    recorded = np.bincount(group, weights=time_ns, minlength=len(found)).astype(float)
    told = layers_ns.reindex(pd.MultiIndex.from_tuples(list(found))).to_numpy(dtype=float)
    overall = layers_ns.sum() / max(recorded.sum(), 1.0)
    wanted = np.where(np.isnan(told), recorded * min(overall, 1.0), told)
    kept = time_ns.copy()
    for tier, least in _tiers(cells):
        held = np.bincount(group, weights=kept, minlength=len(found)).astype(float)
        there = np.bincount(group, weights=np.where(tier, kept, 0.0), minlength=len(found)).astype(float)
        given = np.minimum(np.maximum(held - wanted, 0.0), there * (1 - least))
        share = np.divide(given, there, out=np.zeros_like(given), where=there > 0)
        kept = np.where(tier, kept * (1 - share[group]), kept)
    held = np.bincount(group, weights=kept, minlength=len(found)).astype(float)
    grown = np.divide(wanted, held, out=np.ones_like(held), where=held > 0)
    kept *= np.maximum(grown, 1.0)[group]
    kept *= np.clip(clean_ns / max(kept.sum(), 1.0), 1 / BOUND, BOUND)
    return np.divide(kept, time_ns, out=np.ones_like(kept), where=time_ns > 0)


def labels(cells: pd.DataFrame) -> pd.MultiIndex:
    """Return the group of each cell: label of its layer, and phase."""
    return pd.MultiIndex.from_arrays([layer_labels(cells).astype(object), cells["phase"].fillna("other").astype(object)])


def _tiers(cells: pd.DataFrame) -> Iterator[tuple[npt.NDArray[np.bool_], float]]:
    """Yield which cells give time back first, second and last, and the least share of it that they keep."""
    host = cells["cause"].notna().to_numpy()
    timed_by_itself = cells["library"].isin(SELF_TIMED).fillna(False).to_numpy(dtype=bool) & ~host
    yield host, 0.2
    yield ~host & ~timed_by_itself, LEAST_OF_OPERATORS
    yield timed_by_itself, 0.0


def _poured(amount: float, weight: Float, room: Float) -> Float:
    """Return how much of an amount each group takes: in proportion to its weight, at most its room."""
    taken = np.zeros_like(room)
    for _ in range(min(_ROUNDS, len(room) + 1)):
        open_weight = np.where(taken < room, weight, 0.0)
        left = amount - taken.sum()
        if left <= 0.5 or open_weight.sum() <= 0:
            break
        taken = np.minimum(room, taken + left * open_weight / open_weight.sum())
    return taken
