"""How a collector's clock relates to ours: by the ranges that we recorded and that it recorded too.

The k-th range of a name on a thread is the same range in both recordings where both have as many of that name there; steps have
a name each. Our time stamps are taken just inside of the collector's, after its range began and before it ended, so that what the
taking costs cancels in the middle of both. The offset is the median over neighbouring ranges, interpolated between them: our
clock is steered by the network's time, a processor's counter is not, and some ppm of drift are many microseconds over a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Clock

Int = npt.NDArray[np.int64]

_GROUP, _GROUPS = 16, 64  # ranges whose median is one point of the offset; at most so many points


@dataclass(frozen=True)
class ClockCorrelation:
    """clock: from_wall takes the collector's times to ours. threads: ours by the collector's number.

    ranges: how many were matched. spread_ns: from the 5th to the 95th percentile of what the offset leaves of their differences.
    """

    clock: Clock
    threads: dict[int, int]
    ranges: int
    spread_ns: int


def by_ranges(captured: pd.DataFrame, ours: pd.DataFrame) -> ClockCorrelation | None:
    """Return the correlation of two recordings of the same ranges (tables of the Trace); None where they have none in common."""
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
    """Return thread, name as its number in `names`, and the middle of the ranges that have one of these names."""
    name = ranges["name"].cat.set_categories(names).cat.codes.to_numpy()
    start, end = (ranges[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
    table = pd.DataFrame({"thread": ranges["thread"].to_numpy(np.int64), "name": name, "middle": start + (end - start) // 2})
    return table[name >= 0].assign(start=start[name >= 0])


def _same_threads(theirs: pd.DataFrame, mine: pd.DataFrame) -> dict[int, int]:
    """Return which of our threads each of the collector's is: the one with most ranges of the same names."""
    counts = [table.groupby(["thread", "name"]).size().rename("size").reset_index() for table in (theirs, mine)]
    both = counts[0].merge(counts[1], on="name", suffixes=("_theirs", "_mine"))
    both["common"] = np.minimum(both["size_theirs"], both["size_mine"])
    votes = both.groupby(["thread_theirs", "thread_mine"])["common"].sum().reset_index()
    order = np.argsort(-votes["common"].to_numpy(), kind="stable")
    best = votes.iloc[order].drop_duplicates("thread_theirs").drop_duplicates("thread_mine")
    return dict(zip(best["thread_theirs"].tolist(), best["thread_mine"].tolist(), strict=True))


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with their rank among those of their name and thread, and how many these are."""
    ordered = table.sort_values("start", kind="stable")
    groups = ordered.groupby(["thread", "name"])
    return ordered.assign(rank=groups.cumcount(), size=groups["middle"].transform("size"))[
        ["thread", "name", "rank", "size", "middle"]
    ].astype("int64")


def _clock(at: Int, difference: Int) -> Clock:
    """Return the clock whose offset is the median difference of groups of neighbours; `at` ascends."""
    groups = int(np.clip(len(at) // _GROUP, 1, _GROUPS))
    cuts = np.linspace(0, len(at), groups + 1).astype(np.int64)
    base = int(difference[0])
    points = [
        (int(np.median(at[low:high] - at[0])) + int(at[0]), base + int(np.median(difference[low:high] - base)))
        for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    ]
    centre, offset = np.array(points, dtype=np.int64).T
    return Clock(centre + offset, centre)
