"""Layers on numpy's arrays: `forward` keeps what `backward` needs, which returns the gradient of the layer's input."""

from typing import Dict

import numpy
from numpy.lib.stride_tricks import sliding_window_view

from kernelscope.workloads.networks import Array


class Layer(object):
    """A layer by its name; values and gradients of its parameters have the same names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: Dict[str, Array] = {}
        self.gradients: Dict[str, Array] = {}

    def forward(self, x: Array) -> Array:
        """Return the output."""
        raise NotImplementedError

    def backward(self, gradient: Array) -> Array:
        """Return the gradient of the input."""
        raise NotImplementedError


class Convolution(Layer):
    """A convolution of stride 1 with the same padding on all four sides."""

    def __init__(self, name: str, padding: int) -> None:
        super().__init__(name)
        self.padding = padding

    def forward(self, x: Array) -> Array:
        """Return images as a product of their windows and the weight."""
        edge = (self.padding, self.padding)
        weight = self.values["weight"]
        windows = sliding_window_view(numpy.pad(x, ((0, 0), (0, 0), edge, edge)), weight.shape[2:], axis=(2, 3))
        batch, _, height, width = windows.shape[:4]
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(batch * height * width, -1)
        result = self.columns @ weight.reshape(len(weight), -1).T + self.values["bias"]
        return result.reshape(batch, height, width, -1).transpose(0, 3, 1, 2)

    def backward(self, gradient: Array) -> Array:
        """Add every window's gradient where the window was."""
        weight, (batch, outputs, height, width) = self.values["weight"], gradient.shape
        rows = gradient.transpose(0, 2, 3, 1).reshape(-1, outputs)
        self.gradients["weight"] = (rows.T @ self.columns).reshape(weight.shape)
        self.gradients["bias"] = rows.sum(axis=0)
        _, inputs, size, _ = weight.shape
        columns = (rows @ weight.reshape(outputs, -1)).reshape(batch, height, width, inputs, size, size)
        result = numpy.zeros((batch, inputs, height + size - 1, width + size - 1), "float32")
        for i in range(size):
            for j in range(size):
                result[:, :, i : i + height, j : j + width] += columns[..., i, j].transpose(0, 3, 1, 2)
        inside = slice(self.padding, -self.padding or None)
        return result[:, :, inside, inside]


class Dense(Layer):
    """A matrix product with bias."""

    def forward(self, x: Array) -> Array:
        """Return [batch, outputs]."""
        self.x = x
        return x @ self.values["weight"].T + self.values["bias"]

    def backward(self, gradient: Array) -> Array:
        """Return [batch, inputs]."""
        self.gradients["weight"] = gradient.T @ self.x
        self.gradients["bias"] = gradient.sum(axis=0)
        return gradient @ self.values["weight"]


class Tanh(Layer):
    """A hyperbolic tangent."""

    def forward(self, x: Array) -> Array:
        """Return an array of the same shape."""
        self.y = numpy.tanh(x)
        return self.y

    def backward(self, gradient: Array) -> Array:
        """Return an array of the same shape."""
        return gradient * (1.0 - self.y * self.y)


class AveragePool(Layer):
    """The means of 2x2 squares."""

    def forward(self, x: Array) -> Array:
        """Return images of half the height and width."""
        batch, channels, height, width = x.shape
        return x.reshape(batch, channels, height // 2, 2, width // 2, 2).mean(axis=(3, 5))

    def backward(self, gradient: Array) -> Array:
        """Share each gradient among its square."""
        return numpy.repeat(numpy.repeat(gradient, 2, axis=2), 2, axis=3) * numpy.float32(0.25)


class Flatten(Layer):
    """Each sample as one row."""

    def forward(self, x: Array) -> Array:
        """Return [batch, numbers of a sample]."""
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, gradient: Array) -> Array:
        """Return an array of the input's shape."""
        return gradient.reshape(self.shape)


class SoftmaxCrossEntropy(object):
    """The mean loss of a batch."""

    def forward(self, logits: Array, labels: Array) -> Array:
        """Return the loss."""
        shifted = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        self.shares, self.labels = shifted / shifted.sum(axis=1, keepdims=True), labels
        return -numpy.log(self.shares[numpy.arange(len(labels)), labels]).mean()

    def backward(self) -> Array:
        """Return the gradient of the logits."""
        gradient = self.shares.copy()
        gradient[numpy.arange(len(gradient)), self.labels] -= 1.0
        return gradient / numpy.float32(len(gradient))
