"""What recording itself cost: taken out of the rows where it must have been spent, and shown as its own where that is unknown.

The traced pass is slower than the clean one by a known amount. Recorders spend it between the events that they record: around
operators, kernels and ranges, which shows as host time of the layer and phase in which these lie. Kernels' own times are taken
by their library around the computation and hold none of it. So each (layer, phase) gives back a share in proportion to the
events recorded in it, at most the host time that it has and MOST_PER_EVENT_NS for each event; what no row can give back stays in
the row "instrumentation".

Source of the idea: per-event calibration, as RL-Scope (Gleeson et al., MLSys 2021) does it; here the sum is not calibrated but
measured, and only its distribution is modelled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.partition import DEVICE

Float = npt.NDArray[np.float64]

# What recording one event costs at most: 2 to 9 us were measured of torch.profiler, XLA's, MXNet's and oneDNN's records. What the
# traced pass took beyond that was noise, and no host row can have been its place.
MOST_PER_EVENT_NS = 10_000.0
_ROUNDS = 50  # each gives what full groups could not take to the others; a group is full after one, so groups bound it too


def host_factors(cells: pd.DataFrame, time_ns: Float, events: pd.Series[float], cost_ns: float) -> Float:
    """Return by which factor (0 to 1) to multiply each cell's time so that `cost_ns` of host time is taken out.

    cells: with layer, phase, cause; time_ns: of each per step. events: recorded per step, by (layer, phase) with null as "".
    Where less host time than cost_ns is near events, less is taken out.
    """
    factors = np.ones(len(cells))
    cause = cells["cause"].astype("string")
    host = (cause.notna() & ~cause.str.startswith(DEVICE).fillna(False)).to_numpy(dtype=bool)
    if cost_ns <= 0 or not host.any():
        return factors
    keys = pd.MultiIndex.from_frame(cells[["layer", "phase"]].astype("string").fillna(""))
    group, found = pd.factorize(keys)
    room = np.bincount(group, weights=np.where(host, time_ns, 0.0), minlength=len(found)).astype(float)
    weight = np.asarray(events.reindex(pd.MultiIndex.from_tuples(list(found))).fillna(0.0), dtype=np.float64)
    taken = _poured(cost_ns, weight, np.minimum(room, MOST_PER_EVENT_NS * weight))
    factor = 1.0 - np.divide(taken, room, out=np.zeros_like(room), where=room > 0)
    return np.where(host, factor[group], 1.0)


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
