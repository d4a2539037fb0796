"""VGG-16 for 224x224x3 and 32x32x3 images, as a Keras user writes it."""

from typing import Any, Sequence

import keras
from keras import layers

BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and number of convolutions


def vgg16(dropout: bool) -> Any:
    """Return the model for ImageNet's shapes; dropout: whether its dropout layers drop anything in training."""
    return _sequential("vgg16", (224, 224, 3), (4096, 4096, 1000), dropout)


def vgg16_cifar10(dropout: bool) -> Any:
    """Return the model for CIFAR-10's shapes; dropout: whether its dropout layers drop anything in training."""
    return _sequential("vgg16_cifar10", (32, 32, 3), (512, 512, 10), dropout)


def _sequential(name: str, shape: Sequence[int], dense: Any, dropout: bool) -> Any:
    rate = 0.5 if dropout else 0.0
    model = keras.Sequential([layers.Input(shape)], name=name)
    for block, (channels, count) in enumerate(BLOCKS, 1):
        for number in range(1, count + 1):
            model.add(layers.Conv2D(channels, 3, padding="same", name=f"conv{block}_{number}"))
            model.add(layers.Activation("relu", name=f"relu{block}_{number}"))
        model.add(layers.MaxPooling2D(2, name=f"pool{block}"))
    model.add(layers.Flatten(name="flatten"))
    for number, units in enumerate(dense[:-1], 1):
        model.add(layers.Dropout(rate, name=f"dropout{number}"))
        model.add(layers.Dense(units, name=f"fc{number}"))
        model.add(layers.Activation("relu", name=f"relu_fc{number}"))
    model.add(layers.Dense(dense[-1], name=f"fc{len(dense)}"))
    return model
