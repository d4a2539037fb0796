"""The multi-layer perceptron for vectors of 784 numbers, as a Keras 2 user writes it."""

from typing import Any, Callable

from keras.layers import Activation, Dense
from keras.models import Sequential


def build(dropout: Callable[..., Any]) -> Any:
    """Return the model from vectors [batch, 784] to logits [batch, 10]; dropout: the class of its dropout layers."""
    model = Sequential()
    model.add(Dense(512, input_shape=(784,), name="fc1"))
    model.add(Activation("relu", name="relu1"))
    model.add(dropout(0.2, name="dropout1"))
    model.add(Dense(512, name="fc2"))
    model.add(Activation("relu", name="relu2"))
    model.add(dropout(0.2, name="dropout2"))
    model.add(Dense(10, name="fc3"))
    return model
