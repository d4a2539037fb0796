"""A small residual network whose tensors fill the heap. Annotations are open where steps end, one of them during all steps."""

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import record_function

STEPS = 120


class Block(nn.Module):
    """Two normalized convolutions around which the input is added."""

    def __init__(self, channels, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(channels, outputs, 1, stride, bias=False)

    def forward(self, images):
        inner = functional.relu(self.bn1(self.conv1(images)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.short(images))


def main():
    """Train on the same images."""
    torch.manual_seed(0)
    net = nn.Sequential(Block(3, 32), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    with record_function("training"):
        for _ in range(STEPS):
            with record_function("step"):
                optimizer.zero_grad()
                loss = functional.cross_entropy(net(images), labels)
                loss.backward()
                optimizer.step()
    print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
