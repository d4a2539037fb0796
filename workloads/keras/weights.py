"""Converts weights and batches between the canonical layout and Keras's, which is inputs first, channels last."""

from typing import Any, Dict, Optional, Tuple

import keras
import numpy

from kernelscope.workloads.networks import Array, Layer, Network, Weights
from kernelscope.workloads.program import Parameters, Shapes, parameter

# canonical name of a parameter -> the names of Keras's layers for it, if different
VARIABLES = {
    "weight": ("kernel", "gamma", "embeddings"),
    "bias": ("bias", "beta"),
    "input_weight": ("kernel",),
    "hidden_weight": ("recurrent_kernel",),
}
_KERNELS = ("kernel", "recurrent_kernel")
_KEEPING_ORDER = ("dropout", "relu", "tanh", "sigmoid", "gelu")  # layers that may be between a flatten and its dense layer


def channels_last(images: Array) -> Array:
    """Return images [batch, channels, height, width] as [batch, height, width, channels]; other shapes as they are."""
    return numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)) if images.ndim == 4 else images


def load(model: Any, network: Network, weights: Weights) -> None:
    """Load {(layer, parameter): float32 array in canonical layout} into the network's model; other variables stay as they are.

    Keras has the canonical order of gates for an LSTM, but not for a GRU.
    """
    for layer in network.layers:
        values = {name: array for (owner, name), array in weights.items() if owner == layer.name}
        if layer.type == "gru":
            values = _gru_layout(values)
        for name, array in values.items():
            target = model.get_layer(layer.name)
            target = getattr(target, "cell", target)
            own_name = next(own for own in VARIABLES.get(name, (name,)) if hasattr(target, own))
            if own_name in _KERNELS:
                array = keras_layout(network, layer, array)
            getattr(target, own_name).assign(array)


def _gru_layout(values: Any) -> Dict[str, Array]:
    """Return a GRU's values in Keras's layout: update gate before reset gate, and the two biases stacked."""

    def gates(array: Any) -> Array:
        reset, update, new = numpy.split(array, 3)
        return numpy.concatenate([update, reset, new])

    bias = numpy.stack([gates(values["input_bias"]), gates(values["hidden_bias"])])
    return {"input_weight": gates(values["input_weight"]), "hidden_weight": gates(values["hidden_weight"]), "bias": bias}


def keras_layout(network: Network, layer: Layer, values: Any) -> Array:
    """Return a kernel's values in Keras's layout: inputs before outputs, flattened images channels last."""
    if values.ndim == 4:
        return values.transpose(2, 3, 1, 0)
    source = flattened_by(network, layer)
    if source is not None:
        channels, height, width = source
        values = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(values), -1)
    return values.T


def flattened_by(network: Network, layer: Layer) -> Optional[Tuple[int, ...]]:
    """Return (channels, height, width) of the images that are flattened into the layer's inputs; None if there are none."""
    layers = {each.name: each for each in network.layers}
    before = layers.get(layer.inputs[0])
    while before is not None and before.type in _KEEPING_ORDER:
        before = layers.get(before.inputs[0])
    return before.input_shape if before is not None and before.type == "flatten" and len(before.input_shape) == 3 else None


def parameters(model: Any) -> Parameters:
    """Return the trainable parameters as a list of {layer, name, shape, count}, with Keras's names and shapes."""
    found = []
    for layer in model.layers:
        for variable in layer.trainable_variables:
            found.append(parameter(layer.name, variable.name, variable.shape))
    return found


def layer_shapes(model: Any, values: Any) -> Shapes:
    """Return {layer: shape of one sample's output, channels first}, observed by running the layers on `values`."""
    layers = [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]
    outputs = keras.Model(model.inputs, [layer.output for layer in layers])(values, training=False)
    shapes = {}
    for layer, output in zip(layers, outputs):
        shape = [int(size) for size in output.shape[1:]]
        shapes[layer.name] = shape[-1:] + shape[:-1] if len(shape) == 3 else shape
    return shapes
