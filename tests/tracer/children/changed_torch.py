"""Makes the named changes, then does what a program does that each of them answers, and prints what became of it."""

import contextlib
import io
import json
import sys

import torch
from torch.utils.data import DataLoader

from kernelscope.tracer.inside import changes
from kernelscope.tracer.inside.profiling.patches import Patches

met = []
changes.apply("torch", sys.argv[1:], Patches(), lambda name, what: met.append([name.partition(":")[2], what]))

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
torch.backends.mkldnn.enabled = False


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4 * 36, 2)
        self.calls = []

    def block(self, x):
        self.calls.append(torch.is_grad_enabled())
        return torch.relu(self.conv(x))

    def forward(self, x):
        return self.out(torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False).flatten(1))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = list(DataLoader([(torch.full((3, 8, 8), float(n)), n % 2) for n in range(4)], batch_size=2))
with contextlib.redirect_stderr(io.StringIO()), torch.autograd.detect_anomaly(check_nan=True):
    checked = torch.is_anomaly_enabled()
    scores = model(batches[-1][0])
    torch.nn.functional.cross_entropy(scores.float(), batches[-1][1]).backward()
    optimizer.step()
optimizer.zero_grad(set_to_none=False)
print(
    json.dumps(
        {
            "met": met,
            "last channels": model.conv.weight.is_contiguous(memory_format=torch.channels_last),
            "fused": optimizer.defaults["fused"],
            "foreach": optimizer.defaults["foreach"],
            "type": str(scores.dtype),
            "checked": checked,
            "forward passes": len(model.calls),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "threads": torch.get_num_threads(),
            "onednn": torch.backends.mkldnn.enabled,
            "double": [str(torch.ones(1).double().dtype), str(torch.nn.Linear(1, 1).to(torch.float64).weight.dtype)],
            "gradients": model.conv.weight.grad is not None,
            "batches": [float(x[0, 0, 0, 0]) for x, _ in batches],
        }
    )
)
