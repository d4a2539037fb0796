"""Estimates of cells per step from many windows, with intervals that show where the noise comes from.

A cell's estimate is its mean over whole windows, so cells add up to the mean of those windows. If a clean pass gives the step
without recording, only the half of the windows closest to it is used; the others were disturbed by the recording or the
machine.

An interval is a bootstrap over restarts first and windows second, with both sides' windows of one turn drawn together (see
analysis.accounting.statistics).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.statistics import Turns

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


def closest_half(wall_ns: Float, target_ns: float, counts: Int) -> Float:
    """Return the weights of windows in a mean over the half of them (by `counts`, how often each occurs) closest to the target.

    counts: [windows], or [draws, windows] for many draws at once; the weights of each draw add up to 1.
    """
    order = np.argsort(np.abs(wall_ns - target_ns), kind="stable")
    drawn = np.atleast_2d(counts)[:, order].astype(float)
    reached = np.cumsum(drawn, axis=1)
    half = np.ceil(reached[:, -1:] / 2)
    kept = np.clip(half - (reached - drawn), 0, drawn)
    weights = np.zeros_like(kept)
    weights[:, order] = kept / np.maximum(kept.sum(axis=1, keepdims=True), 1)
    return np.asarray(weights if counts.ndim == 2 else weights[0], dtype=np.float64)


def paired(a: pd.DataFrame, b: pd.DataFrame) -> Turns:
    """Pair windows by restart and window: neighbours in time if the sides took turns, else equally many of each."""
    left = a[["restart", "window"]].assign(a=np.arange(len(a)))
    right = b[["restart", "window"]].assign(b=np.arange(len(b)))
    for table in (left, right):  # ranks, as the sides may number their windows differently
        table["window"] = table.groupby("restart").cumcount()
        table["restart"] = pd.factorize(table["restart"])[0]
    both = left.merge(right, on=["restart", "window"])
    return Turns(both["a"].to_numpy(), both["b"].to_numpy(), both["restart"].to_numpy(np.int64))
