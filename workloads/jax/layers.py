"""Layers as a JAX user writes them: each tells its parameters' shapes and is a function of them. Images are channels last."""

import jax
from jax import lax
from jax import numpy as jnp


class Layer(object):
    """A layer without parameters that applies a function to its input."""

    shapes = {}

    def __init__(self, function=None):
        self.function = function

    def __call__(self, parameters, values, key):
        """Return the layer's output. key: for random numbers; None outside of training."""
        return self.function(values)


class Convolution(Layer):
    """A convolution of stride 1 with bias."""

    def __init__(self, inputs, outputs, size, padding):
        self.padding = padding
        self.shapes = {"weight": (size, size, inputs, outputs), "bias": (outputs,)}

    def __call__(self, parameters, values, key):
        """Return images [batch, height, width, outputs]."""
        layout = ("NHWC", "HWIO", "NHWC")
        result = lax.conv_general_dilated(values, parameters["weight"], (1, 1), self.padding, dimension_numbers=layout)
        return result + parameters["bias"]


class Dense(Layer):
    """A matrix product with bias."""

    def __init__(self, inputs, outputs):
        self.shapes = {"weight": (inputs, outputs), "bias": (outputs,)}

    def __call__(self, parameters, values, key):
        """Return [batch, outputs]."""
        return values @ parameters["weight"] + parameters["bias"]


class Dropout(Layer):
    """Zeroes a share of its input in training, and scales the rest."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, parameters, values, key):
        """Return values of the same shape."""
        if key is None or self.rate == 0.0:
            return values
        kept = jax.random.bernoulli(key, 1.0 - self.rate, values.shape)
        return jnp.where(kept, values / (1.0 - self.rate), 0.0)


class LSTM(Layer):
    """A recurrent layer whose last hidden state is its output; gates in the order input, forget, cell, output."""

    def __init__(self, inputs, units):
        self.units = units
        self.shapes = {"input_weight": (inputs, 4 * units), "hidden_weight": (units, 4 * units), "bias": (4 * units,)}

    def __call__(self, parameters, values, key):
        """Return [batch, units] for rows [batch, time, inputs]."""

        def cell(state, row):
            hidden, memory = state
            gates = row @ parameters["input_weight"] + hidden @ parameters["hidden_weight"] + parameters["bias"]
            entering, kept, new, leaving = jnp.split(gates, 4, axis=-1)
            memory = jax.nn.sigmoid(kept) * memory + jax.nn.sigmoid(entering) * jnp.tanh(new)
            return (jax.nn.sigmoid(leaving) * jnp.tanh(memory), memory), None

        zeros = jnp.zeros((values.shape[0], self.units))
        (hidden, _), _ = lax.scan(cell, (zeros, zeros), values.swapaxes(0, 1))
        return hidden


def average_pooling(values):
    """Return the means of 2x2 squares."""
    return lax.reduce_window(values, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4.0


def max_pooling(values):
    """Return the maxima of 2x2 squares."""
    return lax.reduce_window(values, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def flatten(values):
    """Return [batch, values of a sample]."""
    return values.reshape(values.shape[0], -1)
