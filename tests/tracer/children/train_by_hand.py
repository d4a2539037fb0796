"""Training without an optimizer, as in PyTorch's example of a language model: parameters are updated by hand."""

import sys

import torch
from torch import nn


class Model(nn.Module):
    """A recurrent network over words."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(50, 16)
        self.rnn = nn.LSTM(16, 16)
        self.decoder = nn.Linear(16, 50)

    def forward(self, words, hidden):
        output, hidden = self.rnn(self.encoder(words), hidden)
        return self.decoder(output).view(-1, 50), hidden


def train(model, criterion, steps):
    """Train for so many batches."""
    model.train()
    hidden = None
    for step in range(steps):
        words = torch.randint(0, 50, (12, 4))
        model.zero_grad()
        hidden = None if hidden is None else tuple(state.detach() for state in hidden)
        output, hidden = model(words, hidden)
        loss = criterion(output, words.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
        if step % 20 == 0:
            print(f"{loss.item():.5f}")


def evaluate(model, criterion, batches):
    """Return the mean loss of so many batches."""
    model.eval()
    total, hidden = 0.0, None
    with torch.no_grad():
        for _ in range(batches):
            words = torch.randint(0, 50, (12, 4))
            output, hidden = model(words, hidden)
            total += criterion(output, words.view(-1)).item()
    return total / batches


def main():
    """Evaluate if asked to, then train and evaluate twice."""
    torch.manual_seed(0)
    model, criterion = Model(), nn.CrossEntropyLoss()
    if sys.argv[1:] == ["evaluates first"]:
        print(f"{evaluate(model, criterion, 30):.5f}")
    for _ in range(2):
        train(model, criterion, 80)
        print(f"{evaluate(model, criterion, 30):.5f}")


if __name__ == "__main__":
    main()
