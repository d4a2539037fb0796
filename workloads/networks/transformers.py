"""Transformers of today's shapes: the blocks of GPT-2 small and BERT-base, and ViT-S/16.

GPT-2 and BERT have no embeddings here: a sample is a sequence of 128 vectors, so that only the blocks are compared.

Runs under Python 3.6.
"""

from typing import Callable

from kernelscope.workloads.networks.builder import Builder
from kernelscope.workloads.networks.description import Network

_ADAM = {"name": "adam", "learning_rate": 0.0001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


def _attention(b: Builder, part: Callable[[str], str], width: int, heads: int, causal: bool) -> None:
    b.dense(part("qkv"), 3 * width).attention(part("attention"), heads, causal).dense(part("proj"), width)


def _feed_forward(b: Builder, part: Callable[[str], str], width: int, approximate: bool) -> None:
    b.dense(part("fc1"), 4 * width).activation(part("gelu"), "gelu", approximate=approximate).dense(part("fc2"), width)


def _block_before(b: Builder, name: str, width: int, heads: int, causal: bool, approximate: bool, epsilon: float) -> None:
    """Append a block that normalises before its two parts, as in GPT-2 and ViT. Layers are named <block>_<part>."""
    part, source = (name + "_%s").__mod__, b.at
    b.layer_norm(part("ln1"), epsilon)
    _attention(b, part, width, heads, causal)
    b.plus(part("add1"), source)
    b.layer_norm(part("ln2"), epsilon)
    _feed_forward(b, part, width, approximate)
    b.plus(part("add2"), part("add1"))


def _block_after(b: Builder, name: str, width: int, heads: int) -> None:
    """Append a block that normalises after its two parts, as in BERT."""
    part, source = (name + "_%s").__mod__, b.at
    _attention(b, part, width, heads, causal=False)
    b.plus(part("add1"), source).layer_norm(part("ln1"), 1e-12)
    _feed_forward(b, part, width, approximate=False)
    b.plus(part("add2"), part("ln1")).layer_norm(part("ln2"), 1e-12)


def gpt2() -> Network:
    """GPT-2 small's 12 blocks (width 768, 12 heads, causal), a final normalisation, and 10 classes from the last vector."""
    b = Builder((128, 768))
    for number in range(1, 13):
        _block_before(b, "block%d" % number, 768, 12, causal=True, approximate=True, epsilon=1e-5)
    b.layer_norm("ln").token("last", "last").dense("head", 10)
    return b.network("gpt2", "Transformer blocks of GPT-2 small's shape", "random", _ADAM)


def bert_base() -> Network:
    """BERT-base's encoder of 12 blocks (width 768, 12 heads), and 2 classes from the first vector."""
    b = Builder((128, 768))
    for number in range(1, 13):
        _block_after(b, "block%d" % number, 768, 12)
    b.token("first", "first").dense("head", 2)
    return b.network("bert_base", "Encoder of BERT-base's shape", "random", _ADAM)


def vit_s16() -> Network:
    """ViT-S/16 (Touvron et al., 2020, DeiT-S): 22,050,664 parameters, 12 blocks of width 384 with 6 heads over 197 tokens."""
    b = Builder((3, 224, 224))
    b.convolution("patch", 384, 16, padding=0, stride=16).tokens("tokens")
    for number in range(1, 13):
        _block_before(b, "block%d" % number, 384, 6, causal=False, approximate=False, epsilon=1e-6)
    b.layer_norm("ln", 1e-6).token("first", "first").dense("head", 1000)
    return b.network("vit_s16", "ViT-S/16 on ImageNet shapes", "imagenet", _ADAM)
