"""ResNet-50 for 224x224x3 and 32x32x3 images, as a Keras user writes it."""

from typing import Any

import keras
from keras import layers

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels and number of blocks


def resnet50(dropout: bool) -> Any:
    """Return the model for ImageNet's shapes; it has no dropout to switch off."""
    images = layers.Input((224, 224, 3))
    x = layers.ZeroPadding2D(3, name="conv1_pad")(images)
    x = layers.Conv2D(64, 7, strides=2, use_bias=False, name="conv1")(x)
    x = _normalise(x, "bn1")
    x = layers.Activation("relu", name="relu1")(x)
    x = layers.ZeroPadding2D(1, name="pool1_pad")(x)  # zeros are harmless after a ReLU
    x = layers.MaxPooling2D(3, strides=2, name="pool1")(x)
    return keras.Model(images, _stages(x, 1000), name="resnet50")


def resnet50_cifar10(dropout: bool) -> Any:
    """Return the model for CIFAR-10's shapes; it has no dropout to switch off."""
    images = layers.Input((32, 32, 3))
    x = layers.Conv2D(64, 3, padding="same", use_bias=False, name="conv1")(images)
    x = _normalise(x, "bn1")
    x = layers.Activation("relu", name="relu1")(x)
    return keras.Model(images, _stages(x, 10), name="resnet50_cifar10")


def _stages(x: Any, classes: int) -> Any:
    for stage, (channels, count) in enumerate(STAGES, 1):
        for number in range(1, count + 1):
            stride = 2 if number == 1 and stage > 1 else 1
            x = _bottleneck(x, f"stage{stage}_block{number}", channels, stride, project=number == 1)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return layers.Dense(classes, name="fc")(x)


def _bottleneck(x: Any, name: str, channels: int, stride: int, project: bool) -> Any:
    shortcut = x
    if project:
        shortcut = layers.Conv2D(4 * channels, 1, strides=stride, use_bias=False, name=f"{name}_shortcut")(x)
        shortcut = _normalise(shortcut, f"{name}_bn_shortcut")
    x = layers.Conv2D(channels, 1, strides=stride, use_bias=False, name=f"{name}_conv1")(x)
    x = _normalise(x, f"{name}_bn1")
    x = layers.Activation("relu", name=f"{name}_relu1")(x)
    x = layers.Conv2D(channels, 3, padding="same", use_bias=False, name=f"{name}_conv2")(x)
    x = _normalise(x, f"{name}_bn2")
    x = layers.Activation("relu", name=f"{name}_relu2")(x)
    x = layers.Conv2D(4 * channels, 1, use_bias=False, name=f"{name}_conv3")(x)
    x = _normalise(x, f"{name}_bn3")
    x = layers.Add(name=f"{name}_add")([x, shortcut])
    return layers.Activation("relu", name=f"{name}_relu3")(x)


def _normalise(x: Any, name: str) -> Any:
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name)(x)
