"""The CIFAR-10 network of the comparison of eleven frameworks with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, Convolution2D, Dense, Dropout, MaxPooling, Sequential

from kernelscope.workloads.networks import Network


def cifarcnn(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layers drop nothing."""
    quarter, half = (0.25, 0.5) if dropout else (0.0, 0.0)
    return Sequential(
        [
            Convolution2D((3, 3), 50, pad=True, name="conv1"),
            Activation(C.relu, name="relu1"),
            Convolution2D((3, 3), 50, pad=True, name="conv2"),
            Activation(C.relu, name="relu2"),
            MaxPooling((2, 2), strides=2, name="pool1"),
            Dropout(quarter, name="dropout1"),
            Convolution2D((3, 3), 100, pad=True, name="conv3"),
            Activation(C.relu, name="relu3"),
            Convolution2D((3, 3), 100, pad=True, name="conv4"),
            Activation(C.relu, name="relu4"),
            MaxPooling((2, 2), strides=2, name="pool2"),
            Dropout(quarter, name="dropout2"),
            lambda features: C.reshape(features, (-1,), name="flatten"),
            Dense(512, name="fc1"),
            Activation(C.relu, name="relu5"),
            Dropout(half, name="dropout3"),
            Dense(network.classes, name="fc2"),
        ]
    )
