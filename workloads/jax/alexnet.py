"""AlexNet on ImageNet and CIFAR-10 shapes, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import Block, Convolution, Dense, Dropout, Layer, flatten, pooling, relu


def _alexnet(first: Any, pool: Any, size: int, units: int, classes: int, rate: float) -> Any:
    """Return the network. first: its first convolution; pool: size of pooling windows; size: height of the flattened images."""
    return Block(
        {
            "conv1": first,
            "relu1": relu(),
            "pool1": pooling(pool, 2),
            "conv2": Convolution(64, 192, 5, 2),
            "relu2": relu(),
            "pool2": pooling(pool, 2),
            "conv3": Convolution(192, 384, 3, 1),
            "relu3": relu(),
            "conv4": Convolution(384, 256, 3, 1),
            "relu4": relu(),
            "conv5": Convolution(256, 256, 3, 1),
            "relu5": relu(),
            "pool5": pooling(pool, 2),
            "flatten": Layer(flatten),
            "dropout1": Dropout(rate),
            "fc1": Dense(256 * size * size, units),
            "relu_fc1": relu(),
            "dropout2": Dropout(rate),
            "fc2": Dense(units, units),
            "relu_fc2": relu(),
            "fc3": Dense(units, classes),
        }
    )


def alexnet(dropout: bool) -> Any:
    """Return AlexNet for images [batch, 224, 224, 3]."""
    return _alexnet(Convolution(3, 64, 11, 2, stride=4), 3, 6, 4096, 1000, 0.5 if dropout else 0.0)


def alexnet_cifar10(dropout: bool) -> Any:
    """Return AlexNet for images [batch, 32, 32, 3]."""
    return _alexnet(Convolution(3, 64, 3, 1), 2, 4, 1024, 10, 0.5 if dropout else 0.0)
