"""Planes of the host: calls, operators, ranges and allocations."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.holders import holders
from kernelscope.analysis.formats.xplane import columns, functions
from kernelscope.analysis.formats.xplane import tables as xplane

_API = r"^(cu|cuda|hip)[A-Z]\w*"
_OPERATOR = r"^(?P<scope>[^:]+):(?P<type>[A-Za-z_]\w*)$"


def events_of(planes: list[tuple[xplane.Plane, int]]) -> list[pd.DataFrame]:
    """Return the events of the hosts' planes, given with the number of their process.

    If planes share a name, their threads get distinct ids.
    """
    names = [plane.name for plane, _ in planes]
    repeated = len(set(names)) < len(names)
    tables = []
    for number, (plane, process) in enumerate(planes):
        end = plane.events["start_ns"] + plane.events["duration_ns"]
        events = plane.events.assign(end_ns=end, process=process)
        if repeated:
            events["line_id"] = events["line_number"] + (number << 32)
        tables.append(events)
    return tables


def take_apart(events: pd.DataFrame, on_cpu: bool, gpu: str, tables: columns.Tables, diagnostics: dict[str, int]) -> None:
    """Sort the events of a host's plane into tables.

    on_cpu: no device computed, so the computing operators are kernels. gpu: the prefix of GPUs' names, cuda or rocm.
    """
    instant = (events["duration_ns"] == 0).to_numpy(dtype=bool)
    is_call = columns.matching(events["name"], _API)
    is_memory = events["stat_allocator_name"].notna().to_numpy(dtype=bool) & instant
    is_nvtx = columns.matching(events["name"], "^NVTX:")
    is_operator = columns.matching(events["name"], _OPERATOR) & ~is_nvtx & ~is_call & ~instant
    is_hlo = events["stat_hlo_op"].notna().to_numpy(dtype=bool) & ~is_call & ~is_operator & ~instant
    tables["calls"].append(_calls(events[is_call]))
    tables["memory"].append(_allocator_memory(events[is_memory], gpu, diagnostics))
    operators = _operators(events[is_operator], events[is_hlo])
    tables["operators"].append(operators.drop(columns=["operation"]))
    if on_cpu:
        tables["kernels"].append(_cpu_kernels(operators))
    rest = events[~(is_call | is_memory | is_operator | is_hlo | functions.are(events))]
    marks = (rest["duration_ns"] == 0).to_numpy(dtype=bool)
    category = pd.Categorical.from_codes(marks.astype(np.int8), categories=pd.Index(["user", "mark"], dtype="str"))
    tables["ranges"].append(rest[["start_ns", "end_ns", "name"]].assign(thread=rest["line_id"], category=category, nested=~marks))


def _calls(events: pd.DataFrame) -> pd.DataFrame:
    """Return CUDA or HIP API calls; a graph's number after the name is dropped."""
    name = columns.extracted(events["name"], r"^(\w+)")
    driver = columns.matching(name, r"cu[A-Z]")
    api = pd.Categorical.from_codes(driver.astype(np.int8), categories=pd.Index(["runtime", "driver"], dtype="str"))
    return events[["start_ns", "end_ns"]].assign(
        process=events["process"],
        thread=events["line_id"],
        api=api,
        name=name,
        correlation=events["stat_correlation_id"],
        device_id=events["stat_device_id"],
    )


def _allocator_memory(events: pd.DataFrame, gpu: str, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return allocations and frees of the framework's allocators."""
    taken = columns.matching(events["name"], "^MemoryAllocation$")
    given = columns.matching(events["name"], "^MemoryDeallocation$")
    known = (taken | given) & events["stat_allocation_bytes"].notna().to_numpy(dtype=bool)
    columns.count(diagnostics, "allocator events not read", int((~known).sum()))
    rows = events[known]
    size = rows["stat_allocation_bytes"].astype("int64")
    allocator = rows["stat_allocator_name"]
    number = columns.extracted(allocator, r"(?i)^gpu_(\d{1,6})_bfc").astype("string")
    device = (f"{gpu}:" + number).mask(columns.matching(allocator, r"(?i).*(cpu|host)"), "cpu")
    reserved = rows["stat_bytes_reserved"]
    return pd.DataFrame(
        {
            "time_ns": rows["start_ns"],
            "device": device,
            "thread": rows["line_id"],
            "bytes": np.where(taken[known], size, -size),
            "allocated_bytes": rows["stat_bytes_allocated"],
            "reserved_bytes": reserved.where(reserved > 0),
        }
    )


def _operators(executed: pd.DataFrame, compiled: pd.DataFrame) -> pd.DataFrame:
    """Return TensorFlow's executions and XLA's operations on the host as operators.

    operation: the name that the operator has as a kernel.
    """
    spans = ["start_ns", "end_ns", "line_id"]
    types = columns.extracted(executed["name"], _OPERATOR.replace("?P<scope>", "?:").replace("?P<type>", ""))
    names = columns.extracted(executed["name"], _OPERATOR.replace("?P<scope>", "").replace("?P<type>", "?:"))
    attributed = scopes.columns(names.astype("string"), types.astype("string"))
    first = executed[spans].assign(name=types, scope=names, operation=types, **attributed)
    described = columns.described(compiled)
    second = compiled[spans].assign(
        name=described["operator"],
        scope=compiled["stat_name"].astype("string").fillna(compiled["stat_tf_op"].astype("string")),
        operation=compiled["name"],
        **{name: described[name] for name in ("layer", "phase", "attribution")},
    )
    text = ["name", "scope", "operation", "layer", "phase", "attribution"]
    parts = [part.astype(dict.fromkeys(text, "string")) for part in (first, second) if len(part)]
    table = pd.concat(parts, ignore_index=True) if parts else first.astype(dict.fromkeys(text, "string"))
    return table.rename(columns={"line_id": "thread"})


def _cpu_kernels(operators: pd.DataFrame) -> pd.DataFrame:
    """Return the operators that compute themselves: those that contain no other and are not control operators."""
    steering = operators["name"].str.match(scopes.STEERING).fillna(False).to_numpy(dtype=bool)
    chosen = operators[~holders(operators) & ~steering]
    return chosen.drop(columns=["operation", "scope"]).assign(
        kind=scopes.kinds(chosen["name"], chosen["phase"]),
        name=chosen["operation"],
        operator=chosen["name"],
        duration_ns=chosen["end_ns"] - chosen["start_ns"],
        count=1,
        device="cpu",
    )
