"""Whole loops of Keras that a step calls: what a call of predict does is that call's, and no input of the step.

Such a call makes a data set and an iterator for itself. It has a range, and one more where a step ended with its last batch. What
it does outside of the model's layers, on whichever thread, gets the call's name in brackets in place of a layer.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from kernelscope.analysis.trace import intervals

LOOPS = {"(predict)": "predict", "(evaluate)": "evaluate", "(fit)": "fit"}  # in place of a layer -> Keras' method
ON_BATCH = {"predict": "predict_on_batch", "evaluate": "test_on_batch", "fit": "train_on_batch"}  # the same for one batch
_NAMES = {name: layer for layer, method in LOOPS.items() for name in (method, f"end of {method}")}  # of ranges


def among(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges of such calls, those in them left out."""
    return ranges[(ranges["layer"].isin(list(LOOPS)) & ranges["name"].isin(list(_NAMES))).to_numpy(bool)]


def placed(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with those of such calls, and of batches that these make, as what has the call's name."""
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
    """Return operators or kernels with those that are in no layer, or make batches, within such a call as that call's."""
    return _given(table, ranges, ["data", "other"])


def _given(table: pd.DataFrame, ranges: pd.DataFrame, phases: Collection[str]) -> pd.DataFrame:
    """Return the table with rows of these phases, and of no layer, as those of the innermost call that is open on any thread.

    Pipelines and executors have threads of their own, for which nobody else waits then.
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
