"""The initial weights that every framework loads.

Runs under Python 3.6 with numpy only.
"""

from collections import OrderedDict
from typing import Tuple

import numpy

from kernelscope.workloads.networks.description import Layer, Network, Weights, elements

_NORMALISATIONS = ("batch_norm", "layer_norm")


def initial_weights(network: Network, seed: int) -> Weights:
    """Draw the initial weights: uniform in +-gain/sqrt(fan in), as PyTorch's default layers do with a gain of 1.

    A normalisation's weights are between 0.2 and 0.6, its biases in +-0.1; embeddings and tokens are in +-0.05. Returns an
    ordered dictionary from (layer name, parameter name) to a float32 array in canonical layout. The legacy generator has the
    same stream in every numpy release, so that no file has to be exchanged.
    """
    random = numpy.random.RandomState(seed)
    weights = OrderedDict()
    for layer in network.layers:
        for parameter in layer.parameters:
            low, high = _range(network, layer, parameter.name)
            weights[(layer.name, parameter.name)] = random.uniform(low, high, size=parameter.shape).astype("float32")
    return weights


def _range(network: Network, layer: Layer, name: str) -> Tuple[float, float]:
    if layer.type in _NORMALISATIONS:
        return (0.2, 0.6) if name == "weight" else (-0.1, 0.1)
    if layer.type in ("embedding", "tokens"):
        return -0.05, 0.05
    if layer.type in ("lstm", "gru"):
        bound = 1.0 / numpy.sqrt(layer.settings["units"])
    else:
        gain = network.gain if name == "weight" else 1.0
        bound = gain / numpy.sqrt(elements(layer.parameters[0].shape[1:]))
    return -bound, bound
