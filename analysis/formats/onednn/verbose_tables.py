"""oneDNN's verbose lines: mkldnn_verbose (0.x), dnnl_verbose (1.x, 2.x) and onednn_verbose (3.x), among any other output.

The number of fields depends on the version: a version field (v0, v1) and "primitive" since 3.x, a timestamp (start of the
execution, ms since the epoch) if *_VERBOSE_TIMESTAMP is set, engine and attributes since 1.x. A line is printed when its
primitive ends, so lines are in order of ends.

`parse` returns one row per executed primitive, in the stream's order:

    line_number      int64   line in the stream, counted from 1
    wall_ns          Int64   start on the wall clock, ns since the epoch; null without timestamps
    duration_ns      int64   as printed (six significant digits of ms)
    engine           string  cpu, gpu; null in 0.x
    primitive        string  convolution, reorder, gemm_api, ...
    implementation   string  jit:avx512_core, brg_conv_fwd:avx512_core, simple:any, ...; null if the line has none
    propagation      string  forward_training, backward_data, undef, ...
    memory           string  memory descriptors as printed
    attributes       string  such as attr-scratchpad:user attr-post-ops:eltwise_tanh; null if there are none
    auxiliary        string  such as alg:convolution_direct or alg:logsoftmax axis:1; null if there is none
    problem          string  dimensions as printed, such as mb64_ic1oc6_... or 64x120:120x84
    name             string  primitive and implementation: the kernel's name in the Trace
    kind             string  one of analysis.trace.KINDS
    dtype            string  type of the first operand, such as f32; "f32 to bf16" for casts; null in 0.x without types
    layout           string  layouts without bias, such as "src abcd, wei Acdb16a, dst aBcd16b"
    algorithm        string  how it computes: direct, gemm, brgemm, winograd, ..., after the function, such as "tanh, jit"
    m, n, k          Int64   of inner_product, matmul and gemm_api: the result is m x n, row-major
    batch            Int64   number of these products per call
    transpose        string  such as NT, relative to row-major operands; null for blocked layouts
    flops            Int64   operations that the problem needs, a multiply-accumulate is two; null if the problem does not say

Its `attrs` count the other lines: "parse_failures" (lines that start like verbose lines and cannot be read; up to 20 of their
line numbers are in "failed_lines"), "without_time" (executed primitives whose lines end before the duration, as cut or edited
lines do) and "other_lines" (information, creation, graph partitions).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.onednn import primitive

_START = rf"{stream.ONEDNN_START}(?:v\d+,)?(?:(?P<stamp_ms>[0-8]?\d{{1,12}})(?:\.(?P<stamp_fraction>\d+))?,)?"
_EXEC = rf"^{_START}(?:primitive,)?exec,(?P<body>.*),(?P<duration_ms>\d+(?:\.\d*)?(?:e[-+]?\d+)?)\s*$"
_EXEC_WITHOUT_TIME = rf"^{_START}(?:primitive,)?exec,(?P<body>.*?),?\s*$"
_EXECUTED = rf"{_START}(?:primitive,)?exec\b"
_SEVERAL_PRIMITIVES = rf"{_START}(?:graph|ukernel),exec\b"  # the primitives inside have lines of their own
_OTHER = (
    rf"{_START}(?:(?:primitive|graph|common|ukernel|sycl|ocl|engine|memory),)?"
    r"(?:info|create|create_nested|compile|error|warning|warn|check|dispatch|stack)(?:[:_][\w:]+)?,"
)
_LISTED_FAILURES = 20
_LONGEST_MS = 1e11  # three years: longer durations are damage, and would not fit beside a timestamp

_LIBRARY = r"_verbose,(?:v\d+,)?info,(?:oneDNN|DNNL|Intel(?:\(R\))? MKL-DNN) v"
_HEADER_PATTERNS = {
    "version": _LIBRARY + r"([\w.+-]+)",
    "commit": _LIBRARY + r"\S+ \((?:commit|Git Hash) ([^)]+)\)",
    "isa": rf"(?:_verbose,(?:v\d+,)?info,(?:cpu,isa:|Detected ISA is )|{_LIBRARY}\S+ \(Git Hash [^)]+\),)(.+?)\s*$",
    "runtime": r"_verbose,(?:v\d+,)?info,cpu,runtime:(\w+)",
    "gpu_runtime": r"_verbose,(?:v\d+,)?info,gpu,runtime:(\w+)",
    "threads": r"_verbose,(?:v\d+,)?info,cpu,runtime:\w+,nthr:(\d{1,9})",
}
_GPU = re.compile(r"_verbose,(?:v\d+,)?info,gpu,engine,(\d{1,4}),(?:[^\n]*,)?name:([^,\n]+)")


def parse(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the executed primitives (columns above) in the library's lines of a stream, as returned by stream.split."""
    strings = stream.strings_of(lines["text"])
    numbers = lines["line_number"].to_numpy(np.int64)
    fields = stream.extract(strings, _EXEC)
    matched = fields["body"].notna().to_numpy(dtype=bool)
    described, codes = _describe(fields["body"][matched])
    duration_ms = fields["duration_ms"][matched].astype("float64").to_numpy()
    readable = described["primitive"].notna().to_numpy(dtype=bool)[codes] & (duration_ms < _LONGEST_MS)
    executed = np.flatnonzero(matched)[readable]
    table = pd.DataFrame({"line_number": numbers[executed]})
    table["wall_ns"] = _wall_ns(fields.iloc[executed])
    # six digits are printed: rounding to tenths of ps first removes the error of the binary fraction, so ties stay ties
    table["duration_ns"] = np.rint(np.round(duration_ms[readable] * 1e6, 4)).astype(np.int64)
    details = described.take(codes[readable]).reset_index(drop=True)
    table = pd.concat([table, details], axis=1)
    _count_others(table, strings, numbers, executed)
    return table


