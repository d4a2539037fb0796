"""The CIFAR-10 network of the comparison of eleven frameworks, for 32x32x3 images, as a Keras user writes it."""

from typing import Any

import keras
from keras import layers


def cifarcnn(dropout: bool) -> Any:
    """Return the model; dropout: whether its dropout layers drop anything in training."""
    convolution_rate, dense_rate = (0.25, 0.5) if dropout else (0.0, 0.0)
    return keras.Sequential(
        [
            layers.Input((32, 32, 3)),
            layers.Conv2D(50, 3, padding="same", name="conv1"),
            layers.Activation("relu", name="relu1"),
            layers.Conv2D(50, 3, padding="same", name="conv2"),
            layers.Activation("relu", name="relu2"),
            layers.MaxPooling2D(2, name="pool1"),
            layers.Dropout(convolution_rate, name="dropout1"),
            layers.Conv2D(100, 3, padding="same", name="conv3"),
            layers.Activation("relu", name="relu3"),
            layers.Conv2D(100, 3, padding="same", name="conv4"),
            layers.Activation("relu", name="relu4"),
            layers.MaxPooling2D(2, name="pool2"),
            layers.Dropout(convolution_rate, name="dropout2"),
            layers.Flatten(name="flatten"),
            layers.Dense(512, name="fc1"),
            layers.Activation("relu", name="relu5"),
            layers.Dropout(dense_rate, name="dropout3"),
            layers.Dense(10, name="fc2"),
        ],
        name="cifarcnn",
    )
