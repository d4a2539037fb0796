"""The IMDB network of the comparison of eleven frameworks in Gluon: an embedding, one GRU, and two classes.

MXNet's GRU has two biases and resets the product, like cuDNN's; its gates have the canonical order: reset, update, new.
"""

from typing import Any

from mxnet.gluon import HybridBlock, nn, rnn

from kernelscope.workloads.networks import Network


class ReviewGRU(HybridBlock):
    """Reads a review word by word; the logits come from the state after the last word."""

    def __init__(self, words: Any, classes: int, **kwargs: Any) -> None:
        super(ReviewGRU, self).__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(words, 125, prefix="embedding_")
            self.gru1 = rnn.GRU(100, layout="NTC", input_size=125, prefix="gru1_")
            self.fc1 = nn.Dense(classes, prefix="fc1_")

    def hybrid_forward(self, F: Any, words: Any) -> Any:
        """Return logits (N, classes) for word numbers (N, 150)."""
        outputs = self.gru1(self.embedding(words))
        # SequenceLast would do this in one operator, but its gradient along axis 1 crashes in MXNet 1.9.1
        last = F.slice_axis(outputs, axis=1, begin=-1, end=None, name="gru1_last")
        return self.fc1(F.squeeze(last, axis=1, name="gru1_state"))


def gru(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps word numbers (N, 150) to logits (N, classes); it has no dropout."""
    return ReviewGRU(network.words, network.classes, prefix="gru_")
