"""VGG-16 on ImageNet and CIFAR-10 shapes, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import Block, Convolution, Dense, Dropout, Layer, flatten, max_pooling, relu

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and number of convolutions


def _vgg16(size: int, units: int, classes: int, rate: float) -> Any:
    """Return thirteen 3x3 convolutions and three dense layers; size: the height of the flattened images."""
    layers, inputs = {}, 3  # type: Any, int
    for stage, (channels, count) in enumerate(STAGES, 1):
        for number in range(1, count + 1):
            layers["conv%d_%d" % (stage, number)] = Convolution(inputs, channels, 3, 1)
            layers["relu%d_%d" % (stage, number)] = relu()
            inputs = channels
        layers["pool%d" % stage] = Layer(max_pooling)
    layers.update(
        flatten=Layer(flatten),
        dropout1=Dropout(rate),
        fc1=Dense(512 * size * size, units),
        relu_fc1=relu(),
        dropout2=Dropout(rate),
        fc2=Dense(units, units),
        relu_fc2=relu(),
        fc3=Dense(units, classes),
    )
    return Block(layers)


def vgg16(dropout: bool) -> Any:
    """Return VGG-16 for images [batch, 224, 224, 3]."""
    return _vgg16(7, 4096, 1000, 0.5 if dropout else 0.0)


def vgg16_cifar10(dropout: bool) -> Any:
    """Return VGG-16 for images [batch, 32, 32, 3]."""
    return _vgg16(1, 512, 10, 0.5 if dropout else 0.0)
