"""Breakdowns with inclusive times: a layer's row includes its parts, and a range's row the ranges that it encloses.

Rows overlap, so they do not add up to the step; no row is longer than it. own_ns is the row's time in the exclusive breakdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.accounting import partition as parts
from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals

BY = ("layer", "range")
_SUMS = ("count", "duration_ns", "time_ns")
_PART = re.compile(r"[./]")  # what separates a layer's name from that of its part
_NOT_HERE = "\0"


def inclusive(trace: Trace, by: str) -> dict[str, Any]:
    """Return the envelope of a breakdown by layer or range with inclusive times, and "inclusive": True.

    Rows: the key (layer and phase, or range), inclusive count, duration_ns, time_ns and share, and own_ns. Raises EvidenceError
    if there is no such breakdown.
    """
    if by not in BY:
        raise EvidenceError(f"--inclusive: rows of a breakdown by {by} do not contain others; use --by layer or --by range")
    exclusive = breakdown(trace, by)
    if exclusive.step_ns is None:
        raise EvidenceError("--inclusive: the capture holds only totals, and does not show what was inside what")
    table = _of_layers(exclusive.table) if by == "layer" else _of_ranges(trace, exclusive.table)
    table["share"] = table["time_ns"] / max(exclusive.step_ns, 1)
    table = table.sort_values("time_ns", ascending=False, kind="stable").reset_index(drop=True)
    return {**replace(exclusive, table=table).as_dict(), "inclusive": True}


def _of_layers(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each layer and phase, and for each layer that these belong to by their names."""
    rows = [(whole, row) for row, name in enumerate(table["layer"].tolist()) for whole in _wholes(str(name))]
    layers, places = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [])
    below = table.iloc[places].reset_index(drop=True).assign(whole=layers)
    below["own_ns"] = below["time_ns"].where(below["whole"] == below["layer"], 0)
    result = below.groupby(["whole", "phase"], dropna=False, sort=False)[[*_SUMS, "own_ns"]].sum().reset_index()
    return result.rename(columns={"whole": "layer"})


def _wholes(name: str) -> Iterator[str]:
    """Yield a layer's name and the names of the layers around it: "a.b.c", "a.b", "a"."""
    yield name
    if not name.startswith("("):
        yield from (name[: found.start()] for found in _PART.finditer(name) if found.start())


def _of_ranges(trace: Trace, exclusive: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each name of a range. If a range is inside another of the same name, the outer one counts."""
    above = _around(trace.ranges)
    depth, names = intervals.depths(above), levels.range_labels(trace.ranges["name"])
    sums: list[pd.DataFrame] = []
    for level in range(int(depth.max(initial=-1)) + 1):
        chosen = _at(level, depth, above, names)
        cells = parts.partition(replace(trace, ranges=trace.ranges.assign(name=chosen))).everything
        sums.append(cells[(cells["range"] != _NOT_HERE).fillna(False)].groupby("range")[list(_SUMS)].sum())
    if not sums:
        raise EvidenceError("--inclusive: the capture has no ranges")
    result = pd.concat(sums).groupby(level=0).sum()
    own = exclusive.groupby("range")["time_ns"].sum()
    return result.assign(own_ns=own.reindex(result.index).fillna(0).astype("int64")).rename_axis("range").reset_index()


def _around(ranges: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return for each range the row of the nested one around it, or -1; -1 also for ranges that do not nest and steps."""
    nested = np.flatnonzero((ranges["nested"] & (ranges["category"] != "step")).to_numpy(bool))
    above = intervals.parents(*intervals.spans(ranges.iloc[nested]))
    result = np.full(len(ranges), -1, dtype=np.int64)
    result[nested] = np.where(above >= 0, nested[np.maximum(above, 0)], -1)
    return result


def _at(level: int, depth: npt.NDArray[np.int64], above: npt.NDArray[np.int64], names: pd.Series) -> pd.Categorical:
    """Return for each range the name of its enclosing range at a level; none above that level or inside one of that name."""
    codes = names.cat.codes.to_numpy().astype(np.int64)
    found = np.arange(len(above))
    while (deeper := depth[found] > level).any():
        found[deeper] = above[found[deeper]]
    here, around, repeated = depth[found] == level, above[found], np.zeros(len(above), dtype=bool)
    while (inside := around >= 0).any():
        repeated[inside] |= codes[around[inside]] == codes[found[inside]]
        around[inside] = above[around[inside]]
    categories = pd.Index([*map(str, names.cat.categories), _NOT_HERE], dtype="object")
    chosen: npt.NDArray[np.int64] = np.where(here & ~repeated, codes[found], len(categories) - 1)
    return pd.Categorical(categories.take(chosen), categories=categories)
