"""Layers as a JAX user writes them: each has its parameters' shapes and is a function of them. Images are channels last."""

from typing import Any, Callable, Dict, Tuple

import jax
from jax import lax
from jax import numpy as jnp

Runner = Callable[..., Any]  # run(name, *inputs) runs the layer or block of this name
Shape = Tuple[int, ...]


class Layer(object):
    """A layer without parameters that applies a function to its inputs."""

    shapes: Dict[str, Shape] = {}
    statistics: Dict[str, Shape] = {}  # shapes of the values that training changes without a gradient

    def __init__(self, function: Any = None) -> None:
        self.function = function

    def __call__(self, parameters: Any, *values: Any, key: Any) -> Any:
        """Return the layer's output. key: for random numbers; None outside of training."""
        return self.function(*values)


class Block(object):
    """Layers and blocks by name, run one after another; a subclass with another structure overrides the call."""

    def __init__(self, layers: Any) -> None:
        self.layers = layers

    def __call__(self, run: Runner, values: Any) -> Any:
        """Return the block's output; run(name, *inputs) runs one of its layers."""
        for name in self.layers:
            values = run(name, values)
        return values

    def leaves(self, prefix: str = "") -> Dict[str, Layer]:
        """Return {name: layer}; the name of a layer inside a block begins with the block's name."""
        found: Dict[str, Layer] = {}
        for name, layer in self.layers.items():
            found.update(layer.leaves(prefix + name + "_") if isinstance(layer, Block) else {prefix + name: layer})
        return found


class Convolution(Layer):
    """A convolution; padding: lax's padding, or a number of pixels on each side."""

    def __init__(self, inputs: int, outputs: int, size: int, padding: Any = 0, stride: int = 1, bias: bool = True) -> None:
        self.padding = [(padding, padding)] * 2 if isinstance(padding, int) else padding
        self.stride = stride
        self.shapes = {"weight": (size, size, inputs, outputs)}
        if bias:
            self.shapes["bias"] = (outputs,)

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return images [batch, height, width, outputs] of images [batch, height, width, inputs]."""
        layout, strides = ("NHWC", "HWIO", "NHWC"), (self.stride, self.stride)
        result = lax.conv_general_dilated(values, parameters["weight"], strides, self.padding, dimension_numbers=layout)
        return result + parameters["bias"] if "bias" in parameters else result


class Dense(Layer):
    """A matrix product with bias over the last dimension."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.shapes = {"weight": (inputs, outputs), "bias": (outputs,)}

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return [batch, ..., outputs] of values [batch, ..., inputs]."""
        return values @ parameters["weight"] + parameters["bias"]


class Dropout(Layer):
    """In training, zeroes a random share of its input and scales up the rest."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return values of the same shape."""
        if key is None or self.rate == 0.0:
            return values
        kept = jax.random.bernoulli(key, 1.0 - self.rate, values.shape)
        return jnp.where(kept, values / (1.0 - self.rate), 0.0)


class BatchNorm(Layer):
    """A normalisation of each channel over the batch; in inference, by the running statistics of training."""

    def __init__(self, channels: int, epsilon: float = 1e-5, keep: float = 0.9) -> None:
        self.epsilon, self.keep = epsilon, keep
        self.shapes = {"weight": (channels,), "bias": (channels,)}
        self.statistics = {"mean": (channels,), "variance": (channels,)}

    def __call__(self, parameters: Any, values: Any, key: Any, statistics: Any) -> Any:
        """Return (values of the same shape and type, computed in float32; the new running statistics)."""
        found, given = statistics, values.dtype
        values = values.astype(jnp.float32)
        if key is not None:
            found = {"mean": values.mean((0, 1, 2)), "variance": values.var((0, 1, 2))}
            statistics = {name: self.keep * old + (1.0 - self.keep) * found[name] for name, old in statistics.items()}
        scale = lax.rsqrt(found["variance"] + self.epsilon) * parameters["weight"]
        return ((values - found["mean"]) * scale + parameters["bias"]).astype(given), statistics


class LayerNorm(Layer):
    """A normalisation over the last dimension."""

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon
        self.shapes = {"weight": (width,), "bias": (width,)}

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return values of the same shape and type, computed in float32."""
        found = jax.nn.standardize(values.astype(jnp.float32), epsilon=self.epsilon)
        return (found * parameters["weight"] + parameters["bias"]).astype(values.dtype)


class Embedding(Layer):
    """A table with a vector for each word."""

    def __init__(self, words: int, units: int) -> None:
        self.shapes = {"weight": (words, units)}

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return [batch, length, units] for word numbers [batch, length]."""
        return parameters["weight"][values]


