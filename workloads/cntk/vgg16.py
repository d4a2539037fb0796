"""VGG-16 on ImageNet and CIFAR-10 shapes with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, Convolution2D, Dense, Dropout, MaxPooling, Sequential

from kernelscope.workloads.networks import Network

_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def _convolution(channels: int, name: str, padded: bool) -> Any:
    """Return a 3 x 3 convolution that keeps its input's size. CNTK itself only pads inputs at least as large as the window."""
    if padded:
        return [Convolution2D((3, 3), channels, pad=True, name=name)]
    return [
        lambda features: C.pad(features, [(0, 0), (1, 1), (1, 1)], name=name + "_pad"),
        Convolution2D((3, 3), channels, name=name),
    ]


def _block(number: int, channels: int, count: int, padded: bool) -> Any:
    layers = []
    for at in range(1, count + 1):
        layers += _convolution(channels, "conv%d_%d" % (number, at), padded)
        layers.append(Activation(C.relu, name="relu%d_%d" % (number, at)))
    return layers + [MaxPooling((2, 2), strides=2, name="pool%d" % number)]


def _vgg16(network: Network, dropout: bool, hidden: int) -> Any:
    rate = 0.5 if dropout else 0.0
    layers = []
    for number, (channels, count) in enumerate(_BLOCKS, 1):
        size = network.input_shape[1] >> (number - 1)  # of the image at this block's input
        layers += _block(number, channels, count, padded=size >= 3)
    return Sequential(
        layers
        + [
            lambda features: C.reshape(features, (-1,), name="flatten"),
            Dropout(rate, name="dropout1"),
            Dense(hidden, name="fc1"),
            Activation(C.relu, name="relu_fc1"),
            Dropout(rate, name="dropout2"),
            Dense(hidden, name="fc2"),
            Activation(C.relu, name="relu_fc2"),
            Dense(network.classes, name="fc3"),
        ]
    )


def vgg16(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layers drop nothing."""
    return _vgg16(network, dropout, 4096)


def vgg16_cifar10(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layers drop nothing."""
    return _vgg16(network, dropout, 512)
