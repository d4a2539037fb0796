"""AlexNet in one column, for 224x224x3 and 32x32x3 images, as a Keras user writes it."""

from typing import Any, Sequence

import keras
from keras import layers


def alexnet(dropout: bool) -> Any:
    """Return the model for ImageNet's shapes; dropout: whether its dropout layers drop anything in training."""
    first = [layers.ZeroPadding2D(2, name="conv1_pad"), layers.Conv2D(64, 11, strides=4, name="conv1")]
    return _sequential("alexnet", (224, 224, 3), first, 3, (4096, 4096, 1000), dropout)


def alexnet_cifar10(dropout: bool) -> Any:
    """Return the model for CIFAR-10's shapes; dropout: whether its dropout layers drop anything in training."""
    first = [layers.Conv2D(64, 3, padding="same", name="conv1")]
    return _sequential("alexnet_cifar10", (32, 32, 3), first, 2, (1024, 1024, 10), dropout)


def _sequential(name: str, shape: Sequence[int], first: Any, pool: int, dense: Any, dropout: bool) -> Any:
    rate = 0.5 if dropout else 0.0
    return keras.Sequential(
        [
            layers.Input(shape),
            *first,
            layers.Activation("relu", name="relu1"),
            layers.MaxPooling2D(pool, strides=2, name="pool1"),
            layers.Conv2D(192, 5, padding="same", name="conv2"),
            layers.Activation("relu", name="relu2"),
            layers.MaxPooling2D(pool, strides=2, name="pool2"),
            layers.Conv2D(384, 3, padding="same", name="conv3"),
            layers.Activation("relu", name="relu3"),
            layers.Conv2D(256, 3, padding="same", name="conv4"),
            layers.Activation("relu", name="relu4"),
            layers.Conv2D(256, 3, padding="same", name="conv5"),
            layers.Activation("relu", name="relu5"),
            layers.MaxPooling2D(pool, strides=2, name="pool5"),
            layers.Flatten(name="flatten"),
            layers.Dropout(rate, name="dropout1"),
            layers.Dense(dense[0], name="fc1"),
            layers.Activation("relu", name="relu_fc1"),
            layers.Dropout(rate, name="dropout2"),
            layers.Dense(dense[1], name="fc2"),
            layers.Activation("relu", name="relu_fc2"),
            layers.Dense(dense[2], name="fc3"),
        ],
        name=name,
    )
