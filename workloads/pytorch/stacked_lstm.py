"""LSTM-32 and LSTM-64 of Shi et al. (2016), as a PyTorch user writes them: one network for any number of time steps."""

from typing import Any

from torch import nn


class StackedLSTM(nn.Module):
    """Two LSTMs of 256 units over vectors of 10,000 numbers; a dense layer maps the last hidden state to logits.

    nn.LSTM's second bias stays at zero and is not trained, as in this package's other LSTM. The layers are two modules instead
    of one with num_layers=2, so that each is timed separately.
    """

    def __init__(self) -> None:
        super(StackedLSTM, self).__init__()
        self.lstm1 = nn.LSTM(input_size=10000, hidden_size=256, batch_first=True)
        self.lstm2 = nn.LSTM(input_size=256, hidden_size=256, batch_first=True)
        for layer in (self.lstm1, self.lstm2):
            nn.init.zeros_(layer.bias_hh_l0)
            layer.bias_hh_l0.requires_grad_(False)
        self.fc1 = nn.Linear(256, 10000)

    def forward(self, rows: Any) -> Any:
        """Return the logits [batch, 10000] of rows [batch, steps, 10000]."""
        sequence, _ = self.lstm1(rows)
        _, (hidden, _) = self.lstm2(sequence)
        return self.fc1(hidden[-1])
