"""AlexNet on ImageNet and CIFAR-10 shapes, as a PyTorch user writes it."""

from collections import OrderedDict
from typing import Any

from torch import nn


class AlexNet(nn.Sequential):
    """Five convolutions and three dense layers. first: the first convolution; size: the height of the flattened images."""

    def __init__(self, first: Any, pool: Any, size: int, units: int, classes: int) -> None:
        layers = OrderedDict(
            conv1=first,
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(pool, stride=2),
            conv2=nn.Conv2d(64, 192, kernel_size=5, padding=2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(pool, stride=2),
            conv3=nn.Conv2d(192, 384, kernel_size=3, padding=1),
            relu3=nn.ReLU(),
            conv4=nn.Conv2d(384, 256, kernel_size=3, padding=1),
            relu4=nn.ReLU(),
            conv5=nn.Conv2d(256, 256, kernel_size=3, padding=1),
            relu5=nn.ReLU(),
            pool5=nn.MaxPool2d(pool, stride=2),
            flatten=nn.Flatten(),
            dropout1=nn.Dropout(0.5),
            fc1=nn.Linear(256 * size * size, units),
            relu_fc1=nn.ReLU(),
            dropout2=nn.Dropout(0.5),
            fc2=nn.Linear(units, units),
            relu_fc2=nn.ReLU(),
            fc3=nn.Linear(units, classes),
        )
        super(AlexNet, self).__init__(layers)


def alexnet() -> Any:
    """Return AlexNet for images [batch, 3, 224, 224]."""
    return AlexNet(nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2), 3, 6, 4096, 1000)


def alexnet_cifar10() -> Any:
    """Return AlexNet for images [batch, 3, 32, 32]."""
    return AlexNet(nn.Conv2d(3, 64, kernel_size=3, padding=1), 2, 4, 1024, 10)
