"""FCN-5 and FCN-8 of Shi et al., over 26,752 inputs, as a Keras user writes them."""

from typing import Any

import keras
from keras import layers


def fcn5(dropout: bool) -> Any:
    """Return the model with two hidden layers; it has no dropout to switch off."""
    return _sequential("fcn5", 2)


def fcn8(dropout: bool) -> Any:
    """Return the model with five hidden layers; it has no dropout to switch off."""
    return _sequential("fcn8", 5)


def _sequential(name: str, hidden: int) -> Any:
    model = keras.Sequential([layers.Input((26752,))], name=name)
    for number in range(1, hidden + 1):
        model.add(layers.Dense(1024, name=f"fc{number}"))
        model.add(layers.Activation("sigmoid", name=f"sigmoid{number}"))
    model.add(layers.Dense(26752, name=f"fc{hidden + 1}"))
    return model
