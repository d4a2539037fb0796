"""The Keras CIFAR-10 example network for 32x32x3 images, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import Block, Convolution, Dense, Dropout, Layer, flatten, max_pooling, relu


def cnn(dropout: bool) -> Any:
    """Return the network; dropout: whether the dropout layers drop anything in training."""
    convolution_rate, dense_rate = (0.25, 0.5) if dropout else (0.0, 0.0)
    return Block(
        {
            "conv1": Convolution(3, 32, 3, "SAME"),
            "relu1": relu(),
            "conv2": Convolution(32, 32, 3, "VALID"),
            "relu2": relu(),
            "pool1": Layer(max_pooling),
            "dropout1": Dropout(convolution_rate),
            "conv3": Convolution(32, 64, 3, "SAME"),
            "relu3": relu(),
            "conv4": Convolution(64, 64, 3, "VALID"),
            "relu4": relu(),
            "pool2": Layer(max_pooling),
            "dropout2": Dropout(convolution_rate),
            "flatten": Layer(flatten),
            "fc1": Dense(2304, 512),
            "relu5": relu(),
            "dropout3": Dropout(dense_rate),
            "fc2": Dense(512, 10),
        }
    )
