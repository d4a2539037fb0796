"""One GRU over the words of a review, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import GRU, Block, Dense, Embedding


def gru(dropout: bool) -> Any:
    """Return the network for reviews [batch, 150] of word numbers; there is no dropout to switch off."""
    return Block({"embedding": Embedding(30000, 125), "gru1": GRU(125, 100), "fc1": Dense(100, 2)})
