"""LSTM-32 and LSTM-64 of Shi et al. (2016), as a JAX user writes them: one network for any number of time steps."""

from typing import Any

from kernelscope.workloads.jax.layers import LSTM, Block, Dense


def _stacked() -> Any:
    """Return two LSTMs of 256 units over vectors of 10,000 numbers, and a dense layer on the last hidden state."""
    return Block({"lstm1": LSTM(10000, 256, sequence=True), "lstm2": LSTM(256, 256), "fc1": Dense(256, 10000)})


def lstm32(dropout: bool) -> Any:
    """Return LSTM-32; there is no dropout to switch off."""
    return _stacked()


def lstm64(dropout: bool) -> Any:
    """Return LSTM-64; there is no dropout to switch off."""
    return _stacked()
