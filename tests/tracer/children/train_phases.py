"""Training and evaluation in turn; the first argument names the function that runs."""

import sys

import torch
from torch import nn

BATCH = 8


def make():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def optimizer_of(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)


def train(net, optimizer, steps, accumulated=1):
    """Train for so many steps of an optimizer, each on the gradients of so many batches."""
    net.train()
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulated):
            loss = nn.functional.cross_entropy(net(torch.randn(BATCH, 16)), torch.randint(0, 4, (BATCH,)))
            loss.backward()
        optimizer.step()
    print(f"{loss.item():.5f}")


def evaluate(net, batches):
    net.eval()
    with torch.no_grad():
        print(f"{sum(net(torch.randn(BATCH, 16)).sum().item() for _ in range(batches)):.5f}")


def phases():
    net = make()
    optimizer = optimizer_of(net)
    for _ in range(2):
        train(net, optimizer, 40)
        evaluate(net, 30)


def evaluation():
    evaluate(make(), 80)


def accumulation():
    net = make()
    train(net, optimizer_of(net), 80, accumulated=4)


def evaluation_first():
    """The optimizer is made after a first evaluation, in which passes begin."""
    net = make()
    evaluate(net, 40)
    train(net, optimizer_of(net), 80)


def without_modules():
    weight = torch.zeros(16, requires_grad=True)
    for _ in range(80):
        images = torch.randn(BATCH, 16)
        loss = ((images @ weight - images.sum(1)) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
            weight.grad.zero_()
    print(f"{loss.item():.5f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
