"""PyTorch's chrome traces: torch.profiler (Kineto) on CPUs and accelerators, and the older torch.autograd.profiler.

Device work is joined to the call that launched it by the correlation id and, if that call is missing, to its operator by the
"External id". Layers are the stack of nn.Module calls that the profiler saw (with_stack), written as a path of module types
with the number that the profiler gave each instance. A backward operator has the sequence number of its forward operator, and
takes its layer from it. GPU annotations are projections of the host's annotations on the device: ranges, never kernels.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files.chrome_json import ODD
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import python_functions
from kernelscope.analysis.formats.kineto import autograd, functions, repeated
from kernelscope.analysis.formats.kineto import categories as kineto_categories
from kernelscope.analysis.formats.kineto import columns as kineto_columns
from kernelscope.analysis.formats.kineto import devices as kineto_devices
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto import unread as kineto_unread
from kernelscope.analysis.formats.kineto.categories import CALLS, GROUPS
from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.trace import PHASES, Trace, conform, intervals, thread_names

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_STEP = re.compile(r"ProfilerStep#(\d{1,18})$")
_PHASES = (  # PyTorch's own annotations
    (re.compile(r"Optimizer\.(step|zero_grad)#"), "optimizer"),
    (re.compile(r"enumerate\(DataLoader\)#"), "data"),
)
_MODULE = "nn.Module: "
_METHODS = ["launch range", "sequence number", "none"]
_DEEPEST = 64  # modules inside each other
_VERSION = re.compile(r"_v\d+$")
_VERSIONS = (
    "cupti_version", "cuda_runtime_version", "cuda_driver_version", "roctracer_version", "hip_runtime_version",
    "hip_driver_version",
)  # fmt: skip
_YEAR_2001_NS = 1_000_000_000_000_000_000


def matches(head: Head) -> bool:
    """Return whether this is a chrome trace with PyTorch's categories, processes or top-level keys."""
    return head.is_text and kineto_categories.mentions_categories(head.content)


def read(path: Path) -> Trace:
    """Read a trace; raise EvidenceError if it cannot be read or is not one."""
    return of_scan(kineto.tables_of(kineto_columns.gather(path, GROUPS), GROUPS))


def of_scan(scan: Scan) -> Trace:
    """Return the Trace of a scan of all GROUPS; consumes the scan."""
    diagnostics = counted(scan)
    repeated.leave_out(scan, diagnostics)
    left = kineto_unread.take(scan)
    timed = _take_plain(scan)
    tracks = identify(scan)
    steps, ranges, operators = host_side(scan, tracks, diagnostics)
    lines = functions.host_lines(scan, tracks, steps, operators)
    calls = _calls(scan, tracks)
    work = kineto_devices.read(scan, tracks, calls, operators)
    kernels = work.kernels
    if len(timed):
        kernels = kineto_devices.timed_operators(timed, scan.tracks, diagnostics)
    left.refuse_host_only(len(kernels) + len(work.copies) + len(work.syncs))
    unavailable: dict[str, str] = {}
    if not len(kernels):
        kernels, unavailable = _host_kernels(scan, operators, calls, work)
    info = _info(scan, work, unavailable, left)
    info["threads"] = _thread_names(left, tracks)
    python_functions.describe(lines, info, functions.MISSING)
    return Trace(
        steps=conform("steps", steps),
        ranges=conform("ranges", ranges),
        operators=conform("operators", operators),
        kernels=conform("kernels", kernels),
        copies=conform("copies", work.copies),
        syncs=conform("syncs", work.syncs),
        calls=conform("calls", calls),
        memory=conform("memory", work.memory),
        host_lines=lines,
        info=info,
        diagnostics={name: int(count) for name, count in diagnostics.items() if count},
    )


