"""LeNet-5 for 28x28x1 images, as a Keras user writes it."""

from typing import Any

import keras
from keras import layers


def lenet(dropout: bool) -> Any:
    """Return the model: two convolutions with average pooling, then three dense layers; it has no dropout to switch off."""
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(6, 5, padding="same", name="conv1"),
            layers.Activation("tanh", name="tanh1"),
            layers.AveragePooling2D(2, name="pool1"),
            layers.Conv2D(16, 5, name="conv2"),
            layers.Activation("tanh", name="tanh2"),
            layers.AveragePooling2D(2, name="pool2"),
            layers.Flatten(name="flatten"),
            layers.Dense(120, name="fc1"),
            layers.Activation("tanh", name="tanh3"),
            layers.Dense(84, name="fc2"),
            layers.Activation("tanh", name="tanh4"),
            layers.Dense(10, name="fc3"),
        ],
        name="lenet",
    )
