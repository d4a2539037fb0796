"""ResNet-50 on ImageNet and CIFAR-10 shapes with cntk.layers."""

from typing import Any

import cntk as C
from cntk.layers import Activation, BatchNormalization, Convolution2D, Dense, MaxPooling, Sequential

from kernelscope.workloads.cntk.layers import global_average_pooling
from kernelscope.workloads.networks import Network

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def _normalised(size: int, channels: int, name: str, normalisation: Any, stride: int = 1) -> Any:
    """Return a convolution, padded to keep its input's size but for the stride, and its normalisation."""
    return Sequential(
        [
            Convolution2D((size, size), channels, strides=stride, pad=size > 1, bias=False, name=name),
            BatchNormalization(map_rank=1, name=normalisation),
        ]
    )


def _bottleneck(name: str, channels: int, stride: int, project: bool) -> Any:
    """Return a function that adds three convolutions to a shortcut; project: whether the shortcut is a convolution."""
    part = (name + "_%s").__mod__
    residual = Sequential(
        [
            _normalised(1, channels, part("conv1"), part("bn1"), stride),
            Activation(C.relu, name=part("relu1")),
            _normalised(3, channels, part("conv2"), part("bn2")),
            Activation(C.relu, name=part("relu2")),
            _normalised(1, 4 * channels, part("conv3"), part("bn3")),
        ]
    )

    def block(features):  # type: (Any) -> Any
        shortcut = features
        if project:
            shortcut = _normalised(1, 4 * channels, part("shortcut"), part("bn_shortcut"), stride)(features)
        return C.relu(C.plus(residual(features), shortcut, name=part("add")), name=part("relu3"))

    return block


def _resnet50(network: Network, first: Any, *pooling: Any) -> Any:
    layers = [first, Activation(C.relu, name="relu1")] + list(pooling)
    for stage, (channels, count) in enumerate(_STAGES, 1):
        for number in range(1, count + 1):
            stride = 2 if number == 1 and stage > 1 else 1
            layers.append(_bottleneck("stage%d_block%d" % (stage, number), channels, stride, project=number == 1))
    return Sequential(layers + [global_average_pooling("pool"), Dense(network.classes, name="fc")])


def resnet50(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; ResNet-50 has no dropout to switch off."""
    return _resnet50(network, _normalised(7, 64, "conv1", "bn1", stride=2), MaxPooling((3, 3), strides=2, pad=True, name="pool1"))


def resnet50_cifar10(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of the images; ResNet-50 has no dropout to switch off."""
    return _resnet50(network, _normalised(3, 64, "conv1", "bn1"))
