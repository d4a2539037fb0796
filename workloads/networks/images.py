"""The literature's image networks, on ImageNet and CIFAR-10 shapes.

The parameters are those of the papers or of another well-known form that frameworks ship; each docstring says which. The
studies that used these networks on CIFAR-10 do not say how they adapted them to 32 x 32 pixels; the forms here are the usual
ones.

Runs under Python 3.6.
"""

from typing import Callable, Sequence, Tuple

from kernelscope.workloads.networks.builder import Builder
from kernelscope.workloads.networks.description import Network

_Source = Tuple[Tuple[int, ...], str]  # shape of a sample, and data set
_Stem = Callable[[Builder], None]
_SGD = {"name": "sgd", "learning_rate": 0.001, "momentum": 0.9}
_GAIN = 6.0**0.5  # He et al. (2015): uniform in +-sqrt(6 / fan in) keeps the variance through ReLU
_IMAGENET, _CIFAR10 = ((3, 224, 224), "imagenet"), ((3, 32, 32), "cifar10")


def _dense_top(b: Builder, sizes: Sequence[int], rate: float) -> None:
    """Append dense layers of these sizes, with ReLU between them and, if `rate` is not 0, a dropout before all but the last."""
    for number, units in enumerate(sizes, 1):
        if number < len(sizes):
            if rate:
                b.dropout("dropout%d" % number, rate)
            b.dense("fc%d" % number, units).activation("relu_fc%d" % number, "relu")
        else:
            b.dense("fc%d" % number, units)


def alexnet() -> Network:
    """AlexNet in one column (Krizhevsky, 2014, arXiv 1404.5997), as PyTorch and others ship it.

    61,100,840 parameters and 714,188,480 multiply-accumulates on 224 x 224 pixels. The network of 2012 has two columns and
    distributes its channels differently: 60,965,224 and about 724 million. As in the later form, there is no local response
    normalisation.
    """
    b = Builder(_IMAGENET[0])
    b.convolution("conv1", 64, 11, padding=2, stride=4).activation("relu1", "relu").pooling("pool1", "max", 3, 2)
    b.convolution("conv2", 192, 5, padding=2).activation("relu2", "relu").pooling("pool2", "max", 3, 2)
    b.convolution("conv3", 384, 3, padding=1).activation("relu3", "relu")
    b.convolution("conv4", 256, 3, padding=1).activation("relu4", "relu")
    b.convolution("conv5", 256, 3, padding=1).activation("relu5", "relu").pooling("pool5", "max", 3, 2)
    b.flatten("flatten")
    _dense_top(b, (4096, 4096, 1000), 0.5)
    return b.network("alexnet", "AlexNet on ImageNet shapes", "imagenet", _SGD, _GAIN)


def alexnet_cifar10() -> Network:
    """AlexNet's layers on 32 x 32 pixels: a 3 x 3 first convolution without stride, pooling by 2, dense layers of 1,024."""
    b = Builder(_CIFAR10[0])
    b.convolution("conv1", 64, 3, padding=1).activation("relu1", "relu").pooling("pool1", "max", 2)
    b.convolution("conv2", 192, 5, padding=2).activation("relu2", "relu").pooling("pool2", "max", 2)
    b.convolution("conv3", 384, 3, padding=1).activation("relu3", "relu")
    b.convolution("conv4", 256, 3, padding=1).activation("relu4", "relu")
    b.convolution("conv5", 256, 3, padding=1).activation("relu5", "relu").pooling("pool5", "max", 2)
    b.flatten("flatten")
    _dense_top(b, (1024, 1024, 10), 0.5)
    return b.network("alexnet_cifar10", "AlexNet on CIFAR-10 shapes", "cifar10", _SGD, _GAIN)


_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def _vgg16(name: str, title: str, source: _Source, dense: Sequence[int]) -> Network:
    shape, dataset = source
    b = Builder(shape)
    for block, (channels, count) in enumerate(_VGG16, 1):
        for number in range(1, count + 1):
            b.convolution("conv%d_%d" % (block, number), channels, 3, padding=1)
            b.activation("relu%d_%d" % (block, number), "relu")
        b.pooling("pool%d" % block, "max", 2)
    b.flatten("flatten")
    _dense_top(b, dense, 0.5)
    return b.network(name, title, dataset, _SGD, _GAIN)


def vgg16() -> Network:
    """VGG-16 (Simonyan and Zisserman, 2014, configuration D): 138,357,544 parameters, 15.47 billion multiply-accumulates."""
    return _vgg16("vgg16", "VGG-16 on ImageNet shapes", _IMAGENET, (4096, 4096, 1000))


def vgg16_cifar10() -> Network:
    """VGG-16's convolutions on 32 x 32 pixels, with dense layers of 512."""
    return _vgg16("vgg16_cifar10", "VGG-16 on CIFAR-10 shapes", _CIFAR10, (512, 512, 10))


