"""LeNet-5 for 1x28x28 images, as a Keras 2 user writes it."""

from typing import Any, Callable

from keras.layers import Activation, AveragePooling2D, Conv2D, Dense, Flatten
from keras.models import Sequential


def build(dropout: Callable[..., Any]) -> Any:
    """Return the model from images [batch, 1, 28, 28] to logits [batch, 10]; it has no dropout."""
    model = Sequential()
    model.add(Conv2D(6, (5, 5), padding="same", input_shape=(1, 28, 28), name="conv1"))
    model.add(Activation("tanh", name="tanh1"))
    model.add(AveragePooling2D((2, 2), name="pool1"))
    model.add(Conv2D(16, (5, 5), name="conv2"))
    model.add(Activation("tanh", name="tanh2"))
    model.add(AveragePooling2D((2, 2), name="pool2"))
    model.add(Flatten(name="flatten"))
    model.add(Dense(120, name="fc1"))
    model.add(Activation("tanh", name="tanh3"))
    model.add(Dense(84, name="fc2"))
    model.add(Activation("tanh", name="tanh4"))
    model.add(Dense(10, name="fc3"))
    return model
