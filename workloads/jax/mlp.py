"""Two hidden layers with dropout over 784 inputs, as a JAX user writes it."""

import jax

from kernelscope.workloads.jax.layers import Dense, Dropout, Layer


def build(dropout):
    """Return the layers by name, in order; dropout: whether the dropout layers drop anything in training."""
    rate = 0.2 if dropout else 0.0
    return {
        "fc1": Dense(784, 512),
        "relu1": Layer(jax.nn.relu),
        "dropout1": Dropout(rate),
        "fc2": Dense(512, 512),
        "relu2": Layer(jax.nn.relu),
        "dropout2": Dropout(rate),
        "fc3": Dense(512, 10),
    }
