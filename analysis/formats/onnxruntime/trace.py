"""ONNX Runtime's own profile: the nodes of the optimized graph that each run of a session executed.

A run (model_run) is a step. Nodes are operators. A node of a processor, or of a provider that computes while it is called
(CoreML, OpenVINO, QNN), is a kernel, too; a node that contains the nodes of another graph (If, Loop) is not. A node of a GPU's
provider only queues work: what its time contains of the device's is unknown, so it is no kernel. Builds with CUPTI or roctracer
also write the GPU's kernels and copies.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.holders import holders
from kernelscope.analysis.formats.onnxruntime import device, first_run, nodes
from kernelscope.analysis.formats.onnxruntime import events as profile_events
from kernelscope.analysis.formats.onnxruntime.events import Profile
from kernelscope.analysis.trace import Trace, conform

Bool = npt.NDArray[np.bool_]

_CATEGORY = re.compile(r'"cat"\s*:\s*"(?:Session|Node)"')
_EVENT = re.compile(
    r'"name"\s*:\s*"(?:model_loading_\w+|session_initialization|model_run|(?:Sequential|Parallel)Executor::Execute'
    r'|[^"]{0,1000}_kernel_time)"'
)
_NODE, _FENCE = "_kernel_time", r"_fence_(?:before|after)$"
_RUN = first_run.RUN
_OWN = (_RUN, "SequentialExecutor::Execute", "ParallelExecutor::Execute")
_LATEST_NS = 4_000_000_000_000_000_000
_MOST_EVENTS = 1_000_000  # at which ONNX Runtime stops recording
_NEARLY_ALL = 0.9  # share of the convolutions; others may be of regions of an image
_DEVICE = -1  # thread of events of a device
_RECORDERS = {"cuda:0": "nsys profile python ...", "rocm:0": "rocprofv3 --sys-trace -- python ..."}


def matches(head: Head) -> bool:
    """Return whether this is a list of events with the categories and names of ONNX Runtime's profiler."""
    text = head.text.lstrip()
    if not head.is_text or not text.startswith(("[", "{")):
        return False
    return _CATEGORY.search(text) is not None and _EVENT.search(text) is not None


def read(path: Path) -> Trace:
    """Read a profile; raise EvidenceError if it cannot be read or holds neither a run nor a node."""
    profile = profile_events.read(path)
    table = profile.table
    table["start_ns"] += 1  # the profiler's clock begins at 0, which in a Trace is no time
    sorts = _sorts(table)
    usable = _usable(table, sorts)
    session, fences, nodes_of, calls, work = (
        table[usable & (sorts == name)] for name in ("session", "fence", "node", "call", "device")
    )
    if not len(nodes_of) and not len(work) and not session["name"].isin([_RUN]).any():
        raise EvidenceError(f"{path}: the profile holds no run and no node; {_remedy(path)}")
    steps, ranges, later = _steps(_ended(session))
    computed = _nodes(_ended(nodes_of))
    runs = session[(session["name"] == _RUN).to_numpy(dtype=bool)]
    gpu = device.Work.of(work, computed, int(runs["start_ns"].min()) if len(runs) else None)
    waits = (fences["duration_ns"] > 0).to_numpy(dtype=bool)
    diagnostics = {
        "events without a usable time": int((~usable).sum()),
        "events of other sorts, not read": int((sorts == "other").sum()),
        "fences of no length, not read": int((~waits).sum()),
        "the file ends inside of an event": int(profile.cut),
        "pieces of text that were no JSON, mended": profile.repaired,
        chrome_json.ODD: profile.odd,
        **later,
    }
    result = Trace(
        steps=steps,
        ranges=ranges,
        operators=conform("operators", computed),
        kernels=conform("kernels", gpu.kernels if len(gpu.kernels) else _host_kernels(computed)),
        copies=conform("copies", gpu.copies),
        calls=conform("calls", _joined(gpu.calls, _ended(calls).assign(api="runtime"))),
        syncs=conform("syncs", _ended(fences[waits])[["start_ns", "end_ns", "process"]].assign(kind="fence")),
        info=_info(profile, computed, gpu, runs["thread"]),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )
    first_run.set_aside(result)
    return _without_runs(result) if result.steps.empty and not gpu.devices else result if gpu.clock.usable else _as_totals(result)


def _remedy(path: Path) -> str:
    """Return what to do about a file without nodes: some are quoted with their long lines cut."""
    cut = profile_events.cut_lines(path)
    if not cut:
        return "record again, and run the session before it ends"
    one = len(cut) == 1
    which = f"line {cut[0]} is" if one else f"{len(cut)} lines (the first is line {cut[0]}) are"
    return f"{which} cut inside an event: copy the whole line{'' if one else 's'} from the profile's file"


