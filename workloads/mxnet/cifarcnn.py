"""The CIFAR-10 network of the comparison of eleven frameworks in Gluon: a HybridSequential of layers."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network


def cifarcnn(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 32, 32) to logits; without `dropout`, rates are 0."""
    rate = 1.0 if dropout else 0.0
    net = nn.HybridSequential(prefix="cifarcnn_")
    with net.name_scope():
        net.add(
            nn.Conv2D(50, 3, padding=1, prefix="conv1_"),
            nn.Activation("relu", prefix="relu1_"),
            nn.Conv2D(50, 3, padding=1, prefix="conv2_"),
            nn.Activation("relu", prefix="relu2_"),
            nn.MaxPool2D(2, prefix="pool1_"),
            nn.Dropout(0.25 * rate, prefix="dropout1_"),
            nn.Conv2D(100, 3, padding=1, prefix="conv3_"),
            nn.Activation("relu", prefix="relu3_"),
            nn.Conv2D(100, 3, padding=1, prefix="conv4_"),
            nn.Activation("relu", prefix="relu4_"),
            nn.MaxPool2D(2, prefix="pool2_"),
            nn.Dropout(0.25 * rate, prefix="dropout2_"),
            nn.Flatten(prefix="flatten_"),
            nn.Dense(512, prefix="fc1_"),
            nn.Activation("relu", prefix="relu5_"),
            nn.Dropout(0.5 * rate, prefix="dropout3_"),
            nn.Dense(network.classes, prefix="fc2_"),
        )
    return net
