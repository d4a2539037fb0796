"""ResNet-50 as torchvision and as Keras build it: other names, other order of branches, other places of strides and padding.

The expected pairs are written down by rule from both sources' naming schemes; sizes are worked out from the architecture.
"""

from __future__ import annotations

from dataclasses import replace

from kernelscope.analysis.explain.alignment import align
from kernelscope.analysis.explain.model import Layer

BLOCKS = ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7))  # blocks, channels inside, height and width of each stage


def convolution(name: str, inputs: int, outputs: int, kernel: int, size: int, bias: bool) -> Layer:
    weights = inputs * outputs * kernel * kernel
    flops = (2 * weights + bias * outputs) * size * size
    return Layer(name, 0, "convolution", (outputs, size, size), flops, weights + bias * outputs)


def simple(name: str, kind: str, channels: int, size: int, parameters: int = 0) -> Layer:
    return Layer(name, 0, kind, (channels, size, size), channels * size * size, parameters)


def torchvision() -> list[Layer]:
    """Strides in the 3 x 3 convolutions, one relu module a block (its first call is where it stands), no biases."""
    layers = [convolution("conv1", 3, 64, 7, 112, False), simple("bn1", "normalisation", 64, 112, 128),
              simple("relu", "relu", 64, 112), simple("maxpool", "pooling_max", 64, 56)]  # fmt: skip
    inputs, before = 64, 56
    for stage, (blocks, inside, size) in enumerate(BLOCKS, 1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            layers += [
                convolution(f"{at}.conv1", inputs, inside, 1, before, False),
                simple(f"{at}.bn1", "normalisation", inside, before, 2 * inside),
                simple(f"{at}.relu", "relu", inside, before),
                convolution(f"{at}.conv2", inside, inside, 3, size, False),
                simple(f"{at}.bn2", "normalisation", inside, size, 2 * inside),
                convolution(f"{at}.conv3", inside, 4 * inside, 1, size, False),
                simple(f"{at}.bn3", "normalisation", 4 * inside, size, 8 * inside),
            ]
            if block == 0:
                layers += [
                    convolution(f"{at}.downsample.0", inputs, 4 * inside, 1, size, False),
                    simple(f"{at}.downsample.1", "normalisation", 4 * inside, size, 8 * inside),
                ]
            inputs, before = 4 * inside, size
    return [*layers, simple("avgpool", "pooling_average", 2048, 1), Layer("fc", 0, "dense", (1000,), 4097000, 2049000)]


def keras() -> list[Layer]:
    """Strides in the first 1 x 1 convolutions, padding apart, shortcuts first, biases, and moving averages as parameters.

    Shapes are channels last.
    """
    layers = [simple("conv1_pad", "layout", 3, 230), convolution("conv1_conv", 3, 64, 7, 112, True),
              simple("conv1_bn", "normalisation", 64, 112, 256), simple("conv1_relu", "relu", 64, 112),
              simple("pool1_pad", "layout", 64, 114), simple("pool1_pool", "pooling_max", 64, 56)]  # fmt: skip
    inputs = 64
    for stage, (blocks, inside, size) in enumerate(BLOCKS, 2):
        for block in range(1, blocks + 1):
            at = f"conv{stage}_block{block}"
            if block == 1:
                layers += [
                    convolution(f"{at}_0_conv", inputs, 4 * inside, 1, size, True),
                    simple(f"{at}_0_bn", "normalisation", 4 * inside, size, 16 * inside),
                ]
            layers += [
                convolution(f"{at}_1_conv", inputs, inside, 1, size, True),
                simple(f"{at}_1_bn", "normalisation", inside, size, 4 * inside),
                simple(f"{at}_1_relu", "relu", inside, size),
                convolution(f"{at}_2_conv", inside, inside, 3, size, True),
                simple(f"{at}_2_bn", "normalisation", inside, size, 4 * inside),
                simple(f"{at}_2_relu", "relu", inside, size),
                convolution(f"{at}_3_conv", inside, 4 * inside, 1, size, True),
                simple(f"{at}_3_bn", "normalisation", 4 * inside, size, 16 * inside),
                simple(f"{at}_add", "elementwise", 4 * inside, size),
                simple(f"{at}_out", "relu", 4 * inside, size),
            ]
            inputs = 4 * inside
    layers += [simple("avg_pool", "pooling_average", 2048, 1), Layer("predictions", 0, "dense", (1000,), 4097000, 2049000)]
    return [replace(layer, output_shape=(layer.output_shape or ())[::-1]) for layer in layers]


def expected() -> dict[str, str]:
    """Every convolution, normalisation, pooling and dense layer of torchvision and its counterpart of Keras."""
    pairs = {"conv1": "conv1_conv", "bn1": "conv1_bn", "relu": "conv1_relu", "maxpool": "pool1_pool", "avgpool": "avg_pool",
             "fc": "predictions"}  # fmt: skip
    for stage, (blocks, _, _) in enumerate(BLOCKS, 1):
        for block in range(blocks):
            mine, theirs = f"layer{stage}.{block}", f"conv{stage + 1}_block{block + 1}"
            pairs |= {
                f"{mine}.{kind}{n}": f"{theirs}_{n}_{word}" for n in (1, 2, 3) for kind, word in (("conv", "conv"), ("bn", "bn"))
            }
        pairs |= {f"layer{stage}.0.downsample.0": f"conv{stage + 1}_block1_0_conv",
                  f"layer{stage}.0.downsample.1": f"conv{stage + 1}_block1_0_bn"}  # fmt: skip
    return pairs


def in_order(layers: list[Layer]) -> list[Layer]:
    return [replace(layer, order=n) for n, layer in enumerate(layers)]


def test_the_sizes_are_those_of_resnet_50() -> None:
    assert sum(layer.parameters or 0 for layer in torchvision()) == 25_557_032  # as torchvision documents it
    assert sum(layer.parameters or 0 for layer in keras()) == 25_636_712  # as Keras documents it


def test_the_layers_of_both_are_paired_as_the_naming_schemes_say() -> None:
    a, b = in_order(torchvision()), in_order(keras())
    matches = align(a, b)
    found = {match.a[0]: match.b[0] for match in matches if len(match.a) == len(match.b) == 1}
    wrong = {name: (theirs, found.get(name)) for name, theirs in expected().items() if found.get(name) != theirs}
    assert wrong == {}
    alone = {match.b[0] for match in matches if not match.a}
    sums = {f"conv{stage}_block{n}_add" for stage, (blocks, _, _) in enumerate(BLOCKS, 2) for n in range(1, blocks + 1)}
    assert {name for name in alone if not name.endswith(("_relu", "_out"))} == {"conv1_pad", "pool1_pad", *sums}
    crossed = [match.a[0] for match in matches if match.note and "in another order" in match.note]
    assert crossed == [f"layer{stage}.0.downsample.{n}" for stage in (1, 2, 3, 4) for n in (0, 1)]


def test_types_and_parameters_alone_pair_nearly_all() -> None:
    a, b = ([replace(layer, output_shape=None, flops=None) for layer in in_order(side)] for side in (torchvision(), keras()))
    found = {match.a[0]: match.b[0] for match in align(a, b) if len(match.a) == len(match.b) == 1}
    truth = expected()
    assert sum(found.get(name) == theirs for name, theirs in truth.items()) >= 0.9 * len(truth)
