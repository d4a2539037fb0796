"""JAX: XLA's operations on the host, with layers from the compiled programs that the profiler stored beside them.

XLA runs a program's operations on its own threads, and independent ones at the same time. Each event names the program's
instruction (`hlo_op`, `hlo_module`, `program_id`). The program gives the instruction's layer, phase and shapes (see xla_names).
If a thread pool works on an operation after its event has ended, a mark `end: NAME` says when it was done: that is its end
here.

Loops, calls and branches hold other operations: they are operators, not kernels. Our own ranges say what else the host did:
"call" is dispatch, "sync" is waiting. Of the profiler's own host events, those of compilation become ranges.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence
from kernelscope.analysis.attribution.frameworks.xla_launches import launches
from kernelscope.analysis.attribution.frameworks.xla_names import ProgramNames
from kernelscope.analysis.attribution.frameworks.xla_scopes import Scopes
from kernelscope.analysis.formats.xplane import hlo
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.trace import conform, empty, intervals, thread_names
from kernelscope.analysis.trace.categories import taken

TRACE_FILE = "operators.xplane.pb"
HOST_PLANE = "/host:CPU"
_END = "end: "
EAGER = "(eager)"  # JAX functions called outside compiled ones: each operation is a program of its own
CALLED = "launch range"  # attribution of operations that Python runs one by one, by the range around them
# Events of the thread that calls a compiled function: tracing, lowering and XLA's compiler
_COMPILING = r"^(?:trace_to_\w*jaxpr|lower_sharding_computation|lower_jaxpr_to_module|backend_compile)"
_CALLING = "PjitFunction("
_STATS = ("stat_hlo_op", "stat_hlo_module", "stat_program_id", "stat_run_id")
_NO_OPERATIONS = "the profile holds none: XLA records them on a CPU only since JAX 0.4.32; only calls and waiting are known"
_TEXTS = ("scope", "type", "layer", "phase", "attribution", "kind", "library", "dtype", "problem")
_NUMBERS = ("m", "n", "k")

Integers = npt.NDArray[np.int64]


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if the trace cannot be read."""
    files = context.report.get("operator_files", [TRACE_FILE])
    if not files:  # another profiler used the device
        return Evidence(empty("operators"), empty("kernels"))
    events = _host_events(folder / files[0], context)
    table, diagnostics = _operations(events, folder / files[0], context)
    _place_in_ranges(table, context)
    unknown = table["layer"].isna() & ~table["phase"].isin(["optimizer", "data"])
    diagnostics["operations of unknown layer"] = int(unknown.sum())
    known = len(table) or diagnostics["operations outside of steps"] or context.device != "cpu"
    missing = {} if known else {"operations": _NO_OPERATIONS}
    operators = conform("operators", table.assign(name=table["type"]))
    info = {"threads": thread_names.of_lines(table), **_coverage_of(table, context)}
    compiling = _compilations(events, context)
    return Evidence(operators, computing(table), diagnostics, ranges=compiling, info=info, unavailable=missing)


