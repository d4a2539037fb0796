"""Train a residual network on images, as a first version of a script does it: float32, a loader in the same process, Adam."""

import argparse

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Random pictures that are cropped, turned round and normalised when they are asked for."""

    def __init__(self, count, size):
        self.raw = torch.randint(0, 256, (64, 3, size + 32, size + 32), dtype=torch.uint8)
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        top, left = torch.randint(0, 32, (2,)).tolist()
        image = self.raw[index % 64, :, top : top + self.size, left : left + self.size].float() / 255
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        return (image - 0.45) / 0.23, index % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--network", default="resnet50")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = getattr(torchvision.models, arguments.network)(num_classes=1000).to(device)
    loader = DataLoader(Pictures(arguments.steps * arguments.batch, arguments.size), batch_size=arguments.batch, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"mean loss {total / len(loader):.3f}")


if __name__ == "__main__":
    main()
