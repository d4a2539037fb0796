"""The description of a network: its layers with their shapes, parameters, operations and bytes.

Shapes are those of one sample, channels first; a framework's own layouts are known only to its program. Runs under Python 3.6.
"""

from collections import OrderedDict
from typing import Any, Dict, Iterable, NamedTuple, Tuple

Array = Any  # of numpy
Settings = Dict[str, Any]
Weights = Dict[Tuple[str, str], Array]  # (layer, parameter) -> values in canonical layout
FLOAT_BYTES = 4
INPUT = "input"  # the name, among a layer's inputs, of the sample itself

# One parameter tensor of a layer, in canonical layout: convolution weights are (out, in, height, width), dense weights are
# (out, in), recurrent weights are (gates * units, in) with an LSTM's gates in the order input, forget, cell, output and a
# GRU's in the order reset, update, new; embeddings are (words, units). All of these are trained.
Parameter = NamedTuple("Parameter", [("name", str), ("shape", Tuple[int, ...])])

# One layer. `type` is one of convolution, dense, lstm, gru, embedding, tokens, attention, batch_norm, layer_norm, pooling_max,
# pooling_average, pooling_global, tanh, relu, gelu, sigmoid, dropout, add, concat, flatten, first, last, loss.
# `inputs` names the layers that feed it, INPUT for the sample itself; `input_shape` is that of the first of them.
# `flops` counts floating-point operations of the forward pass for one sample; a multiply-accumulate counts as two.
# `bytes` is the least that one sample's forward pass must read and write in float32: inputs and output. The parameters, read
# once per batch, are separate: `parameter_bytes`.
Layer = NamedTuple(
    "Layer",
    [
        ("name", str),
        ("type", str),
        ("input_shape", Tuple[int, ...]),
        ("output_shape", Tuple[int, ...]),
        ("parameters", Tuple[Parameter, ...]),
        ("flops", int),
        ("bytes", int),
        ("parameter_bytes", int),
        ("settings", Settings),
        ("inputs", Tuple[str, ...]),
    ],
)

# A whole network. `optimizer` is the update rule and its settings, which are the same in every framework.
# A sample consists of numbers in [0, 1] or, if `words` is not 0, of integers from 0 to words - 1.
# `gain` scales the initial weights of convolutions and dense layers; without it, deep ReLU chains fade (see initial_weights).
Network = NamedTuple(
    "Network",
    [
        ("name", str),
        ("title", str),
        ("input_shape", Tuple[int, ...]),
        ("classes", int),
        ("dataset", str),
        ("layers", Tuple[Layer, ...]),
        ("optimizer", Settings),
        ("gain", float),
        ("words", int),
    ],
)


def elements(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor of this shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def parameter_count(network: Network) -> int:
    """Return the number of the whole network's trainable parameters, biases counted once."""
    return sum(elements(p.shape) for layer in network.layers for p in layer.parameters)


def multiply_accumulates(network: Network) -> int:
    """Return the multiply-accumulates of convolutions and dense layers for one sample, as counted in the literature."""
    count = 0
    for layer in network.layers:
        if layer.type in ("convolution", "dense"):
            weight = layer.parameters[0].shape
            positions = layer.output_shape[1:] if layer.type == "convolution" else layer.output_shape[:-1]
            count += elements(weight) * elements(positions)
    return count


def as_dict(network: Network) -> Dict[str, Any]:
    """Return the network as plain data for run.json, with everything that the analysis needs to know about each layer."""
    layers = []
    for layer in network.layers:
        layers.append(
            {
                "name": layer.name,
                "type": layer.type,
                "inputs": list(layer.inputs),
                "input_shape": list(layer.input_shape),
                "output_shape": list(layer.output_shape),
                "parameters": sum(elements(p.shape) for p in layer.parameters),
                "flops": layer.flops,
                "bytes": layer.bytes,
                "parameter_bytes": layer.parameter_bytes,
                "settings": dict(layer.settings),
            }
        )
    return OrderedDict(
        (
            ("name", network.name),
            ("title", network.title),
            ("input_shape", list(network.input_shape)),
            ("classes", network.classes),
            ("parameters", parameter_count(network)),
            ("multiply_accumulates", multiply_accumulates(network)),
            ("optimizer", dict(network.optimizer)),
            ("layers", layers),
        )
    )
