"""The Keras CIFAR-10 example network for 32x32x3 images, as a JAX user writes it."""

import jax

from kernelscope.workloads.jax.layers import Convolution, Dense, Dropout, Layer, flatten, max_pooling


def build(dropout):
    """Return the layers by name, in order; dropout: whether the dropout layers drop anything in training."""
    convolution_rate, dense_rate = (0.25, 0.5) if dropout else (0.0, 0.0)
    return {
        "conv1": Convolution(3, 32, 3, "SAME"),
        "relu1": Layer(jax.nn.relu),
        "conv2": Convolution(32, 32, 3, "VALID"),
        "relu2": Layer(jax.nn.relu),
        "pool1": Layer(max_pooling),
        "dropout1": Dropout(convolution_rate),
        "conv3": Convolution(32, 64, 3, "SAME"),
        "relu3": Layer(jax.nn.relu),
        "conv4": Convolution(64, 64, 3, "VALID"),
        "relu4": Layer(jax.nn.relu),
        "pool2": Layer(max_pooling),
        "dropout2": Dropout(convolution_rate),
        "flatten": Layer(flatten),
        "fc1": Dense(2304, 512),
        "relu5": Layer(jax.nn.relu),
        "dropout3": Dropout(dense_rate),
        "fc2": Dense(512, 10),
    }
