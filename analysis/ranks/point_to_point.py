"""Messages from one rank to another: which two ranks, and how many bytes.

In newer traces of torch.profiler, a kernel that sends or receives names its peer. On processors the operator around it does:
c10d::send(tensors, group, target, tag) and c10d::recv_(tensors, group, source, tag), torch/csrc/distributed/c10d/Ops.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import json_text
from kernelscope.analysis.kernels.work.amounts import ELEMENT_BYTES
from kernelscope.analysis.trace import Trace, intervals

Int = npt.NDArray[np.int64]
_TO = ">"  # in the name of a pair of ranks: 0>1
_PROBLEM = r"^(?P<elements>\d+) (?P<way>to|from) rank (?P<peer>\d+)$"
_SEND = "c10d::send"
_OPERATORS = {_SEND: "to", "c10d::recv_": "from"}
_PEER = 2  # which argument


def between(trace: Trace, rows: pd.DataFrame, rank: int | None) -> pd.DataFrame:
    """Return group ("0>1" if rank 0 sends to rank 1) and bytes of the rows that send or receive; null for others.

    rows: kernels or ranges of communication. rank: whose they are; if unknown, all is null.
    """
    nothing = pd.DataFrame({"group": pd.Series(pd.NA, index=rows.index, dtype="string"), "bytes": pd.NA})
    if rank is None:
        return nothing.astype({"bytes": "Int64"})
    texts = rows["problem"].astype("string") if "problem" in rows else pd.Series(pd.NA, index=rows.index, dtype="string")
    found = texts.str.extract(_PROBLEM)
    sizes = rows["dtype"].astype("string").map(ELEMENT_BYTES.get) if "dtype" in rows else pd.Series(pd.NA, index=rows.index)
    around = _of_operators(trace, rows)
    way, peer = found["way"].fillna(around["way"]), found["peer"].fillna(around["peer"])
    own = str(rank)
    group = (own + _TO + peer).where((way == "to").fillna(False), peer + _TO + own)
    size = pd.to_numeric(found["elements"]).astype("Int64") * sizes.astype("Int64")
    return pd.DataFrame({"group": group.astype("string"), "bytes": size})


def from_operators(trace: Trace, rows: pd.DataFrame) -> pd.DataFrame:
    """Return gloo's ranges that send and receive, cut to the time that the program spent in them, with posted_ns.

    Gloo begins a range when the data is handed over, and ends it when the program has asked whether it is done: pipelines ask for
    received data when they need it, and for sends at the end of a step. Until then the program does not wait. So a send from
    which the program goes on ends with its operator, and such a receive begins when the program asks for it: after the last event
    of its thread. posted_ns: when the operator of these began; null if the program waits at once.
    """
    operators, row = _around(trace, rows)
    if operators.empty:
        return rows.assign(posted_ns=pd.array([pd.NA] * len(rows), dtype="Int64"))
    known = row >= 0
    begun, over = (operators[name].to_numpy(np.int64)[row] for name in ("start_ns", "end_ns"))
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    sends = (operators["name"] == _SEND).to_numpy(bool)[row]
    asked = _last_before(trace, rows)
    posted = known & (asked > over)
    return rows.assign(
        start_ns=np.where(posted & ~sends, asked, np.where(known, begun, start)),
        end_ns=np.where(posted & sends, over, end),
        posted_ns=pd.Series(begun, index=rows.index, dtype="Int64").mask(~posted),
    )


def _last_before(trace: Trace, rows: pd.DataFrame) -> Int:
    """Return the last time before each row's end at which its thread began or ended anything; the least integer if none."""
    done = [intervals.spans(table) for table in (trace.operators, trace.ranges)]
    thread = np.concatenate([one[0] for one in done for _ in range(2)])
    times = np.concatenate([edge for one in done for edge in one[1:]])
    order = np.lexsort((times, thread))
    thread, times = thread[order], times[order]
    mine, _, end = intervals.spans(rows)
    never = np.iinfo(np.int64).min
    result = np.full(len(rows), never)
    for one in np.unique(mine):
        chosen, own = mine == one, np.concatenate([[never], times[thread == one]])
        result[chosen] = own[np.searchsorted(own, end[chosen], side="left") - 1]
    return result


def _around(trace: Trace, rows: pd.DataFrame) -> tuple[pd.DataFrame, Int]:
    """Return the operators that send and receive, and for each row the place of the operator in which it begins, or -1."""
    operators = trace.operators[trace.operators["name"].isin(list(_OPERATORS)).to_numpy(bool)]
    if operators.empty or "thread" not in rows or rows["thread"].isna().all():
        return operators.iloc[:0], np.full(len(rows), -1, dtype=np.int64)
    thread, start, _ = intervals.spans(rows)
    if "posted_ns" in rows:
        start = rows["posted_ns"].fillna(rows["start_ns"]).to_numpy(np.int64)
    return operators, intervals.innermost(*intervals.spans(operators), thread, start)


def _of_operators(trace: Trace, rows: pd.DataFrame) -> pd.DataFrame:
    """Return way and peer from the operators in which the rows begin; null if several groups number their ranks."""
    result = pd.DataFrame({"way": pd.NA, "peer": pd.NA}, index=rows.index, dtype="string")
    if int((trace.info.get("distributed") or {}).get("pg_count") or 1) > 1:
        return result
    operators, row = _around(trace, rows)
    inside = row >= 0
    mine = operators.iloc[row[inside]]
    result.loc[inside, "way"] = mine["name"].astype("string").map(_OPERATORS).to_numpy(dtype=object)
    result.loc[inside, "peer"] = [_peer(text) for text in mine["arguments"].astype("string").fillna("")]
    return result


def _peer(text: str) -> str | None:
    """Return the rank that an operator's arguments name; None if they name none."""
    try:
        arguments = json_text.parsed(text)
    except ValueError:
        return None
    peer = str(arguments[_PEER]) if isinstance(arguments, list) and len(arguments) > _PEER else ""
    return peer if peer.isascii() and peer.isdigit() else None


def is_message(groups: pd.Series) -> npt.NDArray[np.bool_]:
    """Return which of these are of messages."""
    return groups.astype("string").str.contains(_TO, regex=False).fillna(False).to_numpy(bool)


def ends(groups: pd.Series, numbers: Sequence[int]) -> tuple[Int, Int]:
    """Return the places of the ranks that send and receive, -1 and -1 for what is no message. numbers: of each place's rank."""
    places = {str(number): place for place, number in enumerate(numbers)}
    found = groups.astype("string").str.extract(rf"^(\d+){_TO}(\d+)$")
    sender, receiver = (np.asarray(found[column].map(places).fillna(-1), dtype=np.int64) for column in (0, 1))
    return sender, receiver
