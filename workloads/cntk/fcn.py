"""FCN-5 and FCN-8 of Shi et al. with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, Dense, Sequential

from kernelscope.workloads.networks import Network


def _fcn(network: Network, hidden: int) -> Any:
    layers = []
    for number in range(1, hidden + 1):
        layers += [Dense(1024, name="fc%d" % number), Activation(C.sigmoid, name="sigmoid%d" % number)]
    return Sequential(layers + [Dense(network.classes, name="fc%d" % (hidden + 1))])


def fcn5(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of the inputs; it has no dropout to switch off."""
    return _fcn(network, 2)


def fcn8(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of the inputs; it has no dropout to switch off."""
    return _fcn(network, 5)
