"""FCN-5 and FCN-8 of Shi et al. (2016), as a JAX user writes them; there is no dropout to switch off."""

from typing import Any

import jax

from kernelscope.workloads.jax.layers import Block, Dense, Layer


def _fcn(hidden: int) -> Any:
    """Return the network: 26,752 inputs and outputs, with `hidden` layers of 1,024 sigmoid units between them."""
    layers, inputs = {}, 26752  # type: Any, int
    for number in range(1, hidden + 1):
        layers["fc%d" % number] = Dense(inputs, 1024)
        layers["sigmoid%d" % number] = Layer(jax.nn.sigmoid)
        inputs = 1024
    layers["fc%d" % (hidden + 1)] = Dense(1024, 26752)
    return Block(layers)


def fcn5(dropout: bool) -> Any:
    """Return FCN-5 for vectors [batch, 26752]."""
    return _fcn(2)


def fcn8(dropout: bool) -> Any:
    """Return FCN-8 for vectors [batch, 26752]."""
    return _fcn(5)
