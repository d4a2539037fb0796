"""The multi-layer perceptron in Gluon, as an MXNet user writes it: a HybridSequential of layers."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network


def mlp(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 784) to logits (N, classes); without `dropout`, rates are 0."""
    rate = 0.2 if dropout else 0.0
    net = nn.HybridSequential(prefix="mlp_")
    with net.name_scope():
        net.add(
            nn.Dense(512, in_units=784, prefix="fc1_"),
            nn.Activation("relu", prefix="relu1_"),
            nn.Dropout(rate, prefix="dropout1_"),
            nn.Dense(512, in_units=512, prefix="fc2_"),
            nn.Activation("relu", prefix="relu2_"),
            nn.Dropout(rate, prefix="dropout2_"),
            nn.Dense(network.classes, in_units=512, prefix="fc3_"),
        )
    return net