def _sorts(table: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Return what each event is: session, node, fence, call, device or other. Parts of nodes and marks count as session."""
    category, name = table["category"].astype("string").fillna(""), table["name"].astype("string")
    whole, on_device = table["whole"].to_numpy(dtype=bool), (table["thread"] == _DEVICE).to_numpy(dtype=bool)
    node, api = ((category == one).to_numpy(dtype=bool) for one in ("Node", "Api"))
    conditions = {
        "other": ~whole,
        "node": node & name.str.endswith(_NODE).to_numpy(dtype=bool),
        "fence": node & name.str.contains(_FENCE).to_numpy(dtype=bool),
        "session": node | (category == "Session").to_numpy(dtype=bool),
        "device": (category == "Kernel").to_numpy(dtype=bool) | (api & on_device),
        "call": api,
    }
    return np.select(list(conditions.values()), list(map(_named, conditions)), _named("other"))


def _named(name: str) -> npt.NDArray[np.object_]:
    return np.array(name, dtype=object)


def _usable(table: pd.DataFrame, sorts: npt.NDArray[np.object_]) -> Bool:
    """Return which events have a usable time; durations suffice for a device's."""
    timed = table["start_ns"].between(1, _LATEST_NS).fillna(False).to_numpy(dtype=bool) | (sorts == "device")
    lasting = table["duration_ns"].between(0, _LATEST_NS).fillna(False).to_numpy(dtype=bool)
    return np.asarray((timed & lasting) | (sorts == "other"))


def _ended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with end_ns, their times as plain integers."""
    start, duration = rows["start_ns"].astype("int64"), rows["duration_ns"].astype("int64")
    return rows.assign(start_ns=start, duration_ns=duration, end_ns=start + duration)


def _joined(*tables: pd.DataFrame) -> pd.DataFrame:
    kept = [table for table in tables if len(table)]
    return pd.concat(kept, ignore_index=True) if kept else tables[0]


# --- the host -----------------------------------------------------------------------------------------------------------------


def _steps(session: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, int]]:
    """Return the runs of the thread with most of them as steps, all of the session as ranges, and counts."""
    runs = session[(session["name"] == _RUN).to_numpy(dtype=bool)]
    main = runs[(runs["thread"] == runs["thread"].mode().iloc[0]).to_numpy(dtype=bool)] if len(runs) else runs
    main = main.sort_values(["start_ns", "end_ns"], kind="stable")
    until = main["start_ns"].shift(-1, fill_value=np.iinfo(np.int64).max)
    counts = {
        "steps of other threads": len(runs) - len(main),
        "steps cut where the next one began": int((main["end_ns"] > until).sum()),
    }
    main = main.assign(end_ns=np.minimum(main["end_ns"], until), step=np.arange(len(main)), warmup=False)
    return conform("steps", main), conform("ranges", _ranges(session)), counts


def _ranges(session: pd.DataFrame) -> pd.DataFrame:
    """Return runs and the executor's part of them as phases of no kind, so that their own time is ONNX Runtime's; else ranges."""
    own = session["name"].isin(_OWN).to_numpy(dtype=bool)
    phase = pd.Series("other", index=session.index, dtype="string").where(own)
    category = np.where(own, "phase", "user")
    return session[["thread", "start_ns", "end_ns", "name"]].assign(category=category, phase=phase, nested=True)


def _nodes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the nodes with the columns of the Trace's operators and kernels, in the file's order.

    node: the node's name; provider, device: null where not given. queues: whether the node only queues work for a GPU.
    """
    keys = rows[["name", "operator", "provider", "inputs", "outputs"]].astype("object")
    codes, distinct = pd.factorize(pd.MultiIndex.from_frame(keys.where(keys.notna(), "")))
    described = pd.DataFrame([_described(*key) for key in distinct], columns=_DESCRIBED, dtype="object")
    table = described.take(codes).set_axis(rows.index)
    table = table.astype({**dict.fromkeys(_DESCRIBED, "string"), **dict.fromkeys(("m", "n", "k"), "Int64")})
    times = rows[["start_ns", "end_ns", "duration_ns", "thread", "process", "pool"]]
    result = pd.concat([times, table], axis=1)
    result["provider"] = _providers(rows)
    places = {str(name): device.device_of(str(name)) for name in result["provider"].dropna().unique()}
    result["device"] = result["provider"].map(places).astype("string")
    result["queues"] = (result["device"].notna() & (result["device"] != "cpu")).to_numpy(dtype=bool)
    result["phase"] = _phases(result["name"])
    return _with_layers(result)


def _providers(rows: pd.DataFrame) -> pd.Series:
    """Return the providers of nodes; where they are not given, those that the names of compiled parts of a graph show."""
    names = rows["name"].astype("string")
    shown = names.str.extract(r"^(\w+ExecutionProvider)_")[0].mask(names.str.startswith("DmlFusedNode"), "DmlExecutionProvider")
    return rows["provider"].astype("string").fillna(shown)


_DESCRIBED = [
    "scope", "name", "operator", "layer", "shapes", "types", *nodes.Described._fields,
]  # fmt: skip


def _described(name: str, operator: str, provider: str, inputs: str, outputs: str) -> tuple[Any, ...]:
    """Return what is known of a node, as _DESCRIBED."""
    node = name.removesuffix(_NODE)
    kind = operator or node
    given = nodes.tensors_of(inputs)
    what = nodes.described(node, kind, given, nodes.tensors_of(outputs), provider)
    return node or None, kind, operator or None, nodes.path(node, kind), *nodes.as_json(given), *what


def _phases(types: pd.Series) -> pd.Series:
    """Return the phases of operators: forward, unless the graph trains, where only operators of gradients show theirs."""
    backward, optimizer = types.str.contains(r"Grad(?:_?V?\d+)?$"), types.str.contains(r"Optimizer(?:V\d+)?$")
    training = bool((backward | optimizer).any())
    result = pd.Series(pd.NA if training else "forward", index=types.index, dtype="string")
    return result.mask(backward, "backward").mask(optimizer, "optimizer")


def _with_layers(table: pd.DataFrame) -> pd.DataFrame:
    """Give changes of layout, which have no layer's name, the layer of the node beside them; say how layers were found."""
    ordered = table.iloc[np.lexsort((table["start_ns"].to_numpy(), table["thread"].to_numpy()))]
    into = (ordered["operator"] == "ReorderInput").fillna(False).to_numpy(dtype=bool)
    out = (ordered["operator"] == "ReorderOutput").fillna(False).to_numpy(dtype=bool)
    named = ordered["layer"]
    beside = named.ffill().mask(into, named.bfill()).where(into | out)
    layer = named.fillna(beside)
    how = np.where(named.notna(), "operator name", np.where(layer.notna(), "stream order", "none"))
    return table.assign(layer=layer, attribution=pd.Series(how, index=ordered.index, dtype="string"))


def _host_kernels(computed: pd.DataFrame) -> pd.DataFrame:
    """Return the nodes that compute while they are called, and contain no others.

    None count if others queue work for a GPU that the profile does not show: they would pass for all that computes.
    """
    inner = computed[: 0 if computed["queues"].any() else None]
    inside = ~inner["operator"].isin(nodes.CONTROL).to_numpy(dtype=bool) & ~holders(inner)
    kernels = inner[inside]
    names = kernels["scope"].fillna(kernels["name"])
    casts = (kernels["operator"] == "Cast").fillna(False)
    return kernels.assign(name=names.where(casts, names.str.removeprefix(nodes.CAST_IN)), count=1)


def _as_totals(trace: Trace) -> Trace:
    """Return a Trace without a timeline, where the GPU's work has none: beside the host's alone, it would seem to do nothing."""
    host = {"operators": trace.operators, "ranges": trace.ranges}
    totals = [_summed(table).assign(table=name) for name, table in host.items() if len(table)]
    return Trace(
        kernels=trace.kernels,
        copies=trace.copies,
        totals=conform("totals", _joined(*totals) if totals else pd.DataFrame()),
        info=trace.info,
        diagnostics=trace.diagnostics,
    )


def _without_runs(trace: Trace) -> Trace:
    """Return totals of a processor's nodes, where the file holds no run: what is between them, such as loading, is in no step."""
    if trace.kernels.empty:
        return trace
    trace.info["clock"] = "none"
    trace.info["unavailable"]["times"] = "totals only: the profile holds no run (model_run), so nodes are those of the whole file"
    never = np.ones(len(trace.kernels), dtype=bool)
    kernels = trace.kernels.assign(**{name: trace.kernels[name].mask(never) for name in ("start_ns", "end_ns")})
    return Trace(kernels=kernels, info=trace.info, diagnostics=trace.diagnostics)


def _summed(table: pd.DataFrame) -> pd.DataFrame:
    """Return count, sum, least and greatest duration of rows by their names."""
    lasted = table["end_ns"] - table["start_ns"]
    columns = {"count": "size", "duration_ns": "sum", "min_ns": "min", "max_ns": "max"}
    result = lasted.groupby(table["name"].astype("string"), sort=False).agg(list(columns.values()))
    return result.set_axis(list(columns), axis=1).reset_index()


# --- facts --------------------------------------------------------------------------------------------------------------------


def _info(profile: Profile, computed: pd.DataFrame, gpu: device.Work, callers: pd.Series) -> dict[str, Any]:
    providers = sorted(map(str, computed["provider"].dropna().unique()), key=lambda name: (name == nodes.CPU, name))
    devices = [*computed["device"].dropna().unique(), *gpu.devices]
    info: dict[str, Any] = {
        "source": {"format": "onnxruntime", "tool": "ONNX Runtime's profiler", "version": None, "schema": None},
        "clock": "relative",
        "framework": "onnxruntime",
        "devices": [{"device": str(name)} for name in dict.fromkeys(devices)],
        "settings": _settings(computed, providers, callers),
        "unavailable": {},
        "notes": ["ONNX Runtime's times are whole microseconds"],
    }
    notes, warnings = info["notes"], []
    others = [name for name in providers if device.device_of(name) is None]
    if others:
        notes.append(f"nodes of {', '.join(others)} are timed on the host, while they compute and copy elsewhere")
    if len(computed) and not providers:
        notes.append("the profile does not say which provider ran a node")
    _tell_of_device(info, computed, gpu)
    if profile.unclosed:
        warnings.append(
            "the list of events is not closed, so later runs may be missing; end profiles with session.end_profiling()"
        )
    if len(profile.table) >= _MOST_EVENTS:
        warnings.append(f"ONNX Runtime stops recording after {_MOST_EVENTS:,} events: later runs are missing")
    if batch := _batch(computed):
        info["batch"] = batch
    return info | ({"warnings": warnings} if warnings else {})


def _batch(computed: pd.DataFrame) -> int | None:
    """Return the first dimension of the convolutions' inputs, if nearly all have the same; None if not, or without any."""
    convolutions = computed[(computed["kind"] == "convolution forward").fillna(False).to_numpy(dtype=bool)]
    first = convolutions["problem"].str.extract(r"^(\d{1,9})x\d+x\d+")[0].value_counts()
    if first.empty or first.iloc[0] < _NEARLY_ALL * len(convolutions):
        return None
    return int(str(first.index[0]))


def _settings(computed: pd.DataFrame, providers: list[str], callers: pd.Series) -> dict[str, Any]:
    """Return the settings of the session that the profile shows, named as those of recorded runs. callers: threads of runs.

    Only the parallel executor runs nodes on threads that did not call the session.
    """
    result: dict[str, Any] = {"providers": ", ".join(providers)} if providers else {}
    if pool := int(computed["pool"].max()) if len(computed) else 0:
        result["threads"] = pool
    if len(callers) and len(computed):
        parallel = not computed["thread"].isin(callers).all()
        result["execution_mode"] = "ORT_PARALLEL" if parallel else "ORT_SEQUENTIAL"
    return result


def _tell_of_device(info: dict[str, Any], computed: pd.DataFrame, gpu: device.Work) -> None:
    """Say what of a GPU's work the profile shows and what not."""
    queueing = computed.loc[computed["queues"].to_numpy(dtype=bool), "provider"]
    names = ", ".join(str(name) for name in queueing.dropna().unique())
    devices = set(computed.loc[computed["queues"].to_numpy(dtype=bool), "device"])
    if len(queueing) and not len(gpu.kernels):
        info["unavailable"]["kernels"] = (
            f"nodes of {names} queue work, and wait at times: the GPU's own time is not in the profile; {_recording(devices)}"
        )
    if gpu.devices and gpu.calls.empty:
        info["unavailable"]["launches"] = "the profile does not say which node launched a kernel"
    if gpu.devices:
        info["notes"].append("the profile does not number GPUs: all count as one")
    if not gpu.clock.usable:
        info["clock"] = "none"
        info["unavailable"]["times"] = f"totals only: the begins of the GPU's work are not true, as {gpu.clock.reason}"


def _recording(devices: set[str]) -> str:
    """Return what records the work of these devices."""
    known = [_RECORDERS[name] for name in sorted(devices & set(_RECORDERS))]
    return f"{' or '.join(known) or 'the profiler of the maker of the GPU'} records it"
