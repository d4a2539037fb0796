"""How ranks wait for one another: each collective is split into waiting and transfer, and waiting is charged to the last rank.

With corrected clocks, a rank waits in a collective until the last one begins it; the rest is the transfer. The lateness of the
last rank is explained by what it did meanwhile, compared with the median of the others: longer kernels, or the host. The ranks'
ends of a collective are no farther apart than the clocks' uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.inherited import Waits, charged
from kernelscope.analysis.ranks.parts import HOSTS, KERNELS
from kernelscope.analysis.ranks.point_to_point import ends
from kernelscope.analysis.ranks.recording import RankRecording, numbers

Int = npt.NDArray[np.int64]
Masked = Any  # np.ma.MaskedArray of int64, [collectives, ranks]: masked where a rank is not in a collective
_ENDS = ("start_ns", "end_ns")
BLAMED = ("collective", "operation", "rank", "others_ns", "cause", "where", "name")


def waits(places: Int, ranks: Sequence[RankRecording], clocks: Clocks) -> Int:
    """Return [collectives, ranks]: how long each rank waits in each matched collective for the last rank's begin, ns."""
    start, end = times(places, ranks)
    corrected = start - clocks.offsets_ns
    waited = np.minimum(corrected.max(axis=1, keepdims=True) - corrected, end - start)
    return np.where(going_on(places, ranks, clocks), 0, np.maximum(waited.filled(0), 0))


def going_on(places: Int, ranks: Sequence[RankRecording], clocks: Clocks) -> npt.NDArray[np.bool_]:
    """Return [collectives, ranks]: whether a rank sends a message without waiting for the other.

    It does if the program goes on from the send, or if the send ends before the other rank begins to receive.
    """
    result = np.zeros(places.shape, dtype=bool)
    sender, receiver = ends(of_first(places, ranks, ["group"])["group"], numbers(ranks))
    sent = np.flatnonzero(sender >= 0)
    if not len(sent):
        return result
    start, end = times(places[sent], ranks)
    posted = np.column_stack(
        [one.collectives["posted_ns"].notna().to_numpy(bool)[places[sent, number]] for number, one in enumerate(ranks)]
    )
    over = (end - clocks.offsets_ns).data < (start - clocks.offsets_ns).data[np.arange(len(sent)), receiver[sent], None]
    result[sent, sender[sent]] = (posted | over)[np.arange(len(sent)), sender[sent]]
    return result


def corrected(places: Int, ranks: Sequence[RankRecording], clocks: Clocks) -> tuple[Masked, Masked]:
    """Return starts and ends by corrected clocks, [collectives, ranks]; an end is also masked if the rank goes on before it."""
    start, end = times(places, ranks)
    masked = np.ma.getmaskarray(end) | going_on(places, ranks, clocks)
    return start - clocks.offsets_ns, np.ma.masked_array(end.data - clocks.offsets_ns, mask=masked)


def singles(places: Int, ranks: Sequence[RankRecording], clocks: Clocks) -> npt.NDArray[np.float64]:
    """Return how long each matched collective took once the last rank had begun it, ns.

    NaN for a message that was sent before the receiver asked for it: when it arrived is unknown.
    """
    start, end = corrected(places, ranks, clocks)
    taken = np.maximum((end.mean(axis=1) - start.max(axis=1)).filled(0.0), 0.0)
    unseen = going_on(places, ranks, clocks) & (end.data < start.max(axis=1, keepdims=True).filled(0))
    return np.where(unseen.any(axis=1), np.nan, taken)


def times(places: Int, ranks: Sequence[RankRecording]) -> tuple[Masked, Masked]:
    """Return starts and ends of matched collectives, [collectives, ranks], by each rank's clock; masked if it is not in it."""
    start, end = (_of_matched(places, ranks, name) for name in _ENDS)
    return start, end


def exposed_waits(places: Int, ranks: Sequence[RankRecording], wait_ns: Int) -> Int:
    """Return [collectives, ranks]: the waiting in a rank's steps that none of its kernels hides, ns."""
    result = np.zeros(places.shape, dtype=np.int64)
    for number, one in enumerate(ranks):
        row = matched_as(places[:, number], one)
        pieces = one.exposed
        place = pieces["collective"].to_numpy(np.int64)
        matched = row[place] >= 0
        place, begun, over = (values[matched] for values in (place, *(pieces[name].to_numpy(np.int64) for name in _ENDS)))
        until = one.collectives["start_ns"].to_numpy(np.int64)[place] + wait_ns[row[place], number]
        np.add.at(result[:, number], row[place], np.clip(np.minimum(over, until) - begun, 0, None))
    return result


