"""Planes of GPUs: kernels, graphs, copies and memory of either vendor."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.xplane import columns
from kernelscope.analysis.formats.xplane import steps as xplane_steps

# lines of a GPU's plane that the profiler derives from its streams
_DERIVED = (
    xplane_steps.LINE, "XLA Modules", "XLA Ops", "Async XLA Ops", "XLA TraceMe", "XLA Scopes", "TensorFlow Ops",
    "TensorFlow Name Scope", "Framework Ops", "Framework Name Scope", "Source code", "Source", "Launch Stats",
    "Host Offload Ops", "_counters_", "CUPTI overhead",
)  # fmt: skip
# names such as MemcpyH2D, hipMemcpyHtoDAsync, CopyHostToDevice, MEMORY_COPY_HOST_TO_DEVICE
_COPY_OPERATIONS = tuple(
    (rf"(?i)^\w*?(?:cpy|copy)_?{source}_?(?:2|to)_?{target}", name)
    for source, target, name in (
        ("h(?:ost)?", "d", "host to device"),
        ("d(?:evice)?", "h", "device to host"),
        ("d(?:evice)?", "d", "device to device"),
        ("p(?:eer)?", "p", "peer to peer"),
        ("h(?:ost)?", "h", "host to host"),
    )
)
# the driver's copy kernels in CUDA graphs, which CUPTI itself reports as copies
_COPY_KERNEL = r"^memcpy\d+(?:_\w+)?$"
_NO_WORK = r"^(Overhead|Generic|HostRegister|HostUnregister|MemoryAlloc|MemoryFree|MemoryResidency|Environment)\b"


def take_apart(events: pd.DataFrame, tables: columns.Tables, diagnostics: dict[str, int]) -> None:
    """Sort the events of GPUs' planes into tables."""
    derived = events["line"].isin(_DERIVED).to_numpy(dtype=bool)
    columns.count(
        diagnostics, "derived events not read", int((derived & (events["line"] != xplane_steps.LINE).to_numpy(dtype=bool)).sum())
    )
    work = events[~derived]
    has = {name: work[f"stat_{name}"].notna().to_numpy(dtype=bool) for name in columns.TEXTS}
    is_set = has["Memset_details"] | columns.matching(work["name"], "(?i)^Memset$")
    unified = columns.matching(work["name"], "^UnifiedMemory")
    named_copy = columns.matching(work["name"], r"(?i)^Memcpy|^MEMORY_COPY|^Copy\w+To\w+$")
    is_copy = has["memcpy_details"] | named_copy | is_set | unified
    is_copy &= ~has["kernel_details"] | columns.matching(work["name"], _COPY_KERNEL)
    is_memory = has["memalloc_details"] | has["MemFree_details"]
    is_graph = work["stat_cuda_graph_exec_id"].notna().to_numpy(dtype=bool) & ~has["kernel_details"] & ~is_copy
    other = has["MemoryResidency_details"] | (columns.matching(work["name"], _NO_WORK) & ~has["kernel_details"])
    is_kernel = ~(is_copy | is_memory | is_graph | other)
    tables["kernels"].append(_kernels(work[is_kernel]))
    tables["copies"].append(_copies(work[is_copy], is_set[is_copy], unified[is_copy]))
    tables["memory"].append(_memory(work[is_memory]))
    graphs = work[is_graph]
    tables["graphs"].append(columns.work(graphs).assign(graph=graphs["stat_cuda_graph_exec_id"]))
    columns.count(diagnostics, "other device events not read", int((other & ~is_memory).sum()))


def _kernels(events: pd.DataFrame) -> pd.DataFrame:
    details = events["stat_kernel_details"]
    shared = [columns.number(details, rf"\b{name}:(\d{{1,18}})\b") for name in ("static_shared", "dynamic_shared", "group_mem")]
    cuda = shared[0] + shared[1]
    return columns.work(events).assign(
        name=events["name"],
        grid=columns.extracted(details, r"\bgrid:(\d+,\d+,\d+)\b"),
        block=columns.extracted(details, r"\bblock:(\d+,\d+,\d+)\b"),
        registers=columns.number(details, r"\bregs:(\d{1,6})\b"),
        shared_memory=cuda.fillna(shared[2]),
        graph=events["stat_cuda_graph_id"],
        **columns.described(events),
    )


def _copies(events: pd.DataFrame, is_set: columns.Flags, unified: columns.Flags) -> pd.DataFrame:
    """Return copies and memory sets with direction, size and kinds of memory, as far as known."""
    details = events["stat_memcpy_details"]
    table = columns.work(events)
    operation = np.full(len(events), "other", dtype=object)
    for pattern, name in _COPY_OPERATIONS:
        operation[columns.matching(events["name"], pattern)] = name
    operation[columns.matching(events["name"], _COPY_KERNEL)] = "device to device"
    operation[unified], operation[is_set] = "unified memory", "set"
    source, target = (columns.extracted(details, rf"\bkind_{end}:(\w+)").astype("string") for end in ("src", "dst"))
    copied = columns.number(details, r"\bsize:(\d{1,18})\b")
    size = copied.fillna(columns.number(events["stat_Memset_details"], r"\bnum_bytes:(\d{1,18})\b"))
    return table.assign(operation=operation, bytes=size, memory=source + " to " + target)


def _memory(events: pd.DataFrame) -> pd.DataFrame:
    """Return the driver's allocations and releases."""
    taken = columns.number(events["stat_memalloc_details"], r"\bnum_bytes:(\d{1,18})\b")
    given = columns.number(events["stat_MemFree_details"], r"\bnum_bytes:(\d{1,18})\b")
    table = pd.DataFrame(
        {"time_ns": events["start_ns"], "device": events["device"], "bytes": taken.fillna(0 - given), "thread": events["line_id"]}
    )
    return table[table["bytes"].notna()]
