"""Find what the host did when it launched device work: its API call, and the ranges and operators then open on that thread.

analysis.attribution.correlation finds the call and the range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution.correlation import (
    DEVICE_TABLES,
    Correlation,
    Enclosing,
    Numbered,
    enclosed,
    enclosing,
    launched,
)
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.trace import Trace, intervals
from kernelscope.analysis.trace.categories import filled, taken, translated
from kernelscope.analysis.trace.stacks import Stacks, sorting

Int = npt.NDArray[np.int64]

# Ranges that name PyTorch's operators: "aten::mm, seq = 3, sizes = [...]" of emit_nvtx, "{'op': 'conv2d', ...}" of PyProf
_OPERATOR_RANGE = re.compile(
    r"^(?:autograd::engine::evaluate_function: )?"
    r"([A-Za-z_]\w*(?:::\w+)+|\w+Backward\d*|\w+(?=, (?:seq|op_id|sizes) = ))(?:, \w+ = .*)?$",
    re.DOTALL,
)
_DETAILS = re.compile(r",\s*(?:seq|op_id|sizes|input_op_ids) = .*", re.DOTALL)
_PYPROF_RANGE = re.compile(r"^\{'mod': '[\w.]+', 'op': '(\w+)'")
_PHASE_NAMES = {
    "forward": "forward", "forward pass": "forward", "forward_pass": "forward", "fwd": "forward",
    "backward": "backward", "backward pass": "backward", "backward_pass": "backward", "bwd": "backward",
    "optimizer": "optimizer", "optimizer step": "optimizer", "optimizer_step": "optimizer", "optimizer.step": "optimizer",
    "data": "data", "data loading": "data", "data_loading": "data", "dataloader": "data",
}  # fmt: skip


def without_details(name: str) -> str:
    """Return a range's name without the details of each call that PyTorch's emit_nvtx appends: `, seq = N` and the like."""
    return _DETAILS.sub("", name)


def relate(trace: Trace) -> None:
    """Relate device work to calls, ranges and operators, in place; count mismatches in the trace's diagnostics."""
    calls, correlated = _correlated(trace)
    trace.diagnostics |= correlated.counts
    matched = np.zeros(len(calls), dtype=bool)
    launching = _by_category(calls["name"], api.launches_kernels)
    for name, one in correlated.calls.items():
        table = getattr(trace, name)
        matched[one[one >= 0]] = True
        _count_oddities(name, table, one, calls, trace.diagnostics)
        _fill(table, one, calls, correlated.ranges.get(name))
        if correlated.ranges and name == "kernels":
            _count(trace.diagnostics, "kernels launched outside of any range", table["range_id"].isna() & (one >= 0))
    if matched.any():
        _count(trace.diagnostics, "launches without a kernel", launching & ~matched)
    _name_operators(trace)
    _name_phases(trace)


def _correlated(trace: Trace) -> tuple[pd.DataFrame, Correlation]:
    """Return the calls in their total order, and the call and range of each row of device work."""
    with ThreadPoolExecutor(max_workers=1) as beside:  # numpy releases the interpreter lock on long columns
        making = beside.submit(_enclosing, trace)
        calls = _sorted_calls(trace)
        work = {name: _numbered(getattr(trace, name)) for name in DEVICE_TABLES if len(getattr(trace, name))}
        result, repeated = launched(work, _numbered(calls, ("correlation",)))
        inside, crossing = enclosed(making.result(), result, calls["thread"].to_numpy(np.int64), calls["start_ns"].to_numpy())
    return calls, Correlation(result, inside, repeated | crossing)


def _sorted_calls(trace: Trace) -> pd.DataFrame:
    """Sort the trace's calls into the total order, in place, and return them."""
    order = sorting(trace.calls["start_ns"].to_numpy(), trace.calls["end_ns"].to_numpy())
    if order is not None:
        trace.calls = trace.calls.iloc[order].reset_index(drop=True)
    return trace.calls


