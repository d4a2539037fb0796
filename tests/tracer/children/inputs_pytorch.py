"""A script of PyTorch whose data set transforms each image, if asked to, with a module and with functions."""

import sys

import torch

IMAGES, LABELS = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))


class Blur(torch.nn.Module):
    """Blurs an image."""

    def __init__(self):
        super().__init__()
        self.pool = torch.nn.AvgPool2d(3, 1, 1)

    def forward(self, image):
        """Blur, and change the contrast."""
        for _ in range(12):
            image = (self.pool(image) * 1.01 + 0.1).clamp(-3, 3)
        return image


class Images(torch.utils.data.Dataset):
    """The images, blurred where that is asked for."""

    transform = Blur() if sys.argv[2] == "transformed" else None

    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, index):
        image = IMAGES[index] if self.transform is None else self.transform(IMAGES[index])
        return image, LABELS[index]


def batches():
    """Yield batches, by a loader or item by item."""
    images = Images()
    while True:
        if sys.argv[1] == "loader":
            yield from torch.utils.data.DataLoader(images, 32)
        else:
            items = [images[index] for index in range(32)]
            yield torch.stack([image for image, _ in items]), torch.stack([label for _, label in items])


class Net(torch.nn.Module):
    """A small network."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(8, 10)

    def forward(self, images):
        """Return the logits."""
        return self.head(self.conv(images).mean((2, 3)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _, (images, labels) in zip(range(100), batches(), strict=False):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
