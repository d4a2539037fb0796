"""The host's call that launched each task of an Ascend NPU.

Tasks name their CANN call by a connection id; arrows lead from a torch operator ("async_npu") or from a point on a CANN thread
("HostToDevice") to the start of a task. With torch_npu's task queue, the launching call is the Enqueue with which the operator's
thread handed the work over, else the CANN call itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kernelscope.analysis.trace import intervals

_OPERATOR_ARROW = "async_npu"


def correlate(calls: pd.DataFrame, operators: pd.DataFrame, arrows: pd.DataFrame, work: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Write correlation and process into the tables of work, in place, and return the calls with the same numbers.

    calls: start_ns, end_ns, thread, process, name, category (enqueue, dequeue or cann), queue (number in the task queue) and
    connection. arrows: category, track and start_ns of the task, thread and start_ns_host of the host's end. work: with track,
    start_ns and connection. If an arrow comes from an operator without calls, the operator itself becomes the call.
    """
    calls = calls.reset_index(drop=True)
    both = pd.concat([table[["track", "start_ns", "connection"]] for table in work], ignore_index=True)
    # tasks of one connection were launched together; a task without one is alone
    group = np.where(both["connection"].notna(), both["connection"].fillna(0), -2 - np.arange(len(both)))
    both["group"] = group.astype(np.int64)
    places = both.merge(arrows, on=["track", "start_ns"]).rename(columns={"start_ns_host": "time"})
    of_operators = places[places["category"] == _OPERATOR_ARROW].drop_duplicates("group")
    of_calls = places[places["category"] != _OPERATOR_ARROW].drop_duplicates("group")
    row = pd.Series(-1, index=pd.unique(both["group"]), dtype="int64")
    for result in (_enqueued(of_operators, operators, calls), _dequeued(_call_places(calls, of_calls), calls), _connected(calls)):
        result = result[result.index.isin(row.index) & (result >= 0)]
        left = row.loc[result.index] < 0
        row.loc[result.index[left]] = result[left].to_numpy()
    calls, row = _with_operators(calls, row, of_operators, operators)
    of_row = row.loc[both["group"]].to_numpy()
    launching = pd.Series(pd.NA, index=calls.index, dtype="Int64")
    launching.iloc[np.unique(of_row[of_row >= 0])] = np.unique(of_row[of_row >= 0]) + 1
    first = 0
    for table in work:
        mine = of_row[first : first + len(table)]
        first += len(table)
        table["correlation"] = pd.arrays.IntegerArray(np.maximum(mine, 0) + 1, mine < 0)
        processes = calls["process"].to_numpy(np.int64) if len(calls) else np.zeros(1, dtype=np.int64)
        table["process"] = pd.arrays.IntegerArray(processes[np.maximum(mine, 0)], mine < 0)
    return calls.assign(correlation=launching)


def _enqueued(places: pd.DataFrame, operators: pd.DataFrame, calls: pd.DataFrame) -> pd.Series:
    """Return the row of the first Enqueue within the operator that begins at each place, by group."""
    enqueues = calls[(calls["category"].astype("object") == "enqueue").to_numpy()]
    inner = operators[["thread", "start_ns", "end_ns"]].drop_duplicates(["thread", "start_ns"])
    result = places.merge(inner.rename(columns={"start_ns": "time"}), on=["thread", "time"]).sort_values("time")
    if not len(result) or not len(enqueues):
        return pd.Series(dtype="int64")
    coming = enqueues[["thread", "start_ns"]].assign(call=enqueues.index).sort_values("start_ns")
    result = pd.merge_asof(
        result.drop(columns="start_ns").astype({"thread": "int64"}), coming.astype({"thread": "int64"}),
        left_on="time", right_on="start_ns", by="thread", direction="forward",
    )  # fmt: skip
    result = result[(result["start_ns"] <= result["end_ns"]).fillna(False).to_numpy(dtype=bool)]
    return result.set_index("group")["call"].astype("int64")


def _call_places(calls: pd.DataFrame, arrows: pd.DataFrame) -> pd.DataFrame:
    """Return the thread and time at which each group's work left the host: the start of its arrow, else its first CANN call."""
    own = calls[calls["connection"].notna()].sort_values(["start_ns"]).drop_duplicates("connection")
    own = own[["thread", "start_ns", "connection"]].rename(columns={"start_ns": "time", "connection": "group"})
    own["group"] = own["group"].astype("int64")
    return pd.concat([arrows[["thread", "time", "group"]], own], ignore_index=True).drop_duplicates("group")


def _dequeued(places: pd.DataFrame, calls: pd.DataFrame) -> pd.Series:
    """Return, by group, the row of the Enqueue whose Dequeue is open at each place; without an Enqueue, that of the Dequeue."""
    category = calls["category"].astype("object").to_numpy()
    outs = np.flatnonzero(category == "dequeue")
    if not len(outs) or not len(places):
        return pd.Series(dtype="int64")
    span = calls.iloc[outs]
    at = intervals.innermost(*intervals.spans(span), *(places[name].to_numpy(np.int64) for name in ("thread", "time")))
    ins = calls[(category == "enqueue") & calls["queue"].notna().to_numpy()].drop_duplicates(["process", "queue"])
    twins = span[["process", "queue"]].merge(
        ins.assign(row=ins.index)[["process", "queue", "row"]], on=["process", "queue"], how="left"
    )
    row = twins["row"].fillna(pd.Series(outs, index=twins.index)).to_numpy(np.int64)
    return pd.Series(np.where(at >= 0, row[np.maximum(at, 0)], -1), index=places["group"].to_numpy())


def _connected(calls: pd.DataFrame) -> pd.Series:
    """Return the row of the outermost CANN call of each connection."""
    connected = calls[calls["connection"].notna()].sort_values(["start_ns", "end_ns"], ascending=[True, False])
    connected = connected.drop_duplicates("connection")
    return pd.Series(connected.index.to_numpy(np.int64), index=connected["connection"].to_numpy(np.int64))


def _with_operators(
    calls: pd.DataFrame, row: pd.Series, places: pd.DataFrame, operators: pd.DataFrame
) -> tuple[pd.DataFrame, pd.Series]:
    """Return the calls, with operators that launched work themselves added, and each group's row."""
    missing = places[places["group"].isin(row.index[row < 0])]
    inner = operators[["thread", "process", "start_ns", "end_ns", "name"]].drop_duplicates(["thread", "start_ns"])
    result = missing[["group", "thread", "time"]].merge(inner.rename(columns={"start_ns": "time"}), on=["thread", "time"])
    if not len(result):
        return calls, row
    once = result.drop_duplicates(["thread", "time"]).reset_index(drop=True)
    numbers = once[["thread", "time"]].assign(call=once.index + len(calls))
    row.loc[result["group"]] = result.merge(numbers, on=["thread", "time"])["call"].to_numpy(np.int64)
    added = once.rename(columns={"time": "start_ns"})[["start_ns", "end_ns", "process", "thread", "name"]].assign(api="operator")
    tables = [table.astype({"name": "object", "api": "object"}) for table in (calls, added)]
    return pd.concat([table for table in tables if len(table)], ignore_index=True), row