def _by_category(names: pd.Series, function: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Return a function's answer for each row's name; the function is called once per distinct name."""
    answers = np.array([*(function(str(name)) for name in names.cat.categories), False], dtype=np.bool_)
    return np.asarray(answers[names.cat.codes.to_numpy()])


def _numbered(table: pd.DataFrame, needed: Sequence[str] = ("correlation", "process")) -> Numbered:
    """Return the correlation ids of a table's rows by process; rows where a needed column is null carry none."""
    known = np.logical_and.reduce([table[name].notna().to_numpy() for name in needed])
    process, number = (table[name].to_numpy(np.int64, na_value=0) for name in ("process", "correlation"))
    return Numbered(process, number, known)


def _enclosing(trace: Trace) -> Enclosing | None:
    """Return an index of the ranges that nest; None if there are none."""
    ranges = trace.ranges
    nested = ((ranges["category"] != "mark") & ranges["nested"]).to_numpy()
    return enclosing(nested, *intervals.spans(ranges))


def _count_oddities(name: str, table: pd.DataFrame, position: Int, calls: pd.DataFrame, diagnostics: dict[str, int]) -> None:
    """Count device work without a call, work that begins before its call, and calls with more than one kernel."""
    if not calls["correlation"].notna().any():
        return  # a source without correlation ids cannot lose any
    timed = table["start_ns"].notna().to_numpy()
    _count(diagnostics, f"{name} without their API call", timed & (position < 0))
    begun = table["start_ns"].to_numpy(np.int64, na_value=0)
    _count(
        diagnostics,
        f"{name} that begin before their launch",
        timed & (position >= 0) & (begun < calls["start_ns"].to_numpy()[position]),
    )
    if name == "kernels":
        several = np.bincount(position[position >= 0], minlength=len(calls)) > 1
        graphs = _by_category(calls["name"], api.launches_graphs)
        _count(diagnostics, "calls with several kernels, graphs aside", several & ~graphs)


def _count(diagnostics: dict[str, int], name: str, rows: npt.NDArray[np.bool_] | pd.Series) -> None:
    number = int(rows.sum())
    if number:
        diagnostics[name] = diagnostics.get(name, 0) + number


def _fill(table: pd.DataFrame, position: Int, calls: pd.DataFrame, inside: Int | None) -> None:
    """Write launch_ns, launch_end_ns and launch_thread of rows whose call is known, and range_id of those inside a range."""
    correlated = position >= 0
    if not correlated.any():
        return
    for column, source in (("launch_ns", "start_ns"), ("launch_end_ns", "end_ns"), ("launch_thread", "thread")):
        table[column] = pd.arrays.IntegerArray(np.where(correlated, calls[source].to_numpy()[position], 0), ~correlated)
    if inside is not None:
        table["range_id"] = pd.arrays.IntegerArray(np.maximum(inside, 0), inside < 0)


# --- operators and phases -----------------------------------------------------------------------------------------------------


def _name_operators(trace: Trace) -> None:
    """Fill the kernels' operator, layer and phase from the operator open at launch; the operator also from a range's name."""
    kernels = trace.kernels
    correlated = kernels["launch_ns"].notna().to_numpy()
    if not correlated.any():
        return
    if len(trace.operators):
        operators = trace.operators
        thread = operators["thread"].to_numpy(np.int64, na_value=-1)
        stacks = Stacks(thread, operators["start_ns"].to_numpy(), operators["end_ns"].to_numpy())
        at = stacks.innermost(
            kernels["launch_thread"].to_numpy(np.int64, na_value=-1), kernels["launch_ns"].to_numpy(np.int64, na_value=0)
        )
        at = np.where(correlated, at, -1)
        for column, source in (("operator", "name"), ("layer", "layer"), ("phase", "phase")):
            kernels[column] = filled(kernels[column], _at(operators[source], at))
        _name_layouts(kernels, operators, at)
        has = kernels["layer"].notna() & kernels["attribution"].isna()
        if has.any():
            kernels["attribution"] = filled(kernels["attribution"], _at(operators["attribution"], np.where(has, at, -1)))
    named = operator_of_range(trace.ranges["name"])
    if named is not None:
        kernels["operator"] = filled(kernels["operator"], _at(named, kernels["range_id"].to_numpy(np.int64, na_value=-1)))


def _name_layouts(kernels: pd.DataFrame, operators: pd.DataFrame, at: Int) -> None:
    """Set the kind `layout`, in place, for kernels whose operator only copies a tensor into another memory order.

    at: each kernel's operator, -1 for none.
    """
    copying = (operators["name"] == "aten::copy_").to_numpy(bool) & operators["strides"].notna().to_numpy(bool)
    if not copying.any():
        return
    names = ("shapes", "strides", "types")
    place, distinct = pd.factorize(pd.MultiIndex.from_frame(operators.loc[copying, list(names)].astype("string").fillna("")))
    changing = [aten.changes_layout(shapes, strides) and not aten.converts(types) for shapes, strides, types in distinct]
    changes = np.zeros(len(operators) + 1, dtype=bool)  # the last one is for index -1
    changes[np.flatnonzero(copying)] = np.array(changing, dtype=bool)[place]
    if changes.any():
        said = pd.Categorical.from_codes(np.where(changes[at], 0, -1), categories=pd.Index(["layout"]))
        kernels["kind"] = filled(kernels["kind"], pd.Series(said, index=kernels.index))


def operator_of_range(names: pd.Series) -> pd.Series | None:
    """Return the operator that each range's text names, null if it names none; None if no range names one."""
    named = translated(names, _operator_named)
    return named if len(named.cat.categories) else None


def readable(text: str) -> str:
    """Return a range's text in readable form: for a dictionary that pyprof writes, the name of its function."""
    match = _PYPROF_RANGE.match(text[:4096])
    return match.group(1) if match else text


def _operator_named(text: str) -> str | None:
    match = _OPERATOR_RANGE.match(text[:4096]) or _PYPROF_RANGE.match(text[:4096])
    return match.group(1) if match else None


def _name_phases(trace: Trace) -> None:
    """Set the phase of ranges with a phase's usual name, and of kernels launched inside them, where it is not set yet."""
    named = translated(trace.ranges["name"], lambda text: _PHASE_NAMES.get(text.strip().lower()[:32]))
    if not len(named.cat.categories):
        return
    trace.ranges["phase"] = filled(trace.ranges["phase"], named)
    saying = np.flatnonzero(named.notna().to_numpy() & trace.ranges["nested"].to_numpy())
    kernels = trace.kernels
    if not len(saying) or not kernels["launch_ns"].notna().any():
        return
    mine = trace.ranges.iloc[saying]
    stacks = Stacks(*intervals.spans(mine))
    thread, at = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("launch_thread", "launch_ns"))
    kernels["phase"] = filled(kernels["phase"], _at(mine["phase"].reset_index(drop=True), stacks.innermost(thread, at)))


def _at(values: pd.Series, rows: Int) -> pd.Series:
    """Return the values of a category column at rows; null for row -1."""
    return pd.Series(taken(values, rows))
