"""VGG-16 in Gluon, on ImageNet and CIFAR-10 shapes: a HybridSequential of layers."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network

_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def vgg16(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 224, 224) to logits; without `dropout`, rates are 0."""
    return _vgg16(network, dropout, 4096)


def vgg16_cifar10(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 32, 32) to logits; without `dropout`, rates are 0."""
    return _vgg16(network, dropout, 512)


def _vgg16(network: Network, dropout: bool, units: int) -> Any:
    rate = 0.5 if dropout else 0.0
    net = nn.HybridSequential(prefix=network.name + "_")
    with net.name_scope():
        for block, (channels, count) in enumerate(_BLOCKS, 1):
            for number in range(1, count + 1):
                net.add(nn.Conv2D(channels, 3, padding=1, prefix="conv%d_%d_" % (block, number)))
                net.add(nn.Activation("relu", prefix="relu%d_%d_" % (block, number)))
            net.add(nn.MaxPool2D(2, prefix="pool%d_" % block))
        net.add(nn.Flatten(prefix="flatten_"))
        for number in (1, 2):
            net.add(nn.Dropout(rate, prefix="dropout%d_" % number), nn.Dense(units, prefix="fc%d_" % number))
            net.add(nn.Activation("relu", prefix="relu_fc%d_" % number))
        net.add(nn.Dense(network.classes, prefix="fc3_"))
    return net
