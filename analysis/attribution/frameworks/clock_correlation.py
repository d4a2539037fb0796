"""Relate a collector's clock to ours by the ranges that both recorded.

The k-th range of a name on a thread is the same in both recordings if both have equally many of that name there; each step has
a name of its own. Our time stamps are taken just inside the collector's: after its range began and before it ended. The cost of
taking them therefore cancels in the middle of both. The offset is the median over neighbouring ranges, interpolated between
them: our clock is steered by network time and a processor's counter is not, so that even a drift of a few ppm is many
microseconds over a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Clock

Int = npt.NDArray[np.int64]

_GROUP, _GROUPS = 16, 64  # ranges whose median is one point of the offset; most points


@dataclass(frozen=True)
class ClockCorrelation:
    """How two clocks relate. clock: from_wall converts the collector's times to ours. threads: ours by the collector's ids.

    ranges: how many were matched. spread_ns: 5th to 95th percentile of the differences that remain after the offset.
    """

    clock: Clock
    threads: dict[int, int]
    ranges: int
    spread_ns: int


def by_ranges(captured: pd.DataFrame, ours: pd.DataFrame) -> ClockCorrelation | None:
    """Return the correlation of two recordings of the same ranges (tables of the Trace); None if they have none in common."""
    known = (captured["nested"] & (captured["category"] == "user") & captured["domain"].isna()).to_numpy(dtype=bool)
    names = ours["name"].cat.categories
    theirs, mine = _keyed(captured[known], names), _keyed(ours, names)
    threads = _same_threads(theirs, mine)
    theirs = theirs.assign(thread=theirs["thread"].map(threads)).dropna(subset=["thread"])
    pairs = _ranked(theirs).merge(_ranked(mine), on=["thread", "name", "rank", "size"], suffixes=("_theirs", "_mine"))
    if pairs.empty:
        return None
    pairs = pairs.sort_values("middle_theirs")
    at = pairs["middle_theirs"].to_numpy(np.int64)
    difference = pairs["middle_mine"].to_numpy(np.int64) - at
    clock = _clock(at, difference)
    left = clock.from_wall(at) - at - difference
    low, high = np.percentile(left, [5, 95], method="nearest")
    return ClockCorrelation(clock, threads, len(pairs), int(high - low))


def _keyed(ranges: pd.DataFrame, names: pd.Index) -> pd.DataFrame:
    """Return thread, name (as its number in `names`), start and middle of the ranges that have one of these names."""
    name = ranges["name"].cat.set_categories(names).cat.codes.to_numpy()
    start, end = (ranges[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
    table = pd.DataFrame({"thread": ranges["thread"].to_numpy(np.int64), "name": name, "middle": start + (end - start) // 2})
    return table[name >= 0].assign(start=start[name >= 0])


def _same_threads(theirs: pd.DataFrame, mine: pd.DataFrame) -> dict[int, int]:
    """Return our thread for each of the collector's: the one with the most ranges of the same names."""
    counts = [table.groupby(["thread", "name"]).size().rename("size").reset_index() for table in (theirs, mine)]
    both = counts[0].merge(counts[1], on="name", suffixes=("_theirs", "_mine"))
    both["common"] = np.minimum(both["size_theirs"], both["size_mine"])
    votes = both.groupby(["thread_theirs", "thread_mine"])["common"].sum().reset_index()
    order = np.argsort(-votes["common"].to_numpy(), kind="stable")
    best = votes.iloc[order].drop_duplicates("thread_theirs").drop_duplicates("thread_mine")
    return dict(zip(best["thread_theirs"].tolist(), best["thread_mine"].tolist(), strict=True))


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with their rank within their name and thread, and the size of that group."""
    ordered = table.sort_values("start", kind="stable")
    groups = ordered.groupby(["thread", "name"])
    return ordered.assign(rank=groups.cumcount(), size=groups["middle"].transform("size"))[
        ["thread", "name", "rank", "size", "middle"]
    ].astype("int64")


def _clock(at: Int, difference: Int) -> Clock:
    """Return the clock whose offset is the median difference of groups of neighbours; `at` is sorted."""
    groups = int(np.clip(len(at) // _GROUP, 1, _GROUPS))
    cuts = np.linspace(0, len(at), groups + 1).astype(np.int64)
    base = int(difference[0])
    points = [
        (int(np.median(at[low:high] - at[0])) + int(at[0]), base + int(np.median(difference[low:high] - base)))
        for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    ]
    centre, offset = np.array(points, dtype=np.int64).T
    return Clock(centre + offset, centre)
