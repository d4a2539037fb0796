"""Clean steps as a GPU had them: the host may be many steps ahead of it, and its clock then tells its own pace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

KEY = "device_ends_ns"  # of child.json: when the device was done with each step's work, in the order of steps.jsonl


def placed(steps: pd.DataFrame, report: dict[str, Any]) -> pd.DataFrame:
    """Return the steps of a pass from when the device had done the one before, or the host began, until it had done this one.

    They are as they were where the report tells no times of the device, or such as cannot be.
    """
    known = report.get(KEY)
    if not isinstance(known, list) or not known or len(known) != len(steps) or not all(type(one) is int for one in known):
        return steps
    begun = steps["start_ns"].to_numpy(np.int64)
    try:
        ends = np.array(known, dtype=np.int64)
    except OverflowError:
        return steps
    starts = np.maximum(begun, np.concatenate([begun[:1], ends[:-1]]))
    if (ends < starts).any():
        return steps
    return steps.assign(start_ns=starts, end_ns=ends)
