"""The canonical description of every network: layers, shapes, parameters, operations and bytes.

All frameworks build the same networks from here. Every framework's program must use these layer names. The initial weights are
drawn here once and loaded into each framework. The analysis divides by these counts of operations and bytes. Layer names
consist of letters, digits and underscores, so that every framework can use them.

Runs under Python 3.6 with numpy only.
"""

from collections import OrderedDict

from kernelscope.workloads.networks import images, small, transformers
from kernelscope.workloads.networks.description import (
    FLOAT_BYTES,
    INPUT,
    Array,
    Layer,
    Network,
    Parameter,
    Settings,
    Weights,
    as_dict,
    elements,
    multiply_accumulates,
    parameter_count,
)
from kernelscope.workloads.networks.weights import initial_weights

__all__ = [
    "FLOAT_BYTES",
    "INPUT",
    "NETWORKS",
    "Array",
    "Layer",
    "Network",
    "Parameter",
    "Settings",
    "UnknownNetwork",
    "Weights",
    "as_dict",
    "elements",
    "get",
    "initial_weights",
    "multiply_accumulates",
    "parameter_count",
]

_DESCRIPTIONS = (
    small.lenet,
    small.mlp,
    small.cnn,
    small.lstm,
    small.cifarcnn,
    small.gru,
    small.fcn5,
    small.fcn8,
    small.lstm32,
    small.lstm64,
    images.alexnet,
    images.alexnet_cifar10,
    images.vgg16,
    images.vgg16_cifar10,
    images.googlenet,
    images.googlenet_cifar10,
    images.resnet50,
    images.resnet50_cifar10,
    transformers.gpt2,
    transformers.bert_base,
    transformers.vit_s16,
)
NETWORKS = OrderedDict((describe.__name__, describe) for describe in _DESCRIPTIONS)


class UnknownNetwork(ValueError):
    """The requested network is unknown."""


def get(name: str) -> Network:
    """Return the network of this name; raise UnknownNetwork, which lists the known ones."""
    if name not in NETWORKS:
        raise UnknownNetwork("unknown network %r; known: %s" % (name, ", ".join(NETWORKS)))
    return NETWORKS[name]()
