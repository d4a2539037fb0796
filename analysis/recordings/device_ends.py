"""Clean steps by the GPU's time: the host may be many steps ahead, and its clock then shows only its own pace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

KEY = "device_ends_ns"  # in child.json: when the device had finished each step's work, in the order of steps.jsonl


def placed(steps: pd.DataFrame, report: dict[str, Any]) -> pd.DataFrame:
    """Return the steps of a pass on the device: each starts when the previous one is done or the host begins it, if later.

    The steps are returned unchanged if the report has no device times, or impossible ones.
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
