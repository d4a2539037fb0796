"""What the host did when it launched device work: its API call, and the ranges and operators open on that thread just then.

Device work belongs to the call with its correlation id in its process. Where several calls carry the id, the total order is: the
first to begin, then the last to end (the outermost), then the first in the capture. A call belongs to the innermost range of its
thread that is open when it begins, whatever the device does meanwhile: launches return before kernels run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis import calls as api
from kernelscope.analysis.categories import filled, taken, translated
from kernelscope.analysis.stacks import Stacks, sorting
from kernelscope.analysis.trace import Trace

Int = npt.NDArray[np.int64]

_DENSE = 4  # places of a table for each number that is in it, at most
_DEVICE_TABLES = ("kernels", "graphs", "copies")

# Ranges that name PyTorch's operators: "aten::mm, seq = 3, sizes = [...]" of emit_nvtx, "{'op': 'conv2d', ...}" of PyProf
_OPERATOR_RANGE = re.compile(
    r"^(?:autograd::engine::evaluate_function: )?"
    r"([A-Za-z_]\w*(?:::\w+)+|\w+Backward\d*|\w+(?=, (?:seq|op_id|sizes) = ))(?:, \w+ = .*)?$",
    re.DOTALL,
)
_PYPROF_RANGE = re.compile(r"^\{'mod': '[\w.]+', 'op': '(\w+)'")
_PHASE_NAMES = {
    "forward": "forward", "forward pass": "forward", "forward_pass": "forward", "fwd": "forward",
    "backward": "backward", "backward pass": "backward", "backward_pass": "backward", "bwd": "backward",
    "optimizer": "optimizer", "optimizer step": "optimizer", "optimizer_step": "optimizer", "optimizer.step": "optimizer",
    "data": "data", "data loading": "data", "data_loading": "data", "dataloader": "data",
}  # fmt: skip


def relate(trace: Trace) -> None:
    """Tie device work to calls, ranges and operators, in place; count what does not fit in the trace's diagnostics."""
    with ThreadPoolExecutor(max_workers=1) as beside:  # numpy leaves the interpreter to others while it walks through a column
        making = beside.submit(_stacks, trace)
        calls = _sorted_calls(trace)
        stacks = making.result()
    matched = np.zeros(len(calls), dtype=bool)
    launching = _by_category(calls["name"], api.launches_kernels)
    for name in _DEVICE_TABLES:
        table = getattr(trace, name)
        found = _call_of(table, calls, trace.diagnostics)
        matched[found[found >= 0]] = True
        _count_oddities(name, table, found, calls, trace.diagnostics)
        _fill(table, found, calls, stacks)
        if stacks is not None and name == "kernels":
            _count(trace.diagnostics, "kernels launched outside of any range", table["range_id"].isna() & (found >= 0))
    if matched.any():
        _count(trace.diagnostics, "launches without a kernel", launching & ~matched)
    _name_operators(trace)
    _name_phases(trace)


def _sorted_calls(trace: Trace) -> pd.DataFrame:
    """Bring the calls into the total order and return them."""
    start, end = trace.calls["start_ns"].to_numpy(), trace.calls["end_ns"].to_numpy()
    order = sorting(start, end)
    if order is not None:
        trace.calls = trace.calls.iloc[order].reset_index(drop=True)
    return trace.calls


