"""AlexNet in Gluon, on ImageNet and CIFAR-10 shapes: a HybridSequential of layers."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network


def _conv(number: int, channels: int, kernel: int, padding: int, stride: int = 1) -> Any:
    """Return the blocks of a convolution and its ReLU."""
    convolution = nn.Conv2D(channels, kernel, stride, padding, prefix="conv%d_" % number)
    return convolution, nn.Activation("relu", prefix="relu%d_" % number)


def alexnet(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 224, 224) to logits; without `dropout`, rates are 0."""
    return _alexnet(network, dropout, (11, 2, 4), window=3, units=4096)


def alexnet_cifar10(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 32, 32) to logits; without `dropout`, rates are 0."""
    return _alexnet(network, dropout, (3, 1, 1), window=2, units=1024)


def _alexnet(network: Network, dropout: bool, first: Any, window: int, units: int) -> Any:
    """Return the network. first: the first convolution's kernel, padding, stride; window: of poolings; units: of fc1, fc2."""
    rate = 0.5 if dropout else 0.0
    net = nn.HybridSequential(prefix=network.name + "_")
    with net.name_scope():
        net.add(*_conv(1, 64, *first))
        net.add(nn.MaxPool2D(window, 2, prefix="pool1_"))
        net.add(*_conv(2, 192, 5, 2))
        net.add(nn.MaxPool2D(window, 2, prefix="pool2_"))
        net.add(*_conv(3, 384, 3, 1))
        net.add(*_conv(4, 256, 3, 1))
        net.add(*_conv(5, 256, 3, 1))
        net.add(nn.MaxPool2D(window, 2, prefix="pool5_"), nn.Flatten(prefix="flatten_"))
        for number in (1, 2):
            net.add(nn.Dropout(rate, prefix="dropout%d_" % number), nn.Dense(units, prefix="fc%d_" % number))
            net.add(nn.Activation("relu", prefix="relu_fc%d_" % number))
        net.add(nn.Dense(network.classes, prefix="fc3_"))
    return net
