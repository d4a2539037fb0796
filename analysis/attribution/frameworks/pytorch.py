"""PyTorch: torch.profiler's operators, with the lines of oneDNN and MKL placed inside them.

The profiler and oneDNN use the wall clock, our ranges the monotonic one; the pass's anchors relate the two. MKL's lines have no
time: they stand in the stream between markers and timed lines. In such a gap the n-th call of a shape belongs to the n-th
operator that multiplies matrices of that shape.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence, collected, pytorch_compiled
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto.categories import GROUPS
from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.formats.kineto.trace import of_scan
from kernelscope.analysis.formats.mkl import verbose_tables as mkl_verbose
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.trace import conform, intervals

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

PROCESSORS = r"^(?:gloo|mpi|ucc):"  # ranges of communication libraries of ranks that compute on CPUs
TRACE_FILE = "operators.pt.trace.json.gz"
STREAM_FILE = "stdout.raw"


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if one of its files cannot be read."""
    files = context.report.get("operator_files") or [TRACE_FILE]
    path, *parts = (folder / file for file in files)
    # with a device, these files usually hold its work too; they are then read once for both
    result = collected.find(folder, context) if context.device != "cpu" else None
    whole = result in [("framework", file) for file in (path, *parts)]
    scan = kineto.scan(path, GROUPS if whole else {name: GROUPS[name] for name in ("operators", "annotations")}, parts=parts)
    operators = _operators(scan, context)
    _attribute(operators, context.ranges)
    diagnostics = {"operators_dropped": scan.untimed["operators"]}
    primitives, calls = _library_lines(folder / STREAM_FILE, context, operators, diagnostics)
    holding = np.concatenate([primitives["index"].to_numpy(), calls["index"].to_numpy()])
    own = autograd.computing_operators(operators, holding[holding >= 0])
    tables = [_primitive_kernels(primitives, operators), _call_kernels(calls, operators), own]
    if context.device == "cpu":
        tables.append(pytorch_compiled.kernels(scan, operators, context))
    kernels = pd.concat([conform("kernels", table) for table in tables], ignore_index=True).sort_values("start_ns")
    _name_optimizer(kernels)
    diagnostics["kernels_without_operator"] = int((kernels["operator"].isna()).sum())
    captured = of_scan(scan) if whole else None
    talking = _communication(scan, context)
    return Evidence(conform("operators", operators), conform("kernels", kernels), diagnostics, captured=captured, ranges=talking)


# --- operators -----------------------------------------------------------------------------------------------------------


def _operators(scan: Scan, context: Context) -> pd.DataFrame:
    """Return the profiler's operators in measured steps on our clock, sorted by start, with the index of their parent."""
    events = scan.tables["operators"]
    threads = kineto.whole_numbers(scan.tracks["thread"]).take(events["track"].to_numpy())
    events = events.assign(thread=threads.array)
    chosen = events[(events["category"].astype("object") == "cpu_op") & events["thread"].notna()]
    table = chosen[["name", "shapes", "types", "strides", "arguments", "sequence", "forward_thread", "thread"]].astype(
        {"name": "object"}
    )
    table["start_ns"] = context.clock.from_wall(chosen["start_ns"].to_numpy())
    table["end_ns"] = table["start_ns"] + chosen["duration_ns"]
    table = table[context.in_steps(table["start_ns"].to_numpy(np.int64))]
    table = table.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable").reset_index(drop=True)
    table["parent"] = intervals.parents(*intervals.spans(table))
    return table


def _communication(scan: Scan, context: Context) -> pd.DataFrame:
    """Return the collectives of ranks that compute on CPUs, as ranges that do not nest; see PROCESSORS."""
    events = scan.tables["annotations"]
    events = events[events["name"].astype("string").str.match(PROCESSORS).fillna(False).to_numpy(bool)]
    threads = kineto.whole_numbers(scan.tracks["thread"]).take(events["track"].to_numpy())
    start = context.clock.from_wall(events["start_ns"].to_numpy(np.int64))
    table = {"name": events["name"].array, "start_ns": start, "end_ns": start + events["duration_ns"].to_numpy(np.int64)}
    rows = pd.DataFrame({**table, "thread": threads.array, "category": "user", "nested": False})
    return conform("ranges", rows[context.in_steps(start)])


