"""Every network in every framework, in its own environment: the same parameters, shapes, outputs and losses.

The reference numbers are those of the PyTorch programs, recorded once, and the counts and shapes those of the canonical networks.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from kernelscope.workloads import networks

REFERENCE = Path(__file__).parent.parent / "data" / "reference"
NETWORKS = ("lenet", "mlp", "cnn", "lstm")
FRAMEWORKS = {"pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet", "cntk": "cntk"}

CHECK = """
import importlib, itertools, json, sys
from kernelscope.workloads import data, networks
program_module = importlib.import_module("kernelscope.workloads." + sys.argv[1] + ".program")
network = networks.get(sys.argv[2])
options = {"mode": "train", "batch": 64, "device": "cpu", "seed": 0, "threads": 2, "dropout": False}
program = program_module.Program(network, options)
program.load(networks.initial_weights(network, 0))
batches = data.batches(network, 64, 0, 8)
found = {"outputs": program.outputs(batches[0][0]).tolist(), "shapes": program.layer_shapes(batches[0][0])}
program.train(itertools.islice(program.stream(iter(program.prepare(batches))), 3))
found.update(losses=program.losses, parameters=program.parameters())
found["imported"] = importlib.import_module(sys.argv[3]).__version__  # the framework, not our folder of the same name
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", NETWORKS)
def test_programs_compute_the_reference(run_in, framework, name):
    found = run_in(framework, CHECK, framework, name, FRAMEWORKS[framework])
    assert found["imported"][0].isdigit()
    check(name, found)


def check(name, found):
    reference = json.loads((REFERENCE / f"{name}.json").read_text())
    outputs, expected = np.array(found["outputs"]), np.array(reference["outputs"])
    assert np.abs(outputs - expected).max() <= 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found["losses"], reference["losses"], rtol=1e-3)
    network = networks.get(name)
    assert sum(row["count"] for row in found["parameters"]) == networks.parameter_count(network)
    assert {row["layer"] for row in found["parameters"]} == {layer.name for layer in network.layers if layer.parameters}
    assert found["shapes"] == {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}


# All networks in one process, because importing takes longer than they do
CHECK_ALL = """
import io, json, os, sys
from contextlib import redirect_stdout
os.environ["KERAS_BACKEND"] = sys.argv[4]
source, found = sys.argv[3], {}
for name in sys.argv[5:]:
    sys.argv[2:4] = [name, "numpy"]
    with redirect_stdout(io.StringIO()) as printed:
        exec(source, {})
    found[name] = json.loads(printed.getvalue().splitlines()[-1])
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["jax", "keras-torch", "keras-tensorflow", "keras-jax"])
def test_networks_in_jax_and_keras_compute_the_reference(run_in, framework):
    module, _, backend = framework.partition("-")
    found = run_in(framework, CHECK_ALL, module, "", CHECK, backend or "jax", *NETWORKS)
    assert list(found) == list(NETWORKS)
    for name, values in found.items():
        check(name, values)
