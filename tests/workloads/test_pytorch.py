"""The PyTorch programs and hooks, run in PyTorch's own environment."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernelscope.tracer.outside import environments, staging
from kernelscope.workloads import networks

pytestmark = pytest.mark.slow

REFERENCE = Path(__file__).parent.parent / "data" / "reference"


@pytest.fixture(scope="module")
def run_inside(tmp_path_factory):
    """Return a function that runs a script in PyTorch's environment and returns what it prints as JSON on its last line."""
    environment = environments.find("pytorch")
    if environment is None:
        if os.environ.get("CI"):
            pytest.fail("no environment for PyTorch; run `kernelscope env create pytorch`")
        pytest.skip("no environment for PyTorch; run `kernelscope env create pytorch`")
    staged = staging.stage(tmp_path_factory.mktemp("staged"))

    def run(script, *arguments):
        variables = {**os.environ, "PYTHONPATH": str(staged), **environment.variables}
        command = [str(environment.python), "-c", script, *map(str, arguments)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run


CHECK = """
import itertools, json, sys
from kernelscope.workloads import data, networks
from kernelscope.workloads.pytorch.program import Program
network = networks.get(sys.argv[1])
program = Program(network, {"mode": "train", "batch": 64, "device": "cpu", "seed": 0, "threads": 2, "dropout": False})
program.load(networks.initial_weights(network, 0))
batches = data.batches(network, 64, 0, 8)
found = {"outputs": program.outputs(batches[0][0]).tolist(), "shapes": program.layer_shapes(batches[0][0])}
program.train(itertools.islice(program.stream(iter(program.prepare(batches))), 3))
found.update(losses=program.losses, parameters=program.parameters())
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", list(networks.NETWORKS))
def test_programs_compute_the_reference(run_inside, name):
    found = run_inside(CHECK, name)
    reference = json.loads((REFERENCE / f"{name}.json").read_text())
    outputs, expected = np.array(found["outputs"]), np.array(reference["outputs"])
    assert np.abs(outputs - expected).max() <= 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found["losses"], reference["losses"], rtol=1e-3)
    network = networks.get(name)
    assert sum(row["count"] for row in found["parameters"]) == networks.parameter_count(network)
    assert {row["layer"] for row in found["parameters"]} == {layer.name for layer in network.layers if layer.parameters}
    expected_shapes = {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}
    assert found["shapes"] == expected_shapes


HOOKS = """
import collections, json, sys, tempfile, time
import torch
from torch import nn
from kernelscope.tracer.inside.hooks.pytorch import Hooks
from kernelscope.tracer.inside.ranges import Recorder

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(16 * 12 * 12, 10)

    def forward(self, images):
        x = self.relu1(self.conv1(images))
        return self.fc1(self.flatten(torch.sin(x + self.conv2(x))))

Program = collections.namedtuple("Program", "model loss optimizer")
folder = tempfile.mkdtemp()
recorder = Recorder(folder, layers=True)
hooks = Hooks({"pass": "layers", "folder": folder, "threads": 1, "device": "cpu"}, recorder)
hooks.configure()
model = Residual()
program = Program(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1))
methods = hooks.attach_layers(program)
gradients = []
for name, parameter in model.named_parameters():
    parameter.register_post_accumulate_grad_hook(lambda p, name=name: gradients.append((name, time.perf_counter_ns())))
batches = [(torch.rand(8, 3, 12, 12), torch.randint(0, 10, (8,))) for _ in range(3)]
for images, labels in recorder.steps(iter(batches), 3):
    program.optimizer.zero_grad()
    loss = program.loss(model(images), labels)
    loss.backward()
    program.optimizer.step()
    loss.item()
    left_open = len(recorder._stack()) - 1
recorder.flush()
ranges = [json.loads(line) for line in open(folder + "/ranges.jsonl")]
print(json.dumps({"ranges": ranges, "gradients": gradients, "methods": methods, "left_open": left_open,
                  "settings": hooks.settings(), "versions": hooks.versions()}))
"""


@pytest.fixture(scope="module")
def hooked(run_inside):
    return run_inside(HOOKS)


def test_gradients_of_parameters_are_computed_inside_their_layers_backward_range(hooked):
    backward = [r for r in hooked["ranges"] if r["category"] == "layer" and r["phase"] == "backward"]
    assert len(hooked["gradients"]) == 3 * 6
    for name, time_ns in hooked["gradients"]:
        around = [r["layer"] for r in backward if r["start_ns"] <= time_ns < r["end_ns"]]
        assert around == [name.rpartition(".")[0]]


def test_backward_visits_every_layer_once_and_leaves_functions_outside_of_modules_alone(hooked):
    one_step = [r for r in hooked["ranges"] if r["step"] == 1]
    backward = sorted((r for r in one_step if r["category"] == "layer" and r["phase"] == "backward"), key=lambda r: r["start_ns"])
    assert [r["layer"] for r in backward] == ["loss", "fc1", "flatten", "conv2", "relu1", "conv1"]
    gap = backward[3]["start_ns"] - backward[2]["end_ns"]  # the gradients of sin and of the addition
    assert gap > 0
    forward = [r["layer"] for r in sorted(one_step, key=lambda r: r["start_ns"]) if r["layer"] and r["phase"] == "forward"]
    assert forward == ["conv1", "relu1", "conv2", "flatten", "fc1", "loss"]


def test_ranges_nest_and_close(hooked):
    assert hooked["left_open"] == 0
    names = [r["name"] for r in hooked["ranges"] if r["step"] == 1 and r["category"] in ("phase", "sync")]
    assert sorted(names) == ["backward", "forward", "optimizer step", "optimizer zero_grad"]
    (whole,) = [r for r in hooked["ranges"] if r["step"] == 1 and r["name"] == "backward"]
    inside = [r for r in hooked["ranges"] if r["step"] == 1 and r["category"] == "layer" and r["phase"] == "backward"]
    assert all(whole["start_ns"] <= r["start_ns"] <= r["end_ns"] <= whole["end_ns"] for r in inside)


def test_settings_and_versions_are_told(hooked):
    assert hooked["settings"]["threads"] == 1
    assert hooked["settings"]["memory_format"] == "channels first"
    assert hooked["settings"]["execution"] == "eager"
    assert {"pytorch", "numpy", "onednn", "mkl"} <= set(hooked["versions"])
    assert set(hooked["methods"]) == {"layers", "phases"}
