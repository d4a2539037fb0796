"""Device work in PyTorch's chrome traces: kernels, copies, waits and the allocator's memory, on GPUs and other accelerators."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# c10/core/DeviceType.h
_DEVICE_TYPES = {
    0: "cpu", 1: "cuda", 6: "rocm", 7: "fpga", 8: "maia", 9: "xla", 10: "vulkan", 11: "metal", 12: "xpu", 13: "mps", 14: "meta",
    15: "hpu", 16: "ve", 17: "lazy", 18: "ipu", 19: "mtia", 20: "privateuse1",
}  # fmt: skip
_PREFIXES = {"mtia_ccp_events": "mtia", "mtia_insight": "mtia", "hpu_op": "hpu"}
_DIRECTIONS = (
    (re.compile(r"HtoD|HtoA|HostTo(Device|Array)|HOST_TO_DEVICE|M2D"), "host to device"),
    (re.compile(r"DtoH|AtoH|(Device|Array)ToHost|DEVICE_TO_HOST|D2M"), "device to host"),
    (re.compile(r"PtoP|PeerToPeer|P2P|D2D_P2P"), "peer to peer"),
    (re.compile(r"DtoD|AtoA|AtoD|DtoA|DeviceToDevice|DEVICE_TO_DEVICE|D2D"), "device to device"),
    (re.compile(r"HtoH|HostToHost|HOST_TO_HOST|M2M"), "host to host"),
)
_MEMORY_KINDS = re.compile(r"\((?P<source>[\w ]+) -> (?P<destination>[\w ]+)\)")
_DTYPES = {
    "Float": "f32", "Double": "f64", "Half": "f16", "BFloat16": "bf16", "Int": "s32", "Long": "s64", "Short": "s16",
    "Char": "s8", "Byte": "u8", "Bool": "bool", "Float8_e4m3fn": "f8_e4m3", "Float8_e5m2": "f8_e5m2",
}  # fmt: skip
_COPY_EVENTS, _WAIT_EVENTS = ("dma_request",), ("event_record", "event_wait")  # among MTIA's device events


@dataclass(frozen=True)
class DeviceTables:
    """Device activity. accelerators: whether the file names any device other than a CPU; devices: as listed in info."""

    kernels: pd.DataFrame
    copies: pd.DataFrame
    syncs: pd.DataFrame
    memory: pd.DataFrame
    accelerators: bool
    devices: list[dict[str, Any]]


def read(scan: Scan, tracks: pd.DataFrame, calls: pd.DataFrame, operators: pd.DataFrame) -> DeviceTables:
    """Return the tables of device work. tracks: process and thread of each track."""
    accelerator = _accelerator(scan, calls)
    rows = {name: _common(scan, name, accelerator, calls, operators) for name in ("kernels", "copies", "syncs")}
    for names, target in ((_COPY_EVENTS, "copies"), (_WAIT_EVENTS, "syncs")):
        moved = autograd.where_text(rows["kernels"]["name"], names.__contains__)
        if moved.any():
            rows[target] = pd.concat([rows[target], rows["kernels"][moved]], ignore_index=True)
            rows["kernels"] = rows["kernels"][~moved].reset_index(drop=True)
            rows["kernels"]["name"] = rows["kernels"]["name"].cat.remove_unused_categories()
    copies = _copies(rows["copies"])
    kernels = _kernels(rows["kernels"], calls, operators)
    kind = rows["syncs"]["sync_kind"].astype("object")
    syncs = rows["syncs"].assign(kind=kind.where(kind.notna(), rows["syncs"]["name"].astype("object")))
    memory = _memory(scan, tracks)
    used = {name for table in (kernels, copies, syncs, memory) for name in table["device"].dropna().unique()} - {"cpu"}
    properties = _properties(scan)
    return DeviceTables(kernels, copies, syncs, memory, bool(used or properties), _described(used, properties, accelerator))


def _common(scan: Scan, name: str, accelerator: str, calls: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return a group's rows with times, process, device, stream and their arguments.

    Device and stream are in the arguments, or are the process and thread of the event ("stream 7" in old traces).
    """
    rows = scan.tables[name]
    track = rows["track"].to_numpy()
    device = kineto.whole_numbers(scan.tracks["process"])
    stream = kineto.whole_numbers(scan.tracks["thread"].astype("string").str.replace(r"^stream ", "", regex=True))
    index = rows["device"].fillna(device.take(track).set_axis(rows.index))
    stream = rows["stream"].fillna(stream.take(track).set_axis(rows.index))
    start = rows["start_ns"].to_numpy()
    return rows.drop(columns=["phase", "track", "stream"]).assign(
        end_ns=start + rows["duration_ns"].to_numpy(),
        count=1,
        device=_device(autograd.of_text(rows["category"], lambda category: _PREFIXES.get(category, accelerator)), index),
        thread=stream.where(stream >= 0),
        process=_processes(rows["correlation"], calls, operators),
    )


