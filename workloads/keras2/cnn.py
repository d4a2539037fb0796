"""The Keras CIFAR-10 example network for 3x32x32 images, as a Keras 2 user writes it."""

from typing import Any, Callable

from keras.layers import Activation, Conv2D, Dense, Flatten, MaxPooling2D
from keras.models import Sequential


def build(dropout: Callable[..., Any]) -> Any:
    """Return the model from images [batch, 3, 32, 32] to logits [batch, 10]; dropout: the class of its dropout layers."""
    model = Sequential()
    model.add(Conv2D(32, (3, 3), padding="same", input_shape=(3, 32, 32), name="conv1"))
    model.add(Activation("relu", name="relu1"))
    model.add(Conv2D(32, (3, 3), name="conv2"))
    model.add(Activation("relu", name="relu2"))
    model.add(MaxPooling2D((2, 2), name="pool1"))
    model.add(dropout(0.25, name="dropout1"))
    model.add(Conv2D(64, (3, 3), padding="same", name="conv3"))
    model.add(Activation("relu", name="relu3"))
    model.add(Conv2D(64, (3, 3), name="conv4"))
    model.add(Activation("relu", name="relu4"))
    model.add(MaxPooling2D((2, 2), name="pool2"))
    model.add(dropout(0.25, name="dropout2"))
    model.add(Flatten(name="flatten"))
    model.add(Dense(512, name="fc1"))
    model.add(Activation("relu", name="relu5"))
    model.add(dropout(0.5, name="dropout3"))
    model.add(Dense(10, name="fc2"))
    return model
