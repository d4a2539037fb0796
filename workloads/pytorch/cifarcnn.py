"""The CIFAR-10 network of the comparison of eleven frameworks, as a PyTorch user writes it."""

from typing import Any

from torch import nn


class CifarCNN(nn.Module):
    """Two blocks of two 3x3 convolutions with max pooling and dropout, then two dense layers."""

    def __init__(self) -> None:
        super(CifarCNN, self).__init__()
        self.conv1 = nn.Conv2d(3, 50, kernel_size=3, padding=1)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(50, 50, kernel_size=3, padding=1)
        self.relu2 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.dropout1 = nn.Dropout(0.25)
        self.conv3 = nn.Conv2d(50, 100, kernel_size=3, padding=1)
        self.relu3 = nn.ReLU()
        self.conv4 = nn.Conv2d(100, 100, kernel_size=3, padding=1)
        self.relu4 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.dropout2 = nn.Dropout(0.25)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(6400, 512)
        self.relu5 = nn.ReLU()
        self.dropout3 = nn.Dropout(0.5)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, images: Any) -> Any:
        """Return the logits [batch, 10] of images [batch, 3, 32, 32]."""
        x = self.relu1(self.conv1(images))
        x = self.relu2(self.conv2(x))
        x = self.dropout1(self.pool1(x))
        x = self.relu3(self.conv3(x))
        x = self.relu4(self.conv4(x))
        x = self.dropout2(self.pool2(x))
        x = self.flatten(x)
        x = self.dropout3(self.relu5(self.fc1(x)))
        return self.fc2(x)
