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
# framework: the module that its version comes from
SHORT = ("pytorch", "tensorflow", "mxnet", "cntk")  # what CI runs
FRAMEWORKS = {
    "pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet", "cntk": "cntk", "jax": "jax",
    "keras-torch": "keras", "keras-tensorflow": "keras", "keras-jax": "keras",
}  # fmt: skip

# All networks in one process, because importing takes longer than they do
CHECK = """
import importlib, itertools, json, os, sys
module, backend, imported = sys.argv[1:4]
if backend:
    os.environ["KERAS_BACKEND"] = backend
from kernelscope.workloads import data, networks
Program = importlib.import_module("kernelscope.workloads." + module + ".program").Program
found = {"imported": importlib.import_module(imported).__version__}  # the framework, not our folder of the same name
options = {"mode": "train", "batch": 64, "device": "cpu", "seed": 0, "threads": 2, "dropout": False}
for name in sys.argv[4:]:
    network = networks.get(name)
    program = Program(network, options)
    program.load(networks.initial_weights(network, 0))
    batches = data.batches(network, 64, 0, 8)
    found[name] = {"outputs": program.outputs(batches[0][0]).tolist(), "shapes": program.layer_shapes(batches[0][0])}
    program.train(itertools.islice(program.stream(iter(program.prepare(batches))), 3))
    found[name].update(losses=[float(loss) for loss in program.losses], parameters=program.parameters())
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in FRAMEWORKS]
)
def test_programs_compute_the_reference(run_in, framework):
    module, _, backend = framework.partition("-")
    found = run_in(framework, CHECK, module, backend, FRAMEWORKS[framework], *NETWORKS)
    assert found.pop("imported")[0].isdigit()
    assert list(found) == list(NETWORKS)
    for name, values in found.items():
        check(name, values)


def check(name, found):
    reference = json.loads((REFERENCE / f"{name}.json").read_text())
    outputs, expected = np.array(found["outputs"]), np.array(reference["outputs"])
    assert np.abs(outputs - expected).max() <= 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found["losses"], reference["losses"], rtol=1e-3)
    network = networks.get(name)
    assert sum(row["count"] for row in found["parameters"]) == networks.parameter_count(network)
    assert {row["layer"] for row in found["parameters"]} == {layer.name for layer in network.layers if layer.parameters}
    assert found["shapes"] == {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}