class LSTM(Layer):
    """A recurrent layer with gates in the order input, forget, cell, output. It outputs the last hidden state, or all."""

    def __init__(self, inputs: int, units: int, sequence: bool = False) -> None:
        self.units, self.sequence = units, sequence
        self.shapes = {"input_weight": (inputs, 4 * units), "hidden_weight": (units, 4 * units), "bias": (4 * units,)}

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return [batch, units] or, with `sequence`, [batch, time, units] for rows [batch, time, inputs]."""

        def cell(state: Any, row: Any) -> Any:
            hidden, memory = state
            gates = row @ parameters["input_weight"] + hidden @ parameters["hidden_weight"] + parameters["bias"]
            entering, kept, new, leaving = jnp.split(gates, 4, axis=-1)
            memory = jax.nn.sigmoid(kept) * memory + jax.nn.sigmoid(entering) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(leaving) * jnp.tanh(memory)
            return (hidden, memory), hidden if self.sequence else None

        zeros = jnp.zeros((values.shape[0], self.units), values.dtype)
        (hidden, _), sequence = lax.scan(cell, (zeros, zeros), values.swapaxes(0, 1))
        return sequence.swapaxes(0, 1) if self.sequence else hidden


class GRU(Layer):
    """A recurrent layer in cuDNN's form with gates in the order reset, update, new. It outputs the last hidden state."""

    def __init__(self, inputs: int, units: int) -> None:
        self.units = units
        self.shapes = {"input_weight": (inputs, 3 * units), "hidden_weight": (units, 3 * units)}
        self.shapes.update(input_bias=(3 * units,), hidden_bias=(3 * units,))

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return [batch, units] for rows [batch, time, inputs]."""

        def cell(hidden: Any, row: Any) -> Any:
            entering = jnp.split(row @ parameters["input_weight"] + parameters["input_bias"], 3, axis=-1)
            kept = jnp.split(hidden @ parameters["hidden_weight"] + parameters["hidden_bias"], 3, axis=-1)
            reset, update = jax.nn.sigmoid(entering[0] + kept[0]), jax.nn.sigmoid(entering[1] + kept[1])
            new = jnp.tanh(entering[2] + reset * kept[2])
            return (1.0 - update) * new + update * hidden, None

        zeros = jnp.zeros((values.shape[0], self.units), values.dtype)
        return lax.scan(cell, zeros, values.swapaxes(0, 1))[0]


class Tokens(Layer):
    """Turns an image's pixels into tokens, prepends a trained token, and adds trained positions."""

    def __init__(self, count: int, width: int) -> None:
        self.shapes = {"class_token": (width,), "positions": (count + 1, width)}

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return [batch, 1 + height * width, channels] of images [batch, height, width, channels]."""
        batch, _, _, channels = values.shape
        first = jnp.broadcast_to(parameters["class_token"], (batch, 1, channels))
        return jnp.concatenate([first, values.reshape(batch, -1, channels)], axis=1) + parameters["positions"]


class Attention(Layer):
    """Scaled dot-product attention with several heads; queries, keys and values are concatenated in the last dimension."""

    def __init__(self, heads: int, causal: bool) -> None:
        self.heads, self.causal = heads, causal

    def __call__(self, parameters: Any, values: Any, key: Any) -> Any:
        """Return [batch, length, width] of values [batch, length, 3 * width]."""
        batch, length, width = values.shape
        query, keys, value = jnp.moveaxis(values.reshape(batch, length, 3, self.heads, -1), 2, 0)
        return jax.nn.dot_product_attention(query, keys, value, is_causal=self.causal).reshape(batch, length, width // 3)


def relu() -> Layer:
    """Return a layer of rectified linear units."""
    return Layer(jax.nn.relu)


def gelu(approximate: bool) -> Layer:
    """Return a layer of Gaussian error linear units; approximate: whether by tanh."""
    return Layer(lambda values: jax.nn.gelu(values, approximate=approximate))


def concat() -> Layer:
    """Return a layer that concatenates the channels of several images."""
    return Layer(lambda *branches: jnp.concatenate(branches, axis=-1))


def token(number: int) -> Layer:
    """Return a layer that selects one token by its number."""
    return Layer(lambda tokens: tokens[:, number])


def pooling(size: int, stride: int, padding: Any = 0) -> Layer:
    """Return a max pooling layer with square windows."""
    windows, strides = (1, size, size, 1), (1, stride, stride, 1)
    edges = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    return Layer(lambda values: lax.reduce_window(values, -jnp.inf, lax.max, windows, strides, edges))


def average_pooling(values: Any) -> Any:
    """Return the means of 2x2 windows of images [batch, height, width, channels]."""
    return lax.reduce_window(values, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4.0


def max_pooling(values: Any) -> Any:
    """Return the maxima of 2x2 windows of images [batch, height, width, channels]."""
    return lax.reduce_window(values, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def global_average(values: Any) -> Any:
    """Return the mean of each channel, [batch, channels], of images [batch, height, width, channels]."""
    return values.mean((1, 2))


def flatten(values: Any) -> Any:
    """Return each sample as a vector: [batch, number of its values]."""
    return values.reshape(values.shape[0], -1)