def _by_category(names: pd.Series, function: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Return what a function says of each row's name, asked once per distinct name."""
    answers = np.array([*(function(str(name)) for name in names.cat.categories), False], dtype=np.bool_)
    return np.asarray(answers[names.cat.codes.to_numpy()])


def _call_of(table: pd.DataFrame, calls: pd.DataFrame, diagnostics: dict[str, int]) -> Int:
    """Return the row of the call that launched each row of device work, or -1."""
    nothing = np.full(len(table), -1, dtype=np.int64)
    if not len(table) or not len(calls):
        return nothing
    callers = np.flatnonzero(calls["correlation"].notna().to_numpy())
    known = np.flatnonzero((table["correlation"].notna() & table["process"].notna()).to_numpy())
    if not len(callers) or not len(known):
        return nothing
    processes = _chosen(table, "process", known), _chosen(calls, "process", callers)
    numbers = _chosen(table, "correlation", known), _chosen(calls, "correlation", callers)
    wanted, offered = _keys(processes, numbers)
    distinct, rows = _first_rows(offered)
    if len(distinct) < len(offered):  # of all tables' calls: the same for each, so not added up
        diagnostics["API calls that repeat a correlation id"] = len(offered) - len(distinct)
    nothing[known] = _looked_up(wanted, distinct, callers[rows])
    return nothing


def _looked_up(wanted: Int, keys: Int, values: Int) -> Int:
    """Return the value of each wanted key, -1 where there is none; keys are distinct and in order."""
    low, room = int(keys[0]), int(keys[-1]) - int(keys[0]) + 1
    if room > _DENSE * len(keys):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, values[at], -1)
    table = np.full(room + 1, -1, dtype=np.int64)  # numbers count up in practice; the last place is that of all others
    table[keys - low] = values
    place = wanted - low
    place[(wanted < low) | (wanted > keys[-1])] = room
    return table.take(place)


def _chosen(table: pd.DataFrame, name: str, rows: Int) -> Int:
    """Return some rows of a column, 0 where null."""
    values = table[name].to_numpy(np.int64, na_value=0)
    return values if len(rows) == len(values) else values[rows]


def _keys(process: tuple[Int, Int], number: tuple[Int, Int]) -> tuple[Int, Int]:
    """Return integers for two tables that are equal where both process and number are."""
    edges = {int(edge) for column in process for edge in (column.min(), column.max())}
    if len(edges) == 1:
        return number
    codes, distinct = pd.factorize(np.concatenate(process))
    numbers = np.concatenate(number)
    low, high = int(numbers.min()), int(numbers.max())
    if (high - low + 1) * len(distinct) < 1 << 62:
        key = codes * (high - low + 1) + (numbers - low)
    else:
        ranks, found = pd.factorize(numbers)
        key = np.asarray(codes.astype(np.int64) * len(found) + ranks)
    return key[: len(process[0])], key[len(process[0]) :]


