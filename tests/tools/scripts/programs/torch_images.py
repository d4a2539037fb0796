"""Small ResNet on 32x32 synthetic pictures (10 classes).

usage: python torch_images.py --steps 400 --batch-size 32
"""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class SyntheticImages(Dataset):
    """Class-dependent stripes + noise, stored as uint8 like CIFAR."""

    def __init__(self, n, train=True, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 10, size=n)
        yy, xx = np.mgrid[0:32, 0:32] / 32.0
        imgs = np.empty((n, 32, 32, 3), dtype=np.uint8)
        for i, lab in enumerate(self.labels):
            wave = np.sin(2 * np.pi * (lab + 1) * (xx * np.cos(lab) + yy * np.sin(lab)))
            noisy = 127 + 60 * wave[..., None] + rng.normal(0, 40, (32, 32, 3))
            imgs[i] = noisy.clip(0, 255)
        self.images = imgs
        self.train = train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        img = self.images[idx]
        if self.train:
            if random.random() < 0.5:
                img = img[:, ::-1]
            # random crop with reflected border
            padded = np.pad(img, ((2, 2), (2, 2), (0, 0)), mode="edge")
            top, left = random.randint(0, 4), random.randint(0, 4)
            img = padded[top:top + 32, left:left + 32]
        x = torch.from_numpy(np.ascontiguousarray(img.transpose(2, 0, 1)))
        x = x.float().div_(255.0)
        return x, int(self.labels[idx])


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut = nn.Identity()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class TinyResNet(nn.Module):
    def __init__(self, num_classes=10, width=12):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.layer1 = BasicBlock(width, width)
        self.layer2 = BasicBlock(width, 2 * width, stride=2)
        self.layer3 = BasicBlock(2 * width, 4 * width, stride=2)
        self.fc = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc(x)


def evaluate(model, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
            total += y.numel()
    model.train()
    return correct / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set = SyntheticImages(4096, train=True, seed=0)
    val_set = SyntheticImages(256, train=False, seed=1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True,
                              num_workers=0, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=64, num_workers=0)

    model = TinyResNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9,
                                weight_decay=5e-4)

    step = 0
    while step < args.steps:
        for images, targets in train_loader:
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, targets)
            loss.backward()
            optimizer.step()
            step += 1

            if step % 50 == 0:
                print(f"step {step:4d}  loss {loss.item():.4f}")
            if step % 100 == 0:
                print(f"step {step:4d}  val acc {evaluate(model, val_loader):.3f}")
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
