"""A recurrent loop over tiny modules, in plain PyTorch: ranges around each of them would take longer than they do."""

import torch


class Cell(torch.nn.Module):
    """Two tiny linear layers and what they do with each other."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        self.outer = torch.nn.Linear(4, 4)

    def forward(self, value, state):
        """Return the next state."""
        return torch.tanh(self.outer(value) + self.inner(state))


class Loop(torch.nn.Module):
    """Calls its cell for each of some values, and a wide layer in the end, which takes most of the time."""

    def __init__(self):
        super().__init__()
        self.cell = Cell()
        self.wide = torch.nn.Sequential(torch.nn.Linear(4, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4))

    def forward(self, values):
        """Return the output of the last state."""
        state = torch.zeros(len(values), 4)
        for number in range(values.shape[1]):
            state = self.cell(values[:, number], state)
        return self.wide(state)


def main():
    """Train, and print the losses."""
    torch.manual_seed(0)
    model = Loop()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    values, wanted = torch.randn(64, 12, 4), torch.randn(64, 4)
    for _ in range(110):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(values), wanted)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
