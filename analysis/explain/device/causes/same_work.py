"""The same work: what only one side calls is a part of what both do, or each side computes in one kernel that the other lacks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.device import alignment, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import MAIN

_ONLY_ONES = (
    "Each is nearly all that its side computes, and the other side does not have it; no name or size tells that they do the same."
)
_IF_THE_SAME = (
    "see whether both do the same; if they do, compare how many bytes each reads and writes (types, texture memory, tiles), "
    "and then the code of {0}"
)
_PUTS, _SORTS = r"index_put_?(?:_?impl_?)?$", r"^aten::(?:arg)?sort$"
_SORTED = "They are called equally often: an index_put that accumulates, as in the gradient of x[index], sorts its indices first."
_INDEXING = (
    "find the lines that index tensors (x[index]); if these are gradients of such: those of torch.index_select and torch.gather "
    "need no sorting"
)
_MOST = 0.8  # of the time


def as_often(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for the operators that sort indices and put values at them, if one side alone has both, called as often.

    An accumulating index_put sorts its indices first, as gradients of indexing do: the sort is no work of its own.
    """
    if not case.by_operators or not case.counts:
        return
    rows = case.kernels()
    names = rows["name"].astype("string")
    for key, other in (SIDES, SIDES[::-1]):
        alone = ((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)
        puts, sorts = (rows[alone & names.str.contains(pattern).fillna(False).to_numpy(bool)] for pattern in (_PUTS, _SORTS))
        if len(puts) == len(sorts) == 1 and puts[f"{key}_count"].iloc[0] == sorts[f"{key}_count"].iloc[0]:
            side, mine = case.side(key).name, pd.concat([puts, sorts])
            number, took = words.count(float(puts[f"{key}_count"].iloc[0])), words.duration(float(mine[f"{key}_ns"].sum()))
            only = f"only {side} {'prints' if case.is_cut(other) else 'has'}"
            title = f"{only} {puts['name'].iloc[0]} and {sorts['name'].iloc[0]}, called {number} times each: {took}"
            here = mine["row"].tolist()
            yield DeviceFinding("indexing", title, here, "medium", [_SORTED, *words.both(case, mine)], _INDEXING)


def possibly_same(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding if each side computes mostly in one kernel that the other lacks, executed as often, besides fills.

    Its kind may tell that it is other work: a product is no sum.
    """
    if not case.totals or not case.counts or case.by_operators or case.of_functions or any(map(case.is_cut, SIDES)):
        return
    rows = case.kernels()
    fills = np.array([_fills(name) for name in rows["name"]], dtype=bool)
    rows = rows[~((rows["kind"] == "copy").fillna(False).to_numpy(bool) | fills)]
    alone = [rows[((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)]
             for key, other in (SIDES, SIDES[::-1])]  # fmt: skip
    if [len(part) for part in alone] != [1, 1] or any(part["kind"].isin(MAIN).any() for part in alone):
        return
    if alignment.like_named(*alone):
        return  # names tell more
    pair, whole = pd.concat(alone), case.all_kernels()
    named = {name for one in case.replaced for name in one.a | one.b}
    mostly = all(float(pair[f"{key}_ns"].sum()) >= _MOST * float(whole[f"{key}_ns"].sum()) for key in SIDES)
    if pair["a_count"].sum() != pair["b_count"].sum() or not mostly or pair["name"].isin(named).any():
        return
    _, slower, _, _ = words.slower(case, pair)
    names = [f"{words.kernel(part['name'].iloc[0])} in {case.side(key).name}" for key, part in zip(SIDES, alone, strict=True)]
    title = (
        f"possibly the same work by another kernel ({', '.join(names)}): {words.of_rows(case, pair)}, "
        f"{words.executions_of(case, pair)}"
    )
    remedy = _IF_THE_SAME.format(slower)
    yield DeviceFinding("possibly the same work", title, pair["row"].tolist(), "low", [_ONLY_ONES], remedy)


def _fills(name: object) -> bool:
    """Return whether a kernel's name tells that it only sets memory."""
    return bool(alignment.words_of(name) & {"fill", "memset"})


RULES = (as_often, possibly_same)
