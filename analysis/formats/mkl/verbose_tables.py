"""MKL_VERBOSE lines of every MKL from 2017 to oneMKL, among any other output.

A line is printed when its call ends and has no timestamp: only its position in the stream places it in time.

`parse` returns one row per call, in the stream's order:

    line_number   int64   line in the stream, counted from 1
    function      string  as printed: SGEMM, SAXPY, SGEMM_BATCH, ...
    arguments     string  as printed, addresses included
    duration_ns   int64   as printed (three to four digits in ns, us, ms or s)
    threads       Int64   NThr: threads that MKL may use
    thread_number Int64   TID: the caller's number within its own team of threads, not the system's id
    kind          string  one of analysis.trace.KINDS
    dtype         string  f32, f64, c64, c128 (complex), bf16, ...; null if the name does not say
    m, n, k       Int64   of matrix products, as passed (column-major); a matrix-vector product has n = 1
    batch         Int64   products computed by one call; null if not printed
    transpose     string  flags as passed, such as TN
    flops         Int64   a multiply-accumulate is two; null if the arguments do not say
    problem       string  dimensions as text: "m120 n64 k400", "n2400"; null if the arguments do not say

Its `attrs` count the other lines: "parse_failures" (lines that start with MKL_VERBOSE and cannot be read; up to 20 of their line
numbers are in "failed_lines") and "other_lines" (the line with the version, before the first call).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from kernelscope.analysis.files import stream

_TIME = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?\s*(?:ns|us|ms|s)"
_BOLD = rf"(\)|,[^(),\s]*)\s+\*\*({_TIME})\*\*(\s|$)"  # as people mark times in Markdown
# MKL cuts long lists of arguments, as those of SGEMM_BATCH, with the bracket; the last one may be cut, too
_CUT = rf"^({stream.MKL_START}\s*\w+\((?:[^(),\s]*,)+)[^(),\s]*\s+({_TIME}\s+CNR:)"
_CALL = (
    rf"^{stream.MKL_START}\s*(?P<function>\w+)\((?P<arguments>.*)\)\s+"
    r"(?P<value>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(?P<unit>ns|us|ms|s)(?:\s(?P<rest>.*))?$"
)
_VERSION = r"MKL_VERBOSE\s+(?:Intel\(R\) (?:oneAPI )?(?:MKL|Math Kernel Library)|oneMKL)\b"
_INSTRUCTIONS = re.compile(r"\(Intel\(R\) ([\w. +-]{1,60})\) enabled processors")
_LONGEST_HEADER = 1000
_UNIT_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_LISTED_FAILURES = 20
_LONGEST_NS = 1e17  # three years: longer durations are damage
_NUMBER = re.compile(r"[0-9]{1,18}")  # fits 64 bits

_DETAILS: Mapping[str, str] = {
    "kind": "string",
    "dtype": "string",
    "m": "Int64",
    "n": "Int64",
    "k": "Int64",
    "batch": "Int64",
    "transpose": "string",
    "flops": "Int64",
    "problem": "string",
}
_DTYPES = {"S": "f32", "D": "f64", "C": "c64", "Z": "c128", "H": "f16"}
_MIXED = (("BF16", "bf16"), ("F16F16", "f16"), ("S8U8", "s8"), ("S8S8", "s8"), ("S16S16", "s16"))

# kinds of functions, by their name without the type's letter; the first pattern that matches the whole name counts
_KINDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"(GEMM|GEMM3M|GEMMT|SYMM|HEMM|SYRK|HERK|SYR2K|HER2K|TRMM)(_\w+)?", "gemm"),
        (r"(GEMV|SYMV|HEMV|TRMV|GBMV|SBMV|SPMV|GER|GERU|GERC|SYR|SYR2)(_\w+)?", "gemm"),
        (r"(AXPY|AXPBY|SCAL|SSCAL|DSCAL|SWAP|ROT|ROTM)(_\w+)?", "elementwise"),
        (r"(DOT|DOTU|DOTC|SDOT|NRM2|ASUM|AMAX|AMIN)(_\w+)?", "reduction"),
        (r"COPY(_\w+)?", "copy"),
        (r"(OMATCOPY|IMATCOPY|OMATCOPY2|OMATADD)(_\w+)?", "layout"),
    )
)


def parse(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the calls (columns above) in the library's lines of a stream, as returned by stream.split."""
    strings = stream.strings_of(lines["text"])
    for pattern, plain in ((_BOLD, r"\1 \2\3"), (_CUT, r"\1) \2")):
        strings = pc.replace_substring_regex(strings, pattern=pattern, replacement=plain)
    numbers = lines["line_number"].to_numpy(np.int64)
    fields = stream.extract(strings, _CALL)
    durations = fields["value"].astype("float64").to_numpy(na_value=np.nan) * fields["unit"].map(_UNIT_NS).to_numpy("float64")
    called = durations < _LONGEST_NS
    rows = fields[called].reset_index(drop=True)
    duration = durations[called]
    table = pd.DataFrame(
        {
            "line_number": numbers[called],
            "function": rows["function"],
            "arguments": rows["arguments"],
            "duration_ns": np.rint(np.round(duration, 4)).astype(np.int64),
            "threads": _number(rows["rest"], r"NThr:(\d{1,9})"),
            "thread_number": _number(rows["rest"], r"TID:(\d{1,9})"),
        }
    )
    table = pd.concat([table, _details(rows["function"], rows["arguments"])], axis=1)
    other = ~called & stream.starts_with(strings, _VERSION)
    failed = ~called & ~other
    table.attrs["other_lines"] = int(other.sum())
    table.attrs["parse_failures"] = int(failed.sum())
    table.attrs["failed_lines"] = [int(number) for number in numbers[failed][:_LISTED_FAILURES]]
    return table


