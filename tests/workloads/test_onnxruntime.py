"""Networks as ONNX graphs in ONNX Runtime: the same shapes and, within rounding, the outputs of the PyTorch programs."""

import json
from pathlib import Path

import numpy as np
import pytest

from kernelscope.workloads import networks

REFERENCE = Path(__file__).parent.parent / "data" / "reference"
SMALL = ("lenet", "mlp", "cnn", "lstm")  # their references hold 64 samples and all classes
MORE = ("cifarcnn", "gru", "alexnet_cifar10", "vgg16_cifar10", "googlenet_cifar10", "resnet50_cifar10", "vit_s16")

CHECK = """
import json, sys
from kernelscope.workloads import data, networks
from kernelscope.workloads.onnxruntime.program import Program
found = {}
for name in sys.argv[2:]:
    network = networks.get(name)
    program = Program(network, {"mode": "infer", "batch": int(sys.argv[1]), "threads": 2})
    program.load(networks.initial_weights(network, 0))
    # random samples depend on how many are drawn: a reference's first batch is the first of as many
    images = data.batches(network, int(sys.argv[1]), 0, 8 if sys.argv[1] == "64" else 2)[0][0]
    found[name] = {"outputs": program.outputs(images).tolist(), "shapes": program.layer_shapes(images)}
    found[name]["count"] = sum(row["count"] for row in program.parameters())
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "names"), [(64, SMALL), (2, MORE)])
def test_programs_compute_the_reference(run_in, batch, names):
    found = run_in("onnxruntime", CHECK, batch, *names)
    assert set(found) == set(names)
    for name, values in found.items():
        network = networks.get(name)
        reference = json.loads((REFERENCE / f"{name}.json").read_text())
        outputs = np.array(values["outputs"])[:, reference.get("classes", slice(None))]
        expected = np.array(reference["outputs"])
        assert np.abs(outputs - expected).max() <= 1e-4 * np.abs(expected).max(), name
        assert values["shapes"] == {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}
        assert values["count"] == networks.parameter_count(network)


REFUSED = """
import json
from kernelscope.workloads import networks
from kernelscope.workloads.onnxruntime.program import Program
said = []
for options in ({"mode": "train"}, {"mode": "infer", "precision": "bfloat16"}, {"mode": "infer", "layout": "channels_last"}):
    try:
        Program(networks.get("lenet"), dict(options, batch=1))
    except ValueError as error:
        said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.slow
def test_what_it_does_not_do_is_refused(run_in):
    said = run_in("onnxruntime", REFUSED)
    assert len(said) == 3
    assert all("is not supported" in text for text in said)
    assert "give --mode infer" in said[0]