def blamed(places: Int, ranks: Sequence[RankRecording], clocks: Clocks, wait_ns: Int, exposed_ns: Int) -> pd.DataFrame:
    """Return who made others wait, at which matched collective, and what made it late (BLAMED).

    rank: place in `ranks`; -1 if the last two begin within the clocks' uncertainty. others_ns: how long others waited for it,
    exposed; all rows add up to `exposed_ns` (see `charged`). cause: KERNELS or HOSTS, whichever exceeds the median of the others
    more before this collective. where, name: the layer and kernel, or what the host was in, that exceeds it most; null if none
    does.
    """
    start, _ = times(places, ranks)
    corrected = start - clocks.offsets_ns
    began = corrected.filled(np.iinfo(np.int64).min // 2)  # ranks that are not in it sort first
    order = np.argsort(began, axis=1, kind="stable")
    last = order[:, -1]
    behind = np.take_along_axis(began, order, axis=1)
    clear = behind[:, -1] - behind[:, -2] > 2 * clocks.uncertainty_ns
    idle, before = (_of_matched(places, ranks, name) for name in ("idle_ns", "before_ns"))
    table = charged(Waits(corrected, wait_ns, exposed_ns, before, last, clear)).rename(columns={"ns": "others_ns"})
    at = table["collective"].to_numpy(np.int64)
    rank = table["rank"].to_numpy(np.int64)
    late = np.where(rank >= 0, rank, last[at])
    first = before.data[at, late] < 0  # neither a collective nor a step's begin is before it, so the time before is unknown
    by_host = first | (_more(idle[at], late) >= _more((before - idle)[at], late))
    table["cause"] = np.where(by_host, HOSTS, KERNELS)
    table["operation"] = of_first(places, ranks, ["operation"])["operation"].to_numpy(dtype=object)[at]
    return table.join(_longer(places, ranks, at, late, table["cause"].to_numpy(dtype=object)))[list(BLAMED)]


def of_first(places: Int, ranks: Sequence[RankRecording], names: Sequence[str]) -> pd.DataFrame:
    """Return columns of matched collectives, each from the first rank that is in it."""
    first = (places >= 0).argmax(axis=1)
    tables = []
    for number, one in enumerate(ranks):
        mine = np.flatnonzero(first == number)
        if not len(mine):
            continue
        tables.append(one.collectives[list(names)].iloc[places[mine, number]].set_axis(mine))
    found: pd.DataFrame = pd.concat(tables).sort_index()
    return found


def _of_matched(places: Int, ranks: Sequence[RankRecording], name: str) -> Masked:
    columns = [one.collectives[name].to_numpy(np.int64)[places[:, number]] for number, one in enumerate(ranks)]
    return np.ma.masked_array(np.column_stack(columns), mask=places < 0)


def matched_as(places: Int, one: RankRecording) -> Int:
    """Return the number of the matched collective for each collective of a rank; -1 if it is not matched."""
    row = np.full(len(one.collectives), -1, dtype=np.int64)
    among = np.flatnonzero(places >= 0)
    row[places[among]] = among
    return row


def _more(values: Masked, last: Int) -> npt.NDArray[np.float64]:
    """Return by how much the last rank's value exceeds the median of the others; values: [collectives, ranks]."""
    mine = np.take_along_axis(values.data, last[:, None], axis=1)[:, 0]
    others = values.astype(float).filled(np.nan)
    np.put_along_axis(others, last[:, None], np.nan, axis=1)
    return np.asarray(mine - np.nanmedian(others, axis=1))


def _asked(places: Int, ranks: Sequence[RankRecording], at: Int, cause: Any) -> pd.DataFrame:
    """Return the segments of all ranks before these collectives, by these causes, with the rank's place."""
    tables = [one.segments for one in ranks]
    row = np.concatenate(
        [
            matched_as(places[:, number], one)[table["collective"].to_numpy(np.int64)]
            for number, (one, table) in enumerate(zip(ranks, tables, strict=True))
        ]
    )
    rank = np.repeat(np.arange(len(ranks)), [len(table) for table in tables])
    whole = pd.concat(tables, ignore_index=True)  # once: changing each rank's table would take longer than reading it
    del tables
    asked = np.zeros((len(places), 2), dtype=bool)
    asked[at, (cause == HOSTS).astype(np.int64)] = True
    kept = (row >= 0) & asked[row, (whole["what"] == HOSTS).to_numpy(np.int64)]
    chosen: pd.DataFrame = whole[kept]
    return chosen.assign(collective=row[kept], rank=rank[kept])


def _longer(places: Int, ranks: Sequence[RankRecording], at: Int, late: Int, cause: Any) -> pd.DataFrame:
    """Return where and name of the segment that took late ranks most extra time before collectives, by row number.

    at, late, cause: each row's collective, rank and cause.
    """
    whole = _asked(places, ranks, at, cause)
    rows = pd.DataFrame({"row": np.arange(len(at)), "collective": at, "what": cause, "late": late}).astype({"what": object})
    wide = whole.pivot_table(
        index=["collective", "what", "where", "name"], columns="rank", values="ns", aggfunc="sum", fill_value=0
    )
    wide = wide.reindex(columns=range(len(ranks)), fill_value=0).reset_index()
    found = rows.merge(wide, on=["collective", "what"])
    if found.empty:
        return pd.DataFrame({"where": [], "name": []}, dtype=object)
    values = np.ma.masked_array(found[list(range(len(ranks)))].to_numpy(np.int64), mask=places[found["collective"]] < 0)
    found["more"] = _more(values, found["late"].to_numpy(np.int64))
    most = found[found["more"] > 0].sort_values("more", kind="stable").drop_duplicates("row", keep="last").set_index("row")
    return most[["where", "name"]].replace("", None)