def _device(prefix: pd.Series, index: pd.Series) -> pd.Categorical:
    """Return names such as cuda:0, built once for each distinct pair; null where the prefix or the number is null."""
    prefixes, kinds = pd.factorize(prefix.astype("object"))
    numbers, indices = pd.factorize(index.astype("Int64"))
    known = (prefixes >= 0) & (numbers >= 0)
    pairs, inverse = np.unique(np.where(known, prefixes * max(len(indices), 1) + numbers, -1), return_inverse=True)
    texts = [f"{kinds[pair // len(indices)]}:{indices[pair % len(indices)]}" if pair >= 0 else None for pair in pairs.tolist()]
    return pd.Categorical(np.array([*texts, None], dtype=object)[inverse])


def _accelerator(scan: Scan, calls: pd.DataFrame) -> str:
    """Return the kind of device that plain kernels ran on, judged by categories, versions, calls and the devices' names."""
    categories = {category for _, category in scan.counts}
    if categories & {"xpu_runtime", "xpu_driver", "xpu_sync"}:
        return "xpu"
    if any(key.startswith(("hip_", "roctracer", "rocprof")) for key in scan.header):
        return "rocm"
    if len(calls) and calls["name"].cat.categories.str.startswith("hip").any():
        return "rocm"
    names = " ".join(str(one.get("name", "")) for one in _properties(scan))
    if re.search(r"\bAMD\b|Instinct|Radeon", names):
        return "rocm"
    if categories & {"privateuse1_runtime", "privateuse1_driver"}:
        return "privateuse1"
    return "cuda"


def _properties(scan: Scan) -> list[dict[str, Any]]:
    result = scan.fact("deviceProperties", "computeProperties")
    return [entry for entry in result if isinstance(entry, dict)] if isinstance(result, list) else []


def _described(used: set[str], properties: list[dict[str, Any]], accelerator: str) -> list[dict[str, Any]]:
    """Return the devices that were used, with their properties.

    If all listed devices have the same properties, a device that is not listed gets these too: ROCm also numbers the host's
    agents.
    """
    known = {f"{accelerator}:{entry.get('id')}": _stated(entry, accelerator) for entry in properties}
    distinct = list({tuple(device.items()): device for device in known.values()}.values())
    only = distinct[0] if len(distinct) == 1 else {}
    return [{"device": device, **known.get(device, only)} for device in sorted(used or known)]


def _stated(entry: dict[str, Any], accelerator: str) -> dict[str, Any]:
    """Return a device's properties under the keys of info["devices"]; values that should be numbers and are not are left out."""
    major, minor = (entry.get(f"compute{part.capitalize()}", entry.get(part)) for part in ("major", "minor"))
    numbers = {
        "memory_bytes": entry.get("totalGlobalMem"),
        "multiprocessors": entry.get("numSms", entry.get("multiProcessorCount")),
    }
    device: dict[str, Any] = {"name": str(entry["name"])} if entry.get("name") else {}
    device |= {name: value for name, value in numbers.items() if type(value) is int and value > 0}
    if accelerator == "cuda" and type(major) is int and type(minor) is int:
        device["compute_capability"] = f"{major}.{minor}"
    return device


def _processes(correlation: pd.Series, calls: pd.DataFrame, operators: pd.DataFrame) -> pd.Series:
    """Return the process that launched each piece of device work; device events name the device in place of their process."""
    for table in (calls, operators):
        result = table["process"].unique()
        if len(result) == 1:
            return pd.Series(int(result[0]), index=correlation.index, dtype="Int64")
        if len(result):
            break
    pairs = calls[["correlation", "process"]].dropna().drop_duplicates().drop_duplicates("correlation", keep=False)
    return correlation.map(pairs.set_index("correlation")["process"]).astype("Int64")


