"""Two hidden layers with dropout over 784 inputs, as a Keras user writes it."""

from typing import Any

import keras
from keras import layers


def mlp(dropout: bool) -> Any:
    """Return the model; dropout: whether its dropout layers drop anything in training."""
    rate = 0.2 if dropout else 0.0
    return keras.Sequential(
        [
            layers.Input((784,)),
            layers.Dense(512, name="fc1"),
            layers.Activation("relu", name="relu1"),
            layers.Dropout(rate, name="dropout1"),
            layers.Dense(512, name="fc2"),
            layers.Activation("relu", name="relu2"),
            layers.Dropout(rate, name="dropout2"),
            layers.Dense(10, name="fc3"),
        ],
        name="mlp",
    )
