"""LeNet-5 for 1x28x28 images, as a PyTorch user writes it."""

from typing import Any

from torch import nn


class LeNet(nn.Module):
    """Two convolutions with average pooling, then three dense layers; tanh throughout."""

    def __init__(self) -> None:
        super(LeNet, self).__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5, padding=2)
        self.tanh1 = nn.Tanh()
        self.pool1 = nn.AvgPool2d(2)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.tanh2 = nn.Tanh()
        self.pool2 = nn.AvgPool2d(2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(400, 120)
        self.tanh3 = nn.Tanh()
        self.fc2 = nn.Linear(120, 84)
        self.tanh4 = nn.Tanh()
        self.fc3 = nn.Linear(84, 10)

    def forward(self, images: Any) -> Any:
        """Return the logits [batch, 10] of images [batch, 1, 28, 28]."""
        x = self.pool1(self.tanh1(self.conv1(images)))
        x = self.pool2(self.tanh2(self.conv2(x)))
        x = self.flatten(x)
        x = self.tanh3(self.fc1(x))
        x = self.tanh4(self.fc2(x))
        return self.fc3(x)