def host_side(scan: Scan, tracks: pd.DataFrame, diagnostics: dict[str, int]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return steps, ranges and operators, and add counts to `diagnostics`. tracks: process and thread of each track."""
    steps, annotations = _annotations(scan, tracks, diagnostics)
    modules = _modules(scan, tracks)
    operators = _operators(scan, tracks, annotations, modules)
    ranges = [table for table in (annotations, modules) if len(table)]
    return steps, pd.concat(ranges, ignore_index=True) if ranges else pd.DataFrame(), operators


def counted(scan: Scan) -> dict[str, int]:
    """Return the diagnostics of reading a file: counts by name."""
    return {
        "events without a usable time": sum(scan.untimed.values()),
        "events of which ph is missing or damaged": kineto_unread.damaged(scan),
        "begins and ends without the other": scan.unpaired,
        "pieces of text that were no JSON, mended": scan.repaired,
        ODD: scan.odd,
    }


def _take_plain(scan: Scan) -> pd.DataFrame:
    """Move operators in the autograd profiler's own format to the other operators; return the events of its device processes.

    The format has no categories, but processes named "CPU functions" and "CUDA functions".
    """
    plain, operators = scan.tables["plain"], scan.tables["operators"]
    host, device = (side[plain["track"].to_numpy()] for side in kineto_unread.plain_processes(scan.tracks))
    if host.any():
        types = operators.dtypes.drop(["name", "category", "phase"])
        scan.tables["operators"] = pd.concat([operators, plain[host]], ignore_index=True).astype(types)
    left: pd.DataFrame = plain[device].reset_index(drop=True)
    return left


# --- threads -------------------------------------------------------------------------------------------------------------


def identify(scan: Scan) -> pd.DataFrame:
    """Return process and thread (int64) of each track: as written if that is a number and, for threads, unique.

    Where two tracks have the same thread id, the host's keeps it before a device's; the others get numbers above all ids.
    """
    tracks = scan.tracks
    host = np.zeros(len(tracks), dtype=bool)
    for name in ("operators", "calls", "functions", "memory"):
        host[scan.tables[name]["track"].to_numpy()] = True
    process, thread = (kineto.whole_numbers(tracks[name]) for name in ("process", "thread"))
    order = np.argsort(~host, kind="stable")
    again = np.zeros(len(tracks), dtype=bool)
    again[order] = thread.iloc[order].duplicated().to_numpy()
    named = pd.factorize(tracks["process"])[0] + 1  # one number for each process, used for those named by a text
    return pd.DataFrame(
        {
            "process": _filled(process, process.isna().to_numpy(), named),
            "thread": _filled(thread, thread.isna().to_numpy() | again, np.arange(1, len(tracks) + 1)),
        }
    )


def _thread_names(left: kineto_unread.Left, tracks: pd.DataFrame) -> dict[str, str]:
    """Return the names of threads, by number; on Linux the main thread has the number of its process."""
    process, thread = (tracks[name].tolist() for name in ("process", "thread"))
    names = [(track, name) for track, name in left.threads if track < len(tracks)]
    main = [(track, thread_names.MAIN) for track, _ in names if process[track] == thread[track]]
    return thread_names.named((thread[track], name) for track, name in [*main, *names])


def _filled(numbers: pd.Series, replaced: Bool, by: Int) -> Int:
    """Return the numbers, with the chosen ones replaced by `by` plus the highest number."""
    known = numbers.fillna(0).to_numpy(dtype=np.int64)
    return np.where(replaced, max(int(known.max(initial=0)), 0) + by, known)


def placed(table: pd.DataFrame, tracks: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return start_ns, end_ns, process, thread and the chosen columns."""
    start, track = table["start_ns"].to_numpy(), table["track"].to_numpy()
    result = {"start_ns": start, "end_ns": start + table["duration_ns"].to_numpy()}
    result |= {name: tracks[name].to_numpy()[track] for name in ("process", "thread")}
    return pd.DataFrame(result | {name: table[name].array for name in columns}, copy=False)


# --- host activity -------------------------------------------------------------------------------------------------------


def _annotations(scan: Scan, tracks: pd.DataFrame, diagnostics: dict[str, int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the profiler's steps, and other annotations as ranges. PyTorch before 1.10 writes its annotations as operators."""
    operators, rows = scan.tables["operators"], scan.tables["annotations"]
    own = autograd.where_text(operators["name"], lambda name: _STEP.match(name) or _phase(name))
    if own.any():
        scan.tables["operators"] = operators[~own].reset_index(drop=True)
        rows = pd.concat([rows, operators.loc[own, rows.columns]], ignore_index=True).astype({"name": "category"})
    table = placed(rows, tracks, "name", "category")
    gpu = autograd.where_text(table["category"], lambda category: category == "gpu_user_annotation")
    number = autograd.of_text(table["name"], lambda name: int(match[1]) if (match := _STEP.match(name)) else None)
    stepping = number.notna().to_numpy() & ~gpu
    steps = table[stepping].assign(step=number[stepping].astype("object").astype("int64"), warmup=False)
    ranges = table.assign(
        category="user",
        nested=~gpu,
        domain=pd.Categorical.from_codes(gpu.astype(np.int8) - 1, pd.Index(["gpu"])),
        phase=autograd.of_text(table["name"], _phase),
    )
    return _in_turn(steps, diagnostics), ranges[~stepping].reset_index(drop=True)


def _phase(name: str) -> str | None:
    return next((phase for pattern, phase in _PHASES if pattern.match(name)), None)


def _in_turn(steps: pd.DataFrame, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return the steps of the thread that has most of them; each ends at the latest where the next one begins."""
    if len(steps) < 2:
        return steps
    kept = steps[steps["thread"] == steps["thread"].mode().iloc[0]].sort_values(["start_ns", "end_ns"], kind="stable")
    until = kept["start_ns"].shift(-1, fill_value=np.iinfo(np.int64).max)
    diagnostics["steps of other threads"] = len(steps) - len(kept)
    diagnostics["steps cut where the next one began"] = int((kept["end_ns"] > until).sum())
    cut: pd.DataFrame = kept.assign(end_ns=np.minimum(kept["end_ns"], until))
    return cut


def _modules(scan: Scan, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of nn.Modules as ranges whose layer is the path of the modules open around them."""
    rows = scan.tables["functions"]
    table = placed(rows[rows["module"].notna().to_numpy()], tracks, "name")
    table["name"] = table["name"].cat.remove_unused_categories()
    names = table["name"].cat
    types = [name.removeprefix(_MODULE) for name in names.categories]
    layer = _paths(np.asarray(names.codes, dtype=np.int64), types, intervals.parents(*intervals.spans(table)))
    return table.assign(category="layer", nested=True, layer=layer)


def _paths(names: Int, texts: list[str], parent: Int) -> pd.Categorical:
    """Return the names from the outermost one down, joined by slashes; built level by level, each distinct path once."""
    depth = intervals.depths(parent)
    path = np.full(len(names), -1, dtype=np.int64)
    distinct: list[str] = []
    for number in range(min(int(depth.max(initial=-1)) + 1, _DEEPEST)):
        level = np.flatnonzero(depth == number)
        above = path[parent[level]] if number else np.full(len(level), -1)
        pairs, inverse = np.unique((above + 1) * len(texts) + names[level], return_inverse=True)
        path[level] = len(distinct) + inverse
        outer = [distinct[pair // len(texts) - 1] + "/" if pair >= len(texts) else "" for pair in pairs.tolist()]
        distinct += [before + texts[pair % len(texts)] for before, pair in zip(outer, pairs.tolist(), strict=True)]
    shown = autograd.owners(depth < _DEEPEST, parent)  # deeper modules count for the deepest one shown around them
    codes, merged = pd.factorize(np.array(distinct, dtype=object))
    return pd.Categorical.from_codes(codes[path[shown]] if len(path) else [], pd.Index(merged, dtype="object"))


def _operators(scan: Scan, tracks: pd.DataFrame, annotations: pd.DataFrame, modules: pd.DataFrame) -> pd.DataFrame:
    """Return the operators in order of their starts, with parent, layer, phase and attribution."""
    rows = scan.tables["operators"]
    table = placed(rows, tracks, "name", *GROUPS["operators"].arguments)
    order = np.lexsort((-table["end_ns"].to_numpy(), table["start_ns"].to_numpy()))
    table = table.take(order).reset_index(drop=True)
    table["parent"] = intervals.parents(*intervals.spans(table))
    gradient = autograd.noted(table)
    if table["sequence"].isna().all() and len(scan.tables["flows"]):
        _number_by_flows(table, scan, tracks)
    forward = autograd.forward_operators(table)
    backward = autograd.in_backward(table) | (forward >= 0)
    forwarded = np.zeros(len(table), dtype=bool)
    forwarded[forward[forward >= 0]] = True
    forwarded = autograd.owners(forwarded, table["parent"].to_numpy()) >= 0
    layers = np.append(modules["layer"].cat.codes.to_numpy(dtype=np.int64), -1)
    layer = layers[_innermost(modules, table)]
    inherited = np.where((layer < 0) & (forward >= 0), np.append(layer, -1)[forward], -1)
    telling = annotations[annotations["phase"].notna() & annotations["nested"]]
    phase = np.append(pd.Categorical(telling["phase"], categories=PHASES).codes, np.int8(-1))[_innermost(telling, table)]
    phase = np.where((phase < 0) & (forwarded | (layer >= 0)), PHASES.index("forward"), phase)
    return table.assign(
        gradient=gradient.array,
        layer=pd.Categorical.from_codes(np.where(layer >= 0, layer, inherited), modules["layer"].cat.categories),
        phase=pd.Categorical.from_codes(np.where(backward, PHASES.index("backward"), phase), pd.Index(PHASES)),
        attribution=pd.Categorical.from_codes(np.select([layer >= 0, inherited >= 0], [0, 1], 2), pd.Index(_METHODS)),
    )


def _innermost(ranges: pd.DataFrame, table: pd.DataFrame) -> Int:
    """Return the position of the innermost of these ranges that is open on each operator's thread when it begins, or -1."""
    return intervals.innermost(*intervals.spans(ranges), table["thread"].to_numpy(), table["start_ns"].to_numpy())


def _number_by_flows(table: pd.DataFrame, scan: Scan, tracks: pd.DataFrame) -> None:
    """Number forward and backward operators by the arrows between them, where the profiler wrote no sequence numbers."""
    flows = placed(scan.tables["flows"], tracks, "flow", "phase")
    numbers = pd.factorize(flows["flow"].astype("object"))[0]
    for phase, thread in (("s", 0), ("f", 1)):
        ends = flows.assign(number=numbers)[(flows["phase"].astype("object") == phase).to_numpy()]
        starts = table[["thread", "start_ns"]].assign(row=table.index).drop_duplicates(["thread", "start_ns"])
        result = ends.merge(starts, on=["thread", "start_ns"]).drop_duplicates("row")
        table.loc[result["row"], "sequence"] = result["number"].to_numpy()
        table.loc[result["row"], "forward_thread"] = thread


def _calls(scan: Scan, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of runtimes and drivers."""
    table = placed(scan.tables["calls"], tracks, "name", "correlation", "category")
    return table.assign(
        name=autograd.of_text(table["name"], lambda name: _VERSION.sub("", name)),
        api=autograd.of_text(table["category"], CALLS.get),
    )


def _host_kernels(
    scan: Scan, operators: pd.DataFrame, calls: pd.DataFrame, work: kineto_devices.DeviceTables
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the computing operators as CPU kernels if all work ran on the CPU; otherwise why kernels are unavailable."""
    if ("X", "cuda_profiler_range") in scan.counts:
        return pd.DataFrame(), {"kernels": "CUPTI's range profiler replaced the kernels' times by equal parts of its session"}
    if untimed := scan.untimed.get("kernels"):
        return pd.DataFrame(), {"kernels": f"none of its {untimed:,} kernels has a usable time: record it again"}
    on_device = len(calls) or work.accelerators or len(work.copies) or "nccl" in str(scan.fact("distributedInfo"))
    if on_device or autograd.where_text(scan.tables["annotations"]["name"], lambda name: name.startswith("nccl:")).any():
        return pd.DataFrame(), {"kernels": "the trace holds no device work: record it with ProfilerActivity.CUDA (XPU, ...) too"}
    return autograd.computing_operators(operators, np.empty(0, dtype=np.int64)), {}


# --- the file's own description ------------------------------------------------------------------------------------------


def _info(scan: Scan, work: kineto_devices.DeviceTables, unavailable: dict[str, str], left: kineto_unread.Left) -> dict[str, Any]:
    """Return what is known about the capture, without the hosts, users, jobs and paths that traces also name."""
    starts = [int(table["start_ns"].min()) for table in scan.tables.values() if len(table)]
    legacy = not any(category for phase, category in scan.counts if phase in {"X", "B", "E"})
    wall = scan.base_ns is not None or (bool(starts) and min(starts) > _YEAR_2001_NS)
    schema = scan.fact("schemaVersion")
    info: dict[str, Any] = {
        "source": {
            "format": "kineto",
            "tool": "torch.autograd.profiler" if legacy else "torch.profiler",
            "version": None,
            "schema": schema if isinstance(schema, int) else None,
        },
        "clock": "wall" if wall else "relative",
        "framework": "pytorch",
        "devices": work.devices,
        "unavailable": unavailable,
        "notes": [],
    }
    if any(device["device"].startswith("rocm") for device in work.devices):
        info["notes"].append("ROCm numbers all its agents, CPUs first: rocm:2 may be PyTorch's device 0")
    versions = {name: value for name in _VERSIONS if isinstance(value := scan.fact(name), int | float)}
    if versions:
        info["versions"] = versions
    if distributed := _distributed(scan.fact("distributedInfo")):
        info["distributed"] = distributed
    if unread := kineto_unread.counts(scan) | left.uncategorised:
        info["not_read"] = unread
    if warning := left.warning():
        info["warnings"] = [warning]
    return info


def _distributed(result: Any) -> dict[str, Any]:
    """Return rank, world size, backend, NCCL version and number of process groups, as far as known."""
    if not isinstance(result, dict):
        return {}
    kinds = {"rank": int, "world_size": int, "backend": str, "nccl_version": str, "pg_count": int}
    return {name: result[name] for name, kind in kinds.items() if isinstance(result.get(name), kind)}
