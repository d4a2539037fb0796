"""The Trace: one columnar model for every capture, ours or somebody else's.

Times are int64 nanoseconds on one monotonic clock; what is unknown is null, never 0. Every column is declared below with its
type, unit and meaning, and `Trace.check` verifies the invariants that analyses rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kernelscope.analysis.errors import EvidenceError


@dataclass(frozen=True)
class Column:
    """One column of a table: its pandas dtype (nullable ones may hold nulls), its unit and what it means."""

    name: str
    dtype: str
    unit: str
    meaning: str


def _columns(*rows: tuple[str, str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


PHASES = ("forward", "backward", "optimizer", "data", "other")

# One taxonomy for GPU kernels and CPU primitives.
KINDS = (
    "convolution forward", "convolution data gradient", "convolution weight gradient", "gemm", "recurrent", "attention",
    "normalisation", "pooling", "activation", "elementwise", "reduction", "softmax", "layout", "cast", "copy", "random",
    "embedding", "optimizer", "communication", "unknown",
)  # fmt: skip

# How an operator or kernel came by its layer, strongest first.
METHODS = (
    "launch range", "operator name", "sequence number", "graph order", "stream order", "shape", "time", "none",
)  # fmt: skip

STEPS = _columns(
    ("step", "int64", "", "index within the pass, warm-up included"),
    ("window", "Int64", "", "turn in which the step ran; null outside of turns"),
    ("warmup", "bool", "", "whether the step ran before the loop was steady"),
    ("thread", "int64", "", "operating system's id of the thread that runs the loop"),
    ("start_ns", "int64", "ns", "the step's batch was asked for"),
    ("end_ns", "int64", "ns", "the next batch was asked for"),
    ("minor_faults", "Int64", "", "page faults served without disk"),
    ("major_faults", "Int64", "", "page faults that read a disk"),
    ("user_ns", "Int64", "ns", "processor time of all threads in user mode"),
    ("system_ns", "Int64", "ns", "processor time of all threads in the kernel"),
    ("voluntary_switches", "Int64", "", "a thread waited"),
    ("involuntary_switches", "Int64", "", "a thread was put off its processor"),
)

RANGES = _columns(
    ("thread", "int64", "", "thread that opened the range"),
    ("start_ns", "int64", "ns", "opened"),
    ("end_ns", "int64", "ns", "closed"),
    ("category", "string", "", "step, data, phase, layer, sync or user"),
    ("name", "string", "", "the range's text"),
    ("layer", "string", "", "canonical layer; null when the range is not a layer's"),
    ("phase", "string", "", "one of PHASES; null when the range says nothing of it"),
    ("step", "Int64", "", "step that the range belongs to"),
)

OPERATORS = _columns(
    ("thread", "Int64", "", "thread that executed the operator"),
    ("start_ns", "int64", "ns", "began"),
    ("end_ns", "int64", "ns", "ended"),
    ("name", "string", "", "the operator's type, such as aten::addmm or Conv2DBackpropFilter"),
    ("scope", "string", "", "its full name where it has one, such as sequential/conv1/convolution"),
    ("layer", "string", "", "canonical layer"),
    ("phase", "string", "", "one of PHASES"),
    ("attribution", "string", "", "how the layer was found: one of METHODS"),
    ("shapes", "string", "", "input shapes as text, as far as recorded"),
)

KERNELS = _columns(
    ("start_ns", "Int64", "ns", "began on the device; null when only durations are known"),
    ("end_ns", "Int64", "ns", "ended"),
    ("duration_ns", "int64", "ns", "as the source reports it, summed over `count`"),
    ("count", "int64", "", "executions that the row stands for: 1, or more for sources that give totals only"),
    ("step", "Int64", "", "step in which it ran"),
    ("device", "string", "", "cpu or cuda:N"),
    ("thread", "Int64", "", "stream of a GPU, thread of a CPU; null when the source does not tell"),
    ("name", "string", "", "kernel or primitive with its implementation"),
    ("library", "string", "", "onednn, mkl, cudnn, cublas, aten, eigen, mshadow, cntk, ..."),
    ("kind", "string", "", "one of KINDS"),
    ("layer", "string", "", "canonical layer"),
    ("phase", "string", "", "one of PHASES"),
    ("operator", "string", "", "type of the operator that ran it"),
    ("attribution", "string", "", "how the layer was found: one of METHODS"),
    ("dtype", "string", "", "element type, such as f32"),
    ("layout", "string", "", "memory layouts, such as src abcd dst aBcd16b"),
    ("algorithm", "string", "", "direct, winograd, implicit gemm, ..."),
    ("problem", "string", "", "the problem's dimensions as the library writes them"),
    ("m", "Int64", "", "rows of a matrix product's result (BLAS convention of the call)"),
    ("n", "Int64", "", "columns of the result"),
    ("k", "Int64", "", "inner dimension"),
    ("transpose", "string", "", "transposition flags of a matrix product, such as NT"),
)

SAMPLES = _columns(
    ("time_ns", "int64", "ns", "when the sample was taken"),
    ("window", "Int64", "", "turn during which it was taken"),
    ("core", "Int64", "", "processor, for per-core rows"),
    ("metric", "string", "", "what was sampled: core_busy, resident_bytes, threads_running, gpu_power_w, ..."),
    ("value", "float64", "", "the sample, in the metric's unit"),
)

LINES = _columns(
    ("file", "string", "", "source file, relative to the project"),
    ("function", "string", "", "function's name"),
    ("line", "int64", "", "line of the statement's start"),
    ("last_line", "int64", "", "line of the statement's end"),
    ("text", "string", "", "the statement's source, on one line"),
    ("hits", "int64", "", "executions"),
    ("time_ns", "int64", "ns", "time in the statement, its calls included"),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "steps": STEPS,
    "ranges": RANGES,
    "operators": OPERATORS,
    "kernels": KERNELS,
    "samples": SAMPLES,
    "lines": LINES,
}


def conform(name: str, rows: pd.DataFrame | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as the table `name`: declared columns in order with their types, missing ones null.

    Raises EvidenceError when a column that may not be null has nulls or holds what its type cannot.
    """
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    columns = {}
    for column in TABLES[name]:
        values = table[column.name] if column.name in table else pd.Series(pd.NA, index=table.index, dtype="object")
        try:
            columns[column.name] = values.astype(column.dtype)  # type: ignore[call-overload]
        except (TypeError, ValueError) as error:
            raise EvidenceError(f"table {name}, column {column.name}: {error}") from error
    return pd.DataFrame(columns).reset_index(drop=True)


