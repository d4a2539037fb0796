"""The Trace: one columnar model for every capture, whichever tool made it.

Times are int64 nanoseconds on one monotonic clock; unknown values are null, never 0. Every column is declared below with its
type, unit and meaning, and `Trace.check` verifies the invariants that analyses rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import notebook
from kernelscope.analysis.trace.categories import with_text_categories


class Column(NamedTuple):
    """One column of a table: its pandas dtype (nullable ones may hold nulls), its unit and its meaning.

    default: the value of rows that do not give one; None for null.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    default: Any = None


def _columns(*rows: tuple[Any, ...]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


PHASES = ("forward", "backward", "optimizer", "data", "other")

PROFILE = "profile"  # info["recorder"] of recordings of `kernelscope profile`: a user's program, not one of our workloads

# One taxonomy for GPU kernels and CPU primitives. "fused" is one launch of several operators that were compiled together, about
# which the capture shows no more.
KINDS = (
    "convolution forward", "convolution data gradient", "convolution weight gradient", "gemm", "recurrent", "attention",
    "normalisation", "pooling", "activation", "elementwise", "reduction", "softmax", "layout", "cast", "copy", "random",
    "embedding", "optimizer", "communication", "fused", "unknown",
)  # fmt: skip
CONVOLUTIONS, MAIN = KINDS[:3], KINDS[:6]  # MAIN: the kinds with most of a network's operations

# The name of the kernel, of unknown kind, that stands for the part of a summary's own total beyond its printed rows
UNLISTED = "(in rows that were not printed)"
EXECUTIONS = "executions"  # in info["unavailable"]: why it is unknown how often kernels ran; each then counts as one

# How the layer of an operator or kernel was found, strongest first.
METHODS = (
    "launch range", "operator name", "sequence number", "graph order", "stream order", "shape", "time", "none",
)  # fmt: skip

STEPS = _columns(
    ("step", "int64", "", "index within the pass, warm-up included"),
    ("window", "Int64", "", "turn in which the step ran; null outside of turns"),
    ("warmup", "bool", "", "whether the step ran before the loop was steady"),
    ("thread", "int64", "", "operating system's id of the thread that runs the loop"),
    ("start_ns", "int64", "ns", "the step's batch was requested"),
    ("end_ns", "int64", "ns", "the next batch was requested"),
    ("device_start_ns", "Int64", "ns", "its first work on a device that runs asynchronously; null if none does"),
    ("device_end_ns", "Int64", "ns", "the next step's first work there, or the end of its own"),
    ("minor_faults", "Int64", "", "page faults served without disk"),
    ("major_faults", "Int64", "", "page faults that read a disk"),
    ("user_ns", "Int64", "ns", "processor time of all threads in user mode"),
    ("system_ns", "Int64", "ns", "processor time of all threads in the kernel"),
    ("voluntary_switches", "Int64", "", "a thread waited"),
    ("involuntary_switches", "Int64", "", "a thread lost its processor"),
)

RANGES = _columns(
    ("thread", "int64", "", "thread that opened the range, unique across processes"),
    ("start_ns", "int64", "ns", "opened"),
    ("end_ns", "int64", "ns", "closed; the capture's end if it was never closed"),
    ("category", "category", "", "our runs: step, data, phase, layer, sync, compile; else user (as NVTX), mark (an instant)"),
    ("name", "category", "", "the range's text"),
    ("nested", "bool", "", "opened and closed on one thread like a stack (push/pop); false for start/end ranges", True),
    ("domain", "category", "", "NVTX domain; null for the default one"),
    ("layer", "category", "", "layer that the range stands for; null if none"),
    ("phase", "category", "", "one of PHASES; null if unknown"),
)

OPERATORS = _columns(
    ("thread", "Int64", "", "thread that executed the operator, unique across processes"),
    ("start_ns", "int64", "ns", "began"),
    ("end_ns", "int64", "ns", "ended"),
    ("name", "category", "", "the operator's type, such as aten::addmm or Conv2DBackpropFilter"),
    ("scope", "category", "", "its full name, if it has one, such as sequential/conv1/convolution"),
    ("layer", "category", "", "canonical layer"),
    ("phase", "category", "", "one of PHASES"),
    ("attribution", "category", "", "how the layer was found: one of METHODS"),
    ("shapes", "category", "", "input shapes as text, as far as recorded"),
    ("types", "category", "", "types of the inputs as JSON text, as the framework writes them"),
    ("strides", "category", "", "strides of the inputs as JSON text"),
    ("arguments", "category", "", "values of non-tensor inputs as JSON text, such as strides and padding of a convolution"),
    ("gradient", "boolean", "", "whether autograd recorded it for a backward pass; null if autograd was off, or if unknown"),
)

# How device work is related to the host: the same columns in all its tables. `attribution.launches` fills the last four.
_LAUNCH = (
    ("process", "Int64", "", "operating system's id of the process"),
    ("correlation", "Int64", "", "relates device work to the API call that launched it, within its process"),
    ("launch_ns", "Int64", "ns", "the launching call began; null if it is not in the capture"),
    ("launch_end_ns", "Int64", "ns", "the launching call ended"),
    ("launch_thread", "Int64", "", "thread of the launching call"),
    ("range_id", "Int64", "", "row in ranges: the innermost nested range open on that thread when the call began"),
)

# Statistics of the executions that a row stands for, as far as the source gives them; else null, as for a single execution.
_OF_SEVERAL = (
    ("median_ns", "Int64", "ns", "median of the executions that the row stands for"),
    ("min_ns", "Int64", "ns", "shortest of them"),
    ("max_ns", "Int64", "ns", "longest of them"),
    ("std_ns", "Int64", "ns", "their standard deviation"),
)

# Filled by `analysis.attribution.device_steps`
_STEP = ("step", "Int64", "", "step that launched it; for a CPU, the step that it ran in; null outside of steps")

# The layer and phase that the host was in when it made the call or launched the work, if any; known in our own runs.
_OWNER = (
    ("layer", "category", "", "canonical layer"),
    ("phase", "category", "", "one of PHASES"),
    ("attribution", "category", "", "how the layer was found: one of METHODS"),
)

KERNELS = _columns(
    ("start_ns", "Int64", "ns", "began on the device; null if only durations are known"),
    ("end_ns", "Int64", "ns", "ended"),
    ("duration_ns", "int64", "ns", "as the source reports it, summed over `count`"),
    ("count", "int64", "", "executions that the row stands for: 1, or more if the source gives only totals"),
    *_OF_SEVERAL,
    _STEP,
    ("device", "category", "", "cpu, cuda:N, rocm:N, ..."),
    ("thread", "Int64", "", "stream of a GPU, thread of a CPU; null if unknown"),
    ("name", "category", "", "kernel or primitive with its implementation"),
    ("library", "category", "", "onednn, mkl, cudnn, cublas, aten, eigen, mshadow, cntk, ..."),
    ("kind", "category", "", "one of KINDS"),
    ("layer", "category", "", "canonical layer"),
    ("phase", "category", "", "one of PHASES"),
    ("operator", "category", "", "type of the operator that ran it"),
    ("attribution", "category", "", "how the layer was found: one of METHODS"),
    ("dtype", "category", "", "element type, such as f32"),
    ("layout", "category", "", "memory layouts, such as src abcd dst aBcd16b"),
    ("algorithm", "category", "", "direct, winograd, implicit gemm, ..."),
    ("problem", "category", "", "the problem's dimensions as the library writes them"),
    ("m", "Int64", "", "rows of a matrix product's result (BLAS convention of the call)"),
    ("n", "Int64", "", "columns of the result"),
    ("k", "Int64", "", "inner dimension"),
    ("transpose", "category", "", "transposition flags of a matrix product, such as NT"),
    ("tensor_core", "boolean", "", "whether it uses tensor (matrix) cores, by its name; null if unknown"),
    ("grid", "category", "", "blocks of the launch, as x,y,z; one number if only that is known"),
    ("block", "category", "", "threads of a block, as x,y,z; one number if only that is known"),
    ("registers", "Int32", "", "registers per thread"),
    ("shared_memory", "Int64", "bytes", "shared memory per block, static and dynamic"),
    ("local_memory", "Int64", "bytes", "memory of each thread beside its registers: what they cannot hold, and arrays"),
    ("graph", "Int64", "", "the capture's id of the CUDA graph or graph execution that launched it; null outside of graphs"),
    *_LAUNCH,
)

# A graph's execution for which the capture shows one interval but not its kernels. Copies are device work, never kernels.
GRAPHS = _columns(
    ("start_ns", "int64", "ns", "began on the device"),
    ("end_ns", "int64", "ns", "ended"),
    ("device", "category", "", "cuda:N, ..."),
    ("thread", "Int64", "", "stream"),
    ("graph", "Int64", "", "the capture's id of the graph or of its executable form"),
    _STEP,
    *_LAUNCH,
    *_OWNER,
)

COPY_OPERATIONS = (
    "host to device", "device to host", "device to device", "host to host", "peer to peer", "unified memory", "set", "other",
)  # fmt: skip

COPIES = _columns(
    ("start_ns", "Int64", "ns", "began; null if only durations are known"),
    ("end_ns", "Int64", "ns", "ended"),
    ("duration_ns", "int64", "ns", "as the source reports it, summed over `count`"),
    ("count", "int64", "", "operations that the row stands for"),
    *_OF_SEVERAL,
    ("device", "category", "", "cuda:N, ..."),
    ("thread", "Int64", "", "stream"),
    ("operation", "category", "", "one of COPY_OPERATIONS; set fills memory"),
    ("bytes", "Int64", "bytes", "copied or set, summed over `count`"),
    ("memory", "category", "", "kinds of memory as source to destination, such as pageable to device; null if unknown"),
    _STEP,
    *_LAUNCH,
    *_OWNER,
)

SYNCS = _columns(
    ("start_ns", "int64", "ns", "the wait began"),
    ("end_ns", "int64", "ns", "it ended"),
    ("device", "category", "", "cuda:N, ...; null if unknown"),
    ("thread", "Int64", "", "stream; null for a whole device or context"),
    ("kind", "category", "", "stream, event, context, device, ... as the source names it"),
    ("process", "Int64", "", "operating system's id of the process"),
    ("correlation", "Int64", "", "id of the API call"),
)

CALLS = _columns(
    ("start_ns", "int64", "ns", "the call began"),
    ("end_ns", "int64", "ns", "it returned"),
    ("process", "int64", "", "operating system's id of the process"),
    ("thread", "int64", "", "calling thread, unique across processes"),
    ("api", "category", "", "runtime, driver, os, ..."),
    ("name", "category", "", "function, without version suffix: cudaLaunchKernel"),
    ("correlation", "Int64", "", "relates the call to the device work that it launched, within its process"),
    *_OWNER,
)

MEMORY = _columns(
    ("time_ns", "int64", "ns", "when memory was allocated or freed"),
    ("device", "category", "", "cuda:N, cpu, ..."),
    ("thread", "Int64", "", "thread that did it"),
    ("bytes", "int64", "bytes", "allocated (positive) or freed (negative)"),
    ("allocated_bytes", "Int64", "bytes", "in use afterwards, as the source reports it"),
    ("reserved_bytes", "Int64", "bytes", "held by the framework's allocator afterwards"),
    ("address", "Int64", "", "address of the memory, which relates a free to its allocation"),
)

# Totals that a source gives without single records and that are not device work: API calls, ranges, operators of a summary;
# page faults of unified memory, for which kernels wait (see page_faults)
TOTALS = _columns(
    ("table", "category", "", "calls, ranges, operators, os or page faults: what was summed"),
    ("name", "category", "", "function, range or operator; for page faults, whose they are"),
    ("count", "Int64", "", "how many; null if unknown"),
    ("duration_ns", "Int64", "ns", "sum of their durations; null if unknown"),
    ("min_ns", "Int64", "ns", "shortest"),
    ("max_ns", "Int64", "ns", "longest"),
)

SAMPLES = _columns(
    ("time_ns", "int64", "ns", "when the sample was taken"),
    ("window", "Int64", "", "turn during which it was taken"),
    ("core", "Int64", "", "processor, for per-core rows"),
    ("device", "category", "", "cuda:N for samples of one GPU"),
    ("metric", "category", "", "what was sampled: core_busy, resident_bytes, threads_running, gpu_power_w, ..."),
    ("value", "float64", "", "the sample, in the metric's unit"),
)

# Hardware counters of kernels. A profiler that replays a kernel for them has no timeline of its own.
METRICS = _columns(
    ("kernel", "int64", "", "row in kernels"),
    ("section", "category", "", "the tool's group of metrics; null if unknown"),
    ("metric", "category", "", "as the tool names it: Achieved Occupancy, dram__bytes.sum, ..."),
    ("unit", "category", "", "the value's, without powers of ten: %, byte, byte/s, s, cycle, ...; null for a plain number"),
    ("value", "float64", "", "for one execution; the mean if the row of kernels stands for several"),
)

LINES = _columns(
    ("file", "string", "", "source file, relative to the project"),
    ("function", "string", "", "function's name"),
    ("line", "int64", "", "line of the statement's start"),
    ("last_line", "int64", "", "line of the statement's end"),
    ("text", "string", "", "the statement's source, on one line"),
    ("hits", "int64", "", "executions"),
    ("time_ns", "int64", "ns", "time in the statement, including its calls"),
)

HOST_LINES = _columns(
    ("thread", "int64", "", "thread of the loop"),
    ("start_ns", "int64", "ns", "the host entered the line, or came back to it from a watched function that it called"),
    ("end_ns", "int64", "ns", "the host went on to another line"),
    ("file", "category", "", "source file, relative to the script's folder"),
    ("function", "category", "", "function's qualified name"),
    ("line", "int64", "", "line of the statement's start; the function's first line if the statement is unknown"),
    ("last_line", "Int64", "", "line of the statement's end"),
    ("text", "category", "", "the statement's source, on one line; null if only the function is known"),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "steps": STEPS,
    "ranges": RANGES,
    "operators": OPERATORS,
    "kernels": KERNELS,
    "graphs": GRAPHS,
    "copies": COPIES,
    "syncs": SYNCS,
    "calls": CALLS,
    "memory": MEMORY,
    "totals": TOTALS,
    "samples": SAMPLES,
    "metrics": METRICS,
    "lines": LINES,
    "host_lines": HOST_LINES,
}


_DTYPES = {name: pd.api.types.pandas_dtype(name) for name in ("int64", "float64", "bool", "Int64", "Int32", "boolean", "string")}
_NO_TEXTS = pd.CategoricalDtype(pd.Index([], dtype="str"))


def conform(name: str, rows: pd.DataFrame | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as the table `name`: declared columns in order with their types; missing ones are null.

    Columns that already have their type are not copied. Raises EvidenceError if a column that may not be null has nulls, or if
    a column holds values that its type cannot.
    """
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    given, columns = set(table), {}
    for column in TABLES[name]:
        try:
            columns[column.name] = _typed(table[column.name], column) if column.name in given else _absent(column, len(table))
        except (TypeError, ValueError, OverflowError) as error:
            reason = "has a number that its type cannot hold" if "non-finite" in str(error) else error  # not pandas' words
            raise EvidenceError(f"table {name}, column {column.name}: {reason}") from error
    return pd.DataFrame({key: getattr(values, "array", values) for key, values in columns.items()}, copy=False)


def _typed(values: pd.Series, column: Column) -> pd.Series:
    declared = _DTYPES.get(column.dtype)
    if declared is not None and values.dtype == declared:  # numpy takes None for float64
        return values
    if column.dtype == "category":
        return with_text_categories(
            values if isinstance(values.dtype, pd.CategoricalDtype) else values.astype("string").astype("category")
        )
    if column.dtype == "Int64" and values.dtype == "float64" and not np.isfinite(values.to_numpy()).all():
        values = values.where(np.isfinite(values))  # pandas writes missing integers as NaN
    return values.astype(column.dtype)  # type: ignore[call-overload,no-any-return]


def _absent(column: Column, count: int) -> Any:
    """Return a column that the source does not have, as a view of a single value: large captures have many of them."""
    if column.default is not None:
        return np.full(count, column.default)
    if column.dtype == "category":
        return pd.Categorical.from_codes(np.broadcast_to(np.int8(-1), count), dtype=_NO_TEXTS)
    if column.dtype in ("Int64", "Int32"):
        zero = np.zeros((), dtype=column.dtype.lower())
        return pd.arrays.IntegerArray(np.broadcast_to(zero, count), np.broadcast_to(np.True_, count))
    if column.dtype == "boolean":
        return pd.arrays.BooleanArray(np.broadcast_to(np.False_, count), np.broadcast_to(np.True_, count))
    if column.dtype in ("int64", "bool", "float64") and not count:
        return np.empty(0, dtype=column.dtype)
    if column.dtype in ("int64", "bool"):
        raise ValueError("is missing")
    return pd.Series(pd.NA, index=pd.RangeIndex(count), dtype="object").astype(column.dtype)  # type: ignore[call-overload]


def text_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return a small table with its categories as plain text, so that rows can take values that are no category yet."""
    return table.astype({name: "string" for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)})


def empty(name: str) -> pd.DataFrame:
    """Return the table `name` without rows."""
    return _empty(name).copy()


@cache
def _empty(name: str) -> pd.DataFrame:
    return conform(name, pd.DataFrame())


@dataclass
class Trace:
    """Tables of one capture and facts about it.

    `info` holds plain data: framework, network (layers with shapes, FLOPs, bytes), versions, settings, conditions; threads:
    names of the host's threads by their numbers as text, as far as known. `diagnostics` counts oddities of the capture, by
    name: nothing is dropped silently. `derived` caches what analyses computed from the tables, by name; replacing a table
    clears it.
    """

    steps: pd.DataFrame = field(default_factory=lambda: empty("steps"))
    ranges: pd.DataFrame = field(default_factory=lambda: empty("ranges"))
    operators: pd.DataFrame = field(default_factory=lambda: empty("operators"))
    kernels: pd.DataFrame = field(default_factory=lambda: empty("kernels"))
    graphs: pd.DataFrame = field(default_factory=lambda: empty("graphs"))
    copies: pd.DataFrame = field(default_factory=lambda: empty("copies"))
    syncs: pd.DataFrame = field(default_factory=lambda: empty("syncs"))
    calls: pd.DataFrame = field(default_factory=lambda: empty("calls"))
    memory: pd.DataFrame = field(default_factory=lambda: empty("memory"))
    totals: pd.DataFrame = field(default_factory=lambda: empty("totals"))
    samples: pd.DataFrame = field(default_factory=lambda: empty("samples"))
    metrics: pd.DataFrame = field(default_factory=lambda: empty("metrics"))
    lines: pd.DataFrame = field(default_factory=lambda: empty("lines"))
    host_lines: pd.DataFrame = field(default_factory=lambda: empty("host_lines"))
    info: dict[str, Any] = field(default_factory=dict)
    diagnostics: dict[str, int] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in TABLES:
            self.__dict__.get("derived", {}).clear()
        super().__setattr__(name, value)

    def check(self) -> None:
        """Verify the invariants; raise EvidenceError that names the table and the first offending row."""
        for name in TABLES:
            table = getattr(self, name)
            missing = [column.name for column in TABLES[name] if column.name not in table]
            if missing:
                raise EvidenceError(f"table {name}: no column {missing[0]}")
            if len(table) and "start_ns" in table and "end_ns" in table:
                wrong = table["end_ns"] < table["start_ns"]
                wrong = wrong.fillna(False) if wrong.dtype == "boolean" else wrong
                if wrong.any():
                    raise EvidenceError(f"table {name}, row {int(wrong.to_numpy().argmax())}: ends before it starts")
        for name, column, allowed in (
            ("kernels", "kind", KINDS),
            ("kernels", "phase", PHASES),
            ("operators", "phase", PHASES),
            ("copies", "operation", COPY_OPERATIONS),
        ):
            given = getattr(self, name)[column]
            if isinstance(given.dtype, pd.CategoricalDtype) and not set(given.cat.categories) - set(allowed):
                continue
            values = set(given.dropna().unique()) - set(allowed)
            if values:
                raise EvidenceError(f"table {name}, column {column}: unknown value {sorted(values)[0]!r}")
        ordered = self.steps.sort_values("start_ns")
        if (ordered["start_ns"].iloc[1:].to_numpy() < ordered["end_ns"].iloc[:-1].to_numpy()).any():
            raise EvidenceError("table steps: two steps overlap")

    def __repr__(self) -> str:
        tables = {name: len(getattr(self, name)) for name in TABLES}
        return f"<Trace: {', '.join(f'{count} {name}' for name, count in tables.items() if count) or 'empty'}>"

    def _repr_html_(self) -> str:
        return notebook.of_trace(self, TABLES)

    def extent(self) -> tuple[int, int] | None:
        """Return the first start and the last end of anything that ran, ns; None without a timeline."""
        tables = [self.kernels, self.graphs, self.copies, self.syncs, self.calls, self.operators, self.ranges]
        timed = [table for table in tables if table["start_ns"].notna().any()]
        if not timed:
            return None
        return min(int(table["start_ns"].min()) for table in timed), max(int(table["end_ns"].max()) for table in timed)

    def has_timeline(self) -> bool:
        """Return whether anything here has a start: steps, device work or host activity."""
        tables = (self.steps, self.graphs, self.operators, self.ranges, self.calls, self.syncs)
        return any(map(len, tables)) or bool(self.kernels["start_ns"].notna().any() or self.copies["start_ns"].notna().any())