def _first_rows(keys: Int) -> tuple[Int, Int]:
    """Return the distinct keys in order, and the first row of each."""
    if len(keys) and bool((np.diff(keys) > 0).all()):
        return keys, np.arange(len(keys), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    return ordered[first], order[first]


def _count_oddities(name: str, table: pd.DataFrame, found: Int, calls: pd.DataFrame, diagnostics: dict[str, int]) -> None:
    """Count device work without a call, work that begins before its call, and calls with more than one kernel."""
    if not calls["correlation"].notna().any():
        return  # a source that ties nothing to calls has lost nothing
    timed = table["start_ns"].notna().to_numpy()
    _count(diagnostics, f"{name} without their API call", timed & (found < 0))
    begun = table["start_ns"].to_numpy(np.int64, na_value=0)
    _count(
        diagnostics,
        f"{name} that begin before their launch",
        timed & (found >= 0) & (begun < calls["start_ns"].to_numpy()[found]),
    )
    if name == "kernels":
        several = np.bincount(found[found >= 0], minlength=len(calls)) > 1
        graphs = _by_category(calls["name"], api.launches_graphs)
        _count(diagnostics, "calls with several kernels, graphs aside", several & ~graphs)


def _count(diagnostics: dict[str, int], name: str, rows: npt.NDArray[np.bool_] | pd.Series) -> None:
    number = int(rows.sum())
    if number:
        diagnostics[name] = diagnostics.get(name, 0) + number


def _stacks(trace: Trace) -> tuple[Stacks, Int | None] | None:
    """Return the stacks of nested ranges, and the rows of ranges that they are made of (None: all of them)."""
    ranges = trace.ranges
    marks = ranges["category"] == "mark"
    left_out = (marks | ~ranges["nested"]).to_numpy()
    rows = np.flatnonzero(~left_out) if left_out.any() else None
    if len(ranges) == 0 or (rows is not None and len(rows) == 0):
        return None
    columns = [ranges[name].to_numpy() for name in ("thread", "start_ns", "end_ns")]
    stacks = Stacks(*(columns if rows is None else [column[rows] for column in columns]))
    if stacks.crossings:
        trace.diagnostics["ranges that outlast the one around them"] = stacks.crossings
    return stacks, rows


def _fill(table: pd.DataFrame, found: Int, calls: pd.DataFrame, stacks: tuple[Stacks, Int | None] | None) -> None:
    """Write launch_ns, launch_end_ns, launch_thread and range_id of the rows whose call was found."""
    tied = found >= 0
    if not tied.any():
        return
    values = {
        column: calls[source].to_numpy()[found]
        for column, source in (("launch_ns", "start_ns"), ("launch_end_ns", "end_ns"), ("launch_thread", "thread"))
    }
    for column, value in values.items():
        table[column] = pd.arrays.IntegerArray(np.where(tied, value, 0), ~tied)
    if stacks is not None:
        inside = stacks[0].innermost(values["launch_thread"], values["launch_ns"])
        if stacks[1] is not None:
            inside = np.where(inside >= 0, stacks[1][inside], -1)
        inside = np.where(tied, inside, -1)
        table["range_id"] = pd.arrays.IntegerArray(np.maximum(inside, 0), inside < 0)


# --- operators and phases -----------------------------------------------------------------------------------------------------


def _name_operators(trace: Trace) -> None:
    """Fill the kernels' operator, layer and phase from the operator open at launch, or from a range that names an operator."""
    kernels = trace.kernels
    tied = kernels["launch_ns"].notna().to_numpy()
    if not tied.any():
        return
    if len(trace.operators):
        operators = trace.operators
        thread = operators["thread"].to_numpy(np.int64, na_value=-1)
        stacks = Stacks(thread, operators["start_ns"].to_numpy(), operators["end_ns"].to_numpy())
        at = stacks.innermost(
            kernels["launch_thread"].to_numpy(np.int64, na_value=-1), kernels["launch_ns"].to_numpy(np.int64, na_value=0)
        )
        at = np.where(tied, at, -1)
        for column, source in (("operator", "name"), ("layer", "layer"), ("phase", "phase")):
            kernels[column] = filled(kernels[column], _at(operators[source], at))
        has = kernels["layer"].notna() & kernels["attribution"].isna()
        if has.any():
            kernels["attribution"] = filled(kernels["attribution"], _at(operators["attribution"], np.where(has, at, -1)))
    named = operator_of_range(trace.ranges["name"])
    if named is not None:
        kernels["operator"] = filled(kernels["operator"], _at(named, kernels["range_id"].to_numpy(np.int64, na_value=-1)))


def operator_of_range(names: pd.Series) -> pd.Series | None:
    """Return the operator that each range's text names, null where it names none; None when none does."""
    named = translated(names, _operator_named)
    return named if len(named.cat.categories) else None


def _operator_named(text: str) -> str | None:
    match = _OPERATOR_RANGE.match(text[:4096]) or _PYPROF_RANGE.match(text[:4096])
    return match.group(1) if match else None


def _name_phases(trace: Trace) -> None:
    """Give ranges with a phase's usual name that phase, and kernels launched inside of them too, where nothing else did."""
    named = translated(trace.ranges["name"], lambda text: _PHASE_NAMES.get(text.strip().lower()[:32]))
    if not len(named.cat.categories):
        return
    trace.ranges["phase"] = filled(trace.ranges["phase"], named)
    saying = np.flatnonzero(named.notna().to_numpy() & trace.ranges["nested"].to_numpy())
    kernels = trace.kernels
    if not len(saying) or not kernels["launch_ns"].notna().any():
        return
    mine = trace.ranges.iloc[saying]
    stacks = Stacks(mine["thread"].to_numpy(), mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
    thread, at = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("launch_thread", "launch_ns"))
    kernels["phase"] = filled(kernels["phase"], _at(mine["phase"].reset_index(drop=True), stacks.innermost(thread, at)))


def _at(values: pd.Series, rows: Int) -> pd.Series:
    """Return the values of a category column at rows, null for row -1."""
    return pd.Series(taken(values, rows))
