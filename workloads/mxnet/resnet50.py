"""ResNet-50 in Gluon, on ImageNet and CIFAR-10 shapes: a HybridSequential of bottleneck blocks, written like BottleneckV1.

MXNet's BatchNorm has the canonical settings by default: epsilon 1e-5, and running means keep 0.9.
"""

from typing import Any

from mxnet.gluon import HybridBlock, nn

from kernelscope.workloads.networks import Network

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def _conv(net: Any, part: str, channels: int, kernel: int, stride: int = 1, norm: str = "bn", relu: bool = True) -> None:
    """Add a normalised convolution to a block, by default with its ReLU."""
    net.add(nn.Conv2D(channels, kernel, stride, kernel // 2, use_bias=False, prefix="%s_" % part))
    net.add(nn.BatchNorm(prefix="%s_" % norm))
    if relu:
        net.add(nn.Activation("relu", prefix="%s_" % norm.replace("bn", "relu")))


class Bottleneck(HybridBlock):
    """1x1, 3x3 and 1x1 convolutions and a shortcut around them; as in the paper, the first convolution has the stride.

    project: whether the shortcut is a convolution.
    """

    def __init__(self, channels: int, stride: int, project: bool, **kwargs: Any) -> None:
        super(Bottleneck, self).__init__(**kwargs)
        self.shortcut = None
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            _conv(self.body, "conv1", channels, 1, stride, norm="bn1")
            _conv(self.body, "conv2", channels, 3, norm="bn2")
            _conv(self.body, "conv3", 4 * channels, 1, norm="bn3", relu=False)
            if project:
                self.shortcut = nn.HybridSequential(prefix="")
                _conv(self.shortcut, "shortcut", 4 * channels, 1, stride, norm="bn_shortcut", relu=False)
            self.relu3 = nn.Activation("relu", prefix="relu3_")

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Return images (N, 4 * channels, height / stride, width / stride) for images (N, any, height, width)."""
        residual = images if self.shortcut is None else self.shortcut(images)
        return self.relu3(F.elemwise_add(self.body(images), residual, name="add"))


def resnet50(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 224, 224) to logits; it has no dropout."""
    net = nn.HybridSequential(prefix="resnet50_")
    with net.name_scope():
        _conv(net, "conv1", 64, 7, stride=2, norm="bn1")
        net.add(nn.MaxPool2D(3, 2, 1, prefix="pool1_"))
        _add_stages(net, network.classes)
    return net


def resnet50_cifar10(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 32, 32) to logits; it has no dropout."""
    net = nn.HybridSequential(prefix="resnet50_cifar10_")
    with net.name_scope():
        _conv(net, "conv1", 64, 3, norm="bn1")
        _add_stages(net, network.classes)
    return net


def _add_stages(net: Any, classes: int) -> None:
    for stage, (channels, count) in enumerate(_STAGES, 1):
        for number in range(1, count + 1):
            stride = 2 if number == 1 and stage > 1 else 1
            net.add(Bottleneck(channels, stride, number == 1, prefix="stage%d_block%d_" % (stage, number)))
    net.add(nn.GlobalAvgPool2D(prefix="pool_"), nn.Flatten(prefix="pool_flatten_"))
    net.add(nn.Dense(classes, prefix="fc_"))
