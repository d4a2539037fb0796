"""The multi-layer perceptron with two hidden layers and dropout, as a PyTorch user writes it."""

from typing import Any

from torch import nn


class MLP(nn.Module):
    """784-512-512-10 with ReLU and dropout of 0.2 after each hidden layer."""

    def __init__(self) -> None:
        super(MLP, self).__init__()
        self.fc1 = nn.Linear(784, 512)
        self.relu1 = nn.ReLU()
        self.dropout1 = nn.Dropout(0.2)
        self.fc2 = nn.Linear(512, 512)
        self.relu2 = nn.ReLU()
        self.dropout2 = nn.Dropout(0.2)
        self.fc3 = nn.Linear(512, 10)

    def forward(self, images: Any) -> Any:
        """Return the logits [batch, 10] of flat images [batch, 784]."""
        x = self.dropout1(self.relu1(self.fc1(images)))
        x = self.dropout2(self.relu2(self.fc2(x)))
        return self.fc3(x)
