"""Call models of many kinds, and print how many samples each step is said to have. Argument: where our package lies."""

import json
import sys

import torch

sys.path.insert(0, sys.argv[1])
from kernelscope.tracer.inside.frameworks.pytorch.samples import Samples


class Named(torch.nn.Module):
    """Returns a dict, as models of language do, or something that has no rows of its input."""

    def __init__(self, scalar=False):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 8)
        self.scalar = scalar

    def forward(self, ids):
        """Return what the embedding gives, in a dict; or its mean."""
        found = self.embed(ids)
        return found.mean() if self.scalar else {"loss": found.mean(), "logits": found}


def counted(*steps):
    """Return what is said after steps, each of which is a list of (model, input)."""
    samples = Samples(torch)
    for calls in steps:
        for model, given in calls:
            samples.called(model, (given,), model(given))
        samples.stepped()
    return samples.step


def main():
    """Print the counts as one JSON object."""
    linear, other = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)
    flat, ids = torch.randn(32, 8), torch.zeros(16, 12, dtype=torch.int64)
    sequence = torch.randn(12, 5, 8)
    print(json.dumps({
        "one call": counted([(linear, flat)]),
        "several calls": counted([(linear, flat)] * 4),
        "the last step": counted([(linear, flat)], [(linear, flat[:7])]),
        "a step without calls": counted([(linear, flat)], []),
        "two models": counted([(linear, flat), (other, flat)]),
        "after two models": counted([(linear, flat), (other, flat)], [(linear, flat)]),
        "a dict": counted([(Named(), ids)]),
        "no rows": counted([(Named(scalar=True), ids)]),
        "one axis": counted([(linear, flat[0])]),
        "sequence first": counted([(torch.nn.LSTM(8, 4), sequence)]),
        "batch first": counted([(torch.nn.LSTM(8, 4, batch_first=True), sequence)]),
    }))  # fmt: skip


main()
