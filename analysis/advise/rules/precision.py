"""Types: unneeded double precision, unused tensor cores, and memory traffic that half precision halves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import bfloat16, page_faults
from kernelscope.analysis.advise.rules.bfloat16 import REACHED
from kernelscope.analysis.advise.rules.layouts import in_3d
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.device import datasheets
from kernelscope.analysis.explain.device.case import MAIN_NAMES
from kernelscope.analysis.kernels.lookup import look
from kernelscope.analysis.trace import MAIN

# In names of kernels that run only on Ampere or later; CUTLASS's fused attention names at its end the device it is chosen for
_AMPERE = r"(?:^|[_/ ])(?:sm(?:8|9|10|12)\d|ampere|hopper)_|\bcutlass_[89]\d_|^fmha_cutlass\w*_sm(?:8|9|10|12)\d\b"
# Peak rate in float32 or TF32 over that in half precision: by data sheets, GeForce doubles its rate, others gain more
_LEAST_OF_AMPERE = 0.5
_BY_SHEET = "half of the time of memory-bound kernels, and the data sheet's peak rates for products (at least a quarter remains)"
_BY_NAMES = (
    "half of their time: the recording names no device, but the names of some kernels are of Ampere, and all devices that run "
    "these have at least twice the peak rate in half precision"
)
_TWICE = 2.2  # times the peak rate in float64: what float32 has on devices for computing
_NOTICED = 0.1  # of the products' time, likewise
_HALF = 0.5  # of the time of kernels that move memory, in types of half the size
_MIXES = 0.1  # times the time in 32-bit types: a program with as much in 16-bit types mixes them on purpose
_WHOLE = 16  # bytes that a thread loads at once, if sizes allow it
_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4}
_ALIGNED = r"align[abc]?(\d+)"  # how many elements kernels of CUTLASS and cuBLAS load at once, by their names
_SIZES = {
    "pytorch": "pad sizes to multiples of 8 in 16-bit types (4 in TF32): hidden sizes, heads, the vocabulary, and the numbers of "
    "tokens, patches and samples that attention multiplies; F.scaled_dot_product_attention pads by itself",
    "": "pad the sizes of products to multiples of 8 in 16-bit types, 4 in TF32",
}

_FLOAT32 = "create data and parameters as float32; numpy's default is float64"
_DOUBLE = {
    "pytorch": "make data and parameters float32: torch.set_default_dtype(torch.float32), tensor.float(), "
    "torch.from_numpy(array.astype(numpy.float32))",
    "jax": "leave jax_enable_x64 off, and create arrays as float32",
    "tensorflow": _FLOAT32,
    "mxnet": _FLOAT32,
    "": "compute in float32 if its precision suffices: data, parameters and constants",
}
_TF32 = {
    "pytorch": "torch.set_float32_matmul_precision('high')",
    "tensorflow": "tf.config.experimental.enable_tensor_float_32_execution(True), which is the default",
    "tensorflow 1": "compute in float16: TensorFlow 1 has TF32 only in NVIDIA's own builds",
    "jax": "jax.config.update('jax_default_matmul_precision', 'tensorfloat32')",
    "": "allow TF32 (NVIDIA_TF32_OVERRIDE=1), or compute in float16 or bfloat16",
}
_CUDNN = ("convolutions", "recurrent layers")  # PyTorch has a separate setting for these
_TF32_OF_CUDNN = {"pytorch": "torch.backends.cudnn.allow_tf32 = True, which is the default"}
_SIZED = {
    "": "pad the sizes of these products to multiples of 4: tensor core kernels load 16 bytes at once",
}
_OTHERS = {
    "pytorch": "torch.backends.cudnn.benchmark = True lets cuDNN try other algorithms; more are available for channels that are "
    "multiples of 8 and memory_format=torch.channels_last",
    "": "sizes that are multiples of 8, channels last, and cuDNN's autotuning give the library more algorithms to choose from",
}
_OTHERS_IN_3D = {
    "pytorch": "torch.backends.cudnn.benchmark = True lets cuDNN try other algorithms; more are available for channels that are "
    "multiples of 8 and memory_format=torch.channels_last_3d (model and input)",
}
_HALF_TYPES = ("f16", "bf16")
_MIXED = {
    "pytorch": "torch.autocast(device_type='cuda', dtype=torch.bfloat16) around forward and loss (with torch.amp.GradScaler for "
    "float16)",
    "tensorflow": "tf.keras.mixed_precision.set_global_policy('mixed_float16')",
    "tensorflow 1": "tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer), from version 1.14 on",
    "mxnet": "mxnet.amp.init()",
    "jax": "keep parameters in float32 and compute in bfloat16 (dtype=jnp.bfloat16 of Flax modules)",
    "": "compute in float16 or bfloat16, and accumulate in float32",
}
_FLOAT16 = {  # on devices without bfloat16
    "pytorch": "torch.autocast(device_type='cuda', dtype=torch.float16) around forward and loss, with torch.amp.GradScaler: this "
    "device has no bfloat16",
    "jax": "keep parameters in float32 and compute in float16 with a scaled loss: this device has no bfloat16",
    "": "compute in float16 with a scaled loss, and accumulate in float32: this device has no bfloat16",
}
_LINKS = {
    "pytorch": "https://docs.pytorch.org/docs/stable/amp.html",
    "tensorflow 1": "https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/",
    "tensorflow": "https://www.tensorflow.org/guide/mixed_precision",
    "": "https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/",
}


def double(subject: Subject) -> list[Advice]:
    """Kernels compute in float64."""
    rows = subject.kernels()
    rows = rows[(rows["dtype"] == "f64").fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    chosen = not subject.framework and subject.trace.operators.empty  # numerical programs compute in float64 on purpose
    more = _more_than_half(subject)
    estimate = f"half of their time: float32 halves the bytes and doubles what a vector holds{more}"
    if chosen:
        estimate = f"half of their time, {_why_half(rows)}{more}; only if the results allow float32"
    return [
        Advice(
            "double precision",
            "kernels compute in float64",
            ns * _HALF,
            estimate,
            [f"In float64: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}.", *words.where(rows, "layer")],
            words.text(subject, _DOUBLE),
            "",
            words.ids(rows),
            modelled=not chosen or bool(more),
            last=chosen,
        )
    ]


def _why_half(rows: pd.DataFrame) -> str:
    """Say why float32 halves the time of these rows: large products are bound by arithmetic, most other kernels by memory."""
    products = rows["kind"].isin(MAIN).fillna(False).to_numpy(bool) & (rows["algorithm"] != "gemv").fillna(True).to_numpy(bool)
    if 2 * words.time_of(rows[products]) > words.time_of(rows):
        return "as float32 is computed at least twice as fast as float64"
    return "as memory-bound kernels move half of the bytes"


def _more_than_half(subject: Subject) -> str:
    """Say what kernels gain that are bound by arithmetic in float64: the device's ratio of peak rates, if known."""
    sheet = None if subject.on_host else datasheets.lookup(subject.hardware)
    single, double = (sheet.flops("f32", False), sheet.flops("f64", False)) if sheet else (None, None)
    if single and double:
        ratio = single / double
        return f", and arithmetic has {ratio:.3g} times the peak rate on this device" if ratio > _TWICE else ""
    return "" if subject.on_host else ", and arithmetic gains more on graphics GPUs: 32 or 64 times the rate on most GeForce"


