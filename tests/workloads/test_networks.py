"""Canonical networks: counts worked out by hand, shapes that fit together, weights that are reproducible."""

import numpy as np
import pytest

from kernelscope.workloads import networks

# Worked out by hand from the layers' definitions (weights + biases)
PARAMETERS = {
    "lenet": 6 * 25 + 6 + 16 * 6 * 25 + 16 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10,
    "mlp": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10,
    "cnn": 3 * 32 * 9 + 32 + 32 * 32 * 9 + 32 + 32 * 64 * 9 + 64 + 64 * 64 * 9 + 64 + 2304 * 512 + 512 + 5120 + 10,
    "lstm": 4 * 128 * (28 + 128) + 4 * 128 + 128 * 10 + 10,
}


def test_lenet_has_the_published_count():
    assert networks.parameter_count(networks.get("lenet")) == 61_706


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_parameter_counts_and_chained_shapes(name):
    network = networks.get(name)
    assert networks.parameter_count(network) == PARAMETERS[name]
    shape = network.input_shape
    for layer in network.layers:
        assert layer.input_shape == shape
        shape = layer.output_shape
    assert len({layer.name for layer in network.layers}) == len(network.layers)


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
