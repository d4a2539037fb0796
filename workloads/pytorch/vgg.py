"""VGG-16 on ImageNet and CIFAR-10 shapes, as a PyTorch user writes it."""

from typing import Any

from torch import nn

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and number of convolutions


class VGG16(nn.Sequential):
    """Thirteen 3x3 convolutions and three dense layers; size: the height of the flattened images."""

    def __init__(self, size: int, units: int, classes: int) -> None:
        super(VGG16, self).__init__()
        inputs = 3
        for stage, (channels, count) in enumerate(STAGES, 1):
            for number in range(1, count + 1):
                self.add_module("conv%d_%d" % (stage, number), nn.Conv2d(inputs, channels, kernel_size=3, padding=1))
                self.add_module("relu%d_%d" % (stage, number), nn.ReLU())
                inputs = channels
            self.add_module("pool%d" % stage, nn.MaxPool2d(2))
        self.flatten = nn.Flatten()
        self.dropout1 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(512 * size * size, units)
        self.relu_fc1 = nn.ReLU()
        self.dropout2 = nn.Dropout(0.5)
        self.fc2 = nn.Linear(units, units)
        self.relu_fc2 = nn.ReLU()
        self.fc3 = nn.Linear(units, classes)


def vgg16() -> Any:
    """Return VGG-16 for images [batch, 3, 224, 224]."""
    return VGG16(7, 4096, 1000)


def vgg16_cifar10() -> Any:
    """Return VGG-16 for images [batch, 3, 32, 32]."""
    return VGG16(1, 512, 10)
