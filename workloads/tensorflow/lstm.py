"""One LSTM over the 28 rows of a 28x28 image, as a Keras user writes it."""

from typing import Any

import keras
from keras import layers


def lstm(dropout: bool) -> Any:
    """Return the model: the last hidden state goes into a dense layer; it has no dropout to switch off."""
    return keras.Sequential(
        [layers.Input((28, 28)), layers.LSTM(128, name="lstm1"), layers.Dense(10, name="fc1")],
        name="lstm",
    )
