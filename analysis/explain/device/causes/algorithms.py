"""Algorithms: the sides compute convolutions, products and layout conversions by kernels of other names."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pandas as pd

from kernelscope.analysis.explain.device import counted, implementations, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import CONVOLUTIONS

_CONVOLUTION = {
    "pytorch": "torch.backends.cudnn.benchmark = True chooses by measuring; channels-last layouts use other kernels",
    "tensorflow": "TF_CUDNN_USE_AUTOTUNE=1 (the default) chooses by measuring; data in NHWC uses other kernels than in NCHW",
    "mxnet": "MXNET_CUDNN_AUTOTUNE_DEFAULT=1 or 2 chooses by measuring",
    "onnxruntime": "cudnn_conv_algo_search=EXHAUSTIVE (the default) and prefer_nhwc of the CUDA provider",
    "jax": "XLA_FLAGS=--xla_gpu_autotune_level=4 (the default) chooses by measuring",
    "": "let cuDNN choose by measuring (autotuning); channels-last layouts use other kernels than channels-first ones",
}
_OWN_CODE = (
    "these are kernels of the program's own: compare how they divide work among blocks and threads, and what they read again; "
    "or let a library (cuDNN, MIOpen) compute it"
)
_PRODUCT = "sizes that are multiples of 8 or 16, and factors stored in the layout in which they are used, get faster kernels"
_PREPACKED = (
    "weights in oneDNN's own layout, as in {1}: torch.compile with torch._inductor.config.freezing = True (inference only) packs "
    "them once"
)
# Architectures that products of cuBLAS and cuDNN name. Later devices use kernels of earlier ones, too
_ARCHITECTURES = r"\b(maxwell|pascal|volta|turing|ampere|hopper|blackwell)_"
_OTHER_AGE = (
    "names tell of other architectures ({0}, {1}): another device, or another version of the library; compare on one device, "
    "with one version"
)
# How BLAS names products by the type in which they add up
_ADDS_UP = {"s": "float32", "d": "float64", "h": "float16", "i": "int32"}
_NAMED_BY_TYPE = r"(?:^|[_\W\d])([sdhi])gemm(?=_|\b)"
_TYPES = "Their names tell that products add up in {0} in {1}, and in {2} in {3}."
_ADD_UP = "in {0}: add up in {1}, as {2} does, if the results allow it (the compute type of the call chooses the kernel)"
_ONEDNN = "{0} uses oneDNN (mkldnn), which takes float32 and bfloat16, contiguous or channels-last, and does not take double"
_ON_CPU = "compare types, layouts and versions of the libraries"
_LIBRARY = "a library's matrix product (cuBLAS, hipBLASLt, CUTLASS) in {0}, as in {1}"
_LAYOUT = {
    "pytorch": "keep one memory layout throughout: model.to(memory_format=torch.channels_last), or channels first everywhere",
    "tensorrt": "allow neighbouring layers, and the engine's inputs and outputs, the same precision and format",
    "": "keep one memory layout throughout",
}


def convolutions(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Convolutions are computed by other kernels."""
    yield from _replaced(case, CONVOLUTIONS, "convolution algorithm", "convolutions")


