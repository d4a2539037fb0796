"""Fusion: chains of kernels that each read and write memory, and attention computed piece by piece."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import sequences, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import broadcasts
from kernelscope.analysis.advise.subject import Subject

_OFTEN = 2.0  # times a step: a single softmax between two products is not worth advice

FUSE = {
    "pytorch": "torch.compile(model) fuses them; or use fused functions (torch.nn.functional.gelu, layer_norm, cross_entropy)",
    "tensorflow": "tf.function(jit_compile=True) fuses them",
    "pytorch, compiled": "the program is compiled, yet these are not fused: TORCH_LOGS=graph_breaks,fusion shows why; "
    "backends other than torch.compile's 'inductor' fuse nothing",
    "tensorflow 1": "XLA fuses them: optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1 in tf.ConfigProto",
    "tensorflow 1, compiled": "these are outside XLA's clusters: replace operators between them that XLA cannot compile",
    "mxnet": "net.hybridize(), and a fused operator if there is one",
    "mxnet, compiled": "one operator instead of the chain, such as mx.nd.LayerNorm or mx.nd.LeakyReLU(act_type='gelu'); "
    "products instead of powers",
    "jax": "jax.jit around all of it fuses them",
    "onnxruntime": "graph_optimization_level=ORT_ENABLE_ALL fuses patterns that it knows (Gelu, LayerNormalization, bias); "
    "simplify the model for the others: fold constants, and export one operator instead of the chain",
    "": "compile the chain, or use a fused operator",
}
ATTEND = {
    "pytorch": "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=...)",
    "tensorflow": "keras.layers.MultiHeadAttention(flash_attention=True)",
    "tensorflow 1": "use a fused attention kernel instead of its parts",
    "jax": "jax.nn.dot_product_attention(q, k, v, implementation='cudnn')",
    "onnxruntime": "python -m onnxruntime.transformers.optimizer --input model.onnx --output fused.onnx, which replaces the "
    "parts with one Attention node",
    "": "use a fused attention kernel (FlashAttention, cuDNN)",
}
_ON_PROCESSORS = "use a fused attention operator of the framework"
_MATH = (
    "scaled_dot_product_attention falls back to its math backend: give it 16-bit types, and is_causal=True instead of a mask; "
    "torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) around it says what prevents a fused kernel"
)
LINKS = {
    "pytorch": "https://docs.pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html",
    "onnxruntime": "https://onnxruntime.ai/docs/performance/transformers-optimization.html",
    "": "https://arxiv.org/abs/2205.14135",
}


def memory_traffic(subject: Subject) -> list[Advice]:
    """Consecutive kernels pass their results on through memory."""
    kernels = sequences.ordered(subject) if subject.timeline else None
    return [] if kernels is None or kernels.empty else [*_chains(subject, kernels), *_attention(subject, kernels)]


def _chains(subject: Subject, kernels: pd.DataFrame) -> list[Advice]:
    """A chain of elementwise kernels: fused into one, it would read and write memory once."""
    apart, on_them = broadcasts.rows_and_kernels(subject)  # these need not run at all
    aside = kernels["layer"].isin(list(subject.recurrent)).to_numpy(bool)
    aside = aside if on_them is None else aside | on_them
    steps = max(subject.count, 1)
    typical = sequences.without_outliers(kernels.assign(kind=kernels["kind"].mask(aside)), steps)
    runs = sequences.chains(typical)
    table = runs.table()
    if table.empty:
        return []
    saves = float((table["total_ns"] - table["longest_ns"]).sum()) / steps
    names = runs.per_step(steps)
    whole = float(names["time_ns"].sum())
    rows = subject.kernels(sequences.SMALL).drop(index=list(apart), errors="ignore")
    rows = rows[~rows["layer"].isin(list(subject.recurrent)).to_numpy(bool)]
    return [
        Advice(
            "fusion",
            "chains of elementwise kernels read and write memory repeatedly",
            min(saves, float(words.time_of(rows))),
            "a fused chain takes as long as its longest kernel",
            [
                f"{_counted(len(table) / steps, table['size'].mean())} {words.share(subject, whole)} {subject.per}: "
                f"{words.kernels(names)}.",
                *_set_aside(kernels, typical),
                *words.lines_of(subject, rows),
            ],
            words.compiling(subject, words.text(subject, FUSE), rows),
            "https://docs.pytorch.org/docs/stable/torch.compiler.html" if subject.framework == "pytorch" else "",
            words.ids(rows),
            modelled=True,
        )
    ]


def _counted(chains: float, size: float) -> str:
    """Return how many chains of how many kernels take time, in words."""
    number = words.count(chains)
    if number == "1":
        return f"1 chain of {words.count(size)} kernels takes"
    return f"{number} chains of {words.count(size)} kernels on average take"


def _set_aside(kernels: pd.DataFrame, typical: pd.DataFrame) -> list[str]:
    """Say how many executions count as long as usual ones, because they took far longer."""
    count = int((kernels["duration_ns"].to_numpy() != typical["duration_ns"].to_numpy()).sum())
    one = count == 1
    which = f"{count:,} execution{'' if one else 's'} in few steps took far longer than usual"
    return [f"{which}: {'it counts' if one else 'they count'} as usual."] if count else []


def _attention(subject: Subject, kernels: pd.DataFrame) -> list[Advice]:
    """Attention scores are written to memory and read again, by a kernel for each part."""
    if subject.on_host and subject.framework.endswith(("jax", "mxnet")):
        return []  # these have no fused attention for processors
    runs = sequences.between_products(kernels, subject.framework)
    table = runs.table()
    steps = max(subject.count, 1)
    if len(table) < _OFTEN * steps:
        return []
    names = runs.per_step(steps)
    whole = float(names["time_ns"].sum())
    return [
        Advice(
            "attention",
            "attention is computed piece by piece, and its scores go through memory",
            whole,
            "what runs between the two products: a fused kernel does it without memory traffic",
            [
                f"{words.count(len(table) / steps)} times {subject.per}, between two products: {words.share(subject, whole)} in "
                f"{words.kernels(names)}."
            ],
            _attending(subject),
            words.text(subject, LINKS),
            words.ids(subject.kernels(("softmax",))),  # not one written by hand: other kernels share the rows of its parts
        )
    ]


def _attending(subject: Subject) -> str:
    """Return the remedy for attention by parts that fits the framework and the device."""
    if _by_math(subject):
        return _MATH
    remedy = words.text(subject, ATTEND)
    return _ON_PROCESSORS if subject.on_host and remedy == ATTEND[""] else remedy


def _by_math(subject: Subject) -> bool:
    """Return whether PyTorch's attention operator uses its math backend."""
    return bool(subject.trace.operators["name"].isin(["aten::_scaled_dot_product_attention_math"]).any())


RULES: tuple[Rule, ...] = (memory_traffic,)