def tf32(subject: Subject) -> list[Advice]:
    """Products, or convolutions, in float32 do not use the device's tensor cores; each has its own setting."""
    sheet = datasheets.lookup(subject.hardware) if not subject.on_host else None
    fast, slow = (sheet.flops("tf32"), sheet.flops("f32", False)) if sheet else (None, None)
    if not fast or not slow or fast <= slow:
        return []
    return [_tf32(subject, name, fast / slow) for name in MAIN_NAMES]


def _tf32(subject: Subject, name: str, faster: float) -> Advice:
    """Return the advice on one of MAIN_NAMES. faster: the peak rate in TF32 over that in float32."""
    mine = {dtype: _of(_main(subject, dtype), name) for dtype in ("f32", "tf32")}
    rows = _without(mine["f32"], True)  # these compose a float32 product of several TF32 ones
    ns = words.time_of(rows)
    kept, of_faults = page_faults.apart(subject)
    stated = subject.setting("matmul_precision") == "highest" and name not in _CUDNN
    allowed = words.time_of(mine["tf32"]) > 0 and not stated
    off = {**_TF32, **_TF32_OF_CUDNN} if name in _CUDNN else _TF32
    remedies = off if not allowed else _others(subject) if name == "convolutions" else _SIZED
    return Advice(
        "tensor cores",
        f"{name} in float32 do not use the tensor cores{', although TF32 is on' if allowed else ''}",
        ns * (1 - max(1 / faster, REACHED)) * kept,
        f"TF32 has {faster:.0f} times the peak rate on this device; at least a quarter of the time is assumed to remain",
        [
            f"In float32 without tensor cores: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}.",
            *words.where(rows, "layer"),
            *of_faults,
        ],
        words.text(subject, remedies),
        words.text(subject, _LINKS),
        words.ids(rows),
        modelled=True,
    )


