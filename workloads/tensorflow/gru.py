"""One GRU over the 150 words of a review, as a Keras user writes it."""

from typing import Any

import keras
from keras import layers


def gru(dropout: bool) -> Any:
    """Return the model: the last hidden state goes into a dense layer; it has no dropout to switch off."""
    return keras.Sequential(
        [
            layers.Input((150,), dtype="int64"),
            layers.Embedding(30000, 125, name="embedding"),
            layers.GRU(100, name="gru1"),
            layers.Dense(2, name="fc1"),
        ],
        name="gru",
    )
