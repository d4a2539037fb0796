"""Record the captures of tests/data/ranks that train in a pipeline: three stages of gloo, alike or with a slow one in the middle.

    python tests/tools/ranks/pipe.py RANK 3 [slow]      # by PyTorch's python, once for each rank, at the same time

GPipe (Huang et al., NeurIPS 2019): four micro-batches go forward through all stages, then backward. slow: 4 ms before each
micro-batch goes forward in rank 1. Writes pipe_FAULT_rankRANK.json.
"""

import sys
import time

import recorded
import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import record_function

RANK, WORLD, FAULT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "plain"
MICRO_BATCHES = 4


def forward(stage):
    """Send each micro-batch on; return inputs and outputs."""
    kept = []
    for _ in range(MICRO_BATCHES):
        x = torch.ones(64, 256)
        if RANK:
            dist.recv(x, RANK - 1)
        x.requires_grad_(True)
        if FAULT == "slow" and RANK == 1:
            with record_function("planted"):
                time.sleep(0.004)
        kept.append((x, stage(x)))
        if RANK < WORLD - 1:
            dist.send(kept[-1][1].detach(), RANK + 1)
    return kept


def backward(kept):
    """Send gradients back."""
    for x, y in kept:
        gradient = torch.ones_like(y)
        if RANK < WORLD - 1:
            dist.recv(gradient, RANK + 1)
        y.backward(gradient)
        if RANK:
            dist.send(x.grad, RANK - 1)


def main():
    """Train a little, and record three steps."""
    recorded.begin(RANK, WORLD, 29534)
    stage = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    optimizer = torch.optim.SGD(stage.parameters(), 0.01)

    def step():
        optimizer.zero_grad()
        backward(forward(stage))
        optimizer.step()

    recorded.record(step, 3, f"pipe_{FAULT}_rank{RANK}.json")


if __name__ == "__main__":
    main()
