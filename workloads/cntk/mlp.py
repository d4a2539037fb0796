"""Two hidden layers with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, Dense, Dropout, Sequential

from kernelscope.workloads.networks import Network


def mlp(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the flat images; without `dropout` its dropout layers drop nothing."""
    rate = 0.2 if dropout else 0.0
    return Sequential(
        [
            Dense(512, name="fc1"),
            Activation(C.relu, name="relu1"),
            Dropout(rate, name="dropout1"),
            Dense(512, name="fc2"),
            Activation(C.relu, name="relu2"),
            Dropout(rate, name="dropout2"),
            Dense(network.classes, name="fc3"),
        ]
    )
