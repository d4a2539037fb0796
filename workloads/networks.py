"""The canonical description of every network: layers, shapes, parameters, operations and bytes.

All frameworks build the same network from here: the layer names are the names that every framework's program must use, the
initial weights are drawn here once and loaded into each framework, and the counts of operations and bytes are what the
analysis divides by. Shapes are for one sample and channels first; layouts of a framework are the business of its program.

Runs under Python 3.6 with numpy only.
"""

from collections import OrderedDict
from typing import NamedTuple, Tuple

import numpy

FLOAT_BYTES = 4


class UnknownNetwork(ValueError):
    """An unknown network was asked for."""


# One parameter tensor of a layer, in canonical layout: convolution weights are (out, in, height, width), dense weights are
# (out, in), recurrent weights are (4 * units, in) with the gates in the order input, forget, cell, output.
Parameter = NamedTuple("Parameter", [("name", str), ("shape", Tuple[int, ...])])

# One layer. `type` is one of convolution, dense, lstm, pooling_max, pooling_average, tanh, relu, dropout, flatten, loss.
# `flops` counts floating-point operations of the forward pass for one sample: a multiply-accumulate is two.
# `bytes` counts what one sample's forward pass must at least read and write in float32: input, output and, once per batch,
# the parameters (reported apart as `parameter_bytes`).
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
        ("settings", dict),
    ],
)

# A whole network. `optimizer` names the update rule and its settings; `settings` of it are equal in every framework.
Network = NamedTuple(
    "Network",
    [
        ("name", str),
        ("title", str),
        ("input_shape", Tuple[int, ...]),
        ("classes", int),
        ("dataset", str),
        ("layers", Tuple[Layer, ...]),
        ("optimizer", dict),
    ],
)