def _kernels(rows: pd.DataFrame, calls: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return kernels with the columns from their arguments."""
    collective = autograd.of_text(rows["collective"], lambda name: f"nccl:{name}").astype("object")
    return rows.assign(
        operator=collective.where(collective.notna(), _external_operators(rows, calls, operators)).astype("category"),
        dtype=autograd.of_text(rows["dtype"], _DTYPES.get),
        problem=_messages(rows),
        grid=autograd.of_text(rows["grid"], _extent),
        block=autograd.of_text(rows["block"], _extent),
        graph=rows["graph"].where(rows["graph"] > 0),
    )


def _messages(rows: pd.DataFrame) -> pd.Series:
    """Return for collectives the elements that a rank sends and receives, and the ranks: 25136:201088 on 8 ranks: 0, 1, 2, ...

    For messages between two ranks, return the elements and the other rank: 25136 to rank 1, 25136 from rank 0.
    """
    result = pd.Series(None, index=rows.index, dtype="object")
    known = rows[["given", "received", "members"]].notna().all(axis=1).to_numpy(bool)
    if known.any():
        some = rows[known]
        given, received, members = (some[name].astype("int64").astype(str) for name in ("given", "received", "members"))
        ranks = some["group"].astype("string").str.strip("[]")
        result[known] = given + ":" + received + " on " + members + " ranks" + (": " + ranks).fillna("")
    for elements, peer, way in (("given", "target", " to rank "), ("received", "source", " from rank ")):
        between = rows[[elements, peer]].notna().all(axis=1).to_numpy(bool)
        number, other = (rows.loc[between, name].astype("int64").astype(str) for name in (elements, peer))
        result[between] = number + way + other
    return result.astype("category")


def _extent(text: str) -> str | None:
    """Return [77, 1, 1] as 77,1,1."""
    match = re.fullmatch(r"\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]", text)
    return ",".join(match.groups()) if match else None


def _external_operators(rows: pd.DataFrame, calls: pd.DataFrame, operators: pd.DataFrame) -> pd.Series:
    """Return for kernels without a call the names of the operators that their External id refers to.

    In traces of 2022 and 2023 the External id repeats the correlation and means nothing.
    """
    missing = ~rows["correlation"].isin(calls["correlation"].dropna()) & rows["external_id"].notna()
    repeated = (rows["external_id"] == rows["correlation"]).fillna(False)
    if not missing.any() or repeated.mean() > 0.5:
        return pd.Series(None, index=rows.index, dtype="object")
    named = operators[operators["external_id"].notna()].drop_duplicates("external_id").set_index("external_id")["name"]
    return rows["external_id"].where(missing).map(named.astype("object")).astype("object")


def _copies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return copies with their operation and kinds of memory."""
    operation = autograd.of_text(rows["name"], _operation).astype("object")
    if "direction" in rows:
        directed = autograd.of_text(rows["direction"], _operation).astype("object")
        operation = directed.where(directed.notna(), operation)
    setting = autograd.where_text(rows["category"], lambda category: category.lower().endswith("memset"))
    return rows.assign(operation=operation.mask(setting, "set"), memory=autograd.of_text(rows["name"], _memory_kinds))


def _operation(text: str) -> str:
    return next((operation for pattern, operation in _DIRECTIONS if pattern.search(text)), "other")


def _memory_kinds(name: str) -> str | None:
    match = _MEMORY_KINDS.search(name)
    return f"{match['source']} to {match['destination']}".lower() if match else None


def _memory(scan: Scan, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return the allocator's events."""
    rows = scan.tables["memory"]
    rows = rows[(rows["name"].astype("object") == "[memory]").to_numpy() & rows["bytes"].notna().to_numpy()]
    kind = rows["device_type"].map(_DEVICE_TYPES).astype("object")
    device = pd.Series(_device(kind, rows["device_id"].where(rows["device_id"] >= 0)), index=rows.index).astype("object")
    return pd.DataFrame(
        {
            "time_ns": rows["start_ns"],
            "device": device.mask((kind == "cpu").to_numpy(), "cpu"),
            "thread": tracks["thread"].to_numpy()[rows["track"].to_numpy()],
            **{name: rows[name] for name in ("bytes", "allocated_bytes", "reserved_bytes", "address")},
        }
    ).reset_index(drop=True)


def timed_operators(rows: pd.DataFrame, texts: pd.DataFrame, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return the innermost device intervals of the autograd profiler's own format as kernels.

    That profiler timed every operator with a pair of CUDA events, so an operator's interval contains those of the operators
    that it called. texts: process and thread of each track as written; the thread is the device.
    """
    index = kineto.whole_numbers(texts["thread"]).take(rows["track"].to_numpy()).set_axis(rows.index)
    kind = texts["process"].astype("string").str.split(" ").str[0].str.lower().replace("hip", "rocm")
    start = rows["start_ns"].to_numpy()
    table = pd.DataFrame({"start_ns": start, "end_ns": start + rows["duration_ns"].to_numpy(), "name": rows["name"].array})
    table["device"] = _device(kind.take(rows["track"].to_numpy()).set_axis(rows.index), index)
    parent = intervals.parents(rows["track"].to_numpy(dtype=np.int64), start, table["end_ns"].to_numpy())
    holding = np.zeros(len(table), dtype=bool)
    holding[parent[parent >= 0]] = True
    diagnostics["device intervals of operators that called others"] = int(holding.sum())
    return table[~holding].assign(operator=table["name"], duration_ns=table["end_ns"] - table["start_ns"], count=1)
