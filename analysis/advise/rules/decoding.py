"""Products of a matrix and a single vector: they read all weights for each text, and are bound by memory."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_VECTOR = r"(?i)gemv|mul_mat_vec(?!_q)"  # in names of kernels; mul_mat_vec_q of llama.cpp reads quantised weights
_QUANTISED = r"(?i)quant|awq|gptq|int[48]|[qw][2-8]_"
_TYPES = ("f16", "bf16")  # numerical programs multiply matrices and vectors, too, but in wider types
_LARGE = 0.3  # of the step
_HALF = 0.5  # of the bytes, in 8-bit weights
_REMEDIES = {
    "": "quantised weights (8 or 4 bits) are fewer bytes to read; larger batches, or speculative decoding, read them once for "
    "several tokens",
}


def by_vector(subject: Subject) -> list[Advice]:
    """Most of the step are products of 16-bit matrices with one vector, as when a model generates one text."""
    rows = subject.kernels(("gemm",))
    names = rows["name"].astype("string")
    chosen = names.str.contains(_VECTOR) & ~names.str.contains(_QUANTISED) & rows["dtype"].isin(_TYPES)
    rows = rows[chosen.fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    if subject.on_host or ns < _LARGE * subject.step_ns or (subject.rows["phase"] == "backward").any():
        return []
    return [
        Advice(
            "matrix-vector products",
            "products of a matrix and a single vector read the whole matrix each time",
            ns * _HALF,
            "half of their time: they take as long as reading the matrix does, and 8-bit weights are half as many bytes",
            [f"Such products: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}."],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (by_vector,)