def header_of(lines: pd.Series) -> str | None:
    """Return the version's text, such as "oneMKL 2024.0 Update 2 Product build 20240605"; None if not printed."""
    for line in lines[lines.str.match(_VERSION)]:
        return str(line).removeprefix("MKL_VERBOSE ").split(" for ")[0].strip()
    return None


def instructions_of(lines: pd.Series) -> str | None:
    """Return the instruction set for which the library runs its code, such as SSSE3 or AVX-512; None if not printed."""
    for line in lines[lines.str.match(_VERSION)]:
        if match := _INSTRUCTIONS.search(str(line)[:_LONGEST_HEADER]):
            return match[1]
    return None


def _number(text: pd.Series, pattern: str) -> pd.Series:
    return pd.to_numeric(text.str.extract(pattern, expand=False)).astype("Int64")


def _details(functions: pd.Series, arguments: pd.Series) -> pd.DataFrame:
    """Describe every distinct call once, ignoring addresses: a program repeats few calls many times."""
    calls = functions + "(" + arguments.str.replace(r"0x[0-9a-fA-F]+", "*", regex=True) + ")"
    codes, distinct = pd.factorize(calls)
    rows = [_describe(*str(call)[:-1].split("(", 1)) for call in distinct]
    table = pd.DataFrame(rows, columns=list(_DETAILS)).astype(dict(_DETAILS))
    return table.take(codes).reset_index(drop=True)


def _describe(function: str, arguments: str) -> dict[str, Any]:
    """Return the details of one call whose addresses are written as "*"."""
    name = function.upper().removeprefix("CBLAS_")
    base, dtype = _base(name)
    kind = next((kind for pattern, kind in _KINDS if pattern.fullmatch(base)), "unknown")
    details: dict[str, Any] = {"kind": kind, "dtype": dtype}
    values = [value.strip() for value in arguments.split(",")]
    if kind == "gemm":
        details.update(_product(base, values))
    elif kind != "unknown" and kind != "layout" and _NUMBER.fullmatch(values[0]):
        details["problem"] = f"n{values[0]}"
    return details


def _base(name: str) -> tuple[str, str | None]:
    """Return the function's name without its type, and the type."""
    for mark, dtype in _MIXED:
        if mark in name:
            return re.sub(r"_?(BF16BF16F32|F16F16F32|S8U8S32|S8S8S32|S16S16S32|F16F16F16)", "", name), dtype
    if name[:2] in ("SC", "DZ") and name[2:] in ("NRM2", "ASUM"):
        return name[2:], _DTYPES[name[1]]  # a complex vector's norm is real
    if name[:1] == "I" and name[1:2] in _DTYPES and name[2:] in ("AMAX", "AMIN"):
        return name[2:], _DTYPES[name[1]]
    if re.fullmatch(r"V[SDCZ]\w+", name):
        return name[2:], _DTYPES[name[1]]
    if name in ("MKL_SOMATCOPY", "MKL_DOMATCOPY", "MKL_SIMATCOPY", "MKL_DIMATCOPY"):
        return name[5:], _DTYPES[name[4]]
    return (name[1:], _DTYPES[name[0]]) if name[:1] in _DTYPES else (name, None)


def _product(base: str, values: Sequence[str]) -> dict[str, Any]:
    """Return m, n, k and flags of a matrix product from its arguments, as far as they are printed as numbers."""
    flags, sizes = _leading(values)
    if base.startswith("GEMM_BATCH") and not base.endswith("STRIDED"):
        return _sized(flags, sizes, None)
    if base.startswith("GEMM_PACK"):
        return {}
    if base.startswith("GEMM"):
        last = int(values[-1]) if _NUMBER.fullmatch(values[-1]) else None
        batch = last if base.endswith("STRIDED") else 1
        return _sized(flags, sizes, batch)
    if base == "GEMV" and len(sizes) >= 2 and flags:
        rows, inner = (sizes[1], sizes[0]) if flags[0] != "N" else (sizes[0], sizes[1])
        return _sized(flags, [rows, 1, inner], 1)
    if base in ("GER", "GERU", "GERC") and len(sizes) >= 2:
        return _sized([], [sizes[0], sizes[1], 1], 1)
    return {}


def _leading(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the leading letters among the arguments, and the numbers directly after them."""
    letters = 0
    while letters < len(values) and re.fullmatch(r"[A-Za-z]", values[letters]):
        letters += 1
    sizes: list[int] = []
    for value in values[letters:]:
        if not _NUMBER.fullmatch(value):
            break
        sizes.append(int(value))
    return [value.upper() for value in values[:letters]], sizes


def _sized(flags: Sequence[str], sizes: Sequence[int], batch: int | None) -> dict[str, Any]:
    result: dict[str, Any] = {"transpose": "".join(flags) or None, "batch": batch}
    if len(sizes) >= 3:
        m, n, k = sizes[:3]
        result.update(m=m, n=n, k=k, problem=f"m{m} n{n} k{k}" + (f" batch{batch}" if batch and batch > 1 else ""))
        flops = 2 * batch * m * n * k if batch else None
        result["flops"] = flops if flops is not None and flops < 2**63 else None
    return result