def header_of(lines: pd.Series) -> dict[str, Any]:
    """Return the library's header: version, commit, isa, runtime, gpu_runtime, threads (int), as far as printed."""
    text = "\n".join(lines[lines.str.contains(",info,", regex=False)])
    result: dict[str, Any] = {}
    for name, pattern in _HEADER_PATTERNS.items():
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            result[name] = int(match[1]) if name == "threads" else match[1]
    return result


def gpus_of(lines: pd.Series) -> dict[int, str]:
    """Return the names of the GPUs that the library lists, by their number."""
    text = "\n".join(lines[lines.str.contains(",info,", regex=False)])
    return {int(number): name.strip() for number, name in _GPU.findall(text)}


def _describe(bodies: pd.Series) -> tuple[pd.DataFrame, npt.NDArray[np.int64]]:
    """Return one row per distinct description, and the row of each body: a program repeats few primitives many times."""
    codes, distinct = pd.factorize(bodies)
    rows = [primitive.describe(body) for body in distinct]
    table = pd.DataFrame(rows, columns=list(primitive.COLUMNS)).astype(dict(primitive.COLUMNS))
    return table, codes.astype(np.int64)


def _wall_ns(fields: pd.DataFrame) -> pd.Series:
    """Return the timestamps as integer ns: a double would lose digits of a wall-clock time."""
    stamped = (fields["stamp_ms"].str.len() > 0).to_numpy(dtype=bool)
    whole = fields["stamp_ms"].where(stamped, "0").astype("int64").to_numpy()
    fraction = fields["stamp_fraction"].str.slice(0, 6).str.pad(6, side="right", fillchar="0")
    wall = pd.Series(whole * 1_000_000 + fraction.astype("int64").to_numpy(), dtype="Int64")
    return wall.where(stamped)


def _count_others(
    table: pd.DataFrame, strings: pa.Array[Any], numbers: npt.NDArray[np.int64], executed: npt.NDArray[np.int64]
) -> None:
    rest = np.ones(len(strings), dtype=bool)
    rest[executed] = False
    left = strings.filter(pa.array(rest))
    several = stream.starts_with(left, _SEVERAL_PRIMITIVES)
    other = several | (stream.starts_with(left, _OTHER) & ~stream.starts_with(left, _EXECUTED))
    shortened = ~other & _lack_only_their_time(left, ~other)
    failed = numbers[rest][~other & ~shortened]
    table.attrs["other_lines"] = int(other.sum())
    table.attrs["without_time"] = int(shortened.sum())
    table.attrs["parse_failures"] = len(failed)
    table.attrs["failed_lines"] = [int(number) for number in failed[:_LISTED_FAILURES]]


def _lack_only_their_time(strings: pa.Array[Any], asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which of the chosen lines describe an executed primitive and end before its duration."""
    result = np.zeros(len(strings), dtype=bool)
    if asked.any():
        bodies = stream.extract(strings.filter(pa.array(asked)), _EXEC_WITHOUT_TIME)["body"].fillna("")
        described, codes = _describe(bodies)
        result[asked] = described["primitive"].notna().to_numpy(dtype=bool)[codes]
    return result
