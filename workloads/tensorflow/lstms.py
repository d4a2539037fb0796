"""LSTM-32 and LSTM-64 of Shi et al.: two layers over steps of 10,000 numbers, as a Keras user writes them."""

from typing import Any

import keras
from keras import layers


def lstm32(dropout: bool) -> Any:
    """Return the model over 32 steps; it has no dropout to switch off."""
    return _sequential("lstm32", 32)


def lstm64(dropout: bool) -> Any:
    """Return the model over 64 steps; it has no dropout to switch off."""
    return _sequential("lstm64", 64)


def _sequential(name: str, steps: int) -> Any:
    return keras.Sequential(
        [
            layers.Input((steps, 10000)),
            layers.LSTM(256, return_sequences=True, name="lstm1"),
            layers.LSTM(256, name="lstm2"),
            layers.Dense(10000, name="fc1"),
        ],
        name=name,
    )
