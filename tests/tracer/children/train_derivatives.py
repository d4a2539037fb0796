"""A script for profiles: a step's closure with second derivatives, and a part of the model that is also called by itself."""

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential()
for name, module in (("first", torch.nn.Linear(2, 64)), ("bend", torch.nn.Tanh()), ("second", torch.nn.Linear(64, 1))):
    net.add_module(name, module)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
x = torch.randn(4096, 2, requires_grad=True)


def closure():
    optimizer.zero_grad()
    slope = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
    loss = (slope - 1).pow(2).mean()
    loss.backward()
    return loss


for step in range(100):
    with torch.no_grad():
        size = net.first(x).abs().max()
    loss = optimizer.step(closure)
    if step % 10 == 0:
        print(f"{step} {float(loss):.6f} {float(size):.6f}")
