"""ResNet-50 on ImageNet and CIFAR-10 shapes, as a JAX user writes it."""

from typing import Any

from jax import numpy as jnp

from kernelscope.workloads.jax.layers import BatchNorm, Block, Convolution, Dense, Layer, Runner, global_average, pooling, relu

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels and number of blocks


class Bottleneck(Block):
    """1x1, 3x3 and 1x1 convolutions and a shortcut around them; project: whether the shortcut is a convolution."""

    def __init__(self, inputs: Any, channels: int, stride: int, project: bool) -> None:
        self.project = project
        self.layers = {
            "conv1": Convolution(inputs, channels, 1, stride=stride, bias=False),
            "bn1": BatchNorm(channels),
            "relu1": relu(),
            "conv2": Convolution(channels, channels, 3, 1, bias=False),
            "bn2": BatchNorm(channels),
            "relu2": relu(),
            "conv3": Convolution(channels, 4 * channels, 1, bias=False),
            "bn3": BatchNorm(4 * channels),
            "add": Layer(jnp.add),
            "relu3": relu(),
        }
        if project:
            self.layers["shortcut"] = Convolution(inputs, 4 * channels, 1, stride=stride, bias=False)
            self.layers["bn_shortcut"] = BatchNorm(4 * channels)

    def __call__(self, run: Runner, x: Any) -> Any:
        """Return images [batch, height / stride, width / stride, 4 * channels] of x [batch, height, width, inputs]."""
        y = run("relu1", run("bn1", run("conv1", x)))
        y = run("relu2", run("bn2", run("conv2", y)))
        y = run("bn3", run("conv3", y))
        if self.project:
            x = run("bn_shortcut", run("shortcut", x))
        return run("relu3", run("add", y, x))


def _resnet50(stem: Any, classes: int) -> Any:
    """Return the network: a stem with 64 output channels, four stages of 3, 4, 6 and 3 blocks, and a dense layer."""
    layers, inputs = dict(stem), 64
    for stage, (channels, count) in enumerate(STAGES, 1):
        for number in range(1, count + 1):
            first = number == 1
            block = Bottleneck(inputs, channels, 2 if first and stage > 1 else 1, first)
            layers["stage%d_block%d" % (stage, number)] = block
            inputs = 4 * channels
    return Block(dict(layers, pool=Layer(global_average), fc=Dense(2048, classes)))


def resnet50(dropout: bool) -> Any:
    """Return ResNet-50 for images [batch, 224, 224, 3]; there is no dropout to switch off."""
    stem = {
        "conv1": Convolution(3, 64, 7, 3, stride=2, bias=False),
        "bn1": BatchNorm(64),
        "relu1": relu(),
        "pool1": pooling(3, 2, padding=1),
    }
    return _resnet50(stem, 1000)


def resnet50_cifar10(dropout: bool) -> Any:
    """Return ResNet-50 for images [batch, 32, 32, 3]; there is no dropout to switch off."""
    return _resnet50({"conv1": Convolution(3, 64, 3, 1, bias=False), "bn1": BatchNorm(64), "relu1": relu()}, 10)
