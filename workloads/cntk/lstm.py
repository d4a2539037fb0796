"""One LSTM over the rows of an image with cntk.layers."""

from typing import Any

from cntk.layers import LSTM, Dense, Fold, Sequential

from kernelscope.workloads.networks import Network


def lstm(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of a sequence of rows; it has no dropout to switch off."""
    return Sequential([Fold(LSTM(128), name="lstm1"), Dense(network.classes, name="fc1")])
