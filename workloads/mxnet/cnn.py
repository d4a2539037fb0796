"""The Keras CIFAR-10 example network in Gluon, as an MXNet user writes it: a HybridSequential of layers."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network


def cnn(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 32, 32) to logits; without `dropout`, rates are 0."""
    rate = 1.0 if dropout else 0.0
    net = nn.HybridSequential(prefix="cnn_")
    with net.name_scope():
        net.add(
            nn.Conv2D(32, 3, padding=1, in_channels=3, prefix="conv1_"),
            nn.Activation("relu", prefix="relu1_"),
            nn.Conv2D(32, 3, in_channels=32, prefix="conv2_"),
            nn.Activation("relu", prefix="relu2_"),
            nn.MaxPool2D(2, prefix="pool1_"),
            nn.Dropout(0.25 * rate, prefix="dropout1_"),
            nn.Conv2D(64, 3, padding=1, in_channels=32, prefix="conv3_"),
            nn.Activation("relu", prefix="relu3_"),
            nn.Conv2D(64, 3, in_channels=64, prefix="conv4_"),
            nn.Activation("relu", prefix="relu4_"),
            nn.MaxPool2D(2, prefix="pool2_"),
            nn.Dropout(0.25 * rate, prefix="dropout2_"),
            nn.Flatten(prefix="flatten_"),
            nn.Dense(512, in_units=2304, prefix="fc1_"),
            nn.Activation("relu", prefix="relu5_"),
            nn.Dropout(0.5 * rate, prefix="dropout3_"),
            nn.Dense(network.classes, in_units=512, prefix="fc2_"),
        )
    return net