def products(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Matrix products are computed by other kernels."""
    yield from _replaced(case, ["gemm"], "products by other kernels", "matrix products (GEMM)")


def layouts(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side executes more conversions of memory layouts."""
    rows = case.kernels(["layout"])
    counts = {key: float(rows[f"{key}_count"].sum()) for key in SIDES}
    if max(counts.values()) < 0.5 or min(counts.values()) > 0.9 * max(counts.values()):
        return
    title = (
        f"layout conversions: {words.count(counts['a'])} {case.per} in {case.a.name}, {words.count(counts['b'])} in"
        f" {case.b.name}, {words.of_rows(case, rows)}"
    )
    remedy = words.remedy(case, _LAYOUT, words.slower(case, rows)[0])
    yield DeviceFinding(
        "layout conversions", title, rows["row"].tolist(), "high", words.both(case, rows), remedy, structural=True
    )


def _replaced(case: DeviceCase, kinds: Collection[str], cause: str, what: str) -> Iterator[DeviceFinding]:
    """Yield a finding on kernels of these kinds that only one side executes, net of those that only the other does."""
    rows = case.kernels(kinds)
    one_sided = ((rows["a_count"] < 0.5) != (rows["b_count"] < 0.5)) & (rows["a_count"] + rows["b_count"] > 0)
    shifted = (rows["a_count"] - rows["b_count"]).abs() >= 0.5
    mine = rows[(one_sided | shifted).to_numpy(bool)]
    if not ((mine["a_count"] >= 0.5).any() and (mine["b_count"] >= 0.5).any()) or not bool(one_sided.any()):
        return
    computing = case.without_wrappers(rows)
    counts = {key: float(computing[f"{key}_count"].sum()) for key in SIDES}
    if min(counts.values()) < 0.8 * max(counts.values()):
        return  # other work, not another way to do it
    sure = "medium" if case.totals else "high"  # totals have no sizes, so the work may differ
    title, said = _title(case, mine, what), [*implementations.sentences(case, mine), *_types(case, mine), *words.both(case, mine)]
    yield DeviceFinding(cause, title, mine["row"].tolist(), sure, said, _remedy(case, mine), structural=True)


def _title(case: DeviceCase, rows: pd.DataFrame, what: str) -> str:
    """Return that these are computed by other kernels: by which algorithm, or implementation of oneDNN, if names tell."""
    ways = implementations.algorithms(rows) if rows["kind"].isin(CONVOLUTIONS).any() else {}
    if ways:
        told = ", ".join(f"{ways[key]} in {case.side(key).name}" for key in SIDES)
        return f"{what} by another algorithm ({told}): {words.of_rows(case, rows)}"
    if implementations.are_onednn(rows):
        return f"{what} by another implementation ({implementations.told(case, rows)}): {words.of_rows(case, rows)}"
    return f"{what} by other kernels: {words.of_rows(case, rows)}"


def _types(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence on the types in which products add up, if names of both sides tell two."""
    told = {key: _adds_up(rows, key) for key in SIDES}
    if None in told.values() or told["a"] == told["b"]:
        return []
    return [_TYPES.format(told["a"], case.a.name, told["b"], case.b.name)]


def _adds_up(rows: pd.DataFrame, key: str) -> str | None:
    """Return the one type in which a side's products add up, as all of their names tell; None if they do not."""
    names = rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "name"].astype("string")
    letters = set(names.str.extract(_NAMED_BY_TYPE)[0].fillna(""))
    return _ADDS_UP.get(letters.pop()) if len(letters) == 1 else None


def _remedy(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return the remedy: a library's product if the slower side uses a kernel of its own and the faster one a library."""
    if (measured := counted.remedy(case, rows)) is not None:
        return measured
    if (chosen := implementations.remedy(case, rows)) is not None:
        return chosen
    slow, slower, fast, faster = words.slower(case, rows)
    if rows["kind"].isin(CONVOLUTIONS).any() and case.on_cpus:
        names = rows.loc[(rows[f"{fast}_count"] > 0).to_numpy(bool), "name"].astype("string")
        return _ONEDNN.format(faster) if names.str.contains("mkldnn").any() else _ON_CPU
    if rows["kind"].isin(CONVOLUTIONS).any():
        known = rows[["a_library", "b_library"]].notna().to_numpy(bool).any()
        framework = any(side.facts.get("framework") for side in (case.a, case.b))
        return words.remedy(case, _CONVOLUTION, slow) if known or framework or case.by_operators else _OWN_CODE
    if rows.loc[(rows[f"{fast}_count"] > 0).to_numpy(bool), "name"].str.contains(r"mkldnn::_linear_pointwise").any():
        return _PREPACKED.format(slower, faster)
    if _types(case, rows):
        return _ADD_UP.format(slower, _adds_up(rows, fast), faster)
    ages = [_architectures(rows, key) for key in SIDES]
    if all(ages) and not ages[0] & ages[1]:
        return _OTHER_AGE.format(*(" and ".join(sorted(age)) for age in ages))
    own, other = (rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), f"{key}_library"] for key in (slow, fast))
    return _LIBRARY.format(slower, faster) if own.isna().all() and other.notna().any() else _PRODUCT


def _architectures(rows: pd.DataFrame, key: str) -> set[str]:
    """Return the architectures that names of a side's kernels tell of."""
    names = rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "name"].astype("string")
    return set(names.str.extract(_ARCHITECTURES)[0].dropna())


RULES = (convolutions, products, layouts)
