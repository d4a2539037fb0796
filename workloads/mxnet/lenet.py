"""LeNet-5 in Gluon, as an MXNet user writes it: a HybridSequential of layers."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network


def lenet(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 1, 28, 28) to logits (N, classes); it has no dropout."""
    net = nn.HybridSequential(prefix="lenet_")
    with net.name_scope():
        net.add(
            nn.Conv2D(6, 5, padding=2, in_channels=1, prefix="conv1_"),
            nn.Activation("tanh", prefix="tanh1_"),
            nn.AvgPool2D(2, prefix="pool1_"),
            nn.Conv2D(16, 5, in_channels=6, prefix="conv2_"),
            nn.Activation("tanh", prefix="tanh2_"),
            nn.AvgPool2D(2, prefix="pool2_"),
            nn.Flatten(prefix="flatten_"),
            nn.Dense(120, in_units=400, prefix="fc1_"),
            nn.Activation("tanh", prefix="tanh3_"),
            nn.Dense(84, in_units=120, prefix="fc2_"),
            nn.Activation("tanh", prefix="tanh4_"),
            nn.Dense(network.classes, in_units=84, prefix="fc3_"),
        )
    return net
