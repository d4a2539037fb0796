"""GoogLeNet in Gluon, on ImageNet and CIFAR-10 shapes: a HybridSequential of inception blocks."""

from typing import Any

from mxnet.gluon import HybridBlock, nn

from kernelscope.workloads.networks import Network

# block -> channels of the 1x1; the 3x3's reduction and the 3x3; the 5x5's reduction and the 5x5; the pooled branch's 1x1
_STAGES = (
    ("3", {"a": (64, 96, 128, 16, 32, 32), "b": (128, 128, 192, 32, 96, 64)}),
    (
        "4",
        {
            "a": (192, 96, 208, 16, 48, 64),
            "b": (160, 112, 224, 24, 64, 64),
            "c": (128, 128, 256, 24, 64, 64),
            "d": (112, 144, 288, 32, 64, 64),
            "e": (256, 160, 320, 32, 128, 128),
        },
    ),
    ("5", {"a": (256, 160, 320, 32, 128, 128), "b": (384, 192, 384, 48, 128, 128)}),
)


def _conv(name: str, channels: int, kernel: int, relu: str, stride: int = 1) -> Any:
    """Return the blocks of a convolution, padded to keep the size but for the stride, and its ReLU."""
    convolution = nn.Conv2D(channels, kernel, stride, kernel // 2, prefix=name + "_")
    return convolution, nn.Activation("relu", prefix=relu + "_")


def _branch(*blocks: Any) -> Any:
    branch = nn.HybridSequential(prefix="")
    branch.add(*blocks)
    return branch


class Inception(HybridBlock):
    """Four parallel branches over the same images, whose channels are concatenated."""

    def __init__(self, one: int, reduce3: int, three: int, reduce5: int, five: int, pooled: int, **kwargs: Any) -> None:
        super(Inception, self).__init__(**kwargs)
        with self.name_scope():
            self.branch1 = _branch(*_conv("conv1", one, 1, "relu1"))
            self.branch3 = _branch(*_conv("reduce3", reduce3, 1, "relu_reduce3") + _conv("conv3", three, 3, "relu3"))
            self.branch5 = _branch(*_conv("reduce5", reduce5, 1, "relu_reduce5") + _conv("conv5", five, 5, "relu5"))
            pool = nn.MaxPool2D(3, 1, 1, prefix="pool_")
            self.branch_pool = _branch(pool, *_conv("project", pooled, 1, "relu_project"))

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Return images (N, channels of all branches, height, width) for images (N, channels, height, width)."""
        branches = (self.branch1, self.branch3, self.branch5, self.branch_pool)
        return F.concat(*[branch(images) for branch in branches], dim=1, name="concat")


def _stem() -> Any:
    """Return the blocks that reduce 224 x 224 pixels to the input size of the first inception block."""
    blocks = _conv("conv1", 64, 7, "relu1", stride=2) + (nn.MaxPool2D(3, 2, 1, prefix="pool1_"),)
    blocks += _conv("reduce2", 64, 1, "relu_reduce2") + _conv("conv2", 192, 3, "relu2")
    return blocks + (nn.MaxPool2D(3, 2, 1, prefix="pool2_"),)


def _stem_cifar10() -> Any:
    return _conv("conv1", 192, 3, "relu1")


def googlenet(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 224, 224) to logits; without `dropout`, the rate is 0."""
    return _googlenet(network, dropout, _stem)


def googlenet_cifar10(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps images (N, 3, 32, 32) to logits; without `dropout`, the rate is 0."""
    return _googlenet(network, dropout, _stem_cifar10)


def _googlenet(network: Network, dropout: bool, stem: Any) -> Any:
    net = nn.HybridSequential(prefix=network.name + "_")
    with net.name_scope():
        net.add(*stem())
        for stage, blocks in _STAGES:
            for letter in sorted(blocks):
                net.add(Inception(*blocks[letter], prefix="inception%s%s_" % (stage, letter)))
            if stage != "5":
                net.add(nn.MaxPool2D(3, 2, 1, prefix="pool%s_" % stage))
        net.add(nn.GlobalAvgPool2D(prefix="pool5_"), nn.Flatten(prefix="pool5_flatten_"))
        net.add(nn.Dropout(0.4 if dropout else 0.0, prefix="dropout_"), nn.Dense(network.classes, prefix="fc_"))
    return net