def _compilations(events: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the compilations of functions that the loop's thread called, as ranges."""
    names = events["name"].astype("string")
    calling = names.str.startswith(_CALLING).to_numpy(dtype=bool)
    compiling = names.str.contains(_COMPILING).to_numpy(dtype=bool)
    mine = compiling & np.isin(events["thread"], events["thread"][calling]) & bool(len(context.steps))
    rows = events.loc[mine, ["start_ns", "end_ns", "name"]]
    thread = int(context.steps["thread"].iloc[0]) if len(context.steps) else 0
    return conform("ranges", rows.assign(thread=thread, category="compile", nested=True, phase="other"))


def _coverage_of(table: pd.DataFrame, context: Context) -> dict[str, str]:
    """Return what coverage by layer refers to if compiled functions open no scopes, so that no layers are known."""
    functions = set(_functions(context))
    layers = set(table["layer"].dropna()) - {EAGER, "loss"}
    if context.network or not layers or layers - functions:
        return {}
    names = ", ".join(sorted(layers))
    return {"coverage_of": f"whole functions: {names} open{'s' if len(layers) == 1 else ''} no scopes, so forward is one layer"}


def operations(path: Path, context: Context) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return XLA's operations of a trace, described by their programs, and counts of operations that are not known.

    Columns: thread, line (its name), start_ns, end_ns, launch_ns, name, those of xla_names.Operation.
    """
    return _operations(_host_events(path, context), path, context)


def _operations(events: pd.DataFrame, path: Path, context: Context) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the same as `operations`, from the host's events."""
    mine, outside = _in_steps(events, context)
    described, unknown = _described(mine, path, context)
    table = pd.concat([mine[["thread", "line", "start_ns", "end_ns", "launch_ns"]], described], axis=1)
    table["name"] = mine["stat_hlo_op"].astype("string").str.replace(r"(\.\d+)+$", "", regex=True)
    return table, {"operations outside of steps": outside, "operations without their program": unknown}


def computing(table: pd.DataFrame) -> pd.DataFrame:
    """Return the operations that hold no others, as kernels."""
    leaves = table[~table["holds"].to_numpy(dtype=bool)]
    lasted = leaves["end_ns"] - leaves["start_ns"]
    return conform("kernels", leaves.assign(operator=leaves["type"], duration_ns=lasted, count=1, device="cpu"))


def _host_events(path: Path, context: Context) -> pd.DataFrame:
    """Return all events of the host, on our clock."""
    space = xplane.read_planes(path, ("program_id", "run_id"), ("hlo_op", "hlo_module"))
    planes = [plane.events for plane in space.planes if plane.name == HOST_PLANE and len(plane.events)]
    if not planes:
        columns = ["thread", "line", "name", "start_ns", "end_ns", *_STATS]
        return pd.DataFrame(columns=columns).astype({"start_ns": "int64", "end_ns": "int64"})
    events = pd.concat(planes, ignore_index=True)
    start = context.clock.from_wall(events["start_ns"].to_numpy(np.int64))
    return events.assign(start_ns=start, end_ns=start + events["duration_ns"].to_numpy(np.int64), thread=events["line_id"])


def _in_steps(events: pd.DataFrame, context: Context) -> tuple[pd.DataFrame, int]:
    """Return XLA's operations that begin in measured steps, and the number of others."""
    if events.empty:
        return events.assign(launch_ns=None), 0
    is_operation = events["stat_hlo_op"].notna().to_numpy(dtype=bool)
    done = events[events["name"].astype("string").str.startswith(_END).to_numpy(dtype=bool)]
    operations = events[is_operation].sort_values("start_ns", kind="stable").reset_index(drop=True)
    operations["end_ns"] = _ends(operations, done)
    operations["launch_ns"] = launches(operations, events)
    inside = context.in_steps(operations["start_ns"].to_numpy(np.int64))
    return operations[inside].reset_index(drop=True), int((~inside).sum())


def _ends(operations: pd.DataFrame, done: pd.DataFrame) -> Integers:
    """Return when each operation (sorted by start) was done: at the last mark before the next one of its name begins."""
    end = operations["end_ns"].to_numpy(np.int64)
    if done.empty or operations.empty:
        return end
    begun = operations[["start_ns"]].assign(row=np.arange(len(operations)), name=operations["stat_hlo_op"].astype("string"))
    marks = done[["start_ns"]].assign(name=done["name"].astype("string").str.slice(len(_END))).sort_values("start_ns")
    matched = pd.merge_asof(marks.rename(columns={"start_ns": "at"}), begun, left_on="at", right_on="start_ns", by="name")
    matched = matched[matched["row"].notna()]
    late = end.copy()
    np.maximum.at(late, matched["row"].to_numpy(np.int64), matched["at"].to_numpy(np.int64))
    return late


def _described(events: pd.DataFrame, path: Path, context: Context) -> tuple[pd.DataFrame, int]:
    """Return the programs' description of each event, in the same order, and the number of events that no program describes."""
    keys = pd.MultiIndex.from_arrays(
        [
            events["stat_hlo_module"].astype("string").fillna(""),
            events["stat_program_id"].astype("Int64").fillna(-1),
            events["stat_hlo_op"].astype("string").fillna(""),
        ]
    )
    codes, distinct = pd.factorize(keys)
    contents = xplane.read_programs(path)
    named = [(xplane.program_key(contents, str(module), number), instruction) for module, number, instruction in distinct]
    ran = dict.fromkeys(key for key, _ in named if key is not None)
    programs = {key: hlo.parse(contents[key], str(path)) for key in ran}
    network = context.network or Scopes(programs.values(), _functions(context))
    names = {key: ProgramNames(program, network) for key, program in programs.items()}
    result = [names[key].operation(instruction) if key in names else None for key, instruction in named]
    columns: dict[str, pd.Series] = {}
    for name in _TEXTS:
        values = pd.array([getattr(one, name) if one else None for one in result], dtype="string")
        columns[name] = pd.Series(values.take(codes) if len(codes) else values)
    for name in _NUMBERS:
        numbers = pd.array([getattr(one, name) if one else None for one in result], dtype="Int64")
        columns[name] = pd.Series(numbers.take(codes) if len(codes) else numbers)
    holds = np.array([bool(one and one.holds) for one in result], dtype=bool)
    columns["holds"] = pd.Series(holds[codes] if len(codes) else holds)
    missing = np.array([one is None for one in result], dtype=bool)
    table = pd.DataFrame(columns)
    table["kind"], table["library"] = table["kind"].fillna("unknown"), table["library"].fillna("xla")
    table["attribution"] = table["attribution"].fillna("none")
    table["type"] = table["type"].fillna(events["stat_hlo_op"].astype("string"))
    return table, int(missing[codes].sum()) if len(codes) else 0


def _functions(context: Context) -> dict[str, bool]:
    """Return the functions that a profiled script compiled and called, and whether each applies updates without a gradient."""
    layers = (context.report.get("network") or {}).get("layers", [])
    return {str(layer["name"]): bool(layer.get("updates")) for layer in layers if layer.get("type") == "function"}


def _place_in_ranges(table: pd.DataFrame, context: Context) -> None:
    """Give operations without layer and phase those of the range around them on the loop's thread; phase "other" without one.

    In a profiled script these are operations that Python runs one by one, each a compiled program.
    """
    unknown = (table["layer"].isna() & table["phase"].isna()).to_numpy(dtype=bool)
    telling = context.ranges["category"] == "data"
    if not context.network:
        telling |= context.ranges["layer"].notna() | (context.ranges["phase"] == "optimizer")
    ranges = context.ranges[telling.to_numpy(dtype=bool)].reset_index(drop=True)
    loop = np.full(len(table), int(context.steps["thread"].iloc[0]) if len(context.steps) else 0, dtype=np.int64)
    around = intervals.innermost(*intervals.spans(ranges), loop, table["start_ns"].to_numpy(np.int64))
    called = unknown & (around >= 0)
    for name in ("layer", "phase"):
        values = pd.Series(taken(ranges[name], around), dtype="string").where(pd.Series(called))
        table[name] = table[name].astype("string").mask(called, values)
    table["phase"] = table["phase"].mask(unknown & table["phase"].isna().to_numpy(dtype=bool), "other")
    table["attribution"] = table["attribution"].mask(called, CALLED)
    if not context.network:
        eager = unknown & ~called & (table["kind"] != "unknown").to_numpy(dtype=bool)
        table["layer"] = table["layer"].mask(eager, EAGER)
        table["attribution"] = table["attribution"].mask(eager, "operator name")
