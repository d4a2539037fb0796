"""Which step of a loop something belongs to."""

from __future__ import annotations

import numpy as np
import pandas as pd


def step_of(kernels: pd.DataFrame, steps: pd.DataFrame) -> pd.Series:
    """Return the step in which each kernel starts, null outside of steps and for kernels without a time."""
    ordered = steps.sort_values("start_ns")
    starts, ends = ordered["start_ns"].to_numpy(), ordered["end_ns"].to_numpy()
    at = kernels["start_ns"].to_numpy(np.int64, na_value=-1)
    position = np.searchsorted(starts, at, side="right") - 1
    inside = (position >= 0) & (at < ends[np.maximum(position, 0)])
    return pd.Series(ordered["step"].to_numpy()[np.maximum(position, 0)], index=kernels.index).astype("Int64").where(inside)