def _of(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of one of MAIN_NAMES."""
    return rows[rows["kind"].isin(list(MAIN_NAMES[name])).to_numpy(bool)]


def mixed(subject: Subject) -> list[Advice]:
    """The step computes and moves float32 although half precision would do."""
    rates = _rates(subject)
    if rates is None:
        return []
    saves, rows = 0.0, []
    for dtype, share in rates.of_half.items():
        main = _main(subject, dtype)
        saves += words.time_of(main) * (1 - max(share, REACHED))
        rows.append(main)
    small = subject.kernels(("elementwise", "activation", "normalisation", "softmax", "pooling", "reduction"))
    small = small[((small["dtype"] == "f32") & (small["phase"] != "optimizer").fillna(True)).fillna(False).to_numpy(bool)]
    saves += words.time_of(small) * _HALF
    chosen = pd.concat([*rows, small])
    main_ns = sum(words.time_of(one) for one in rows)
    if sum(words.time_of(_main(subject, dtype)) for dtype in ("f16", "bf16")) > _MIXES * main_ns:
        return []  # the program mixes types; it, or its operators, keep the rest in float32 on purpose
    kept, of_faults = page_faults.apart(subject)
    return [
        Advice(
            "mixed precision",
            "products are computed in 32-bit types",
            saves * kept,
            rates.estimate,
            [
                f"{_named(pd.concat(rows))} in float32 or TF32: {words.share(subject, main_ns)} {subject.per}"
                + (f"; other kernels in float32: {words.share(subject, words.time_of(small))}." if len(small) else "."),
                *_attention_in_float32(subject, pd.concat(rows)),
                *of_faults,
            ],
            words.text(subject, _MIXED if rates.bfloat16 else {**_MIXED, **_FLOAT16}),
            words.text(subject, _LINKS),
            words.ids(chosen),
            modelled=True,
        )
    ]


def _attention_in_float32(subject: Subject, rows: pd.DataFrame) -> list[str]:
    """Say that fused attention in float32 has no flash kernel, if it is a good part of these rows."""
    fused = rows[((rows["kind"] == "attention") & (rows["dtype"] == "f32")).fillna(False).to_numpy(bool)]
    ns = words.time_of(fused)
    if not ns or ns < _NOTICED * words.time_of(rows):
        return []
    return [
        f"Fused attention computes in float32: {words.share(subject, ns)} in {words.kernels(fused)}; flash attention has kernels "
        "for float16 and bfloat16 only, so give it such inputs."
    ]


@dataclass(frozen=True)
class _Rates:
    """Peak rates of a device. of_half: those of f32 and tf32 over that of half precision; estimate: how savings follow, in
    words.
    """

    of_half: dict[str, float]
    estimate: str
    bfloat16: bool


def _rates(subject: Subject) -> _Rates | None:
    """Return what half precision gains; if the device is unknown, by the names of its kernels; None if these do not tell,
    either.
    """
    if subject.on_host:
        return None
    sheet = datasheets.lookup(subject.hardware)
    half = sheet.flops("f16") if sheet and sheet.tensor else None
    if sheet and half:
        rates = {"f32": (sheet.flops("f32", False) or half) / half, "tf32": (sheet.flops("tf32") or half) / half}
        return _Rates(rates, _BY_SHEET, bool(sheet.tensor.get("bf16")))
    names = subject.kernels()["name"].astype("string")
    if subject.hardware or not names.str.contains(_AMPERE, na=False).any():
        return None
    return _Rates(dict.fromkeys(("f32", "tf32"), _LEAST_OF_AMPERE), _BY_NAMES, True)


def _named(rows: pd.DataFrame) -> str:
    """Name the kinds of main kernels in these rows: products, convolutions, attention, ..."""
    there = rows.groupby(rows["kind"].astype("string"))["time_ns"].sum().sort_values(ascending=False, kind="stable").index
    names = [next(name for name, kinds in MAIN_NAMES.items() if kind in kinds) for kind in there]
    return words.listed(names).capitalize() if names else "Products and convolutions"


def half_without_tensor_cores(subject: Subject) -> list[Advice]:
    """Products, or convolutions, of 16-bit types whose kernels use no tensor cores, although the device has them."""
    rates = _rates(subject)
    if rates is None:
        return []
    rows = subject.kernels(MAIN)
    rows = rows[(rows["dtype"].isin(_HALF_TYPES) & ~rows.index.isin(bfloat16.emulated(subject).index)).to_numpy(bool)]
    rows = rows[np.array([look(str(name)).tensor_core is False for name in rows["name"]], dtype=bool)]
    ns = words.time_of(rows)
    convolves = 2 * words.time_of(_of(rows, "convolutions")) > ns
    remedies = _others(subject) if convolves else _SIZES
    return [
        Advice(
            "tensor cores",
            f"{_named(rows).lower()} in 16-bit types do not use tensor cores",
            ns * (1 - max(rates.of_half["f32"], REACHED)),
            "the peak rate of tensor cores over that of float32, in which such kernels compute (at least a quarter remains)",
            [f"Such kernels: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}.", *words.where(rows, "layer")],
            words.text(subject, remedies),
            "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/" if convolves else "",
            words.ids(rows),
            modelled=True,
        )
    ]


def _others(subject: Subject) -> dict[str, str]:
    """Return what gives convolutions other algorithms, by framework."""
    return {**_OTHERS, **(_OTHERS_IN_3D if in_3d(subject) else {})}


def misaligned(subject: Subject) -> list[Advice]:
    """Products whose sizes are not multiples of 16 bytes: their kernels load elements one by one or in pairs.

    Kernels without tensor cores do so for any size: cutlass_80_simt_sgemm_…_align1 multiplies matrices of 768 columns.
    """
    rows = _without(subject.kernels(MAIN), False)
    elements = (
        rows["name"].astype("string").str.extract(_ALIGNED, expand=False).astype("float64").to_numpy(float, na_value=np.nan)
    )
    size = rows["dtype"].astype("object").map(_BYTES).astype("float64").to_numpy(float, na_value=np.nan)
    rows = rows[elements * size < _WHOLE]
    ns = words.time_of(rows)
    return [
        Advice(
            "alignment",
            "sizes of products are not multiples of 16 bytes, so their kernels load a few bytes at a time",
            ns * _HALF,
            "half of their time: with such multiples, a thread loads 16 bytes at once",
            [f"Such kernels: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}.", *words.where(rows, "layer")],
            words.text(subject, _SIZES),
            "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/",
            words.ids(rows),
            modelled=True,
        )
    ]


def _main(subject: Subject, dtype: str) -> pd.DataFrame:
    key = f"products and convolutions in {dtype}"
    if key not in subject.derived:
        rows = subject.kernels(MAIN).drop(index=bfloat16.emulated(subject).index)  # these have advice of their own
        subject.derived[key] = rows[(rows["dtype"] == dtype).fillna(False).to_numpy(bool)]
    result: pd.DataFrame = subject.derived[key]
    return result


def _without(rows: pd.DataFrame, tensor_core: bool) -> pd.DataFrame:
    """Return the rows without kernels that use tensor cores, or without those that do not, judging by their names."""
    return rows[np.array([look(str(name)).tensor_core is not tensor_core for name in rows["name"]], dtype=bool)]


RULES: tuple[Rule, ...] = (double, tf32, mixed, half_without_tensor_cores, misaligned)
