"""LeNet-5 with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, AveragePooling, Convolution2D, Dense, Sequential

from kernelscope.workloads.networks import Network


def lenet(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; LeNet-5 has no dropout to switch off."""
    return Sequential(
        [
            Convolution2D((5, 5), 6, pad=True, name="conv1"),
            Activation(C.tanh, name="tanh1"),
            AveragePooling((2, 2), strides=2, name="pool1"),
            Convolution2D((5, 5), 16, name="conv2"),
            Activation(C.tanh, name="tanh2"),
            AveragePooling((2, 2), strides=2, name="pool2"),
            lambda features: C.reshape(features, (-1,), name="flatten"),
            Dense(120, name="fc1"),
            Activation(C.tanh, name="tanh3"),
            Dense(84, name="fc2"),
            Activation(C.tanh, name="tanh4"),
            Dense(network.classes, name="fc3"),
        ]
    )