def _attribute(operators: pd.DataFrame, ranges: pd.DataFrame) -> None:
    """Add layer, phase and attribution, from the ranges open on the operator's thread or else from its forward operator."""
    layer, phase, result = _from_ranges(ranges, operators["thread"].to_numpy(np.int64), operators["start_ns"].to_numpy())
    operators["layer"], operators["phase"] = layer, phase
    operators["gradient"] = autograd.noted(operators)
    operators["attribution"] = np.where(result, "launch range", "none")
    backward = autograd.backward_sequence(operators)
    operators["phase"] = operators["phase"].mask(operators["phase"].isna() & backward.notna(), "backward").fillna("other")
    forward = autograd.forward_operators(operators)
    layers = operators["layer"].reindex(np.where(forward >= 0, forward, -1)).reset_index(drop=True)
    missing = operators["layer"].isna() & layers.notna()
    operators["layer"] = operators["layer"].mask(missing, layers)
    operators["attribution"] = operators["attribution"].mask(missing, "sequence number")


def _from_ranges(ranges: pd.DataFrame, thread: Int, at: Int) -> tuple[pd.Series, pd.Series, Bool]:
    """Return layer and phase of the innermost ranges open at these times on these threads, and where either is known."""
    answers = []
    for column in ("layer", "phase"):
        saying = ranges[ranges[column].notna()].reset_index(drop=True)
        index = intervals.innermost(*intervals.spans(saying), thread, at)
        values = saying[column].astype("string").to_numpy(dtype=object)
        with_none = np.array([*values, None], dtype=object)  # the last one is for index -1
        answers.append(pd.Series(with_none[index], dtype="string"))
    layer, phase = answers
    return layer, phase, (layer.notna() | phase.notna()).to_numpy()


# --- lines of oneDNN and MKL ---------------------------------------------------------------------------------------------


