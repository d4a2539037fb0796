"""Memory by purpose, from PyTorch's allocator events or the description of our own networks.

PyTorch's trace says when, where and how much memory is allocated, but not for what. The purpose follows from the operator around
the allocation and from its lifetime:

- workspace: freed before the innermost operator that allocated it ends;
- activations: allocated in the forward phase and kept longer;
- gradients: allocated in the backward phase and kept longer than it; memory that is freed within the backward phase is
  "activation gradients";
- optimizer state: allocated in the optimizer's phase and never freed;
- temporary: anything else that is freed; unattributed: anything else that is kept.

Memory allocated before the recording (mostly weights) is a row of its own: the allocator's own count before the first event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import Trace, intervals

Int = npt.NDArray[np.int64]

BEFORE = "before the recording"
WORKSPACE, ACTIVATIONS, GRADIENTS = "workspace", "activations", "gradients"
ACTIVATION_GRADIENTS, OPTIMIZER_STATE = "activation gradients", "optimizer state"
TEMPORARY, UNATTRIBUTED = "temporary", "unattributed"
FLOAT_BYTES = 4
_STATES = {"sgd": 1, "rmsprop": 1, "adam": 2}  # tensors of the weights' size that an optimizer keeps (sgd: with momentum)


def peaks(trace: Trace) -> pd.DataFrame:
    """Return a row per device: peak allocated and reserved bytes, with the time, step and phase of the allocated peak.

    Columns: device, allocated_bytes, reserved_bytes, time_ns (of the allocated peak, since the first event), step, phase, events.
    allocated_bytes is the allocator's own count if the source has it, else the sum of the events since the recording began. Empty
    if no memory was recorded.
    """
    columns = ["device", "allocated_bytes", "reserved_bytes", "time_ns", "step", "phase", "events"]
    rows: list[dict[str, Any]] = []
    for device, events in trace.memory.sort_values("time_ns", kind="stable").groupby("device", observed=True, sort=True):
        counted = events["allocated_bytes"].fillna(events["bytes"].cumsum())
        at = int(counted.to_numpy(np.int64).argmax())
        when = int(events["time_ns"].iloc[at])
        reserved = events["reserved_bytes"].max()
        rows.append({
            "device": device, "allocated_bytes": int(counted.iloc[at]),
            "reserved_bytes": None if pd.isna(reserved) else int(reserved), "time_ns": when - int(events["time_ns"].iloc[0]),
            "step": _step(trace, when), "phase": _phase(trace, events, at), "events": len(events),
        })  # fmt: skip
    return pd.DataFrame(rows, columns=columns).astype({"step": "Int64", "reserved_bytes": "Int64"})


def _step(trace: Trace, at: int) -> int | None:
    inside = trace.steps[(trace.steps["start_ns"] <= at) & (at < trace.steps["end_ns"])]
    return int(inside["step"].iloc[0]) if len(inside) else None


def _phase(trace: Trace, events: pd.DataFrame, at: int) -> str | None:
    row = _operator_of(trace, events.iloc[[at]])[0]
    result = trace.operators["phase"].iloc[row] if row >= 0 else None
    return None if result is None or pd.isna(result) else str(result)


def kinds(trace: Trace) -> pd.DataFrame:
    """Return the memory on each device at its peak, by kind: device, kind, bytes, blocks; adds up to the peak.

    Needs addresses (PyTorch 1.12 and later); empty if the source has none.
    """
    columns = ["device", "kind", "bytes", "blocks"]
    rows: list[dict[str, Any]] = []
    for device, _, counted, blocks in by_device(trace):
        at = int(counted.argmax())
        live = blocks[(blocks["taken"] <= at) & (blocks["given"] > at)]
        sums = live.groupby("kind")["bytes"].agg(["sum", "size"])
        rows += [{"device": device, "kind": kind, "bytes": int(s), "blocks": int(n)} for kind, (s, n) in sums.iterrows()]
        rest = int(counted[at]) - int(live["bytes"].sum())
        if rest:
            rows.append({"device": device, "kind": BEFORE, "bytes": rest, "blocks": None})
    result = pd.DataFrame(rows, columns=columns).astype({"blocks": "Int64"})
    return result.sort_values(["device", "bytes"], ascending=[True, False], kind="stable").reset_index(drop=True)


def by_device(trace: Trace) -> Iterator[tuple[str, Int, Int, pd.DataFrame]]:
    """Yield for each device whose allocations have addresses: name, times of its events, allocated bytes after each, blocks.

    Blocks: bytes, kind, layer (of the innermost operator around, else null), and `taken` and `given`, the numbers of the events
    that allocated and freed it; for blocks that were kept, `given` is the number of all events.
    """
    events = trace.memory[trace.memory["address"].notna()].sort_values("time_ns", kind="stable")
    for device, mine in events.groupby("device", observed=True, sort=True):
        blocks = _blocks(mine)
        operator = _operator_of(trace, blocks)
        layers = np.array([*trace.operators["layer"].astype(object), None], dtype=object)  # the last one is for no operator, -1
        counted = mine["allocated_bytes"].fillna(mine["bytes"].cumsum()).to_numpy(np.int64)
        blocks = blocks.assign(kind=_kinds(blocks, trace, operator), layer=layers[operator])
        yield str(device), mine["time_ns"].to_numpy(np.int64), counted, blocks


def _blocks(events: pd.DataFrame) -> pd.DataFrame:
    """Return the allocated blocks, with the positions of the events that allocated and freed them (number of events: never)."""
    table = events.reset_index(drop=True)
    address = table["address"].to_numpy(np.int64)
    order = np.lexsort((np.arange(len(table)), address))
    size = table["bytes"].to_numpy(np.int64)[order]
    follows = np.append((address[order][1:] == address[order][:-1]) & (size[:-1] > 0) & (size[1:] < 0), False)
    given = np.where(follows, np.append(order[1:], 0), len(table))
    taking = size > 0
    rows = order[taking]
    result = table.take(rows)[["time_ns", "thread", "bytes"]].reset_index(drop=True)
    return result.assign(taken=rows, given=given[taking], given_ns=_times(table, given[taking]))


def _times(table: pd.DataFrame, rows: Int) -> Int:
    times = np.append(table["time_ns"].to_numpy(np.int64), np.iinfo(np.int64).max)
    return times[rows]


def _operator_of(trace: Trace, events: pd.DataFrame) -> Int:
    """Return the row of the innermost operator around each event on its thread, or -1."""
    at = events["time_ns"].to_numpy(np.int64)
    return intervals.innermost(*intervals.spans(trace.operators), intervals.whole(events["thread"]), at)


def _kinds(blocks: pd.DataFrame, trace: Trace, row: Int) -> npt.NDArray[np.object_]:
    """Return each block's kind (see the module's documentation). row: of the operator around it, or -1."""
    operators = trace.operators
    ended = np.append(operators["end_ns"].to_numpy(np.int64), 0)[row]
    phase = np.array([*operators["phase"].astype(object), None], dtype=object)[row]
    kept = blocks["given_ns"].to_numpy() == np.iinfo(np.int64).max
    backward_end = _end_of_backward(trace, blocks["time_ns"].to_numpy(np.int64))
    inside_backward = blocks["given_ns"].to_numpy(np.int64) <= backward_end
    is_forward, is_backward = phase == "forward", phase == "backward"
    chosen = np.select(
        [
            (row >= 0) & (blocks["given_ns"].to_numpy(np.int64) <= ended), is_forward, is_backward & inside_backward, is_backward,
            (phase == "optimizer") & kept, ~kept,
        ],
        [WORKSPACE, ACTIVATIONS, ACTIVATION_GRADIENTS, GRADIENTS, OPTIMIZER_STATE, TEMPORARY],
        UNATTRIBUTED,
    )  # fmt: skip
    return chosen.astype(object)


def _end_of_backward(trace: Trace, at: Int) -> Int:
    """Return the end of the backward phase that is active at each time: of its last operator before the next step or forward."""
    operators = trace.operators.sort_values("start_ns", kind="stable")
    telling = operators[operators["phase"].isin(["forward", "backward", "optimizer"])]
    backward = (telling["phase"] == "backward").to_numpy()
    start, end = intervals.edges(telling)
    run = np.cumsum(np.append(True, backward[1:] != backward[:-1])[: len(backward)])
    ends = np.zeros(int(run.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(ends, run, end)
    place = np.searchsorted(start, at, side="right") - 1
    return np.asarray(np.where(place >= 0, ends[run[np.maximum(place, 0)]] if len(run) else 0, 0))


def stated(network: dict[str, Any], mode: str, batch: int) -> pd.DataFrame:
    """Return a network's memory by its description, in float32: kind, bytes, how. None of it is measured.

    activations: the outputs of all layers for one batch, which training keeps for the gradients; frameworks keep more or less.
    """
    weights = FLOAT_BYTES * int(network["parameters"])
    outputs = FLOAT_BYTES * batch * sum(int(np.prod(layer["output_shape"])) for layer in network["layers"])
    rows = [{"kind": "weights", "bytes": weights, "how": "parameters in float32"}]
    if mode == "train":
        name = str((network.get("optimizer") or {}).get("name"))
        states = _STATES.get(name)
        rows.append({"kind": GRADIENTS, "bytes": weights, "how": "as many as weights"})
        rows.append({
            "kind": OPTIMIZER_STATE, "bytes": None if states is None else weights * states,
            "how": f"{name}: {'unknown' if states is None else f'{states} for each weight'}",
        })  # fmt: skip
    rows.append({"kind": ACTIVATIONS, "bytes": outputs, "how": f"outputs of all layers, batch {batch}"})
    return pd.DataFrame(rows, columns=["kind", "bytes", "how"]).astype({"bytes": "Int64"})
