"""Canonical networks: counts worked out by hand, shapes that fit together, weights that are reproducible."""

from pathlib import Path

import numpy as np
import pytest

from kernelscope.workloads import networks

# Worked out by hand from the layers' definitions (weights + biases)
PARAMETERS = {
    "lenet": 6 * 25 + 6 + 16 * 6 * 25 + 16 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10,
    "mlp": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10,
    "cnn": 3 * 32 * 9 + 32 + 32 * 32 * 9 + 32 + 32 * 64 * 9 + 64 + 64 * 64 * 9 + 64 + 2304 * 512 + 512 + 5120 + 10,
    "lstm": 4 * 128 * (28 + 128) + 4 * 128 + 128 * 10 + 10,
    "cifarcnn": 28 * 50 + 451 * 50 + 451 * 100 + 901 * 100 + 6401 * 512 + 513 * 10,
    "gru": 30000 * 125 + 300 * (125 + 100 + 2) + 101 * 2,
    "fcn5": 26753 * 1024 + 1025 * 1024 + 1025 * 26752,
    "fcn8": 26753 * 1024 + 4 * 1025 * 1024 + 1025 * 26752,
    "lstm32": 1024 * (10000 + 256 + 1) + 1024 * (256 + 256 + 1) + 257 * 10000,
    "lstm64": 1024 * (10000 + 256 + 1) + 1024 * (256 + 256 + 1) + 257 * 10000,
    # as PyTorch's torchvision states them for its own
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "vit_s16": 22_050_664,  # timm's deit_small_patch16_224
    # the paper's table 1 rounds per block; this is the sum over its rows with biases
    "googlenet": 6_998_552,
    # 12 blocks of 12 w^2 + 13 w (two normalisations, four matrices with biases), and what stands behind them
    "gpt2": 12 * (12 * 768**2 + 13 * 768) + 2 * 768 + 769 * 10,
    "bert_base": 12 * (12 * 768**2 + 13 * 768) + 769 * 2,
}
# multiply-accumulates of convolutions and dense layers for one image, in millions, as the literature has them
PUBLISHED = {"alexnet": 714, "vgg16": 15_470, "googlenet": 1_580, "resnet50": 3_860}
PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_lenet_has_the_published_count():
    assert networks.parameter_count(networks.get("lenet")) == 61_706


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts(name):
    assert networks.parameter_count(networks.get(name)) == PARAMETERS[name]


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_layers_are_fed_by_earlier_ones_whose_shapes_fit(name):
    network = networks.get(name)
    shapes = {networks.INPUT: network.input_shape}
    for layer in network.layers:
        assert layer.name.isidentifier()
        assert layer.name not in shapes
        fed = [shapes[source] for source in layer.inputs]
        assert layer.input_shape == fed[0]
        if layer.type == "concat":
            assert layer.output_shape == (sum(shape[0] for shape in fed), *fed[0][1:])
        if layer.type == "add":
            assert fed == [layer.output_shape] * 2
        shapes[layer.name] = layer.output_shape
    fed_on = {source for layer in network.layers for source in layer.inputs}
    assert fed_on == {networks.INPUT, *shapes} - {"loss"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_operations_match_the_published_ones(name):
    assert networks.multiply_accumulates(networks.get(name)) == pytest.approx(PUBLISHED[name] * 1e6, rel=0.002)


def test_the_page_states_what_is_built():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [row[0].strip("`") for row in rows] == list(networks.NETWORKS)
    for name, title, _, parameters, accumulated, operations, optimizer, layers in rows:
        network = networks.get(name.strip("`"))
        assert (title, optimizer, int(layers)) == (network.title, network.optimizer["name"], len(network.layers))
        assert int(parameters.replace(",", "")) == networks.parameter_count(network)
        assert accumulated == f"{networks.multiply_accumulates(network) / 1e6:,.1f}"
        assert operations == f"{sum(layer.flops for layer in network.layers) / 1e6:,.1f}"


def test_operations_of_known_layers():
    layers = {layer.name: layer for layer in networks.get("lenet").layers}
    assert layers["conv1"].flops == 2 * 6 * 28 * 28 * 25 + 6 * 28 * 28
    assert layers["conv2"].output_shape == (16, 10, 10)
    assert layers["fc1"].flops == 2 * 400 * 120 + 120
    assert layers["conv1"].bytes == 4 * (28 * 28 + 6 * 28 * 28)
    assert layers["conv1"].parameter_bytes == 4 * 156


def test_weights_depend_on_the_seed_only():
    network = networks.get("cnn")
    first, again, other = (networks.initial_weights(network, seed) for seed in (0, 0, 1))
    for key, values in first.items():
        assert values.dtype == np.float32
        assert np.array_equal(values, again[key])
        assert not np.array_equal(values, other[key])
        assert values.std() > 0
    # of a hundred thousand draws the bound of +-1/sqrt(fan in) is nearly reached and never passed
    assert 0.98 < np.abs(first[("fc1", "weight")]).max() * np.sqrt(2304) <= 1.0


def test_unknown_network_names_the_known_ones():
    with pytest.raises(networks.UnknownNetwork, match="unknown network 'vgg'; known: lenet, mlp, cnn, lstm"):
        networks.get("vgg")
