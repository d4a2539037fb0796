"""Transformers in the shapes of GPT-2 small, BERT-base and ViT-S/16, as a Keras user writes them."""

from typing import Any

import keras
from keras import layers, ops

BLOCKS = 12


class Attention(layers.Layer):
    """Scaled dot-product attention; queries, keys and values are concatenated in the last dimension."""

    def __init__(self, heads: int, causal: bool, **options: Any) -> None:
        super().__init__(**options)
        self.heads = heads
        self.causal = causal

    def call(self, qkv: Any) -> Any:
        """Return the weighted sum of the values for each query: [batch, tokens, 3 * width] -> [batch, tokens, width]."""
        tokens, width = qkv.shape[1], qkv.shape[2] // 3
        parts = ops.split(qkv, 3, axis=-1)
        query, key, value = (ops.reshape(part, (-1, tokens, self.heads, width // self.heads)) for part in parts)
        mixed = ops.dot_product_attention(query, key, value, is_causal=self.causal)
        return ops.reshape(mixed, (-1, tokens, width))


class Tokens(layers.Layer):
    """Turns an image's pixels into tokens, prepends a trained token, and adds trained positions."""

    def build(self, input_shape: Any) -> None:
        """Create the trained token and the positions for images of this shape."""
        _, height, width, channels = input_shape
        self.class_token = self.add_weight(shape=(channels,), name="class_token")
        self.positions = self.add_weight(shape=(height * width + 1, channels), name="positions")

    def call(self, images: Any) -> Any:
        """Return the tokens: [batch, height, width, channels] -> [batch, height * width + 1, channels]."""
        count, channels = self.positions.shape
        patches = ops.reshape(images, (-1, count - 1, channels))
        first = ops.broadcast_to(self.class_token, (ops.shape(images)[0], 1, channels))
        return ops.concatenate([first, patches], axis=1) + self.positions


class Token(layers.Layer):
    """Selects one token by its position."""

    def __init__(self, position: int, **options: Any) -> None:
        super().__init__(**options)
        self.position = position

    def call(self, tokens: Any) -> Any:
        """Return the token: [batch, tokens, width] -> [batch, width]."""
        return tokens[:, self.position]


def gpt2(dropout: bool) -> Any:
    """Return the model over 128 vectors of 768: causal blocks that normalise first; it has no dropout to switch off."""
    vectors = layers.Input((128, 768))
    x = vectors
    for number in range(1, BLOCKS + 1):
        x = _block_before(x, f"block{number}", 12, True, gelu_by_tanh, 1e-5)
    x = layers.LayerNormalization(epsilon=1e-5, name="ln")(x)
    x = Token(-1, name="last")(x)
    return keras.Model(vectors, layers.Dense(10, name="head")(x), name="gpt2")


def bert_base(dropout: bool) -> Any:
    """Return the model over 128 vectors of 768: blocks that normalise last; it has no dropout to switch off."""
    vectors = layers.Input((128, 768))
    x = vectors
    for number in range(1, BLOCKS + 1):
        x = _block_after(x, f"block{number}", 12)
    x = Token(0, name="first")(x)
    return keras.Model(vectors, layers.Dense(2, name="head")(x), name="bert_base")


def vit_s16(dropout: bool) -> Any:
    """Return the model over patches of 224x224x3 images: blocks that normalise first; it has no dropout to switch off."""
    images = layers.Input((224, 224, 3))
    x = layers.Conv2D(384, 16, strides=16, name="patch")(images)
    x = Tokens(name="tokens")(x)
    for number in range(1, BLOCKS + 1):
        x = _block_before(x, f"block{number}", 6, False, "gelu", 1e-6)
    x = layers.LayerNormalization(epsilon=1e-6, name="ln")(x)
    x = Token(0, name="first")(x)
    return keras.Model(images, layers.Dense(1000, name="head")(x), name="vit_s16")


def gelu_by_tanh(x: Any) -> Any:
    """Return GELU in GPT-2's approximation by tanh."""
    return keras.activations.gelu(x, approximate=True)


def _block_before(x: Any, name: str, heads: int, causal: bool, gelu: Any, epsilon: float) -> Any:
    normalised = layers.LayerNormalization(epsilon=epsilon, name=f"{name}_ln1")(x)
    x = layers.Add(name=f"{name}_add1")([_attend(normalised, name, heads, causal), x])
    normalised = layers.LayerNormalization(epsilon=epsilon, name=f"{name}_ln2")(x)
    return layers.Add(name=f"{name}_add2")([_feed_forward(normalised, name, gelu), x])


def _block_after(x: Any, name: str, heads: int) -> Any:
    x = layers.Add(name=f"{name}_add1")([_attend(x, name, heads, causal=False), x])
    x = layers.LayerNormalization(epsilon=1e-12, name=f"{name}_ln1")(x)
    x = layers.Add(name=f"{name}_add2")([_feed_forward(x, name, "gelu"), x])
    return layers.LayerNormalization(epsilon=1e-12, name=f"{name}_ln2")(x)


def _attend(x: Any, name: str, heads: int, causal: bool) -> Any:
    width = x.shape[-1]
    x = layers.Dense(3 * width, name=f"{name}_qkv")(x)
    x = Attention(heads, causal, name=f"{name}_attention")(x)
    return layers.Dense(width, name=f"{name}_proj")(x)


def _feed_forward(x: Any, name: str, gelu: Any) -> Any:
    width = x.shape[-1]
    x = layers.Dense(4 * width, name=f"{name}_fc1")(x)
    x = layers.Activation(gelu, name=f"{name}_gelu")(x)
    return layers.Dense(width, name=f"{name}_fc2")(x)
