"""GoogLeNet on ImageNet and CIFAR-10 shapes with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, Convolution2D, Dense, Dropout, MaxPooling, Sequential

from kernelscope.workloads.cntk.layers import global_average_pooling
from kernelscope.workloads.networks import Network

# block -> channels of the 1x1; the 3x3's reduction and the 3x3; the 5x5's reduction and the 5x5; the pooled branch's 1x1
_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def _convolution(size: int, channels: int, name: str, relu: str, stride: int = 1) -> Any:
    """Return a convolution, padded to keep its input's size but for the stride, and its activation."""
    return Sequential(
        [
            Convolution2D((size, size), channels, strides=stride, pad=True, name=name),
            Activation(C.relu, name=relu),
        ]
    )


def _pool(name: str, stride: int = 2) -> Any:
    return MaxPooling((3, 3), strides=stride, pad=True, name=name)


def _inception(which: str) -> Any:
    """Return a function that concatenates the channels of four branches."""
    one, reduce3, three, reduce5, five, project = _INCEPTIONS[which]
    part = ("inception%s_" % which + "%s").__mod__
    branches = (
        _convolution(1, one, part("conv1"), part("relu1")),
        Sequential(
            [
                _convolution(1, reduce3, part("reduce3"), part("relu_reduce3")),
                _convolution(3, three, part("conv3"), part("relu3")),
            ]
        ),
        Sequential(
            [
                _convolution(1, reduce5, part("reduce5"), part("relu_reduce5")),
                _convolution(5, five, part("conv5"), part("relu5")),
            ]
        ),
        Sequential([_pool(part("pool"), 1), _convolution(1, project, part("project"), part("relu_project"))]),
    )
    return lambda features: C.splice(*[branch(features) for branch in branches], axis=0, name=part("concat"))


def _googlenet(network: Network, dropout: bool, stem: Any) -> Any:
    return Sequential(
        stem
        + [
            _inception("3a"),
            _inception("3b"),
            _pool("pool3"),
            _inception("4a"),
            _inception("4b"),
            _inception("4c"),
            _inception("4d"),
            _inception("4e"),
            _pool("pool4"),
            _inception("5a"),
            _inception("5b"),
            global_average_pooling("pool5"),
            Dropout(0.4 if dropout else 0.0, name="dropout"),
            Dense(network.classes, name="fc"),
        ]
    )


def googlenet(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layer drops nothing."""
    stem = [
        _convolution(7, 64, "conv1", "relu1", stride=2),
        _pool("pool1"),
        _convolution(1, 64, "reduce2", "relu_reduce2"),
        _convolution(3, 192, "conv2", "relu2"),
        _pool("pool2"),
    ]
    return _googlenet(network, dropout, stem)


def googlenet_cifar10(network: Network, dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; without `dropout` its dropout layer drops nothing."""
    return _googlenet(network, dropout, [_convolution(3, 192, "conv1", "relu1")])
