"""The workloads that call libraries directly: cuDNN's on a stand-in that computes on the processor, oneDNN's for real."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernelscope.workloads import data, networks
from kernelscope.workloads.cudnn import cuda
from kernelscope.workloads.cudnn.program import Program

BATCH = 3


def convolved(images, weight, bias, padding):
    images = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(images, weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwpq,kcpq->nkhw", windows, weight) + bias[:, None, None]


def pooled(images):
    n, c, h, w = images.shape
    return images.reshape(n, c, h // 2, 2, w // 2, 2).mean(axis=(3, 5))


def expected_logits(images, weights):
    """LeNet-5 in numpy, in double precision."""
    w = {key: value.astype(float) for key, value in weights.items()}
    x = pooled(np.tanh(convolved(images.astype(float), w["conv1", "weight"], w["conv1", "bias"], 2)))
    x = pooled(np.tanh(convolved(x, w["conv2", "weight"], w["conv2", "bias"], 0))).reshape(len(images), -1)
    for layer in ("fc1", "fc2"):
        x = np.tanh(x @ w[layer, "weight"].T + w[layer, "bias"])
    return x @ w["fc3", "weight"].T + w["fc3", "bias"]


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("cuda") / "stand_in.so"
    source = Path(__file__).with_name("cuda_stand_in.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-lm"], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture
def program(stand_in, monkeypatch):
    monkeypatch.setattr(cuda, "_load", lambda *_: stand_in)
    return Program(networks.get("lenet"), {"mode": "infer", "batch": BATCH})


def test_cudnn_computes_the_network_with_an_algorithm_in_float32(program):
    network = networks.get("lenet")
    weights = networks.initial_weights(network, 7)
    program.load(weights)
    images, other = (batch[0] for batch in data.batches(network, BATCH, 7, 2))
    for batch in (images, other, images):
        assert np.allclose(program.outputs(batch), expected_logits(batch, weights), atol=1e-5)
    assert program.library.algorithms == {"conv1": 0, "conv2": 0}  # neither the failed one nor the one in TF32
    assert program.library.library.version() == "9.28.0"


def test_cudnn_names_every_layer_and_its_shape(program):
    network = networks.get("lenet")
    program.load(networks.initial_weights(network, 0))
    shapes = program.layer_shapes(None)
    assert shapes == {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}
    assert sum(row["count"] for row in program.parameters()) == networks.parameter_count(network)
    layers = [name for name, _ in program.steps]
    assert layers == sorted(layers, key=[layer.name for layer in network.layers].index)


def test_a_call_that_fails_says_which_and_why(program):
    library = cuda.Library()
    with pytest.raises(cuda.CudaError, match="cudnnSetTensor4dDescriptor: CUDNN_STATUS_BAD_PARAM"):
        library.cudnnSetTensor4dDescriptor(cuda.created(library.cudnnCreateTensorDescriptor), 1, 0, 1, 1, 1, 1)


def test_only_what_there_is_can_be_asked_for():
    for network, mode in (("lenet", "train"), ("mlp", "infer")):
        with pytest.raises(ValueError, match="it only runs inference of lenet; give --mode infer"):
            Program(networks.get(network), {"mode": mode, "batch": 1})
