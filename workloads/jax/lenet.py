"""LeNet-5 for 28x28x1 images, as a JAX user writes it."""

from typing import Any

from jax import numpy as jnp

from kernelscope.workloads.jax.layers import Block, Convolution, Dense, Layer, average_pooling, flatten


def lenet(dropout: bool) -> Any:
    """Return the network: two convolutions with average pooling, then three dense layers."""
    return Block(
        {
            "conv1": Convolution(1, 6, 5, "SAME"),
            "tanh1": Layer(jnp.tanh),
            "pool1": Layer(average_pooling),
            "conv2": Convolution(6, 16, 5, "VALID"),
            "tanh2": Layer(jnp.tanh),
            "pool2": Layer(average_pooling),
            "flatten": Layer(flatten),
            "fc1": Dense(400, 120),
            "tanh3": Layer(jnp.tanh),
            "fc2": Dense(120, 84),
            "tanh4": Layer(jnp.tanh),
            "fc3": Dense(84, 10),
        }
    )
