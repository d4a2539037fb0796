"""Groups of ranks side by side: their time in collectives and messages, how much of it work hides, and which group is slow.

Tensor, data, pipeline and expert parallel ranks communicate in their own groups. Groups that do the same (operation, size, number
of ranks) should be alike; one whose transfers take far longer than the median of the others has a slower link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.messages import bandwidths
from kernelscope.analysis.ranks import waiting
from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.recording import RankRecording

Int = npt.NDArray[np.int64]
SLOW = 1.5  # times the median transfer of the other groups that do the same
_LEAST = 4  # collectives of a group, and groups that do the same: fewer are too few to compare
_KIND = ["operation", "bytes", "members"]


def groups(places: Int, ranks: Sequence[RankRecording], clocks: Clocks, wait_ns: Int, steps: int) -> list[dict[str, Any]]:
    """Return a row for each group of ranks, most time first; none if all ranks are one group.

    places, wait_ns: of matched collectives, [collectives, ranks]. Keys: group (its name, such as 0, 1 or 0>1), ranks (places);
    operations; count (in all steps); and summed over its ranks, ns per step: time_ns, wait_ns, transfer_ns, hidden_ns (while the
    ranks computed). bus_gb_s: the median. slower: how many times as long its transfers take as those of the other groups that do
    the same, the largest of its kinds; null if there is too little to compare, or sizes are unknown.
    """
    if not len(places) or (places >= 0).all():
        return []
    start, end = waiting.times(places, ranks)
    table = waiting.of_first(places, ranks, ["operation", "bytes", "members", "group"]).reset_index(drop=True)
    table["members"] = table["members"].fillna(pd.Series((places >= 0).sum(axis=1)))
    taking = pd.Series([" ".join(map(str, np.flatnonzero(row))) for row in places >= 0])
    table["group"] = table["group"].astype("string").fillna(taking.str.replace(" ", ", "))
    if table["group"].nunique() < 2:
        return []
    lasted = (end - start).filled(0)
    table = table.assign(
        taking=taking, time_ns=lasted.sum(axis=1), wait_ns=wait_ns.sum(axis=1), hidden_ns=_hidden(places, ranks, lasted),
        single_ns=waiting.singles(places, ranks, clocks),
    )  # fmt: skip
    table["bus_gb_s"] = bandwidths(table.rename(columns={"single_ns": "transfer_ns"}))["bus_gb_s"]
    slower = _slower(table, clocks.uncertainty_ns)
    rows = []
    for name, mine in table.groupby("group", sort=True):
        sums = {key: round(int(mine[key].sum()) / steps) for key in ("time_ns", "wait_ns", "hidden_ns")}
        rate = mine["bus_gb_s"].median()
        rows.append(
            {"group": str(name), "ranks": sorted({int(place) for text in mine["taking"] for place in text.split()}),
             "operations": sorted(map(str, mine["operation"].unique())), "count": len(mine), **sums,
             "transfer_ns": sums["time_ns"] - sums["wait_ns"], "bus_gb_s": None if pd.isna(rate) else round(float(rate), 3),
             "slower": slower.get(str(name))}
        )  # fmt: skip
    return sorted(rows, key=lambda row: -row["time_ns"])


def _hidden(places: Int, ranks: Sequence[RankRecording], lasted: Int) -> Int:
    """Return how much of each matched collective is hidden by its ranks' computing or another collective, ns."""
    shown = np.zeros(len(places), dtype=np.int64)
    for number, one in enumerate(ranks):
        row, pieces = waiting.matched_as(places[:, number], one), one.exposed
        place = row[pieces["collective"].to_numpy(np.int64)]
        known = place >= 0
        np.add.at(shown, place[known], (pieces["end_ns"] - pieces["start_ns"]).to_numpy(np.int64)[known])
    return np.asarray(np.maximum(lasted.sum(axis=1) - shown, 0))


def _slower(table: pd.DataFrame, uncertainty_ns: int) -> dict[str, float]:
    """Return how many times as long each group's transfers take as those of the other groups that do the same.

    Three of four of a group's transfers take at least so long. Differences within the clocks' uncertainty are left out.
    """
    found: dict[str, float] = {}
    for _, kind in table.groupby(_KIND, sort=False):  # drops those of unknown size
        single = kind.groupby("group")["single_ns"].agg(["median", "count", _most])
        single = single[single["count"] >= _LEAST]
        if len(single) < _LEAST:
            continue
        for name, took in single["_most"].items():
            usual = float(single["median"].drop(name).median())
            if usual > 0 and abs(took - usual) > 2 * uncertainty_ns:
                found[str(name)] = max(found.get(str(name), 0.0), round(float(took) / usual, 3))
    return found


def _most(times: pd.Series) -> float:
    """Return the time that three of four of these times reach."""
    return float(times.quantile(0.25))
