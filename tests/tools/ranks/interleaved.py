"""Record the captures of tests/data/ranks whose two ranks hold two chunks of the model each: gloo, alike or with a slow chunk.

    python tests/tools/ranks/interleaved.py RANK 2 [slow]      # by PyTorch's python, once for each rank, at the same time

The schedule is PyTorch's own interleaved 1F1B (torch.distributed.pipelining; Narayanan et al., SC 2021) with four micro-batches.
It sends and receives without waiting (batch_isend_irecv), and waits for what it needs when it needs it. slow: 4 ms before each
micro-batch goes forward through chunk 1, which rank 1 has. Writes inter_FAULT_rankRANK.json.
"""

import sys
import time

import recorded
import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
from torch.profiler import record_function

RANK, WORLD, FAULT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "plain"
CHUNKS, MICRO_BATCHES = 2, 4


class Chunk(nn.Module):
    """A part of the model."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.layers = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))

    def forward(self, x):
        """Compute; the slow one sleeps first."""
        if FAULT == "slow" and self.number == 1:
            with record_function("planted"):
                time.sleep(0.004)
        return self.layers(x)


def main():
    """Train a little, and record three steps."""
    recorded.begin(RANK, WORLD, 29544)
    chunks = [Chunk(RANK + WORLD * number) for number in range(CHUNKS)]
    stages = [PipelineStage(chunk, chunk.number, WORLD * CHUNKS, torch.device("cpu")) for chunk in chunks]
    pipeline = ScheduleInterleaved1F1B(stages, MICRO_BATCHES, loss_fn=lambda made, wanted: ((made - wanted) ** 2).mean())
    optimizer = torch.optim.SGD([one for chunk in chunks for one in chunk.parameters()], 0.01)
    inputs, targets = torch.ones(256, 256), torch.zeros(256, 256)

    def step():
        optimizer.zero_grad()
        pipeline.step(*([inputs] if RANK == 0 else []), **({"target": targets} if RANK == WORLD - 1 else {}))
        optimizer.step()

    recorded.record(step, 3, f"inter_{FAULT}_rank{RANK}.json")


if __name__ == "__main__":
    main()
