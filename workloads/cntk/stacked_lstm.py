"""LSTM-32 and LSTM-64 of Shi et al. with cntk.layers; the data decides the number of time steps."""

from typing import Any

from cntk.layers import LSTM, Dense, Fold, Recurrence, Sequential

from kernelscope.workloads.networks import Network


def lstm32(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of a sequence; it has no dropout to switch off."""
    return Sequential(
        [
            Recurrence(LSTM(256), name="lstm1"),
            Fold(LSTM(256), name="lstm2"),
            Dense(network.classes, name="fc1"),
        ]
    )


lstm64 = lstm32
