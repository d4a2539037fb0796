"""Transformer blocks of GPT-2's shape with cntk.layers and CNTK's operations.

cntk.layers has no multi-head attention, its LayerNormalization takes the mean over all static axes, and CNTK has no batched
matrix product. So each head is a slice with its own products, as CNTK users wrote it.
"""

from math import pi, sqrt
from typing import Any

import cntk as C
import numpy
from cntk.layers import Activation, BlockFunction, Dense, Sequential

from kernelscope.workloads.networks import Network

_BLOCKS, _HEADS = 12, 12


def _normalisation(name: str) -> Any:
    """Return a normalisation over the last axis."""
    scale = C.Parameter(C.InferredDimension, init=1, name="scale")
    bias = C.Parameter(C.InferredDimension, init=0, name="bias")

    @BlockFunction("LayerNormalization", name)
    def normalise(x):  # type: (Any) -> Any
        centred = x - C.reduce_mean(x, axis=-1)
        deviation = C.sqrt(C.reduce_mean(C.square(centred), axis=-1) + 1e-5)
        return centred / deviation * scale + bias

    return normalise


def _attention(length: int, width: int, name: str) -> Any:
    """Return causal attention; queries, keys and values are concatenated in the last axis."""
    size = width // _HEADS
    future = C.Constant(numpy.triu(numpy.full((length, length), -1e9, dtype="float32"), 1))

    @BlockFunction("Attention", name)
    def attend(x):  # type: (Any) -> Any
        heads = []
        for start in range(0, width, size):
            query, key, value = (C.slice(x, -1, first + start, first + start + size) for first in (0, width, 2 * width))
            scores = C.times_transpose(query, key) / sqrt(size) + future
            heads.append(C.times(_softmax(scores), value))
        return C.splice(*heads, axis=-1)

    return attend


def _softmax(x: Any) -> Any:
    """Return the softmax over the last axis. While the rank is still unknown, C.softmax ignores its axis and takes all axes."""
    return C.exp(x - C.reduce_log_sum_exp(x, axis=-1))


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + C.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))


def _dense(units: int, name: str) -> Any:
    """Return a dense layer over the last axis only."""
    return Dense(units, map_rank=1, name=name)


def _block(name: str, length: int, width: int) -> Any:
    part = (name + "_%s").__mod__
    attention = Sequential(
        [
            _normalisation(part("ln1")),
            _dense(3 * width, part("qkv")),
            _attention(length, width, part("attention")),
            _dense(width, part("proj")),
        ]
    )
    feed_forward = Sequential(
        [
            _normalisation(part("ln2")),
            _dense(4 * width, part("fc1")),
            Activation(_gelu, name=part("gelu")),
            _dense(width, part("fc2")),
        ]
    )

    def block(x):  # type: (Any) -> Any
        attended = C.plus(attention(x), x, name=part("add1"))
        return C.plus(feed_forward(attended), attended, name=part("add2"))

    return block


def gpt2(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of a row of vectors; it has no dropout to switch off."""
    length, width = network.input_shape
    blocks = [_block("block%d" % number, length, width) for number in range(1, _BLOCKS + 1)]

    @BlockFunction("Last", "last")
    def last(x):  # type: (Any) -> Any
        return C.reshape(C.slice(x, 0, length - 1, length), (width,))

    return Sequential(blocks + [_normalisation("ln"), last, Dense(network.classes, name="head")])
