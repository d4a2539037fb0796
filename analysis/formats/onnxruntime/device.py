"""Work of GPUs in ONNX Runtime's profile: kernels and copies, the nodes that launched them, and whether their times are true.

Builds with CUPTI or roctracer write each kernel behind the node that launched it, or before it, with the node's operator and,
later, the node's name as an argument. The begin of a kernel is not always one:

- up to 2021, the profiler wrote the end;
- in late 2022, it put all kernels of a node in a row from the node's own begin on, whenever they really ran;
- where the device's clock is not the host's, kernels begin before their node does, or before any run.

`trusted` finds these by the file's own contradictions. Durations are true in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

Int = npt.NDArray[np.int64]

ACCELERATORS = {
    "CUDA": "cuda:0", "Tensorrt": "cuda:0", "NvTensorRTRTX": "cuda:0", "NvTensorRtRtx": "cuda:0", "ROCM": "rocm:0",
    "MIGraphX": "rocm:0", "Dml": "gpu:0", "WebGpu": "gpu:0", "JS": "gpu:0", "CANN": "npu:0",
}  # fmt: skip
PROCESSORS = ("CPU", "Dnnl", "MKLDNN", "Xnnpack", "Acl", "ArmNN", "Nuphar")
_PARTS = r"_(?:kernel_time|fence_before|fence_after)$"
_ENDS = {"Host": "host", "Device": "device", "DeviceArray": "device", "H": "host", "D": "device"}
_CONTRADICTIONS = 0.05  # share of kernels that may contradict the clock, as times are cut to microseconds
_INVENTED = 0.9  # share of nodes whose first kernel begins a microsecond after the node, if all times are invented
_FEWEST = 3  # nodes, so that it is no chance
_ROUNDING_NS = 1000


class Clock(NamedTuple):
    """Whether begins of device work are usable; if not, why, as the end of a sentence."""

    usable: bool
    reason: str = ""


@dataclass(frozen=True)
class Work:
    """What GPUs did. kernels, copies, calls: rows for the Trace; calls are the nodes that launched work. devices: their names.

    clock: whether begins are usable.
    """

    kernels: pd.DataFrame
    copies: pd.DataFrame
    calls: pd.DataFrame
    devices: list[str]
    clock: Clock

    @classmethod
    def of(cls, work: pd.DataFrame, computed: pd.DataFrame, run_ns: int | None) -> Work:
        """Return the work of the profile's rows of devices. computed: its nodes; run_ns: begin of the first run, if known."""
        if work.empty:
            return cls(work, work, work, [], Clock(True))
        node = launching(work, computed)
        known = node >= 0
        launched_ns = np.where(known, computed["start_ns"].to_numpy(np.int64)[node], -1) if len(computed) else node
        clock = trusted(work, launched_ns, run_ns)
        rows = _described(work, computed, node, clock.usable)
        operation = copies(work)
        moving = operation.notna().to_numpy(dtype=bool)
        used = np.unique(node[known])
        calls = computed.iloc[used].assign(correlation=used, api="onnxruntime")
        return cls(
            kernels=rows[~moving],
            copies=rows[moving].assign(operation=operation[moving]),
            calls=calls[
                ["start_ns", "end_ns", "process", "thread", "name", "correlation", "api", "layer", "phase", "attribution"]
            ],
            devices=[str(name) for name in rows["device"].dropna().unique()],
            clock=clock,
        )


def _described(work: pd.DataFrame, computed: pd.DataFrame, node: Int, timed: bool) -> pd.DataFrame:
    """Return rows of the Trace's kernels and copies. node: the position of the node that launched each, -1 if unknown."""
    known = node >= 0
    start, duration = work["start_ns"].astype("Int64"), work["duration_ns"].astype("int64")
    start = start if timed else start.mask(np.ones(len(work), dtype=bool))
    result = work[["name", "grid", "block", "bytes"]].assign(
        start_ns=start, duration_ns=duration, end_ns=start + duration, count=1, thread=streams(work), attribution="none"
    )
    result["correlation"] = pd.Series(np.where(known, node, 0), index=work.index, dtype="Int64").mask(~known)
    at = np.where(known, node, 0)
    for column in ("process", "layer", "phase", "operator", "problem", "m", "n", "k", "attribution", "device"):
        if len(computed):
            result[column] = computed[column].take(at).set_axis(work.index).mask(~known)
    return result.assign(device=_devices(work, result.get("device"), computed))


def _devices(work: pd.DataFrame, device: pd.Series | None, computed: pd.DataFrame) -> pd.Series:
    """Return where work ran: on its node's device, or on the one of the other nodes; its form tells ROCm from CUDA."""
    others = computed["device"][computed["device"].notna() & (computed["device"] != "cpu")]
    form = "rocm:0" if (work["stream"].astype("string").str.startswith("0x").fillna(False)).any() else "cuda:0"
    usual = str(others.mode().iloc[0]) if len(others) else form
    given = pd.Series(pd.NA, index=work.index, dtype="string") if device is None else device.astype("string")
    return given.where(given != "cpu").fillna(usual)


