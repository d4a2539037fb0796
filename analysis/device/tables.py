"""All tables of a device's work by name, as plain rows, for `kernelscope device`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from kernelscope.analysis.device import counters, memory, occupancy, overlap, precision
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, plain

SCHEMA = "kernelscope/device/1"
Rows = list[dict[str, Any]]
Record = Mapping[str, Any]  # run.json of our own run; empty for other captures

_NO_MEMORY = "no memory was recorded; PyTorch's profiler records it with profile_memory=True, nsys with --cuda-memory-usage=true"


# Tables of a trace alone, and the reason if they have no rows
_OF_TRACE: Mapping[str, tuple[Callable[[Trace], pd.DataFrame], str]] = {
    "occupancy": (occupancy.table, "the capture holds no kernels"),
    "tensor-cores": (precision.table, "the capture holds no kernels"),
    "metrics": (counters.table, "no hardware counters were recorded; `ncu --csv --page raw` prints them, also for `import`"),
    "streams": (overlap.streams, "the capture holds no device work"),
    "overlap": (overlap.activities, "the capture holds no device work"),
    "copies": (overlap.copies, "the capture holds no copies"),
    "peak": (memory.peaks, _NO_MEMORY),
}
NAMES = ("occupancy", "metrics", "tensor-cores", "tf32", "streams", "overlap", "copies", "peak", "memory")


def tables(trace: Trace, names: Sequence[str], record: Record | None = None) -> dict[str, Rows | str]:
    """Return the tables of these names; the reason in place of one for which the trace has no evidence.

    record: run.json of our own run, which has settings and the network.
    """
    result: dict[str, Rows | str] = {}
    for name in names:
        try:
            result[name] = _rows(trace, name, record or {})
        except EvidenceError as error:
            result[name] = str(error)
    return result


def _rows(trace: Trace, name: str, record: Record) -> Rows:
    kinds = {str(device).partition(":")[0] for device in trace.kernels["device"].dropna().unique()}
    if name == "occupancy" and kinds and "cuda" not in kinds:
        raise EvidenceError(f"no kernel ran on an NVIDIA GPU, but on {', '.join(sorted(kinds))}")
    if name in ("tensor-cores", "tf32") and kinds == {"cpu"}:
        raise EvidenceError("processors have no tensor cores")
    if name == "tf32":
        return precision.tf32(trace, record.get("settings"))
    if name == "memory":
        return _memory(trace, record)
    function, otherwise = _OF_TRACE[name]
    rows = plain.rows(function(trace))
    if not rows:
        raise EvidenceError(otherwise)
    return rows


def _memory(trace: Trace, record: Record) -> Rows:
    """Return memory by kind at the peak; for a run without a recording of memory, from its network's description."""
    result = plain.rows(memory.kinds(trace))
    if result:
        return [{**row, "how": "allocator's events, at the peak"} for row in result]
    if len(trace.memory):
        raise EvidenceError("the memory events have no addresses, which match frees with allocations")
    network, options = record.get("network"), record.get("options")
    if not network or not options:
        raise EvidenceError(_NO_MEMORY)
    rows = plain.rows(memory.stated(network, str(options["mode"]), int(options["batch"])))
    return [{"device": None, "kind": row["kind"], "bytes": row["bytes"], "blocks": None, "how": row["how"]} for row in rows]
