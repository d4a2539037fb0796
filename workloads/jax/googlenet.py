"""GoogLeNet on ImageNet and CIFAR-10 shapes, as a JAX user writes it."""

from typing import Any

from kernelscope.workloads.jax.layers import (
    Block,
    Convolution,
    Dense,
    Dropout,
    Layer,
    Runner,
    concat,
    global_average,
    pooling,
    relu,
)


class Inception(Block):
    """Four parallel branches: 1x1; 1x1 and 3x3; 1x1 and 5x5; max pooling and 1x1."""

    def __init__(self, inputs: Any, one: int, reduce3: int, three: int, reduce5: int, five: int, pooled: int) -> None:
        self.layers = {
            "conv1": Convolution(inputs, one, 1),
            "relu1": relu(),
            "reduce3": Convolution(inputs, reduce3, 1),
            "relu_reduce3": relu(),
            "conv3": Convolution(reduce3, three, 3, 1),
            "relu3": relu(),
            "reduce5": Convolution(inputs, reduce5, 1),
            "relu_reduce5": relu(),
            "conv5": Convolution(reduce5, five, 5, 2),
            "relu5": relu(),
            "pool": pooling(3, 1, padding=1),
            "project": Convolution(inputs, pooled, 1),
            "relu_project": relu(),
            "concat": concat(),
        }

    def __call__(self, run: Runner, x: Any) -> Any:
        """Return images [batch, height, width, one + three + five + pooled] of x [batch, height, width, inputs]."""
        first = run("relu1", run("conv1", x))
        second = run("relu3", run("conv3", run("relu_reduce3", run("reduce3", x))))
        third = run("relu5", run("conv5", run("relu_reduce5", run("reduce5", x))))
        fourth = run("relu_project", run("project", run("pool", x)))
        return run("concat", first, second, third, fourth)


def _googlenet(stem: Any, classes: int, dropout: bool) -> Any:
    """Return the network: a stem with 192 output channels, nine inception blocks and a dense layer."""
    return Block(
        dict(
            stem,
            inception3a=Inception(192, 64, 96, 128, 16, 32, 32),
            inception3b=Inception(256, 128, 128, 192, 32, 96, 64),
            pool3=pooling(3, 2, padding=1),
            inception4a=Inception(480, 192, 96, 208, 16, 48, 64),
            inception4b=Inception(512, 160, 112, 224, 24, 64, 64),
            inception4c=Inception(512, 128, 128, 256, 24, 64, 64),
            inception4d=Inception(512, 112, 144, 288, 32, 64, 64),
            inception4e=Inception(528, 256, 160, 320, 32, 128, 128),
            pool4=pooling(3, 2, padding=1),
            inception5a=Inception(832, 256, 160, 320, 32, 128, 128),
            inception5b=Inception(832, 384, 192, 384, 48, 128, 128),
            pool5=Layer(global_average),
            dropout=Dropout(0.4 if dropout else 0.0),
            fc=Dense(1024, classes),
        )
    )


def googlenet(dropout: bool) -> Any:
    """Return GoogLeNet for images [batch, 224, 224, 3]."""
    stem = {
        "conv1": Convolution(3, 64, 7, 3, stride=2),
        "relu1": relu(),
        "pool1": pooling(3, 2, padding=1),
        "reduce2": Convolution(64, 64, 1),
        "relu_reduce2": relu(),
        "conv2": Convolution(64, 192, 3, 1),
        "relu2": relu(),
        "pool2": pooling(3, 2, padding=1),
    }
    return _googlenet(stem, 1000, dropout)


def googlenet_cifar10(dropout: bool) -> Any:
    """Return GoogLeNet for images [batch, 32, 32, 3]."""
    return _googlenet({"conv1": Convolution(3, 192, 3, 1), "relu1": relu()}, 10, dropout)