def empty(name: str) -> pd.DataFrame:
    """Return the table `name` without rows."""
    return conform(name, pd.DataFrame())


@dataclass
class Trace:
    """Tables of one capture and what is known about it.

    `info` holds plain data: framework, network (layers with shapes, FLOPs, bytes), versions, settings, conditions.
    `diagnostics` counts what is odd in the capture, by name: nothing is dropped silently.
    """

    steps: pd.DataFrame = field(default_factory=lambda: empty("steps"))
    ranges: pd.DataFrame = field(default_factory=lambda: empty("ranges"))
    operators: pd.DataFrame = field(default_factory=lambda: empty("operators"))
    kernels: pd.DataFrame = field(default_factory=lambda: empty("kernels"))
    samples: pd.DataFrame = field(default_factory=lambda: empty("samples"))
    lines: pd.DataFrame = field(default_factory=lambda: empty("lines"))
    info: dict[str, Any] = field(default_factory=dict)
    diagnostics: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Verify the invariants; raise EvidenceError naming the table and the first offending row."""
        for name in TABLES:
            table = getattr(self, name)
            missing = [column.name for column in TABLES[name] if column.name not in table]
            if missing:
                raise EvidenceError(f"table {name}: no column {missing[0]}")
            if "start_ns" in table and "end_ns" in table:
                wrong = (table["end_ns"] < table["start_ns"]).fillna(False)
                if wrong.any():
                    raise EvidenceError(f"table {name}, row {int(wrong.to_numpy().argmax())}: ends before it starts")
        for name, column, allowed in (
            ("kernels", "kind", KINDS),
            ("kernels", "phase", PHASES),
            ("operators", "phase", PHASES),
        ):
            values = set(getattr(self, name)[column].dropna().unique()) - set(allowed)
            if values:
                raise EvidenceError(f"table {name}, column {column}: unknown value {sorted(values)[0]!r}")
        ordered = self.steps.sort_values("start_ns")
        if (ordered["start_ns"].iloc[1:].to_numpy() < ordered["end_ns"].iloc[:-1].to_numpy()).any():
            raise EvidenceError("table steps: two steps overlap")
