"""The blocks of GPT-2 and BERT, and ViT-S/16, as a JAX user writes them; there is no dropout to switch off."""

from typing import Any

from jax import numpy as jnp

from kernelscope.workloads.jax.layers import Attention, Block, Convolution, Dense, Layer, LayerNorm, Runner, Tokens, gelu, token


class BlockBefore(Block):
    """Attention and two dense layers, each with a shortcut and a normalisation before it, as in GPT-2 and ViT."""

    def __init__(self, width: int, heads: int, causal: bool, approximate: bool, epsilon: float) -> None:
        self.layers = {
            "ln1": LayerNorm(width, epsilon),
            "qkv": Dense(width, 3 * width),
            "attention": Attention(heads, causal),
            "proj": Dense(width, width),
            "add1": Layer(jnp.add),
            "ln2": LayerNorm(width, epsilon),
            "fc1": Dense(width, 4 * width),
            "gelu": gelu(approximate),
            "fc2": Dense(4 * width, width),
            "add2": Layer(jnp.add),
        }

    def __call__(self, run: Runner, x: Any) -> Any:
        """Return [batch, length, width] of x of the same shape."""
        x = run("add1", run("proj", run("attention", run("qkv", run("ln1", x)))), x)
        return run("add2", run("fc2", run("gelu", run("fc1", run("ln2", x)))), x)


class BlockAfter(BlockBefore):
    """The same layers, with the normalisations after both parts, as in BERT."""

    def __call__(self, run: Runner, x: Any) -> Any:
        """Return [batch, length, width] of x of the same shape."""
        x = run("ln1", run("add1", run("proj", run("attention", run("qkv", x))), x))
        return run("ln2", run("add2", run("fc2", run("gelu", run("fc1", x))), x))


def gpt2(dropout: bool) -> Any:
    """Return GPT-2 small: 12 causal blocks over vectors [batch, length, 768], a normalisation, 10 classes of the last one."""
    layers = {"block%d" % number: BlockBefore(768, 12, True, True, 1e-5) for number in range(1, 13)}
    return Block(dict(layers, ln=LayerNorm(768), last=token(-1), head=Dense(768, 10)))


def bert_base(dropout: bool) -> Any:
    """Return BERT-base's 12 blocks over vectors [batch, length, 768], and 2 classes from the first vector."""
    layers = {"block%d" % number: BlockAfter(768, 12, False, False, 1e-12) for number in range(1, 13)}
    return Block(dict(layers, first=token(0), head=Dense(768, 2)))


def vit_s16(dropout: bool) -> Any:
    """Return ViT-S/16: 16x16 patches of images [batch, 224, 224, 3], 12 blocks, and 1,000 classes from the trained token."""
    layers: Any = {"patch": Convolution(3, 384, 16, stride=16), "tokens": Tokens(14 * 14, 384)}
    layers.update(("block%d" % number, BlockBefore(384, 6, False, False, 1e-6)) for number in range(1, 13))
    return Block(dict(layers, ln=LayerNorm(384, 1e-6), first=token(0), head=Dense(384, 1000)))
