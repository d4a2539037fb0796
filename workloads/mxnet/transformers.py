"""Transformers in Gluon in the shapes of GPT-2 small, BERT-base and ViT-S/16, written like GluonNLP's models."""

import math
from typing import Any, Optional

import mxnet as mx
from mxnet.gluon import HybridBlock, nn

from kernelscope.workloads.networks import Network

_BLOCKS = 12
_MASKED = -1e9  # a score that softmax turns into 0


class SelfAttention(HybridBlock):
    """Scaled dot-product attention; queries, keys and values are concatenated in the last dimension.

    length: the number of tokens if attention is causal, else None.
    """

    def __init__(self, heads: int, length: Optional[int] = None, **kwargs: Any) -> None:
        super(SelfAttention, self).__init__(**kwargs)
        self._heads = heads
        with self.name_scope():
            if length is not None:
                later = mx.nd.arange(length).expand_dims(0) > mx.nd.arange(length).expand_dims(1)
                self.mask = self.params.get_constant("mask", later.expand_dims(0) * _MASKED)

    def hybrid_forward(self, F: Any, qkv: Any, mask: Any = None) -> Any:
        """Return (N, length, width) for queries, keys and values (N, length, 3 * width)."""
        # (N, length, 3 * heads, size) -> (N, 3 * heads, length, size)
        split = F.transpose(F.reshape(qkv, shape=(0, 0, 3 * self._heads, -1)), axes=(0, 2, 1, 3))
        query, key, value = (
            F.reshape(part, shape=(-3, 0, 0)) for part in F.split(split, num_outputs=3, axis=1)
        )  # (N * heads, length, size) each
        scores = F.batch_dot(F.contrib.div_sqrt_dim(query), key, transpose_b=True)
        if mask is not None:
            scores = F.broadcast_add(scores, mask)
        context = F.batch_dot(F.softmax(scores), value)
        context = F.transpose(F.reshape(context, shape=(-4, -1, self._heads, 0, 0)), axes=(0, 2, 1, 3))
        return F.reshape(context, shape=(0, 0, -3))


class TanhGELU(HybridBlock):
    """GELU in GPT-2's approximation by tanh."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return an array of the same shape."""
        return 0.5 * x * (1.0 + F.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


class Block(HybridBlock):
    """Attention and two dense layers, each with a shortcut; normalised before the two parts or, with `after`, after them."""

    def __init__(self, width, heads, length, after, approximate, epsilon, **kwargs):
        # type: (int, int, Any, bool, bool, float, **Any) -> None
        super(Block, self).__init__(**kwargs)
        self._after = after
        with self.name_scope():
            self.ln1 = nn.LayerNorm(epsilon=epsilon, prefix="ln1_")
            self.qkv = nn.Dense(3 * width, flatten=False, prefix="qkv_")
            self.attention = SelfAttention(heads, length, prefix="attention_")
            self.proj = nn.Dense(width, flatten=False, prefix="proj_")
            self.ln2 = nn.LayerNorm(epsilon=epsilon, prefix="ln2_")
            self.fc1 = nn.Dense(4 * width, flatten=False, prefix="fc1_")
            self.gelu = TanhGELU(prefix="gelu_") if approximate else nn.GELU(prefix="gelu_")
            self.fc2 = nn.Dense(width, flatten=False, prefix="fc2_")

    def _attend(self, x: Any) -> Any:
        return self.proj(self.attention(self.qkv(x)))

    def _feed(self, x: Any) -> Any:
        return self.fc2(self.gelu(self.fc1(x)))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return tokens (N, length, width) for tokens of the same shape."""
        if self._after:
            x = self.ln1(F.elemwise_add(x, self._attend(x), name="add1"))
            return self.ln2(F.elemwise_add(x, self._feed(x), name="add2"))
        x = F.elemwise_add(x, self._attend(self.ln1(x)), name="add1")
        return F.elemwise_add(x, self._feed(self.ln2(x)), name="add2")


class Tokens(HybridBlock):
    """Turns an image's pixels into tokens, prepends a trained token, and adds trained positions."""

    def __init__(self, count: int, width: int, **kwargs: Any) -> None:
        super(Tokens, self).__init__(**kwargs)
        with self.name_scope():
            self.class_token = self.params.get("class_token", shape=(width,))
            self.positions = self.params.get("positions", shape=(count, width))

    def hybrid_forward(self, F: Any, patches: Any, class_token: Any, positions: Any) -> Any:
        """Return tokens (N, height * width + 1, channels) for patches (N, channels, height, width)."""
        patches = F.transpose(F.reshape(patches, shape=(0, 0, -1)), axes=(0, 2, 1))
        first = F.broadcast_like(F.reshape(class_token, shape=(1, 1, -1)), patches, lhs_axes=(0,), rhs_axes=(0,))
        return F.broadcast_add(F.concat(first, patches, dim=1), F.expand_dims(positions, axis=0))


def _add_blocks(net, width, heads, length=None, after=False, approximate=False, epsilon=1e-5):
    # type: (Any, int, int, Any, bool, bool, float) -> None
    for number in range(1, _BLOCKS + 1):
        net.add(Block(width, heads, length, after, approximate, epsilon, prefix="block%d_" % number))


def _token(position: Any, name: str) -> Any:
    """Return a block that selects one token by its position."""
    end = None if position < 0 else position + 1
    return nn.HybridLambda(lambda F, x: F.squeeze(F.slice_axis(x, axis=1, begin=position, end=end), axis=1), prefix=name + "_")


def gpt2(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 128, 768) to logits; it has no dropout."""
    net = nn.HybridSequential(prefix="gpt2_")
    with net.name_scope():
        _add_blocks(net, 768, 12, length=128, approximate=True)
        net.add(nn.LayerNorm(prefix="ln_"), _token(-1, "last"), nn.Dense(network.classes, prefix="head_"))
    return net


def bert_base(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 128, 768) to logits; it has no dropout."""
    net = nn.HybridSequential(prefix="bert_base_")
    with net.name_scope():
        _add_blocks(net, 768, 12, after=True, epsilon=1e-12)
        net.add(_token(0, "first"), nn.Dense(network.classes, prefix="head_"))
    return net


def vit_s16(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 224, 224) to logits; it has no dropout."""
    net = nn.HybridSequential(prefix="vit_s16_")
    with net.name_scope():
        net.add(nn.Conv2D(384, 16, strides=16, prefix="patch_"), Tokens(14 * 14 + 1, 384, prefix="tokens_"))
        _add_blocks(net, 384, 6, epsilon=1e-6)
        net.add(nn.LayerNorm(epsilon=1e-6, prefix="ln_"), _token(0, "first"), nn.Dense(network.classes, prefix="head_"))
    return net
