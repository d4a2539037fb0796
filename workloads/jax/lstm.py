"""One LSTM over the 28 rows of a 28x28 image, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import LSTM, Block, Dense


def lstm(dropout: bool) -> Any:
    """Return the network; there is no dropout to switch off."""
    return Block({"lstm1": LSTM(28, 128), "fc1": Dense(128, 10)})
