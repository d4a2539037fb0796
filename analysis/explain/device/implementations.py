"""Implementations that names of kernels tell: a convolution's algorithm, and which code oneDNN chose for a primitive."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.explain.device.causes import precision

_ALGORITHMS = (
    ("Winograd", r"(?i)wino"),
    ("FFT", r"(?i)(?:^|[\W_])fft(?:\d?d)?(?=[\W_]|$)"),
    ("reference code", r"\bref\b|\bref:any\b"),
    ("GEMM", r"^(?:de)?convolution\S* (?:\w+_)?gemm:"),
    ("direct", r"(?i)^(?:de)?convolution\S* (?:jit|brgconv|brg_conv|brdgmm)|grouped_direct|direct_conv"),
    ("implicit GEMM", r"(?i)implicit_?(?:gemm|convolve)|xmma_(?:[fdw]prop|[dw]grad)|_igemm_"),
)
_OF_ONEDNN = {"direct": "convolution_direct", "Winograd": "convolution_winograd"}
_FALLBACK = re.compile(r" (?:gemm|ref|simple)[:_]|\bref\b")  # a call of a general product, or code that is not optimised
_SETS = ("amx", "avx10_2", "avx10_1", "avx512", "avx2", "avx", "sse41", "sve_512", "sve_256", "sve_128", "asimd")
_COLD_NS = 10_000_000  # of an execution: in shorter ones, first touching memory may be most of it
_COLD = (
    "Each side executed it once, for a short time: a first execution also makes memory and code ready, so later ones may differ "
    "less (benchdnn --mode=P repeats it)."
)


def algorithms(rows: pd.DataFrame) -> dict[str, str]:
    """Return the algorithm of each side's longest convolution by its name, by side; empty unless both are known and differ."""
    told = {key: algorithm(_longest(rows, key)) for key in SIDES}
    return {key: name for key, name in told.items() if name} if None not in told.values() and told["a"] != told["b"] else {}


def algorithm(name: str) -> str | None:
    """Return a convolution's algorithm, as far as its kernel's name tells."""
    return next((said for said, pattern in _ALGORITHMS if re.search(pattern, name)), None)


def are_onednn(rows: pd.DataFrame) -> bool:
    """Return whether all of these rows are primitives of oneDNN."""
    libraries = pd.concat([rows[f"{key}_library"][(rows[f"{key}_count"] > 0).to_numpy(bool)] for key in SIDES])
    return bool(len(libraries) and (libraries == "onednn").fillna(False).all())


def told(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return which implementation each side uses longest: gemm:jit:f32 in A, brg:sve_256 in B."""
    return ", ".join(f"{_implementation(_longest(rows, key))} in {case.side(key).name}" for key in SIDES)


def sentences(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence if types of one width differ, and one if primitives of oneDNN ran once on each side."""
    once = all(float(rows[f"{key}_count"].sum()) == 1 and float(rows[f"{key}_ns"].sum()) < _COLD_NS for key in SIDES)
    return [*precision.of_one_width(case, rows), *([_COLD] if once and case.counts and are_onednn(rows) else [])]


def remedy(case: DeviceCase, rows: pd.DataFrame) -> str | None:
    """Return how the slower side gets the implementation of oneDNN that the faster one uses; None if these are not oneDNN's."""
    if not are_onednn(rows):
        return None
    slow, slower, fast, faster = words.slower(case, rows)
    mine, other = _longest(rows, slow), _longest(rows, fast)
    ways = algorithms(rows)
    if ways and set(ways.values()) == set(_OF_ONEDNN):
        name = _OF_ONEDNN[ways[fast]]
        return f"in {slower}: {name}, as in {faster}, or convolution_auto, with which oneDNN chooses (benchdnn --alg=auto)"
    sets = [_set(mine), _set(other)]
    types = precision.of_one_width(case, rows)
    if types and sets[1] == "amx" != sets[0]:
        there = rows.loc[(rows["name"] == other).fillna(False).to_numpy(bool), f"{fast}_dtype"].dropna()
        kind = str(there.iloc[0]) if len(there) else "the type"
        return f"in {slower}: {kind}, as in {faster}: for it oneDNN uses AMX there; or a version that does so for both types"
    how = "a newer version or other build of oneDNN, layouts left to it (format_tag::any), and types and attributes it supports"
    if _FALLBACK.search(mine) and not _FALLBACK.search(other):
        return f"in {slower}, {_implementation(mine)} is oneDNN's fallback; get {_implementation(other)}, as in {faster}: {how}"
    return f"in {slower}: {_implementation(other)}, as in {faster}: {how}"


def _longest(rows: pd.DataFrame, key: str) -> str:
    """Return the name of the row that takes a side longest."""
    return str(rows["name"].iloc[int(rows[f"{key}_ns"].to_numpy(float).argmax())])


def _implementation(name: str) -> str:
    """Return the implementation in the name of a oneDNN primitive, without what it computes."""
    return name.partition(" ")[2] or name


def _set(name: str) -> str | None:
    """Return the newest instruction set that an implementation's name tells."""
    return next((one for one in _SETS if one in name), None)
