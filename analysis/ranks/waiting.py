"""What ranks wait for one another: each collective split into waiting and transfer, and waiting charged to who came last.

With corrected clocks a rank waits in a collective until the last one begins it; the rest is the transfer. The last one's lateness
is explained by what it did since the collective before, against the median of the others: kernels that took longer, or the host.
Between the ranks' ends of that collective no more than the clocks' uncertainty lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.parts import HOSTS, KERNELS
from kernelscope.analysis.ranks.recording import RankRecording

Int = npt.NDArray[np.int64]
Masked = Any  # np.ma.MaskedArray of int64, [collectives, ranks]: masked where a rank is not in a collective
_ENDS = ("start_ns", "end_ns")
BLAMED = ("collective", "operation", "rank", "late_ns", "others_ns", "cause", "where", "name")


def waits(places: Int, ranks: Sequence[RankRecording], clocks: Clocks) -> Int:
    """Return [collectives, ranks]: how long each rank waits in each matched collective for the last one to begin it, ns."""
    start, end = times(places, ranks)
    corrected = start - clocks.offsets_ns
    waited = np.minimum(corrected.max(axis=1, keepdims=True) - corrected, end - start)
    return np.asarray(np.maximum(waited.filled(0), 0))


def times(places: Int, ranks: Sequence[RankRecording]) -> tuple[Masked, Masked]:
    """Return starts and ends of matched collectives, [collectives, ranks], by each rank's clock; masked where it is not in it."""
    start, end = (_of_matched(places, ranks, name) for name in _ENDS)
    return start, end


def exposed_waits(places: Int, ranks: Sequence[RankRecording], wait_ns: Int) -> Int:
    """Return [collectives, ranks]: the part of the waiting that no kernel of the rank hides, in its steps, ns."""
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


def blamed(places: Int, ranks: Sequence[RankRecording], clocks: Clocks, exposed_ns: Int) -> pd.DataFrame:
    """Return for each matched collective who came last, and what made it late (BLAMED).

    rank: place in `ranks`; -1 where the last two begin within the clocks' uncertainty. late_ns: after the median of the others.
    others_ns: what the others waited for it, exposed. cause: KERNELS or HOSTS, whichever made it later; where and name: the layer
    and kernel, or what the host was in, that took most longer than on the median of the others; null where nothing did.
    """
    start, _ = times(places, ranks)
    corrected = start - clocks.offsets_ns
    began = corrected.filled(np.iinfo(np.int64).min // 2)  # who is not in it comes first
    order = np.argsort(began, axis=1, kind="stable")
    last = order[:, -1]
    behind = np.take_along_axis(began, order, axis=1)
    others = np.where(np.ma.getmaskarray(corrected), np.nan, began.astype(float))
    others[np.arange(len(last)), last] = np.nan
    clear = behind[:, -1] - behind[:, -2] > 2 * clocks.uncertainty_ns
    idle, before = (_of_matched(places, ranks, name) for name in ("idle_ns", "before_ns"))
    first = np.take_along_axis(before.filled(0), last[:, None], axis=1)[:, 0] < 0  # nothing is known of what was before
    by_host = first | (_more(idle, last) >= _more(before - idle, last))
    cause = np.where(by_host, HOSTS, KERNELS)
    table = pd.DataFrame(
        {"operation": of_first(places, ranks, ["operation"])["operation"].to_numpy(dtype=object),
         "rank": np.where(clear, last, -1),
         "late_ns": behind[:, -1] - np.nanmedian(others, axis=1).astype(np.int64), "others_ns": exposed_ns.sum(axis=1),
         "cause": cause}
    ).rename_axis("collective").reset_index()  # fmt: skip
    return table.merge(_longer(places, ranks, last, cause), on="collective", how="left")[list(BLAMED)]


def of_first(places: Int, ranks: Sequence[RankRecording], names: Sequence[str]) -> pd.DataFrame:
    """Return columns of matched collectives as the first rank that is in each has them."""
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
    """Return for each collective of a rank which of the matched ones it is, -1 for none."""
    row = np.full(len(one.collectives), -1, dtype=np.int64)
    among = np.flatnonzero(places >= 0)
    row[places[among]] = among
    return row


def _more(values: Masked, last: Int) -> npt.NDArray[np.float64]:
    """Return by how much the last rank's value is larger than the median of the others; values: [collectives, ranks]."""
    mine = np.take_along_axis(values.data, last[:, None], axis=1)[:, 0]
    others = values.astype(float).filled(np.nan)
    np.put_along_axis(others, last[:, None], np.nan, axis=1)
    return np.asarray(mine - np.nanmedian(others, axis=1))


def _longer(places: Int, ranks: Sequence[RankRecording], last: Int, cause: npt.NDArray[np.str_]) -> pd.DataFrame:
    """Return for each matched collective what took most longer on the last rank: collective, where, name."""
    tables = []
    for number, one in enumerate(ranks):
        row, segments = matched_as(places[:, number], one), one.segments
        tables.append(segments.assign(collective=row[segments["collective"].to_numpy(np.int64)], rank=number))
    whole = pd.concat(tables, ignore_index=True)
    whole = whole[(whole["collective"] >= 0).to_numpy(bool)]
    whole = whole[(whole["what"].to_numpy() == cause[whole["collective"].to_numpy(np.int64)])]
    if whole.empty:
        return pd.DataFrame({"collective": [], "where": [], "name": []}).astype({"collective": "int64"})
    wide = whole.pivot_table(index=["collective", "where", "name"], columns="rank", values="ns", aggfunc="sum", fill_value=0)
    wide = wide.reindex(columns=range(len(ranks)), fill_value=0)
    collective = wide.index.get_level_values("collective").to_numpy(np.int64)
    values = np.ma.masked_array(wide.to_numpy(np.int64), mask=places[collective] < 0)
    more = pd.Series(_more(values, last[collective]), index=wide.index)
    most = more[more > 0].groupby(level="collective").idxmax()
    found = pd.DataFrame(most.tolist(), columns=["collective", "where", "name"])
    return found.assign(**{name: found[name].replace("", None) for name in ("where", "name")})