def device_of(provider: str) -> str | None:
    """Return where a provider's nodes compute: cpu, cuda:0, ...; None if its name does not say."""
    bare = provider.removesuffix("ExecutionProvider")
    return "cpu" if bare in PROCESSORS else ACCELERATORS.get(bare)


def launching(work: pd.DataFrame, nodes: pd.DataFrame) -> Int:
    """Return for each row of device work the row of nodes (position) that launched it, -1 if unknown.

    work: rows of the profile's table; nodes: as the reader describes them. The index of both is the file's order.
    """
    if work.empty or nodes.empty:
        return np.full(len(work), -1, dtype=np.int64)
    after = np.searchsorted(nodes.index.to_numpy(), work.index.to_numpy())
    operators, names = _texts(nodes, "operator"), _texts(nodes, "scope")
    wanted, parents = _texts(work, "operator"), _bare(_texts(work, "parent"))
    result = np.full(len(work), -1, dtype=np.int64)
    for position in (after, after - 1):  # what stands before counts more: it is overwritten last
        inside = (position >= 0) & (position < len(nodes))
        at = np.clip(position, 0, len(nodes) - 1)
        same = (wanted != "") & (wanted == operators[at]) & ((parents == "") | (parents == names[at]))
        result = np.where(inside & same, at, result)
    return result


def trusted(work: pd.DataFrame, launched_ns: Int, runs_ns: int | None) -> Clock:
    """Return whether device work has begins on the host's clock.

    work: start_ns, duration_ns, stream of all of it. launched_ns: begin of the node that launched it, -1 if unknown. runs_ns:
    begin of the first run, None if unknown.
    """
    start = work["start_ns"].to_numpy(np.int64, na_value=-1)
    known = launched_ns >= 0
    host = np.where(known, launched_ns, -1 if runs_ns is None else runs_ns)
    if not len(work):
        return Clock(True)
    if (start < host).mean() > _CONTRADICTIONS:
        return Clock(False, "they lie before what launched it: the device's clock is not the host's")
    _, first = np.unique(launched_ns[known], return_index=True)
    begun = start[known][first] - launched_ns[known][first]
    if len(first) >= _FEWEST and (begun == _ROUNDING_NS).mean() >= _INVENTED:
        return Clock(False, "ONNX Runtime put the kernels of each node in a row behind the node's own begin")
    if _overlapping(start, work["duration_ns"].to_numpy(np.int64, na_value=0), work["stream"]) > _CONTRADICTIONS:
        return Clock(False, "kernels of one stream would overlap")
    return Clock(True)


def copies(work: pd.DataFrame) -> pd.Series:
    """Return what device work copies, one of the Trace's COPY_OPERATIONS; null for kernels."""
    names = work["name"].astype("string")
    named = names.str.extract(r"^Memcpy(?P<source>Host|Device|DeviceArray)To(?P<target>Host|Device|DeviceArray)$")
    given = work["copy"].astype("string").str.extract(r"^(?P<source>[HD])2(?P<target>[HD])$")
    ends = {side: named[side].fillna(given[side]).map(_ENDS).astype("string") for side in ("source", "target")}
    result = ends["source"] + " to " + ends["target"]
    copying = names.str.match(r"^(?:hip|cuda)?Memcpy").fillna(False)
    setting = names.str.match(r"^(?:hip|cuda)?Memset").fillna(False)
    return result.where(copying).mask(copying & result.isna(), "other").mask(setting, "set").astype("string")


def streams(work: pd.DataFrame) -> pd.Series:
    """Return the streams' numbers; ROCm's addresses are numbered in the order of their first use."""
    text = work["stream"].astype("string")
    number = pd.to_numeric(text.where(text.str.fullmatch(r"\d{1,9}").fillna(False))).astype("Int64")
    other = text[number.isna() & text.notna()]
    codes = pd.factorize(other)[0] + int(number.max() if number.notna().any() else -1) + 1
    return number.fillna(pd.Series(codes, index=other.index, dtype="Int64"))


def _overlapping(start: Int, duration: Int, stream: pd.Series) -> float:
    """Return which share of device work begins before the work before it on its stream has ended."""
    lane = pd.factorize(stream)[0]
    order = np.lexsort((start, lane))
    same = np.diff(lane[order]) == 0
    early = np.diff(start[order]) < duration[order][:-1] - _ROUNDING_NS
    return float((same & early).sum() / max(len(start), 1))


def _texts(table: pd.DataFrame, column: str) -> npt.NDArray[np.object_]:
    return table[column].astype("string").fillna("").to_numpy(dtype=object)


def _bare(names: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    return pd.Series(names, dtype="string").str.replace(_PARTS, "", regex=True).to_numpy(dtype=object)
