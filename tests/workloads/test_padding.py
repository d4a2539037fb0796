"""Padding of what a model of PyTorch is called with is counted, and nothing else taken for it."""

import pytest

pytestmark = pytest.mark.slow

CODE = """
import json, random, torch
from kernelscope.tracer.inside.frameworks.pytorch.padding import Padding

random.seed(0)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(100, 4)

def told(*calls, model=Model()):
    padding = Padding(torch)
    for call in calls:
        padding.called(model, call)
    return padding.told()

def texts(*lengths, width=32, left=False, number=0):
    rows = []
    for length in lengths:
        text = [random.randint(1, 49) * 2 - length % 2 for _ in range(length - 1)] + [99]  # none ends as it is filled up
        rows.append(([number] * (width - length) + text) if left else (text + [number] * (width - length)))
    return torch.tensor(rows)

mask = torch.tensor([[1] * 8 + [0] * 24] * 2)
seen = {
    "right": told([texts(8, 16)]),
    "left": told([texts(8, 16, left=True)]),
    "masked": told([mask, texts(8, 16)]),
    "several": told([texts(8, 16)], [texts(32, 20)]),
    "full": told([texts(32, 32)]),
    "constant": told([torch.zeros(4, 32, dtype=torch.long)]),
    "short": told([texts(8, 8, width=12)]),
    "floats": told([torch.zeros(4, 32)]),
    "no texts": told([texts(8, 16)], model=torch.nn.Linear(4, 4)),
    "no values": told([torch.empty(4, 32, dtype=torch.long, device="meta")]),
}
print(json.dumps(seen))
"""


def test_what_texts_are_filled_up_with_is_counted(run_in):
    seen = run_in("pytorch", CODE)
    one = {"positions": 64, "padded": 24 + 16, "beyond_longest": 2 * 16}
    assert (seen.pop("right"), seen.pop("left"), seen.pop("masked")) == (one, one, one)
    assert seen.pop("several") == {"positions": 128, "padded": 24 + 16 + 12, "beyond_longest": 2 * 16}
    assert seen.pop("full") == {"positions": 64, "padded": 2, "beyond_longest": 2}, "one number ends each text of any program"
    assert set(seen.values()) == {None}
