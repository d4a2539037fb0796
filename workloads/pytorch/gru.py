"""One GRU over the words of a review, as a PyTorch user writes it."""

from typing import Any

from torch import nn


class GRU(nn.Module):
    """An embedding of 30,000 words and 100 recurrent units; a dense layer maps the last hidden state to logits."""

    def __init__(self) -> None:
        super(GRU, self).__init__()
        self.embedding = nn.Embedding(30000, 125)
        self.gru1 = nn.GRU(input_size=125, hidden_size=100, batch_first=True)
        self.fc1 = nn.Linear(100, 2)

    def forward(self, words: Any) -> Any:
        """Return the logits [batch, 2] of reviews [batch, 150] of word numbers (int64)."""
        _, hidden = self.gru1(self.embedding(words))
        return self.fc1(hidden[-1])
