"""ResNet-50 on ImageNet and CIFAR-10 shapes, as a PyTorch user writes it."""

from collections import OrderedDict
from typing import Any

from torch import nn

from kernelscope.workloads.pytorch.layers import Add, GlobalAveragePool


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut around them; project: whether the shortcut is a convolution."""

    def __init__(self, inputs: int, channels: int, stride: int, project: bool) -> None:
        super(Bottleneck, self).__init__()
        self.conv1 = nn.Conv2d(inputs, channels, kernel_size=1, stride=stride, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(channels, 4 * channels, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * channels)
        self.project = project
        if project:
            self.shortcut = nn.Conv2d(inputs, 4 * channels, kernel_size=1, stride=stride, bias=False)
            self.bn_shortcut = nn.BatchNorm2d(4 * channels)
        self.add = Add()
        self.relu3 = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Return [batch, 4 * channels, height / stride, width / stride] of x [batch, inputs, height, width]."""
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        shortcut = self.bn_shortcut(self.shortcut(x)) if self.project else x
        return self.relu3(self.add(y, shortcut))


def stage(inputs: int, channels: int, count: int, stride: int) -> Any:
    """Return `count` blocks. The first one has the stride, and a convolution as its shortcut."""
    blocks = OrderedDict(block1=Bottleneck(inputs, channels, stride, True))
    for number in range(2, count + 1):
        blocks["block%d" % number] = Bottleneck(4 * channels, channels, 1, False)
    return nn.Sequential(blocks)


class ResNet50(nn.Sequential):
    """A stem with 64 output channels, four stages of 3, 4, 6 and 3 blocks, and a dense layer."""

    def __init__(self, stem: Any, classes: int) -> None:
        layers = OrderedDict(
            stem,
            stage1=stage(64, 64, 3, 1),
            stage2=stage(256, 128, 4, 2),
            stage3=stage(512, 256, 6, 2),
            stage4=stage(1024, 512, 3, 2),
            pool=GlobalAveragePool(),
            fc=nn.Linear(2048, classes),
        )
        super(ResNet50, self).__init__(layers)


def resnet50() -> Any:
    """Return ResNet-50 for images [batch, 3, 224, 224]."""
    stem = OrderedDict(
        conv1=nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
        bn1=nn.BatchNorm2d(64),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(3, stride=2, padding=1),
    )
    return ResNet50(stem, 1000)


def resnet50_cifar10() -> Any:
    """Return ResNet-50 for images [batch, 3, 32, 32]."""
    stem = OrderedDict(conv1=nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False), bn1=nn.BatchNorm2d(64), relu1=nn.ReLU())
    return ResNet50(stem, 10)
