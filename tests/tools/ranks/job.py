"""Record the captures of tests/data/ranks: two ranks of gloo on two cores, plain or with a fault planted into rank 1.

    python tests/tools/ranks/job.py RANK 2 [sleep|input|work]      # by PyTorch's python, once for each rank, at the same time

sleep: 20 ms in a layer. input: 10 ms before a batch. work: 200 products more in a layer (those in tests/data have 40). Writes
FAULT_rankRANK.json.
"""

import sys
import time

import recorded
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

RANK, WORLD, FAULT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "plain"
PLANTED = FAULT if RANK == 1 else ""


class Slow(nn.Module):
    """A dense layer into which faults are planted."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 256)

    def forward(self, x):
        """Compute, after the fault."""
        if PLANTED == "sleep":
            with record_function("planted"):
                time.sleep(0.02)
        if PLANTED == "work":
            with torch.no_grad():
                for _ in range(200):
                    torch.mm(x, self.fc.weight)
        return self.fc(x)


def main():
    """Train a little, and record four steps."""
    recorded.begin(RANK, WORLD, 29533)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), Slow(), nn.ReLU(), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x = torch.randn(64, 256)

    def step():
        if PLANTED == "input":
            with record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                time.sleep(0.01)
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    recorded.record(step, 4, f"{FAULT}_rank{RANK}.json")


if __name__ == "__main__":
    main()
