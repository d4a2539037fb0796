"""A training script as users write them: it knows nothing of kernelscope, and ends with exit status 3."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    """Two convolutions around which the input is added; one activation is used twice."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, images):
        return self.relu(self.conv2(self.relu(self.conv1(images))) + images)


class Net(nn.Module):
    """A small residual network with functions between its modules."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.Sequential(Block(16), Block(16))
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        return self.head(self.blocks(functional.relu(self.stem(images))).mean((2, 3)))


def main():
    """Train for seven epochs of twenty steps, evaluating after each."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    data = TensorDataset(torch.randn(320, 3, 32, 32), torch.randint(0, 10, (320,)))
    for _ in range(7):
        net.train()
        for images, labels in DataLoader(data, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            print(f"{loss.item():.6f}")
        net.eval()
        with torch.no_grad():
            print("right:", (net(data.tensors[0]).argmax(1) == data.tensors[1]).sum().item())
    torch.save(net.state_dict(), "net.pt")
    return 3


if __name__ == "__main__":
    sys.exit(main())
