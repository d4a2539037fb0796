"""The cost of recording: taken out of the rows where it must have been spent, and shown as a row of its own where that is
unknown.

The traced pass is slower than the clean one by a known amount. The layers pass costs little: if it gives the time of each layer
and phase, each gives back what the traced pass took longer (`anchored_factors`). Host time gives back first, because recorders
work between the events that they record; then operators that the recorder timed itself; last, kernels that their library timed.
What is then left between the layers pass and the clean one, which are two processes of one program, is a factor common to all
rows, within BOUND.

If no layers pass knows the layers, each (layer, phase) gives back time in proportion to the events recorded in it, at most
MOST_PER_EVENT_NS for each (`event_factors`): first its host time, then operators that the recorder timed itself. What no row
can give back stays in the row "instrumentation". A traced pass that was faster is also just another process.

An accelerator times kernels and copies by its own clock, and recording does not lengthen them (`device_factors`): only host
time gives back, and what it cannot give is a factor common to all rows.

A layers pass may have left out the ranges of layers that cost too much (`left_out` of its child.json). Their time is in the
layers around them, and the pass does not say how it is divided. So layers that hold each other's time are one group here, and
all rows of the group give back its recording cost in proportion.

Source of the ideas: each number from the least instrumented run that has it, as in XSP (Li et al., IPDPS 2020), and per-event
calibration, as in RL-Scope (Gleeson et al., MLSys 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import layer_labels
from kernelscope.analysis.accounting.cell_labels import BETWEEN_LAYERS, ELSEWHERE, PROGRAM, UNATTRIBUTED
from kernelscope.analysis.accounting.levels import DEVICE

Float = npt.NDArray[np.float64]
LayerGroups = dict[str, dict[str, str]]  # way (forward, backward) -> label -> group

# The most that recording one event costs: 2 to 9 us were measured for records of torch.profiler, XLA, MXNet and oneDNN. What the
# traced pass took beyond that was noise, which belongs to no row.
MOST_PER_EVENT_NS = 10_000.0
BOUND = 1.25  # of the common factor: processes of one program that differ by more were in different states
SELF_TIMED = ("onednn", "mkl", "cudnn", "cublas", "cutlass")  # libraries that time only the computation
LEAST_OF_HOST = 0.2  # share that host time keeps in any case: something started what ran
LEAST_OF_OPERATORS = 0.1  # share that operators timed by the recorder keep: they did compute
_BACKWARD, _REST = "backward", "(no layer)"
_ROUNDS = 50  # each round fills at least one group and gives the rest to the others, so the number of groups bounds them, too


def factors(
    cells: pd.DataFrame, time_ns: Float, clean_ns: float | None, layers_ns: pd.Series[float] | None, grouped: LayerGroups,
    events: pd.Series[float], by_device: bool = False,
) -> Float:  # fmt: skip
    """Return the factor for each cell's time that takes out the cost of recording, from the best source.

    That is the layers pass (layers_ns, grouped), else the events. clean_ns: the clean step; without one, all stays. by_device:
    whether an accelerator's clock timed kernels and copies.
    """
    if clean_ns is not None and by_device:
        return device_factors(cells, time_ns, events, clean_ns)
    if clean_ns is not None and layers_ns is not None:
        return anchored_factors(cells, time_ns, layers_ns, clean_ns, grouped)
    cost_ns = float(time_ns.sum()) - clean_ns if clean_ns is not None else 0.0
    return event_factors(cells, time_ns, events, cost_ns)


def event_factors(cells: pd.DataFrame, time_ns: Float, events: pd.Series[float], cost_ns: float) -> Float:
    """Return the factor for each cell's time that takes `cost_ns` out near what was recorded.

    cells: with layer, phase, cause, library; time_ns: of each per step. events: recorded per step, by (layer, phase) with null
    as "". If events can explain only a part of cost_ns, less is taken out. Recording makes no step shorter: a negative cost
    comes from two processes of one program, and is a factor common to all rows, within BOUND.
    """
    if cost_ns < 0:
        return np.full(len(cells), min(1 - cost_ns / max(float(time_ns.sum()), 1.0), BOUND))
    cause, host = cells["cause"].astype("string"), _of_host(cells)
    by_recorder = (cause.isna() & ~cells["library"].isin(SELF_TIMED).fillna(False)).to_numpy(dtype=bool)
    keys = pd.MultiIndex.from_frame(cells[["layer", "phase"]].astype("string").fillna(""))
    group, result = pd.factorize(keys)
    weight = np.asarray(events.reindex(pd.MultiIndex.from_tuples(list(result))).fillna(0.0), dtype=np.float64)
    factors, open_ns, left = np.ones(len(cells)), MOST_PER_EVENT_NS * weight, cost_ns
    for tier, least in ((host, LEAST_OF_HOST), (by_recorder, LEAST_OF_OPERATORS)):
        there = np.bincount(group, weights=np.where(tier, time_ns, 0.0), minlength=len(result)).astype(float)
        taken = _poured(left, weight, np.minimum(there * (1 - least), open_ns))
        factor = 1.0 - np.divide(taken, there, out=np.zeros_like(there), where=there > 0)
        factors = np.where(tier, factor[group], factors)
        open_ns, left = open_ns - taken, left - float(taken.sum())
    return factors


def device_factors(cells: pd.DataFrame, time_ns: Float, events: pd.Series[float], clean_ns: float) -> Float:
    """Return the factor for each cell's time if an accelerator timed its kernels and copies: these stay.

    Host time gives back near what was recorded (`event_factors`), then in proportion to what is left of it: one call may launch
    a graph of many kernels, which are recorded under other layers. A clean step shorter than the device's own work is another
    process's: then a factor common to all rows, within BOUND, takes the rest.
    """
    cost_ns = float(time_ns.sum()) - clean_ns
    if cost_ns <= 0:
        return event_factors(cells, time_ns, events, cost_ns)
    host = _of_host(cells)
    near = np.where(host, event_factors(cells, time_ns, events, cost_ns), 1.0)
    left = time_ns * near
    rest, of_host = float(left.sum()) - clean_ns, float(left[host].sum())
    factors = near * np.where(host, 1.0 - min(rest / of_host, 1.0), 1.0) if of_host > 0 and rest > 0 else near
    left = time_ns * factors
    return np.asarray(factors * np.clip(clean_ns / max(float(left.sum()), 1.0), 1 / BOUND, 1.0))


def anchored_factors(
    cells: pd.DataFrame, time_ns: Float, layers_ns: pd.Series[float], clean_ns: float, grouped: LayerGroups | None = None
) -> Float:
    """Return the factor for each cell's time that makes layers and phases take what the layers pass says.

    cells: with layer, phase, cause, library and kind; time_ns: of each per step. layers_ns: per step, by group as `labels`
    gives them for the same `grouped`; groups that it does not have are scaled by the overall ratio.
    """
    group, result = pd.factorize(labels(cells, grouped))
    recorded = np.bincount(group, weights=time_ns, minlength=len(result)).astype(float)
    measured = layers_ns.reindex(pd.MultiIndex.from_tuples(list(result))).to_numpy(dtype=float)
    overall = layers_ns.sum() / max(recorded.sum(), 1.0)
    wanted = np.where(np.isnan(measured), recorded * min(overall, 1.0), measured)
    kept = time_ns.copy()
    for tier, least in _tiers(cells):
        has = np.bincount(group, weights=kept, minlength=len(result)).astype(float)
        there = np.bincount(group, weights=np.where(tier, kept, 0.0), minlength=len(result)).astype(float)
        given = np.minimum(np.maximum(has - wanted, 0.0), there * (1 - least))
        share = np.divide(given, there, out=np.zeros_like(given), where=there > 0)
        kept = np.where(tier, kept * (1 - share[group]), kept)
    has = np.bincount(group, weights=kept, minlength=len(result)).astype(float)
    grown = np.divide(wanted, has, out=np.ones_like(has), where=has > 0)
    kept *= np.maximum(grown, 1.0)[group]
    kept *= np.clip(clean_ns / max(kept.sum(), 1.0), 1 / BOUND, BOUND)
    return np.divide(kept, time_ns, out=np.ones_like(kept), where=time_ns > 0)


def labels(cells: pd.DataFrame, grouped: LayerGroups | None = None) -> pd.MultiIndex:
    """Return the group of each cell: label of its layer, and phase; layers that hold each other's time have one (`holding`)."""
    label, phase = layer_labels(cells).astype(object), cells["phase"].fillna("other").astype(object)
    for way, groups in (grouped or {}).items():
        joined = label.isin(list(groups)) & ((phase == _BACKWARD) == (way == _BACKWARD))
        label = label.mask(joined, label.map(lambda name, groups=groups: groups.get(name, name)))
        if way != _BACKWARD:  # outside of all layers a call may be in no phase either
            phase = phase.mask(joined & (label == _REST), "other")
    return pd.MultiIndex.from_arrays([label, phase])