# block -> channels of the 1x1; the 3x3's reduction and the 3x3; the 5x5's reduction and the 5x5; the pooled branch's 1x1
_INCEPTIONS = (
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


def _inception(b: Builder, name: str, sizes: Sequence[int]) -> None:
    """Append four branches and their concatenation. Layers are named <block>_<part>."""
    one, reduce3, three, reduce5, five, pooled = sizes
    source, part = b.at, (name + "_%s").__mod__
    b.convolution(part("conv1"), one, 1, padding=0).activation(part("relu1"), "relu")
    b.start_at(source).convolution(part("reduce3"), reduce3, 1, padding=0).activation(part("relu_reduce3"), "relu")
    b.convolution(part("conv3"), three, 3, padding=1).activation(part("relu3"), "relu")
    b.start_at(source).convolution(part("reduce5"), reduce5, 1, padding=0).activation(part("relu_reduce5"), "relu")
    b.convolution(part("conv5"), five, 5, padding=2).activation(part("relu5"), "relu")
    b.start_at(source).pooling(part("pool"), "max", 3, 1, padding=1)
    b.convolution(part("project"), pooled, 1, padding=0).activation(part("relu_project"), "relu")
    b.concat(part("concat"), [part(end) for end in ("relu1", "relu3", "relu5", "relu_project")])


def _googlenet(name: str, title: str, source: _Source, classes: int, stem: _Stem) -> Network:
    shape, dataset = source
    b = Builder(shape)
    stem(b)
    for block, sizes in _INCEPTIONS:
        if sizes is None:
            b.pooling(block, "max", 3, 2, padding=1)
        else:
            _inception(b, block, sizes)
    b.pooling_global("pool5").dropout("dropout", 0.4).dense("fc", classes)
    return b.network(name, title, dataset, _SGD, _GAIN)


def googlenet() -> Network:
    """GoogLeNet (Szegedy et al., 2014): 6,998,552 parameters, 1.58 billion multiply-accumulates on 224 x 224 pixels.

    There are no auxiliary classifiers, which the original has in training only, and no local response normalisation. Pooling
    windows reach over the edge by one pixel on every side, while the original rounds sizes up; the shapes are the same.
    """

    def stem(b: Builder) -> None:
        b.convolution("conv1", 64, 7, padding=3, stride=2).activation("relu1", "relu").pooling("pool1", "max", 3, 2, padding=1)
        b.convolution("reduce2", 64, 1, padding=0).activation("relu_reduce2", "relu")
        b.convolution("conv2", 192, 3, padding=1).activation("relu2", "relu").pooling("pool2", "max", 3, 2, padding=1)

    return _googlenet("googlenet", "GoogLeNet on ImageNet shapes", _IMAGENET, 1000, stem)


def googlenet_cifar10() -> Network:
    """GoogLeNet's inception blocks on 32 x 32 pixels, after one 3 x 3 convolution."""

    def stem(b: Builder) -> None:
        b.convolution("conv1", 192, 3, padding=1).activation("relu1", "relu")

    return _googlenet("googlenet_cifar10", "GoogLeNet on CIFAR-10 shapes", _CIFAR10, 10, stem)


_RESNET50 = ((64, 3), (128, 4), (256, 6), (512, 3))


def _bottleneck(b: Builder, name: str, channels: int, stride: int, project: bool) -> None:
    """Append 1x1, 3x3 and 1x1 convolutions, each normalised, and a shortcut around them. Layers are named <block>_<part>."""
    source, part = b.at, (name + "_%s").__mod__
    b.convolution(part("conv1"), channels, 1, padding=0, stride=stride, bias=False).batch_norm(part("bn1"))
    b.activation(part("relu1"), "relu")
    b.convolution(part("conv2"), channels, 3, padding=1, bias=False).batch_norm(part("bn2")).activation(part("relu2"), "relu")
    b.convolution(part("conv3"), 4 * channels, 1, padding=0, bias=False).batch_norm(part("bn3"))
    if project:
        b.start_at(source).convolution(part("shortcut"), 4 * channels, 1, padding=0, stride=stride, bias=False)
        b.batch_norm(part("bn_shortcut"))
        source, b.at = b.at, part("bn3")
    b.plus(part("add"), source).activation(part("relu3"), "relu")


def _resnet50(name: str, title: str, source: _Source, classes: int, stem: _Stem) -> Network:
    shape, dataset = source
    b = Builder(shape)
    stem(b)
    for stage, (channels, count) in enumerate(_RESNET50, 1):
        for number in range(1, count + 1):
            first = number == 1
            _bottleneck(b, "stage%d_block%d" % (stage, number), channels, 2 if first and stage > 1 else 1, first)
    b.pooling_global("pool").dense("fc", classes)
    return b.network(name, title, dataset, _SGD, _GAIN)


def resnet50() -> Network:
    """ResNet-50 (He et al., 2015): 25,557,032 parameters, 3.86 billion multiply-accumulates on 224 x 224 pixels.

    As in the paper, a block's stride is in its first 1 x 1 convolution; frameworks that ship "v1.5" have it in the 3 x 3 one
    (4.09 billion). Convolutions have no bias, because the normalisation after them has one.
    """

    def stem(b: Builder) -> None:
        b.convolution("conv1", 64, 7, padding=3, stride=2, bias=False).batch_norm("bn1").activation("relu1", "relu")
        b.pooling("pool1", "max", 3, 2, padding=1)

    return _resnet50("resnet50", "ResNet-50 on ImageNet shapes", _IMAGENET, 1000, stem)


def resnet50_cifar10() -> Network:
    """ResNet-50's blocks on 32 x 32 pixels, after one 3 x 3 convolution."""

    def stem(b: Builder) -> None:
        b.convolution("conv1", 64, 3, padding=1, bias=False).batch_norm("bn1").activation("relu1", "relu")

    return _resnet50("resnet50_cifar10", "ResNet-50 on CIFAR-10 shapes", _CIFAR10, 10, stem)
