"""Data-parallel training by torchrun, as somebody writes it who does not know of us: SECONDS of sleep in a layer of rank 1."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """A dense layer that may sleep."""

    def __init__(self, seconds):
        super().__init__()
        self.fc, self.seconds = nn.Linear(256, 256), seconds

    def forward(self, x):
        """Compute."""
        time.sleep(self.seconds)
        return torch.relu(self.fc(x))


def main(seconds):
    """Train; rank 0 prints its losses."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layers = nn.Sequential(nn.Linear(256, 256), Block(seconds if rank == 1 else 0.0), nn.Linear(256, 10))
    net = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
    for step in range(70):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(float(sys.argv[1]))
