"""Line-image classifier: two conv stages, then a GRU over the columns. (PyTorch)"""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class ConvRecurrentNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.gru = nn.GRU(input_size=32 * 8, hidden_size=64, batch_first=True)
        self.fc = nn.Linear(64, num_classes)

    def forward(self, x):                                  # (N, 1, 32, 96)
        x = self.pool(self.relu(self.bn1(self.conv1(x))))  # (N, 16, 16, 48)
        x = self.pool(self.relu(self.bn2(self.conv2(x))))  # (N, 32, 8, 24)
        x = x.permute(0, 3, 1, 2).flatten(2)               # (N, 24, 256)
        _, h = self.gru(x)
        return self.fc(h[-1])


def make_lines(n, num_classes=10, seed=0):
    """A class-specific pattern, drawn at a random place of a noisy strip."""
    g = torch.Generator().manual_seed(seed)
    stamps = torch.rand(num_classes, 32, 24, generator=torch.Generator().manual_seed(99))
    labels = torch.randint(0, num_classes, (n,), generator=g)
    offs = torch.randint(0, 96 - 24, (n,), generator=g)
    x = 0.5 * torch.rand(n, 1, 32, 96, generator=g)
    for i in range(n):
        o = int(offs[i])
        x[i, 0, :, o:o + 24] += stamps[labels[i]]
    return x, labels


def train(args):
    torch.manual_seed(args.seed)
    x, y = make_lines(2048)
    loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True,
                        drop_last=True)
    model = ConvRecurrentNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()

    step = 0
    for epoch in range(args.epochs):
        correct = seen = 0
        total = 0.0
        for xb, yb in loader:
            if step >= args.max_steps:
                break
            optimizer.zero_grad()
            out = model(xb)
            loss = criterion(out, yb)
            loss.backward()
            optimizer.step()
            step += 1
            total += loss.item() * len(yb)
            correct += (out.argmax(1) == yb).sum().item()
            seen += len(yb)
        if seen:
            print(f"epoch {epoch + 1}: loss {total / seen:.4f} acc {correct / seen:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--max-steps", type=int, default=10 ** 9)
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args())
