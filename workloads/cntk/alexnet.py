"""AlexNet on ImageNet and CIFAR-10 shapes with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, Convolution2D, Dense, Dropout, MaxPooling, Sequential

from kernelscope.workloads.networks import Network


def _alexnet(network: Network, dropout: bool, first: Any, pooled: int, hidden: int) -> Any:
    """Return the model. first: its first layers; pooled: width of the pooling windows; hidden: units of the dense layers."""
    rate = 0.5 if dropout else 0.0
    return Sequential(
        first
        + [
            Activation(C.relu, name="relu1"),
            MaxPooling((pooled, pooled), strides=2, name="pool1"),
            Convolution2D((5, 5), 192, pad=True, name="conv2"),
            Activation(C.relu, name="relu2"),
            MaxPooling((pooled, pooled), strides=2, name="pool2"),
            Convolution2D((3, 3), 384, pad=True, name="conv3"),
            Activation(C.relu, name="relu3"),
            Convolution2D((3, 3), 256, pad=True, name="conv4"),
            Activation(C.relu, name="relu4"),
            Convolution2D((3, 3), 256, pad=True, name="conv5"),
            Activation(C.relu, name="relu5"),
            MaxPooling((pooled, pooled), strides=2, name="pool5"),
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


def alexnet(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layers drop nothing.

    CNTK pads half a window or nothing, so the padding of two pixels on each side is a separate layer.
    """
    first = [
        lambda images: C.pad(images, [(0, 0), (2, 2), (2, 2)], name="conv1_pad"),
        Convolution2D((11, 11), 64, strides=4, name="conv1"),
    ]
    return _alexnet(network, dropout, first, 3, 4096)


def alexnet_cifar10(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layers drop nothing."""
    return _alexnet(network, dropout, [Convolution2D((3, 3), 64, pad=True, name="conv1")], 2, 1024)