def _library_lines(
    path: Path, context: Context, operators: pd.DataFrame, diagnostics: dict[str, int]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return oneDNN's primitives and MKL's calls in measured steps, placed in time, each with its operator's `index`."""
    split = stream.split(path)
    primitives = onednn_verbose.parse(split.onednn)
    calls = mkl_verbose.parse(split.mkl)
    diagnostics["onednn_unreadable_lines"] = int(primitives.attrs["parse_failures"])
    diagnostics["mkl_unreadable_lines"] = int(calls.attrs["parse_failures"])
    diagnostics["onednn_untimed_lines"] = int(primitives["wall_ns"].isna().sum())
    primitives = primitives[primitives["wall_ns"].notna()].reset_index(drop=True)
    primitives["start_ns"] = context.clock.from_wall(primitives["wall_ns"].to_numpy(dtype=np.int64))
    primitives["end_ns"] = primitives["start_ns"] + primitives["duration_ns"]
    marks = _timed_marks(split.markers, primitives)
    primitives = primitives[context.in_steps(primitives["start_ns"].to_numpy(np.int64))].reset_index(drop=True)
    calls = _between_marks(calls, marks)
    calls = calls[context.in_steps(calls["lower_ns"].to_numpy(np.int64))].reset_index(drop=True)
    threads = _threads_by_rank(operators, context.steps)
    primitives["index"] = _innermost_on_any(operators, threads, primitives["start_ns"].to_numpy())
    _place_calls(calls, operators, marks["time_ns"].to_numpy(), threads)
    _add_ranges(primitives, primitives["start_ns"].to_numpy(), context)
    _add_ranges(calls, calls["lower_ns"].to_numpy() + 1, context)  # just after the mark: inside the range that it opened
    diagnostics["mkl_calls_without_their_product"] = int((~calls["exact"]).sum())
    return primitives, calls


def _add_ranges(lines: pd.DataFrame, at: Int, context: Context) -> None:
    """Add range_layer and range_phase: layer and phase of the loop thread's ranges at these times."""
    thread = np.full(len(at), context.steps["thread"].iloc[0] if len(context.steps) else 0, dtype=np.int64)
    lines["range_layer"], lines["range_phase"], _ = _from_ranges(context.ranges, thread, at)


def _threads_by_rank(operators: pd.DataFrame, steps: pd.DataFrame) -> list[int]:
    """Return the threads that ran operators, the loop's own thread first."""
    main = set(steps["thread"].unique())
    return sorted(map(int, operators["thread"].unique()), key=lambda thread: (thread not in main, thread))


def _innermost_on_any(operators: pd.DataFrame, threads: list[int], at: Int) -> Int:
    """Return the index of the innermost operator open at each time, on the first of these threads that has one; else -1."""
    result = np.full(len(at), -1, dtype=np.int64)
    for thread in threads:
        open_here = intervals.innermost(*intervals.spans(operators), np.full(len(at), thread), at)
        result = np.where(result >= 0, result, open_here)
    return result


def _timed_marks(markers: pd.DataFrame, primitives: pd.DataFrame) -> pd.DataFrame:
    """Return the line numbers and times of all timed lines in the stream, in order."""
    ends = primitives[["line_number"]].assign(time_ns=primitives["end_ns"])
    marks = pd.concat([markers[["line_number", "time_ns"]], ends]).sort_values("line_number", kind="stable")
    return marks.assign(time_ns=marks["time_ns"].cummax()).reset_index(drop=True)


def _between_marks(calls: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """Return the calls between two timed marks, with the number of their gap and its times lower_ns and upper_ns."""
    lines = marks["line_number"].to_numpy()
    gap = np.searchsorted(lines, calls["line_number"].to_numpy(), side="left") - 1
    inside = (gap >= 0) & (gap < len(lines) - 1)
    calls, gap = calls[inside].reset_index(drop=True), gap[inside]
    times = marks["time_ns"].to_numpy()
    return calls.assign(gap=gap, lower_ns=times[gap], upper_ns=times[gap + 1])


def _place_calls(calls: pd.DataFrame, operators: pd.DataFrame, mark_times: Int, threads: list[int]) -> None:
    """Add to MKL's calls the index of their operator (-1: none), and start_ns and end_ns inside it or inside their gap."""
    main = operators[operators["thread"] == threads[0]] if threads else operators
    products = aten.products(main["name"], main["shapes"])
    candidates = products[products["m"].notna()].assign(index=lambda table: table.index)
    middle = ((main["start_ns"] + main["end_ns"]) // 2).loc[candidates.index].to_numpy()
    candidates["gap"] = np.searchsorted(mark_times, middle, side="right") - 1
    keyed = _ranked(candidates)
    calls["index"] = _ranked(calls).merge(keyed[[*_KEY, "index"]], on=_KEY, how="left")["index"].fillna(-1).astype(np.int64).array
    unmatched = (calls["index"] < 0).to_numpy()
    centre = ((calls["lower_ns"] + calls["upper_ns"]) // 2).to_numpy(dtype=np.int64)
    calls["index"] = np.where(unmatched, _innermost_on_any(operators, threads, centre), calls["index"])
    calls["exact"] = ~unmatched
    _place_in_operator(calls, operators)
    _place_in_gap(calls)


_KEY = ["gap", "small", "large", "k", "rank"]


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Return gap, shape (m and n in either order: libraries see transposes) and rank among equal shapes in the gap."""
    key = pd.DataFrame({"gap": table["gap"], "k": table["k"].fillna(-1).astype(np.int64)})
    m, n = table["m"].fillna(-1).astype(np.int64), table["n"].fillna(-1).astype(np.int64)
    key["small"], key["large"] = np.minimum(m, n), np.maximum(m, n)
    key["rank"] = key.groupby(["gap", "small", "large", "k"]).cumcount()
    return key.assign(index=table["index"]) if "index" in table else key


def _place_in_operator(calls: pd.DataFrame, operators: pd.DataFrame) -> None:
    """Place each call in its operator, after the last operator that this one called: the product comes last."""
    index = np.maximum(calls["index"].to_numpy(), 0)
    if operators.empty:
        calls["start_ns"] = calls["lower_ns"]
        calls["end_ns"] = calls["lower_ns"]
        return
    start, end = operators["start_ns"].to_numpy(), operators["end_ns"].to_numpy()
    called = operators[operators["parent"] >= 0].groupby("parent")["end_ns"].max()
    begin = start.copy()
    begin[called.index.to_numpy()] = np.minimum(called.to_numpy(), end[called.index.to_numpy()])
    duration = calls["duration_ns"].to_numpy()
    calls["start_ns"] = np.maximum(np.minimum(begin[index], end[index] - duration), start[index])
    calls["end_ns"] = np.minimum(calls["start_ns"] + duration, end[index])


def _place_in_gap(calls: pd.DataFrame) -> None:
    """Place the calls without a matching operator one after another from the start of their gap."""
    other = ~calls["exact"]
    before = calls[other].groupby("gap")["duration_ns"].cumsum() - calls.loc[other, "duration_ns"]
    start = np.minimum(calls.loc[other, "lower_ns"] + before, calls.loc[other, "upper_ns"])
    calls.loc[other, "start_ns"] = start
    calls.loc[other, "end_ns"] = np.minimum(start + calls.loc[other, "duration_ns"], calls.loc[other, "upper_ns"])


def _primitive_kernels(primitives: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    table = primitives.drop(columns=["attributes", "auxiliary", "memory"]).assign(library="onednn")
    return _finished(_with_operator(table, operators, "time"))


def _call_kernels(calls: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    table = calls.assign(library="mkl", name=calls["function"])
    table = _with_operator(table, operators, "stream order")
    return _finished(table.assign(attribution=table["attribution"].mask(table["attribution"] == "launch range", "stream order")))


def _with_operator(table: pd.DataFrame, operators: pd.DataFrame, otherwise: str) -> pd.DataFrame:
    """Return the lines with their operator's thread, name, layer, phase and attribution; without one, with their range's.

    otherwise: the attribution of lines whose layer is known only from the range.
    """
    index = table["index"].to_numpy()
    owned = index >= 0
    picked = operators.reindex(np.where(owned, index, -1))
    layer = picked["layer"].astype("string").array
    table = table.assign(
        thread=picked["thread"].array,
        operator=picked["name"].array,
        layer=pd.Series(layer).where(pd.Series(layer).notna(), table["range_layer"]),
        phase=pd.Series(picked["phase"].array, dtype="string").fillna(table["range_phase"]).fillna("other"),
    )
    method = pd.Series(picked["attribution"].array, dtype="string")
    from_range = pd.Series(~owned) & (table["range_layer"].notna() | table["range_phase"].notna())
    return table.assign(attribution=method.mask(from_range, otherwise).fillna("none"))


def _finished(table: pd.DataFrame) -> pd.DataFrame:
    """Return kernels with the columns that all of them share."""
    return table.assign(duration_ns=table["end_ns"] - table["start_ns"], count=1, device="cpu")


def _name_optimizer(kernels: pd.DataFrame) -> None:
    """Give arithmetic in the optimizer's phase the kind optimizer, as other frameworks update in one kernel of that kind."""
    arithmetic = kernels["kind"].isin(["elementwise", "unknown", "reduction", "copy"])
    kernels["kind"] = kernels["kind"].mask(arithmetic & (kernels["phase"] == "optimizer"), "optimizer")
