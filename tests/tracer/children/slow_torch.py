"""Trains with anomaly detection left on, as somebody who looked for a nan would leave it."""

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 64), torch.randn(32, 64)
for _ in range(500):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("to its end")
