"""Dumps of mx.profiler: the work of MXNet's engine, C API calls, memory in use, and the user's own tasks and counters.

The engine's threads run operators; they also free memory (DeleteVariable), wake waiting threads (WaitForVar) and copy between
devices. Operators without others inside are kernels. On a GPU, the engine records when it began an operator and when the
operator's work was done: one kernel stands for all device kernels of the operator. Operators are in a dump twice, as pairs of
events B and E and as asynchronous tasks b and e; the former count.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.holders import holders
from kernelscope.analysis.formats.mxnet import tables as mxnet_profiler
from kernelscope.analysis.trace import Trace, conform

_DEVICE_NAME = re.compile(r'"name"\s*:\s*"(?:(?:cpu|gpu)/\d+|cpu (?:pinned|shared)/)"')
_API_CATEGORY = "MXNET_C_API"
_TASKS_OF_OPERATORS = ("operator", "category")  # the latter before MXNet 1.0
_MEMORY = r"^Memory: (?P<device>(?:cpu|gpu)\b.*)$"
_YEAR_2001_NS = 1_000_000_000_000_000_000  # wall clock times are later; other clocks count from the machine's start
OPERATIONS = {
    "CopyCPU2GPU": "host to device",
    "CopyGPU2CPU": "device to host",
    "CopyGPU2GPU": "device to device",
    "CopyCPU2CPU": "host to host",
}
WAITS = ("WaitForVar",)
HOUSEKEEPING = r"^(DeleteVariable|DeleteOperator|\w*SetSeed)$"  # not kernels
_NO_PROCESS = 0  # MXNet profiles its own process and does not write its id


def matches(head: Head) -> bool:
    """Return whether this is a chrome trace whose first processes are MXNet's devices."""
    text = head.text.lstrip()
    return head.is_text and text.startswith("{") and '"traceEvents"' in text and _DEVICE_NAME.search(text) is not None


