"""Primitives of oneDNN that fall back to reference code, or to a matrix product on plain tensors, on a processor."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.kernels import work
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_PART = 0.1  # of the time: what takes less is no finding
_REFERENCE = r"^(?:convolution|deconvolution|inner_product|matmul|rnn)\S* (?:\S*[:_])?ref\b"
_BY_GEMM = r"^(?:de)?convolution gemm:(?!acl)"  # on Arm, the Compute Library's products are the fast code
_PLAIN = r"^src (?:nchw|ncdhw|ncw|abc|abcd|abcde), "  # channels before pixels, not blocked
_LINK = "https://uxlfoundation.github.io/oneDNN/page_memory_format_propagation_cpp.html"
_ANY = {
    "pytorch": "model.to(memory_format=torch.channels_last) and the same for the input; a newer PyTorch, with a newer oneDNN",
    "": "create them with memory format any (format_tag::any; format::any in MKL-DNN 0.x), so that the library chooses a blocked "
    "or channels-last layout and its own kernels for it, and convert data only at the ends of the network; a newer oneDNN",
}
_NEWER = {
    "": "a newer oneDNN, a type that the processor supports (f32, or bf16 and int8 with their instructions), memory format any "
    "(format_tag::any), and no unusual strides, padding or dilation: ONEDNN_VERBOSE=dispatch (oneDNN 3) says why faster code "
    "was not taken",
}


def fallbacks(subject: Subject) -> list[Advice]:
    """Products and convolutions are computed by code that is there for cases in which nothing faster fits."""
    if not subject.on_host:
        return []
    rows = subject.kernels(MAIN)
    rows = rows[(rows["library"] == "onednn").fillna(False).to_numpy(bool)]
    names = rows["name"].astype("string").fillna("")
    reference = rows[names.str.contains(_REFERENCE).to_numpy(bool)]
    plain = _plain(subject, rows[names.str.contains(_BY_GEMM).to_numpy(bool)])
    slow = "oneDNN computes with its reference code, which is slow"
    by_gemm = "oneDNN computes convolutions as matrix products, on tensors in a plain layout"
    found = [_advice(subject, reference, slow, _NEWER), _advice(subject, plain, by_gemm, _ANY)]
    return [one for one in found if one.saves_ns >= max(_PART * subject.step_ns, 1)]


def _plain(subject: Subject, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of convolutions that never compute in another layout; rows do not tell it, the recording's kernels do."""
    kernels = subject.trace.kernels
    mine = kernels[kernels["kind"].isin(CONVOLUTIONS).to_numpy(bool) & kernels["name"].isin(rows["name"]).to_numpy(bool)]
    plain = mine["layout"].astype("string").str.contains(_PLAIN).fillna(False).to_numpy(bool)
    others = set(mine["name"][~plain])
    return rows[~rows["name"].isin(others).to_numpy(bool)]


def _advice(subject: Subject, rows: pd.DataFrame, title: str, remedies: dict[str, str]) -> Advice:
    ns = words.time_of(rows)
    return Advice(
        "fallback code",
        title,
        ns,
        "their whole time is a bound: what faster code takes is not in the recording",
        [f"They take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}.", *_rate(subject, rows)],
        words.text(subject, remedies),
        _LINK,
        words.ids(rows),
    )


def _rate(subject: Subject, rows: pd.DataFrame) -> list[str]:
    """Say how fast they compute, to be compared with what the processor can do; nothing if the work of some is unknown."""
    kernels = subject.trace.kernels
    mine = kernels["name"].isin(rows["name"]).to_numpy(bool)
    flops, ns = work.of_kernels(subject.trace)["flops"][mine], float(kernels["duration_ns"][mine].sum())
    return [f"They compute {float(flops.sum()) / ns:,.0f} GFLOP/s."] if ns and flops.notna().all() else []


RULES: tuple[Rule, ...] = (fallbacks,)