def layer_groups(left_out: Mapping[str, Mapping[str, list[str | None]]]) -> LayerGroups:
    """Return {"forward": {label: group}, "backward": ...} of the layers that hold time of others, and of those.

    left_out: from child.json: {way: {layer: the layers that hold its time}}; None among them means no layer: then the group
    includes all that lies outside layers.
    """
    result: LayerGroups = {}
    for way, layers in left_out.items():
        group: dict[str, str] = {}
        for layer, holders in layers.items():
            names = [layer, *(_REST if holder is None else holder for holder in holders)]
            joined = {group.get(name, name) for name in names}
            first = _REST if _REST in joined else min(joined)
            group |= dict.fromkeys([*names, *(name for name, own in group.items() if own in joined)], first)
        if _REST in group:
            group |= dict.fromkeys((BETWEEN_LAYERS, ELSEWHERE, PROGRAM, UNATTRIBUTED), _REST)
        result[way] = group
    return result


def _of_host(cells: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which cells are host time, in which no kernel and no copy runs."""
    cause = cells["cause"].astype("string")
    return (cause.notna() & ~cause.str.startswith(DEVICE).fillna(False)).to_numpy(dtype=bool)


def _tiers(cells: pd.DataFrame) -> Iterator[tuple[npt.NDArray[np.bool_], float]]:
    """Yield which cells give time back first, second and last, and the least share that they keep."""
    host = cells["cause"].notna().to_numpy()
    timed_by_itself = cells["library"].isin(SELF_TIMED).fillna(False).to_numpy(dtype=bool) & ~host
    yield host, LEAST_OF_HOST
    yield ~host & ~timed_by_itself, LEAST_OF_OPERATORS
    yield timed_by_itself, 0.0


def _poured(amount: float, weight: Float, capacity: Float) -> Float:
    """Return how much of an amount each group takes: in proportion to its weight, at most its capacity."""
    taken = np.zeros_like(capacity)
    for _ in range(min(_ROUNDS, len(capacity) + 1)):
        open_weight = np.where(taken < capacity, weight, 0.0)
        left = amount - taken.sum()
        if left <= 0.5 or open_weight.sum() <= 0:
            break
        taken = np.minimum(capacity, taken + left * open_weight / open_weight.sum())
    return taken
