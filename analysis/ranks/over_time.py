"""A job over time: how long others waited for each rank in each step, and the timelines of chosen ranks, by corrected clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.parts import TRANSFER, UNMATCHED, WAITING
from kernelscope.analysis.ranks.recording import RankRecording
from kernelscope.analysis.ranks.waiting import matched_as
from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
COMPUTING = "computing"
SHOWN = 8  # ranks on a timeline
_PARTS = (COMPUTING, WAITING, TRANSFER, UNMATCHED)


def caused(blame: pd.DataFrame, places: Int, ranks: Sequence[RankRecording]) -> list[dict[str, int]]:
    """Return how long others waited for a rank in each step: place of the rank, step, ns; no row if they did not.

    blame: see waiting.blamed. A collective counts in the late rank's step in which that rank begins it.
    """
    rows = []
    known = blame[(blame["rank"] >= 0) & (blame["others_ns"] > 0)]
    for place in sorted(map(int, known["rank"].unique())):
        one, mine = ranks[place], known[known["rank"] == place]
        start = one.collectives["start_ns"].to_numpy(np.int64)[places[mine["collective"].to_numpy(np.int64), place]]
        step = np.clip(np.searchsorted(one.windows[0], start, side="right") - 1, 0, None)
        steps, at = np.unique(step, return_inverse=True)
        sums = np.zeros(len(steps), dtype=np.int64)
        np.add.at(sums, at, mine["others_ns"].to_numpy(np.int64))
        rows += [{"rank": place, "step": int(number), "ns": int(ns)} for number, ns in zip(steps, sums, strict=True)]
    return rows


def chosen(ranks: Sequence[RankRecording], blame: pd.DataFrame, exposed_ns: Int) -> list[int]:
    """Return the places of at most SHOWN ranks: half of them are waited for most, the others wait most."""
    if len(ranks) <= SHOWN:
        return list(range(len(ranks)))
    known = blame[blame["rank"] >= 0]
    late = known.groupby("rank")["others_ns"].sum().sort_values(ascending=False, kind="stable").index[: SHOWN // 2].tolist()
    waiting = np.argsort(-exposed_ns.sum(axis=0), kind="stable").tolist()
    return sorted([*late, *(place for place in waiting if place not in late)][:SHOWN])


def lanes(
    among: Sequence[int], ranks: Sequence[RankRecording], places: Int, clocks: Clocks, wait_ns: Int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the whole duration (ns), and for each of these ranks what it did (`_lane`), from the first one's begin."""
    begun = min(ranks[place].window_ns[0] - int(clocks.offsets_ns[place]) for place in among)
    over = max(ranks[place].window_ns[1] - int(clocks.offsets_ns[place]) for place in among)
    made = [
        _lane(ranks[place], places[:, place], wait_ns[:, place], begun + int(clocks.offsets_ns[place])) | {"rank": place}
        for place in among
    ]
    return over - begun, made


def _lane(one: RankRecording, places: Int, wait_ns: Int, since: int) -> dict[str, Any]:
    """Return start_ns, duration_ns, part (of _PARTS) and operation (null for computing) of a rank's activities, and its steps.

    They do not overlap: only the exposed part of a collective is there. places, wait_ns: of the matched collectives.
    """
    place = matched_as(places, one)
    pieces = one.exposed
    mine = pieces["collective"].to_numpy(np.int64)
    start, end = intervals.edges(pieces)
    matched = place[mine] >= 0
    begun = one.collectives["start_ns"].to_numpy(np.int64)[mine]
    until = np.where(matched, begun + wait_ns[place[mine]] if len(wait_ns) else begun, start)
    split = np.clip(until, start, end)
    operation = one.collectives["operation"].to_numpy(dtype=object)[mine]
    computing = one.computing
    tables = [
        pd.DataFrame({"start_ns": computing[0], "end_ns": computing[1], "part": COMPUTING, "operation": None}),
        pd.DataFrame({"start_ns": start, "end_ns": split, "part": WAITING, "operation": operation}),
        pd.DataFrame({"start_ns": split, "end_ns": end, "part": np.where(matched, TRANSFER, UNMATCHED), "operation": operation}),
    ]
    whole = pd.concat([table for table in tables if len(table)], ignore_index=True)
    whole = whole[whole["end_ns"] > whole["start_ns"]].sort_values("start_ns", kind="stable")
    windows = one.windows
    return {
        "start_ns": (whole["start_ns"] - since).tolist(),
        "duration_ns": (whole["end_ns"] - whole["start_ns"]).tolist(),
        "part": whole["part"].tolist(),
        "operation": [None if pd.isna(text) else str(text) for text in whole["operation"]],
        "steps": [(windows[0] - since).tolist(), (windows[1] - since).tolist()],
    }
