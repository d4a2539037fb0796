"""The use of a device's memory over time: by kind, and by the layer whose operator allocated it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.device.memory import BEFORE, by_device
from kernelscope.analysis.timeline.over_time import largest_and_last
from kernelscope.analysis.trace import Trace

SCHEMA = "kernelscope/memory-over-time/1"
MOST = 400  # times for a device; nearby events are reduced to the one with the most memory and the last one
LAYERS = 40  # those that hold most at any time; the others are added up
NO_LAYER, OTHERS = "(in no layer)", "(other layers)"

Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryUse:
    """One device's memory over time.

    time_ns: since the device's first event. kinds, layers: {name: bytes in use after each of these events}, both with a row for
    memory allocated before the recording. Each adds up to the allocated bytes if the source counts these; if not, memory from
    before is known only as far as it was freed. spans: (start_ns, end_ns) of the measured steps.
    """

    device: str
    time_ns: list[int]
    kinds: dict[str, list[int]]
    layers: dict[str, list[int]]
    spans: list[tuple[int, int]]


def memory_over_time(trace: Trace) -> dict[str, Any]:
    """Return {"schema", "devices": a Use as plain data for each}; no devices if allocations have no addresses."""
    steps = trace.steps[~trace.steps["warmup"]]
    uses = []
    for device, times, counted, blocks in by_device(trace):
        events = largest_and_last(times, counted, MOST)
        rest = counted - _sums(blocks, np.zeros(len(blocks), np.int64), 1, np.arange(len(times)))[:, 0]
        rest -= min(0, int(rest.min()))
        before = {BEFORE: rest[events].tolist()} if rest.any() else {}
        layers = blocks["layer"].astype(object).where(blocks["layer"].notna(), NO_LAYER)
        spans = [(int(start - times[0]), int(end - times[0])) for start, end in steps[["start_ns", "end_ns"]].to_numpy(np.int64)]
        kinds = before | _in_use(blocks, blocks["kind"], events)
        of_layers = before | _in_use(blocks, layers, events)
        uses.append(MemoryUse(device, (times[events] - times[0]).tolist(), kinds, of_layers, spans))
    return {"schema": SCHEMA, "devices": [asdict(use) for use in uses]}


def _in_use(blocks: pd.DataFrame, names: pd.Series, events: Int) -> dict[str, list[int]]:
    """Return for each name the bytes in use after each of these events, largest first."""
    code, unique = pd.factorize(names)
    sums = _sums(blocks, code, len(unique), events)
    order = np.argsort(-sums.max(axis=0), kind="stable")
    result = {str(unique[place]): sums[:, place].tolist() for place in order[:LAYERS]}
    if len(order) > LAYERS:
        result[OTHERS] = sums[:, order[LAYERS:]].sum(axis=1).tolist()
    return result


def _sums(blocks: pd.DataFrame, code: Int, count: int, events: Int) -> Int:
    """Return the bytes in use after each of these events (rows), by the blocks' code (columns)."""
    change = np.zeros((len(events) + 1, count), dtype=np.int64)
    size = blocks["bytes"].to_numpy(np.int64)
    np.add.at(change, (np.searchsorted(events, blocks["taken"].to_numpy(np.int64)), code), size)
    np.add.at(change, (np.searchsorted(events, blocks["given"].to_numpy(np.int64)), code), -size)
    return np.cumsum(change, axis=0)[:-1]
