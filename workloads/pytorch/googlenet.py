"""GoogLeNet on ImageNet and CIFAR-10 shapes, as a PyTorch user writes it."""

from collections import OrderedDict
from typing import Any

from torch import nn

from kernelscope.workloads.pytorch.layers import Concat, GlobalAveragePool


class Inception(nn.Module):
    """Four parallel branches: 1x1; 1x1 and 3x3; 1x1 and 5x5; max pooling and 1x1."""

    def __init__(self, inputs: int, one: int, reduce3: int, three: int, reduce5: int, five: int, pooled: int) -> None:
        super(Inception, self).__init__()
        self.conv1 = nn.Conv2d(inputs, one, kernel_size=1)
        self.relu1 = nn.ReLU()
        self.reduce3 = nn.Conv2d(inputs, reduce3, kernel_size=1)
        self.relu_reduce3 = nn.ReLU()
        self.conv3 = nn.Conv2d(reduce3, three, kernel_size=3, padding=1)
        self.relu3 = nn.ReLU()
        self.reduce5 = nn.Conv2d(inputs, reduce5, kernel_size=1)
        self.relu_reduce5 = nn.ReLU()
        self.conv5 = nn.Conv2d(reduce5, five, kernel_size=5, padding=2)
        self.relu5 = nn.ReLU()
        self.pool = nn.MaxPool2d(3, stride=1, padding=1)
        self.project = nn.Conv2d(inputs, pooled, kernel_size=1)
        self.relu_project = nn.ReLU()
        self.concat = Concat()

    def forward(self, x: Any) -> Any:
        """Return [batch, one + three + five + pooled, height, width] of x [batch, inputs, height, width]."""
        first = self.relu1(self.conv1(x))
        second = self.relu3(self.conv3(self.relu_reduce3(self.reduce3(x))))
        third = self.relu5(self.conv5(self.relu_reduce5(self.reduce5(x))))
        fourth = self.relu_project(self.project(self.pool(x)))
        return self.concat(first, second, third, fourth)


class GoogLeNet(nn.Sequential):
    """A stem with 192 output channels, nine inception blocks and a dense layer."""

    def __init__(self, stem: Any, classes: int) -> None:
        layers = OrderedDict(
            stem,
            inception3a=Inception(192, 64, 96, 128, 16, 32, 32),
            inception3b=Inception(256, 128, 128, 192, 32, 96, 64),
            pool3=nn.MaxPool2d(3, stride=2, padding=1),
            inception4a=Inception(480, 192, 96, 208, 16, 48, 64),
            inception4b=Inception(512, 160, 112, 224, 24, 64, 64),
            inception4c=Inception(512, 128, 128, 256, 24, 64, 64),
            inception4d=Inception(512, 112, 144, 288, 32, 64, 64),
            inception4e=Inception(528, 256, 160, 320, 32, 128, 128),
            pool4=nn.MaxPool2d(3, stride=2, padding=1),
            inception5a=Inception(832, 256, 160, 320, 32, 128, 128),
            inception5b=Inception(832, 384, 192, 384, 48, 128, 128),
            pool5=GlobalAveragePool(),
            dropout=nn.Dropout(0.4),
            fc=nn.Linear(1024, classes),
        )
        super(GoogLeNet, self).__init__(layers)


def googlenet() -> Any:
    """Return GoogLeNet for images [batch, 3, 224, 224]."""
    stem = OrderedDict(
        conv1=nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(3, stride=2, padding=1),
        reduce2=nn.Conv2d(64, 64, kernel_size=1),
        relu_reduce2=nn.ReLU(),
        conv2=nn.Conv2d(64, 192, kernel_size=3, padding=1),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(3, stride=2, padding=1),
    )
    return GoogLeNet(stem, 1000)


def googlenet_cifar10() -> Any:
    """Return GoogLeNet for images [batch, 3, 32, 32]."""
    return GoogLeNet(OrderedDict(conv1=nn.Conv2d(3, 192, kernel_size=3, padding=1), relu1=nn.ReLU()), 10)
