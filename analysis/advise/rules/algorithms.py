"""Kernels that are slow for what they compute, as the table itself shows: cuDNN's direct convolutions, a gradient that takes many
times its forward, attention in a kernel of no known library, an optimizer's update.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_GROUPED = r"(?:conv2d|dgrad2d|wgrad2d)_grouped_direct"
_PART = 0.1  # of the step: what takes less is no finding
_TIMES = 5.0  # as long as the forward, each time: gradients of a convolution need as many operations as it does
_SAME = 0.01  # of the number of calls
_ALGORITHM = {
    "pytorch": "torch.backends.cudnn.benchmark = True; compare channels_last with contiguous tensors for these layers; a newer "
    "cuDNN",
    "paddle": "FLAGS_cudnn_exhaustive_search=1; for depthwise convolutions use_cudnn=False",
    "mxnet": "MXNET_CUDNN_AUTOTUNE_DEFAULT=2, with workspace large enough; a newer cuDNN",
    "tensorflow": "TF_CUDNN_USE_AUTOTUNE=1, its default; a newer cuDNN; layers.DepthwiseConv2D if there are as many "
    "groups as channels",
    "": "let the framework try cuDNN's algorithms (PyTorch: torch.backends.cudnn.benchmark = True; Paddle: "
    "FLAGS_cudnn_exhaustive_search=1; MXNet: MXNET_CUDNN_AUTOTUNE_DEFAULT=2); try these layers in the other layout (channels "
    "first in place of last); for depthwise convolutions kernels outside of cuDNN; a newer cuDNN",
}
_ATTENTION = 0.3  # of the step
_PLAIN = r"(?i)attention|(?:\b|_)attn"
_TILED = (
    r"(?i)flash|_attn_(?:fwd|bwd)|fmha|sdpa|mha|paged|unified|efficient|cutlass|cudnn|triton|ragged|sparse|linear|decode|mla|flex"
    r"|splitkv|combine|merge|AttentionKernel|softmax|mask|rope|bias|reduce|aten::|at::"
)
_UPDATES = 0.3  # of the step
_SLOWEST = 300e9  # bytes/s: devices for training have at least that
_TRIPLE = 3  # an update reads a parameter and its gradient, and writes the parameter, at least
_BYTES = {"f16": 2, "bf16": 2, "f64": 8}
_FEWER_UPDATES = {
    "pytorch": "a larger batch, or gradients accumulated over several batches; fused=True of torch.optim's optimizers",
    "mxnet": "a larger batch, or gradients accumulated over several (grad_req='add'); compare multi_precision=True, and another "
    "MXNET_OPTIMIZER_AGGREGATION_SIZE; a newer MXNet",
    "": "a larger batch, or gradients accumulated over several batches; an optimizer whose update is one fused kernel",
}


def grouped(subject: Subject) -> list[Advice]:
    """CuDNN computes convolutions by its direct kernels for groups: one output at a time, without tiles or tensor cores."""
    rows = subject.kernels()
    rows = rows[rows["name"].astype("string").str.contains(_GROUPED).fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    if ns < _PART * subject.step_ns or not ns or _slow_gradient(subject):
        return []
    return [
        Advice(
            "convolution algorithm",
            "cuDNN computes convolutions with its direct kernels, which are often slow",
            ns,
            "their whole time is a bound: what another algorithm takes is not in the recording",
            [
                f"They take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}. cuDNN takes these kernels, mostly "
                "for grouped convolutions, if no other algorithm fits or none was tried; sizes and groups are not in their names."
            ],
            words.text(subject, _ALGORITHM),
            "",
            words.ids(rows),
        )
    ]


class _Slow(NamedTuple):
    """A gradient, and the forward of as many calls, in ns per call; number: of calls."""

    rows: pd.DataFrame
    each: float
    forward: float
    number: float


def _slow_gradient(subject: Subject) -> _Slow | None:
    """Return the gradient of a convolution that takes many times its forward; both must be single kernels, called as often."""
    by_kind = [subject.kernels((kind,)) for kind in CONVOLUTIONS]
    forward = next((rows for kind, rows in zip(CONVOLUTIONS, by_kind, strict=True) if kind.endswith("forward")))
    if len(forward) != 1 or subject.on_host:
        return None
    number, each = float(forward["count"].iloc[0]), words.time_of(forward) / float(forward["count"].iloc[0])
    for rows in by_kind:
        if len(rows) != 1 or rows is forward or abs(float(rows["count"].iloc[0]) - number) > _SAME * number:
            continue
        took = words.time_of(rows) / number
        if took >= _TIMES * each and took * number >= _PART * subject.step_ns:
            return _Slow(rows, took, each, number)
    return None


def gradient(subject: Subject) -> list[Advice]:
    """A gradient of a convolution takes many times as long as its forward, although it needs as many operations."""
    found = _slow_gradient(subject)
    if not found:
        return []
    kind = str(found.rows["kind"].iloc[0])
    return [
        Advice(
            "convolution algorithm",
            f"the {kind} takes {found.each / found.forward:.0f} times as long as the forward of as many calls",
            (found.each - found.forward) * found.number,
            "if it takes as long as the forward, which needs as many operations",
            [
                f"{words.kernels(found.rows)}: {words.duration(found.each)} a call; the forward takes "
                f"{words.duration(found.forward)}: cuDNN chose a slow algorithm, if both are of one convolution."
            ],
            words.text(subject, _ALGORITHM),
            "",
            words.ids(found.rows),
        )
    ]


def attention(subject: Subject) -> list[Advice]:
    """Attention that is no known fused kernel takes most of the time."""
    rows = subject.kernels(("attention",))
    names = rows["name"].astype("string").fillna("")
    own = rows["library"].isna() & rows["algorithm"].isna()  # Triton's are tiled
    rows = rows[(own & names.str.contains(_PLAIN) & ~names.str.contains(_TILED)).to_numpy(bool)]
    ns = words.time_of(rows)
    if subject.on_host or ns < _ATTENTION * subject.step_ns or not ns or rows["name"].nunique() != 1:
        return []
    each = words.duration(ns / max(float(rows["count"].sum()), 1))
    return [
        Advice(
            "attention",
            "attention is one plain kernel, of no known library, which takes a large part of the time",
            ns,
            "its whole time is a bound: what a tiled kernel on tensor cores takes is not in the recording",
            [f"It takes {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}, {each} each."],
            "try attention that works in tiles, on tensor cores, and keeps scores out of memory: FlashAttention, cuDNN's fused "
            "attention, FlashInfer, or scaled_dot_product_attention of the framework",
            "",
            words.ids(rows),
        )
    ]


def updates(subject: Subject) -> list[Advice]:
    """An optimizer's update, in fused kernels, takes a large part of totals: it takes as long whatever the batch."""
    rows = subject.kernels(("optimizer",))
    ns = words.time_of(rows)
    if subject.on_host or subject.timeline or ns < _UPDATES * subject.step_ns or not ns or subject.kernels(MAIN).empty:
        return []
    return [
        Advice(
            "optimizer",
            "the update of the parameters takes a large part of the time",
            ns / 2,
            "half of it, with twice the batch and half as many updates",
            [f"It takes {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}.", *_of_memory(rows)],
            words.text(subject, {**_FEWER_UPDATES, **({"": _FEWER_UPDATES["mxnet"]} if _is_mxnet(rows) else {})}),
            "",
            words.ids(rows),
        )
    ]


def _is_mxnet(rows: pd.DataFrame) -> bool:
    return bool(rows["name"].astype("string").str.contains("mxnet", flags=re.IGNORECASE).fillna(False).all())


def _of_memory(rows: pd.DataFrame) -> list[str]:
    """Say of how many parameters the update would be, if memory bounds the longest kernel."""
    first = rows.iloc[int(rows["time_ns"].to_numpy(float).argmax())]
    each = float(first["time_ns"]) / max(float(first["count"]), 1)
    wide = _BYTES.get(str(first["dtype"]), 4)
    moved = each / 1e9 * _SLOWEST
    millions = words.count(moved / (_TRIPLE * wide) / 1e6)
    return [
        f"In {words.duration(each)}, the mean of a call, even a device with {_SLOWEST / 1e9:.0f} GB/s moves {words.size(moved)}, "
        f"enough to update {millions} million parameters of {wide} bytes: if a call updates far fewer, memory does not bound it, "
        "and another kernel may be faster."
    ]


RULES: tuple[Rule, ...] = (grouped, gradient, attention, updates)