def read(path: Path) -> Trace:
    """Read a dump; raise EvidenceError if it cannot be read or is not one."""
    dump = mxnet_profiler.parse_all(read_content(path), str(path))
    usable = (dump.executions["duration_ns"] >= 0).to_numpy()
    rows = dump.executions[usable].reset_index(drop=True)
    rows = rows.assign(device=_devices(rows["device"]), end_ns=rows["start_ns"] + rows["duration_ns"])
    engine = (rows["device"].notna() & ~rows["asynchronous"]).to_numpy(dtype=bool)
    tasks = (rows["asynchronous"] & rows["category"].isin(_TASKS_OF_OPERATORS)).to_numpy(dtype=bool)
    calls = (rows["asynchronous"] & (rows["category"] == _API_CATEGORY)).to_numpy(dtype=bool)
    memory, samples = _counters(dump.counters)
    diagnostics = {
        "events without a partner": int(dump.executions.attrs["unpaired"]),
        "events without a time": int(dump.executions.attrs["untimed"]),
        "events without a usable duration": int((~usable).sum()),
        "operators recorded again as tasks": int(tasks.sum()),
        chrome_json.ODD: int(dump.executions.attrs["odd"]),
        "dump not closed": int(dump.executions.attrs["unfinished"]),
    }
    return Trace(
        ranges=conform("ranges", _ranges(rows[~engine & ~tasks & ~calls], dump.marks)),
        memory=memory,
        samples=samples,
        calls=conform(
            "calls", rows.loc[calls, ["start_ns", "end_ns", "thread", "name"]].assign(process=_NO_PROCESS, api="mxnet")
        ),
        **_engine_tables(rows[engine].reset_index(drop=True)),
        info=_info(rows, engine),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _devices(names: pd.Series) -> pd.Series:
    """Return the Trace's names of MXNet's devices: cpu for all of cpu/0, cpu/1, "cpu pinned/"; cuda:0 for gpu/0."""
    devices = {name: "cpu" if str(name).startswith("cpu") else f"cuda:{str(name)[4:]}" for name in names.dropna().unique()}
    return names.map(devices).astype("string")


def _engine_tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the operators, kernels, copies and syncs that the engine's threads ran."""
    rows["phase"] = phases(rows["name"])
    waits = rows["name"].isin(WAITS)
    operation = rows["name"].map(OPERATIONS).astype("string")
    computes = ~(waits | operation.notna() | rows["name"].str.match(HOUSEKEEPING)).to_numpy(dtype=bool)
    kernels = rows[computes & ~holders(rows)]
    copies = rows[operation.notna()]
    return {
        "operators": conform("operators", rows[~waits].assign(attribution="none")),
        "kernels": conform(
            "kernels",
            kernels.assign(
                kind=scopes.kinds(kernels["name"], kernels["phase"]),
                duration_ns=kernels["end_ns"] - kernels["start_ns"],
                count=1,
                operator=kernels["name"],
                attribution="none",
            ),
        ),
        "copies": conform(
            "copies", copies.assign(duration_ns=copies["end_ns"] - copies["start_ns"], count=1, operation=operation.dropna())
        ),
        "syncs": conform("syncs", rows[waits].drop(columns="thread").rename(columns={"name": "kind"})),
    }


def phases(names: pd.Series) -> pd.Series:
    """Return the phase, if the operator's name gives it."""
    phase = pd.Series(pd.NA, index=names.index, dtype="string")
    bare = names.str.lstrip("[")
    return phase.mask(bare.str.startswith("_backward_"), "backward").mask(names.str.endswith("_update"), "optimizer")


def _ranges(rows: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """Return the user's own tasks, frames and events, and marks as ranges of zero length."""
    own = rows[["thread", "start_ns", "end_ns", "name"]].assign(
        category="user", domain=rows["category"], nested=~rows["asynchronous"]
    )
    instants = marks[["thread", "name"]].assign(
        start_ns=marks["time_ns"], end_ns=marks["time_ns"], category="mark", domain=marks["category"], nested=False
    )
    return pd.concat([own, instants], ignore_index=True).astype({"nested": "bool"})


def _counters(counters: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the memory table from counters of devices' storage, which start at 0, and samples of all other counters."""
    known = counters[counters["value"].notna()]
    device = known["name"].astype("string").str.extract(_MEMORY)["device"]
    storage = known[device.notna().to_numpy(dtype=bool)].assign(device=_devices(device.dropna()), name=device.dropna())
    storage = storage[storage["value"].abs() < 2**63].sort_values("time_ns", kind="stable")
    allocated = storage["value"].astype("int64")
    before = allocated.groupby(storage["name"].to_numpy()).shift(fill_value=0)
    memory = storage[["time_ns", "device", "thread"]].assign(bytes=allocated - before, allocated_bytes=allocated)
    others = known[device.isna().to_numpy(dtype=bool)]
    samples = others[["time_ns", "value"]].assign(metric=others["name"])
    return conform("memory", memory), conform("samples", samples)


def _info(rows: pd.DataFrame, engine: Any) -> dict[str, Any]:
    wall = not rows.empty and int(rows["start_ns"].min()) > _YEAR_2001_NS
    devices = [str(device) for device in rows.loc[engine, "device"].unique()]
    notes = ["MXNet's times are whole microseconds", "threads are numbered in the file's order: MXNet writes only hashes"]
    if any(device != "cpu" for device in devices):
        notes.append("a kernel on a GPU is one operator as MXNet's engine saw it, with all its device kernels and waiting")
    bulks = int(rows.loc[engine, "name"].str.startswith(("[", "ImperativeBulk")).sum())
    if bulks:
        notes.append(f"{bulks} executions are several operators that MXNet ran as one (bulk execution)")
    info: dict[str, Any] = {
        "source": {"format": "mxnet", "tool": "mx.profiler", "version": None, "schema": None},
        "clock": "wall" if wall else "relative",
        "framework": "mxnet",
        "devices": [{"device": device} for device in devices],
        "unavailable": {
            "launches": "mx.profiler does not relate operators to the calls that queued them",
            "layers": "mx.profiler names operators by their type, not by their layer",
        },
        "notes": notes,
    }
    if not engine.any():
        info["unavailable"]["kernels"] = "the dump holds no operators; enable profile_symbolic and profile_imperative"
    return info
