"""One LSTM over the rows of an image in Gluon, as an MXNet user writes it: a HybridBlock around gluon.rnn.LSTM.

MXNet's LSTM has two biases, i2h_bias and h2h_bias, whose gradients are equal; training both would double the step of their sum.
The network has one bias per gate: i2h_bias. h2h_bias stays zero: with grad_req null, no gradient is kept for it and the trainer
skips it. The gates have the canonical order: input, forget, cell, output.
"""

from typing import Any

from mxnet.gluon import HybridBlock, nn, rnn

from kernelscope.workloads.networks import Network


class RowLSTM(HybridBlock):
    """Reads an image row by row; the logits come from the state after the last row."""

    def __init__(self, classes: int, **kwargs: Any) -> None:
        super(RowLSTM, self).__init__(**kwargs)
        with self.name_scope():
            self.lstm1 = rnn.LSTM(128, layout="NTC", input_size=28, prefix="lstm1_")
            self.fc1 = nn.Dense(classes, in_units=128, prefix="fc1_")
        self.lstm1.collect_params(".*h2h_bias").setattr("grad_req", "null")

    def hybrid_forward(self, F: Any, rows: Any) -> Any:
        """Return logits (N, classes) for rows (N, 28, 28)."""
        outputs = self.lstm1(rows)
        # SequenceLast would do this in one operator, but its gradient along axis 1 crashes in MXNet 1.9.1
        last = F.slice_axis(outputs, axis=1, begin=-1, end=None, name="lstm1_last")
        return self.fc1(F.squeeze(last, axis=1, name="lstm1_state"))


def lstm(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 28, 28) to logits (N, classes); it has no dropout."""
    return RowLSTM(network.classes, prefix="lstm_")
