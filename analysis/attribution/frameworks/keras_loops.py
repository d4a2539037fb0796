"""Whole Keras loops that a step calls: the work of a call of predict belongs to the call, and is not the step's input.

Such a call makes its own data set and iterator. It has a range, and another one if a step ended with its last batch. Its work
outside the model's layers, on any thread, gets the call's name in parentheses in place of a layer.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from kernelscope.analysis.trace import intervals

LOOPS = {"(predict)": "predict", "(evaluate)": "evaluate", "(fit)": "fit"}  # in place of a layer -> Keras method
ON_BATCH = {"predict": "predict_on_batch", "evaluate": "test_on_batch", "fit": "train_on_batch"}  # the same for one batch
_NAMES = {name: layer for layer, method in LOOPS.items() for name in (method, f"end of {method}")}  # names of ranges


def among(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges of such calls, without the ranges inside them."""
    return ranges[(ranges["layer"].isin(list(LOOPS)) & ranges["name"].isin(list(_NAMES))).to_numpy(bool)]


def placed(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges; those of such calls, and of batches that these make, get the call's name as layer."""
    loops = ((ranges["category"] == "phase") & ranges["name"].isin(list(_NAMES))).fillna(False).to_numpy(bool)
    if not loops.any():
        return ranges
    names = ranges["name"].astype("string").map(_NAMES)
    ranges = ranges.assign(layer=ranges["layer"].astype("string").mask(loops, names).astype("category"))
    table = _given(ranges, ranges, ["data"])
    moved = (ranges["phase"] == "data").fillna(False).to_numpy(bool) & (table["phase"] != "data").fillna(True).to_numpy(bool)
    category = table["category"].astype("string").mask(moved, "phase")
    return table.assign(category=category.astype("category"))


def owned(table: pd.DataFrame, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return operators or kernels; rows within such a call that make batches or are in no layer belong to the call."""
    return _given(table, ranges, ["data", "other"])


def _given(table: pd.DataFrame, ranges: pd.DataFrame, phases: Collection[str]) -> pd.DataFrame:
    """Return the table; rows of these phases without a layer get the innermost call that is open on any thread.

    Pipelines and executors run on threads of their own, and no one else waits for them then.
    """
    calls = among(ranges)
    free = (table["layer"].isna() & table["phase"].isin(list(phases))).to_numpy(bool)
    if calls.empty or not free.any():
        return table
    at = table["start_ns"].to_numpy(np.int64, na_value=-1)
    anyone, everyone = np.zeros(len(calls), dtype=np.int64), np.zeros(len(at), dtype=np.int64)
    row = intervals.innermost(anyone, *intervals.edges(calls), everyone, at)
    mine = free & (row >= 0)
    names = pd.Series(calls["layer"].astype("string").to_numpy(dtype=object)[np.maximum(row, 0)], table.index, dtype="string")
    layer, phase = (table[name].astype("string") for name in ("layer", "phase"))
    return table.assign(layer=layer.mask(mine, names).astype("category"), phase=phase.mask(mine, "other").astype("category"))
