"""LSTM-32 and LSTM-64 of Shi et al. (2016) in Gluon: two gluon.rnn.LSTM blocks, so that each is a layer, and a dense layer.

As in lstm.py, h2h_bias stays zero, because a gate has one bias.
"""

from typing import Any

from mxnet.gluon import HybridBlock, nn, rnn

from kernelscope.workloads.networks import Network


class WordLSTM(HybridBlock):
    """Reads vectors one by one; the logits come from the second LSTM's state after the last vector."""

    def __init__(self, words: int, **kwargs: Any) -> None:
        super(WordLSTM, self).__init__(**kwargs)
        with self.name_scope():
            self.lstm1 = rnn.LSTM(256, layout="NTC", input_size=words, prefix="lstm1_")
            self.lstm2 = rnn.LSTM(256, layout="NTC", input_size=256, prefix="lstm2_")
            self.fc1 = nn.Dense(words, prefix="fc1_")
        self.collect_params(".*h2h_bias").setattr("grad_req", "null")

    def hybrid_forward(self, F: Any, vectors: Any) -> Any:
        """Return logits (N, words) for vectors (N, steps, words)."""
        outputs = self.lstm2(self.lstm1(vectors))
        last = F.slice_axis(outputs, axis=1, begin=-1, end=None, name="lstm2_last")
        return self.fc1(F.squeeze(last, axis=1, name="lstm2_state"))


def lstm32(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 32, 10000) to logits (N, 10000); it has no dropout."""
    return WordLSTM(network.classes, prefix="lstm32_")


def lstm64(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 64, 10000) to logits (N, 10000); it has no dropout."""
    return WordLSTM(network.classes, prefix="lstm64_")
