"""A wide perceptron: nearly all of a step is large matrix products; the optimizer is fused, the data is in memory."""
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1536, 1536), nn.ReLU(inplace=True), nn.Linear(1536, 1536), nn.ReLU(inplace=True), nn.Linear(1536, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
x, y = torch.randn(4096, 1536), torch.randint(0, 512, (4096,))

for step in range(STEPS):
    first = step * 512 % 4096
    loss = nn.functional.cross_entropy(model(x[first:first + 512]), y[first:first + 512])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
