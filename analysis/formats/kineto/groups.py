"""Descriptions of the events in torch.profiler's traces: their arguments, and groups of events that become one table each.

Sources: pytorch/kineto libkineto/src/output_json.cpp (layout), ActivityType.cpp (categories), CuptiActivity.cpp and
RoctracerLogger.cpp (arguments of device work); torch/csrc/autograd/profiler_kineto.cpp (arguments of operators).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INTEGER, TEXT, JSON = "integer", "text", "json"


@dataclass(frozen=True)
class Argument:
    """An argument of events: its names in files, the usual one first, and its kind: integer, text, or JSON kept as text."""

    keys: tuple[str, ...]
    kind: str = INTEGER


ARGUMENTS: Mapping[str, Argument] = {
    "sequence": Argument(("Sequence number",)),  # of a backward operator: that of its forward operator
    "forward_thread": Argument(("Fwd thread id",)),  # the profiler's number of the forward operator's thread; 0 for forward ones
    "external_id": Argument(("External id", "external id")),  # relates device work to the operator that caused it
    "correlation": Argument(("correlation",)),  # relates device work to the runtime call that launched it
    "device": Argument(("device", "inDevice")),
    "stream": Argument(("stream", "sycl queue")),
    "registers": Argument(("registers per thread",)),
    "shared_memory": Argument(("shared memory",)),
    "graph": Argument(("graph id", "cuda graph id", "graphId")),
    "bytes": Argument(("bytes", "Bytes", "size")),
    "allocated_bytes": Argument(("Total Allocated",)),
    "reserved_bytes": Argument(("Total Reserved",)),
    "device_type": Argument(("Device Type",)),
    "device_id": Argument(("Device Id",)),
    "module": Argument(("Python module id",)),
    "collective": Argument(("Collective name",), TEXT),
    "given": Argument(("In msg nelems",)),  # elements that a rank sends to a collective, and that it receives
    "received": Argument(("Out msg nelems",)),
    "members": Argument(("Group size",)),
    "source": Argument(("Src Rank",)),  # of a message between two ranks: its sender, on the receiving side
    "target": Argument(("Dst Rank",)),  # and its receiver, on the sending side
    "group": Argument(("Process Group Ranks",), TEXT),  # [0, 1, 2, 3]; of a long list the first, ... and the last
    "dtype": Argument(("dtype",), TEXT),
    "sync_kind": Argument(("cuda_sync_kind",), TEXT),
    "direction": Argument(("direction",), TEXT),
    "shapes": Argument(("Input Dims", "Input dims"), JSON),
    "types": Argument(("Input type",), JSON),
    "strides": Argument(("Input Strides",), JSON),
    "arguments": Argument(("Concrete Inputs",), JSON),
    "address": Argument(("Addr",)),
    "grid": Argument(("grid",), JSON),
    "block": Argument(("block",), JSON),
    "labels": Argument(("name", "labels"), JSON),  # of processes and threads
    # Huawei's NPUs (Ascend/pytorch torch_npu/profiler, Ascend/msprof analysis/csrc/application/timeline)
    "connection": Argument(("connection_id",)),  # relates tasks to the CANN call that launched them
    "queue": Argument(("correlation_id",)),  # of torch_npu's task queue: relates enqueue to dequeue
    "task_type": Argument(("Task Type", "task type"), TEXT),
    "task_stream": Argument(("Physic Stream Id", "Stream Id", "stream id")),
    "operation": Argument(("operation",), TEXT),
    "task_bytes": Argument(("size(B)",)),
}

PAIR, FLOW = frozenset("BE"), frozenset("sf")


@dataclass(frozen=True)
class EventGroup:
    """Events to read into one table.

    categories: their categories, None for all except those in `without`. phases: the phases to take; complete events are X, or
    pairs of B and E. arguments: names in ARGUMENTS that become columns. timed: whether an event must have a time. open_ended:
    whether an event that begins and never ends lasts until the last event; else it is left out, as for device work, which is
    written when it is done.
    """

    categories: frozenset[str] | None
    phases: frozenset[str] = frozenset("XBE")
    arguments: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    timed: bool = True
    open_ended: bool = True

    def takes(self, phase: str, category: str) -> bool:
        """Return whether events of this phase and category are in the group."""
        return phase in self.phases and self.takes_category(category)

    def takes_category(self, category: str) -> bool:
        """Return whether events of this category can be in the group."""
        return category not in self.without if self.categories is None else category in self.categories
