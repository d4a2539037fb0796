"""GoogLeNet for 224x224x3 and 32x32x3 images, as a Keras user writes it."""

from typing import Any, Sequence

import keras
from keras import layers

# block -> channels of the 1x1; the 3x3's reduction and the 3x3; the 5x5's reduction and the 5x5; the pooled branch's 1x1;
# None: a pooling
BLOCKS = (
    ("inception3a", (64, 96, 128, 16, 32, 32)),
    ("inception3b", (128, 128, 192, 32, 96, 64)),
    ("pool3", None),
    ("inception4a", (192, 96, 208, 16, 48, 64)),
    ("inception4b", (160, 112, 224, 24, 64, 64)),
    ("inception4c", (128, 128, 256, 24, 64, 64)),
    ("inception4d", (112, 144, 288, 32, 64, 64)),
    ("inception4e", (256, 160, 320, 32, 128, 128)),
    ("pool4", None),
    ("inception5a", (256, 160, 320, 32, 128, 128)),
    ("inception5b", (384, 192, 384, 48, 128, 128)),
)


def googlenet(dropout: bool) -> Any:
    """Return the model for ImageNet's shapes; dropout: whether its dropout layer drops anything in training."""
    images = layers.Input((224, 224, 3))
    x = layers.ZeroPadding2D(3, name="conv1_pad")(images)
    x = layers.Conv2D(64, 7, strides=2, name="conv1")(x)
    x = layers.Activation("relu", name="relu1")(x)
    x = _halve(x, "pool1")
    x = layers.Conv2D(64, 1, name="reduce2")(x)
    x = layers.Activation("relu", name="relu_reduce2")(x)
    x = layers.Conv2D(192, 3, padding="same", name="conv2")(x)
    x = layers.Activation("relu", name="relu2")(x)
    x = _halve(x, "pool2")
    return keras.Model(images, _blocks(x, 1000, dropout), name="googlenet")


def googlenet_cifar10(dropout: bool) -> Any:
    """Return the model for CIFAR-10's shapes; dropout: whether its dropout layer drops anything in training."""
    images = layers.Input((32, 32, 3))
    x = layers.Conv2D(192, 3, padding="same", name="conv1")(images)
    x = layers.Activation("relu", name="relu1")(x)
    return keras.Model(images, _blocks(x, 10, dropout), name="googlenet_cifar10")


def _blocks(x: Any, classes: int, dropout: bool) -> Any:
    for name, sizes in BLOCKS:
        x = _halve(x, name) if sizes is None else _inception(x, name, sizes)
    x = layers.GlobalAveragePooling2D(name="pool5")(x)
    x = layers.Dropout(0.4 if dropout else 0.0, name="dropout")(x)
    return layers.Dense(classes, name="fc")(x)


def _halve(x: Any, name: str) -> Any:
    """Pool with 3x3 windows that reach over every edge by one pixel; padding with zeros is harmless after a ReLU."""
    x = layers.ZeroPadding2D(1, name=name + "_pad")(x)
    return layers.MaxPooling2D(3, strides=2, name=name)(x)


def _inception(x: Any, name: str, sizes: Sequence[int]) -> Any:
    one, reduce3, three, reduce5, five, pooled = sizes
    branch1 = _convolution(x, one, 1, f"{name}_conv1", f"{name}_relu1")
    branch3 = _convolution(x, reduce3, 1, f"{name}_reduce3", f"{name}_relu_reduce3")
    branch3 = _convolution(branch3, three, 3, f"{name}_conv3", f"{name}_relu3")
    branch5 = _convolution(x, reduce5, 1, f"{name}_reduce5", f"{name}_relu_reduce5")
    branch5 = _convolution(branch5, five, 5, f"{name}_conv5", f"{name}_relu5")
    branch_pool = layers.MaxPooling2D(3, strides=1, padding="same", name=f"{name}_pool")(x)
    branch_pool = _convolution(branch_pool, pooled, 1, f"{name}_project", f"{name}_relu_project")
    return layers.Concatenate(name=f"{name}_concat")([branch1, branch3, branch5, branch_pool])


def _convolution(x: Any, channels: int, kernel: int, name: str, relu: str) -> Any:
    x = layers.Conv2D(channels, kernel, padding="same", name=name)(x)
    return layers.Activation("relu", name=relu)(x)
