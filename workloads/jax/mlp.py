"""Two hidden layers with dropout over 784 inputs, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import Block, Dense, Dropout, relu


def mlp(dropout: bool) -> Any:
    """Return the network; dropout: whether the dropout layers drop anything in training."""
    rate = 0.2 if dropout else 0.0
    return Block(
        {
            "fc1": Dense(784, 512),
            "relu1": relu(),
            "dropout1": Dropout(rate),
            "fc2": Dense(512, 512),
            "relu2": relu(),
            "dropout2": Dropout(rate),
            "fc3": Dense(512, 10),
        }
    )
