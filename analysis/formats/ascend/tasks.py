"""An Ascend NPU's tasks, sorted by type into kernels, copies and waits; and the tasks of collectives, which count once.

A collective (HCCL) is recorded as one operation on the device and, beside it, as its tasks: waits for other devices, copies
between them, additions. As with NCCL's kernels, the operation is the kernel, including its waiting; its tasks are left out, and
counted.

Types of tasks are named in Ascend/msprof analysis/csrc/domain and in CANN's documentation of op_summary ("Task Type").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.trace import intervals

COMMUNICATION = "HCCL"  # the type of a collective
STILL = "collectives without a transfer, which wait for other ranks, ns"  # among the diagnostics

_KERNELS = re.compile(
    r"AI_?CORE|AI_?VECTOR_?CORE|AI_?V|AI_?C|AI_?CPU|MIX_AI[CV]|KERNEL_\w+|DSA(_SQE)?|DVPP\w*|JPEG\w*|VPC\w*|FUSION|CCU\w*"
    r"|HCCL(_\w+)?|COMMUNICATION|LCCL|LCAL|AICPU_\w+|AI_CPU_SQE|AIC_SQE|AIV_SQE|VECTOR_CORE|STARS_COMMON",
    re.IGNORECASE,
)
_COPIES = re.compile(r"PCIE_DMA(_SQE)?|SDMA(_SQE)?|MEMCPY\w*|RDMA\w*|UB_?DMA\w*|ASYNC_?DMA\w*", re.IGNORECASE)
_WAITS = re.compile(
    r"[\w ]*(EVENT|NOTIFY|WRITE|WAIT|RECORD|PLACE_?HOLDER|BARRIER|LABEL|COND|SWITCH|STREAM|MAINT|TRACE|CMO|NOP|MODEL|TIMEOUT"
    r"|MEM_WAIT|CAPTURE|FLIP|SIGNAL)[\w ]*",
    re.IGNORECASE,
)
_SETS = re.compile(r"memset", re.IGNORECASE)
_DIRECTIONS = (
    (re.compile(r"host to device|host_to_device|H2D", re.IGNORECASE), "host to device"),
    (re.compile(r"device to host|device_to_host|D2H", re.IGNORECASE), "device to host"),
    (re.compile(r"device to device|device_to_device|D2D", re.IGNORECASE), "device to device"),
    (re.compile(r"host to host|host_to_host|H2H", re.IGNORECASE), "host to host"),
)
_DTYPES = {
    "FLOAT": "f32", "FLOAT32": "f32", "FP32": "f32", "FLOAT16": "f16", "FP16": "f16", "DT_BF16": "bf16", "BF16": "bf16",
    "BFLOAT16": "bf16", "BFP16": "bf16", "DOUBLE": "f64", "FLOAT64": "f64", "INT8": "s8", "INT16": "s16", "INT32": "s32",
    "INT64": "s64", "UINT8": "u8", "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class TaskTables:
    """Tables of device work, to be conformed."""

    kernels: pd.DataFrame
    copies: pd.DataFrame
    syncs: pd.DataFrame


def sort(tasks: pd.DataFrame, collectives: pd.DataFrame, diagnostics: dict[str, int]) -> TaskTables:
    """Return the tables made from tasks and collectives; add counts to the diagnostics.

    Both have columns start_ns, end_ns, device, thread (stream), name, connection, and further ones of those tables. Tasks also
    have task_type and, if known, operation (of a copy) and bytes. Their column part, if given, marks the tasks of collectives;
    otherwise these are the tasks that share a connection with one.
    """
    if "part" not in tasks:
        tasks = tasks.assign(part=_of_collectives(tasks, collectives))
    part = tasks["part"].to_numpy(dtype=bool)
    collectives = collectives.assign(task_type=COMMUNICATION, kind="communication", library="hccl")
    if collectives["thread"].isna().any():
        streams = tasks[part].drop_duplicates(["device", "connection"])
        result = collectives[["device", "connection"]].merge(streams, on=["device", "connection"], how="left")["thread"]
        collectives["thread"] = collectives["thread"].fillna(result.set_axis(collectives.index))
    kept = tasks[~part]
    is_copy, is_wait, is_known = (
        autograd.where_text(kept["task_type"], pattern.fullmatch) for pattern in (_COPIES, _WAITS, _KERNELS)
    )
    other = ~is_copy & ~is_wait
    diagnostics["tasks of collectives, which stand for them"] = int(part.sum())
    diagnostics["tasks of collectives, ns"] = int((tasks["end_ns"] - tasks["start_ns"])[part].sum())
    diagnostics[STILL] = _still_ns(tasks[part], collectives)
    diagnostics["tasks of unknown types, taken for kernels"] = int((other & ~is_known).sum())
    waits = kept[is_wait].reset_index(drop=True)
    kernels = _joined(kept[other].assign(library="cann"), collectives)
    return TaskTables(_timed(kernels), _copies(kept[is_copy]), waits.assign(kind=waits["name"]))


def _still_ns(parts: pd.DataFrame, collectives: pd.DataFrame) -> int:
    """Return how long collectives last while none of their tasks moves or adds data, in ns: they wait for other ranks.

    parts: their tasks. Collectives that have no tasks are left out.
    """
    waits = autograd.where_text(parts["task_type"], _WAITS.fullmatch)
    traced = collectives[collectives["connection"].isin(parts["connection"].dropna().unique()).to_numpy(bool)]
    still = 0
    for device, mine in traced.groupby(traced["device"].astype("object")):
        start, end = intervals.edges(mine.sort_values("start_ns"))
        over = np.maximum.accumulate(np.append(start[:1], end[:-1]))  # so that they are disjoint
        kept = end > over
        working = parts[~waits & (parts["device"] == device).to_numpy(bool)]
        gaps_start, gaps_end = intervals.uncovered(*intervals.edges(working), np.maximum(start, over)[kept], end[kept])
        still += int((gaps_end - gaps_start).sum())
    return still


def _joined(*tables: pd.DataFrame) -> pd.DataFrame:
    filled = [table for table in tables if len(table)] or [tables[0]]
    return pd.concat(filled, ignore_index=True)


def _of_collectives(tasks: pd.DataFrame, collectives: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which tasks have the connection of a collective on their device."""
    known = collectives["connection"].notna()
    keys = pd.MultiIndex.from_frame(collectives.loc[known, ["device", "connection"]].astype({"device": "object"}))
    mine = pd.MultiIndex.from_frame(tasks[["device", "connection"]].astype({"device": "object"}))
    return np.asarray(mine.isin(keys)) & tasks["connection"].notna().to_numpy()


def _timed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(duration_ns=rows["end_ns"] - rows["start_ns"], count=1)


def _copies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return copies with their operation: as given in the file, "set" for fills, else "other"."""
    operations = rows["operation"] if "operation" in rows else pd.Series(None, index=rows.index, dtype="object")
    operation = autograd.of_text(operations, direction).astype("object")
    setting = autograd.where_text(rows["name"], _SETS.search)
    return _timed(rows).assign(operation=operation.where(operation.notna(), "other").mask(setting, "set")).reset_index(drop=True)


def direction(text: str) -> str | None:
    """Return one of analysis.trace.COPY_OPERATIONS for a text with the direction of a copy; None for other texts."""
    return next((operation for pattern, operation in _DIRECTIONS if pattern.search(text)), None)


def dtype(text: str) -> str | None:
    """Return the element type of the first input, from types as the profilers write them: FLOAT16;INT64."""
    first = re.split(r"[;,\s]", text.strip('" '))[0].upper()
    return _DTYPES.get(first)