def elements(shape):
    """Return the number of elements of a tensor of this shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def parameter_count(network):
    """Return the number of trainable numbers of the whole network, biases counted once."""
    return sum(elements(p.shape) for layer in network.layers for p in layer.parameters)


class _Builder(object):
    """Appends layers one after another, each fed by the one before."""

    def __init__(self, input_shape):
        self.shape = tuple(input_shape)
        self.layers = []

    def add(self, name, type, output_shape, parameters=(), flops=0, **settings):
        output_shape = tuple(output_shape)
        parameters = tuple(Parameter(n, tuple(s)) for n, s in parameters)
        moved = FLOAT_BYTES * (elements(self.shape) + elements(output_shape))
        weights = FLOAT_BYTES * sum(elements(p.shape) for p in parameters)
        layer = Layer(name, type, self.shape, output_shape, parameters, int(flops), moved, weights, settings)
        self.layers.append(layer)
        self.shape = output_shape
        return self

    def convolution(self, name, channels, kernel, padding):
        in_channels, height, width = self.shape
        out_height, out_width = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
        macs = channels * out_height * out_width * in_channels * kernel * kernel
        bias = channels * out_height * out_width
        return self.add(
            name,
            "convolution",
            (channels, out_height, out_width),
            (("weight", (channels, in_channels, kernel, kernel)), ("bias", (channels,))),
            2 * macs + bias,
            kernel=kernel,
            padding=padding,
            stride=1,
        )

    def dense(self, name, units):
        inputs = self.shape[0]
        parameters = (("weight", (units, inputs)), ("bias", (units,)))
        return self.add(name, "dense", (units,), parameters, 2 * units * inputs + units)

    def lstm(self, name, units):
        steps, inputs = self.shape
        gates = 4 * units
        parameters = (
            ("input_weight", (gates, inputs)),
            ("hidden_weight", (gates, units)),
            ("bias", (gates,)),
        )
        # per time step: both products, the bias, three sigmoids and two tanh, and the cell's update (4 per unit)
        flops = steps * (2 * gates * (inputs + units) + gates + 5 * units + 4 * units)
        return self.add(name, "lstm", (units,), parameters, flops, units=units, steps=steps)

    def pooling(self, name, kind, size):
        channels, height, width = self.shape
        shape = (channels, height // size, width // size)
        return self.add(name, "pooling_" + kind, shape, (), elements(shape) * size * size, size=size)

    def activation(self, name, kind):
        return self.add(name, kind, self.shape, (), elements(self.shape))

    def dropout(self, name, rate):
        return self.add(name, "dropout", self.shape, (), elements(self.shape), rate=rate)

    def flatten(self, name):
        return self.add(name, "flatten", (elements(self.shape),))

    def loss(self):
        classes = self.shape[0]
        # softmax cross-entropy: maximum, subtraction, exponential, sum, logarithm, pick
        return self.add("loss", "loss", (), (), 5 * classes)


def _lenet():
    b = _Builder((1, 28, 28))
    b.convolution("conv1", 6, 5, padding=2).activation("tanh1", "tanh").pooling("pool1", "average", 2)
    b.convolution("conv2", 16, 5, padding=0).activation("tanh2", "tanh").pooling("pool2", "average", 2)
    b.flatten("flatten").dense("fc1", 120).activation("tanh3", "tanh")
    b.dense("fc2", 84).activation("tanh4", "tanh").dense("fc3", 10).loss()
    optimizer = {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9}
    return Network("lenet", "LeNet-5 on MNIST shapes", (1, 28, 28), 10, "mnist", tuple(b.layers), optimizer)


def _mlp():
    b = _Builder((784,))
    b.dense("fc1", 512).activation("relu1", "relu").dropout("dropout1", 0.2)
    b.dense("fc2", 512).activation("relu2", "relu").dropout("dropout2", 0.2)
    b.dense("fc3", 10).loss()
    optimizer = {"name": "rmsprop", "learning_rate": 0.001, "decay": 0.9}
    return Network("mlp", "Two hidden layers on MNIST shapes", (784,), 10, "mnist", tuple(b.layers), optimizer)


def _cnn():
    b = _Builder((3, 32, 32))
    b.convolution("conv1", 32, 3, padding=1).activation("relu1", "relu")
    b.convolution("conv2", 32, 3, padding=0).activation("relu2", "relu").pooling("pool1", "max", 2)
    b.dropout("dropout1", 0.25)
    b.convolution("conv3", 64, 3, padding=1).activation("relu3", "relu")
    b.convolution("conv4", 64, 3, padding=0).activation("relu4", "relu").pooling("pool2", "max", 2)
    b.dropout("dropout2", 0.25).flatten("flatten")
    b.dense("fc1", 512).activation("relu5", "relu").dropout("dropout3", 0.5).dense("fc2", 10).loss()
    optimizer = {"name": "rmsprop", "learning_rate": 0.0001, "decay": 0.9}
    return Network("cnn", "The Keras CIFAR-10 example network", (3, 32, 32), 10, "cifar10", tuple(b.layers), optimizer)


def _lstm():
    b = _Builder((28, 28))
    b.lstm("lstm1", 128).dense("fc1", 10).loss()
    optimizer = {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9}
    return Network("lstm", "One LSTM over the 28 rows of an MNIST image", (28, 28), 10, "mnist", tuple(b.layers), optimizer)


NETWORKS = OrderedDict((("lenet", _lenet), ("mlp", _mlp), ("cnn", _cnn), ("lstm", _lstm)))


def get(name):
    """Return the network of this name; raise UnknownNetwork naming the known ones."""
    if name not in NETWORKS:
        raise UnknownNetwork("unknown network %r; known: %s" % (name, ", ".join(NETWORKS)))
    return NETWORKS[name]()


def initial_weights(network, seed):
    """Draw the initial weights that every framework loads: uniform in +-1/sqrt(fan in), as PyTorch's default layers do.

    Returns an ordered dictionary from (layer name, parameter name) to a float32 array in canonical layout. The legacy
    generator is used because its stream is the same in every numpy release, so that no file has to be exchanged.
    """
    random = numpy.random.RandomState(seed)
    weights = OrderedDict()
    for layer in network.layers:
        for parameter in layer.parameters:
            fan_in = layer.settings["units"] if layer.type == "lstm" else elements(layer.parameters[0].shape[1:])
            bound = 1.0 / numpy.sqrt(fan_in)
            values = random.uniform(-bound, bound, size=parameter.shape).astype("float32")
            weights[(layer.name, parameter.name)] = values
    return weights


def as_dict(network):
    """Return the network as plain data for run.json: what the analysis needs to know of each layer."""
    layers = []
    for layer in network.layers:
        layers.append(
            {
                "name": layer.name,
                "type": layer.type,
                "input_shape": list(layer.input_shape),
                "output_shape": list(layer.output_shape),
                "parameters": sum(elements(p.shape) for p in layer.parameters),
                "flops": layer.flops,
                "bytes": layer.bytes,
                "parameter_bytes": layer.parameter_bytes,
                "settings": dict(layer.settings),
            }
        )
    return {
        "name": network.name,
        "title": network.title,
        "input_shape": list(network.input_shape),
        "classes": network.classes,
        "parameters": parameter_count(network),
        "optimizer": dict(network.optimizer),
        "layers": layers,
    }
