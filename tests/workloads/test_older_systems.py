"""Older systems, each in its own environment: the same parameters, shapes, outputs and losses as all others.

`make test-all` makes the environment of Chainer only: the others take long to make, and Theano to compile. They are tried where
they are.
The reference numbers are those of the PyTorch programs; see tests/workloads/test_programs.py and test_more_networks.py.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from kernelscope.tracer.outside import environments
from kernelscope.workloads import networks

REFERENCE = Path(__file__).parent.parent / "data" / "reference"
NETWORKS = ("lenet", "mlp", "cnn", "cifarcnn")
FRAMEWORKS = {
    "chainer": "chainer", "lasagne": "lasagne", "keras-theano": "keras2", "keras-cntk": "keras2", "keras-mxnet": "keras2",
    "caffe2": "caffe2",
}  # fmt: skip

CHECK = """
import importlib, itertools, json, sys
from kernelscope.workloads import data, networks
Program = importlib.import_module("kernelscope.workloads." + sys.argv[1] + ".program").Program
found = {}
for name, batch, steps in json.loads(sys.argv[2]):
    network = networks.get(name)
    program = Program(network, {"mode": "train", "batch": batch, "device": "cpu", "seed": 0, "threads": 2, "dropout": False})
    program.load(networks.initial_weights(network, 0))
    batches = data.batches(network, batch, 0, 8 if steps == 3 else steps)
    found[name] = {"outputs": program.outputs(batches[0][0]).tolist(), "shapes": program.layer_shapes(batches[0][0])}
    program.train(itertools.islice(program.stream(iter(program.prepare(batches))), steps))
    found[name].update(losses=program.losses, parameters=program.parameters())
found["refusals"] = []
for name, other in (("lstm", {}), ("mlp", {"precision": "bfloat16"}), ("mlp", {"layout": "channels_last"})):
    try:
        Program(networks.get(name), dict(other, mode="train"))
    except ValueError as error:
        found["refusals"].append(str(error))
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_programs_compute_the_reference(run_in, monkeypatch, framework):
    if framework != "chainer" and environments.find(framework) is None:
        pytest.skip(f"no environment for {framework}; run `kernelscope env create {framework}`")
    monkeypatch.setenv("THEANO_FLAGS", "floatX=float32")
    monkeypatch.setenv("KERAS_BACKEND", framework.partition("-")[2])
    references = {name: json.loads((REFERENCE / f"{name}.json").read_text()) for name in NETWORKS}
    sizes = [(name, len(values["outputs"]), len(values["losses"])) for name, values in references.items()]
    found = run_in(framework, CHECK, FRAMEWORKS[framework], json.dumps(sizes))
    refused = ("network lstm", "precision bfloat16", "layout channels_last")
    assert found.pop("refusals") == [f"{framework}: {what} is not supported" for what in refused]
    for name, reference in references.items():
        check(networks.get(name), reference, found[name])


def check(network, reference, found):
    outputs, expected = np.array(found["outputs"]), np.array(reference["outputs"])
    assert outputs.shape == expected.shape  # all classes of these networks are recorded
    assert np.abs(outputs - expected).max() <= 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found["losses"], reference["losses"], rtol=1e-3)
    assert sum(row["count"] for row in found["parameters"]) == networks.parameter_count(network)
    assert {row["layer"] for row in found["parameters"]} == {layer.name for layer in network.layers if layer.parameters}
    assert found["shapes"] == {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}
