"""LeNet-5 in plain numpy computes what the other frameworks compute, and a recording of it shows its layers."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import kernelscope as ks
from kernelscope.workloads import data, networks
from kernelscope.workloads.plainnumpy.program import Program

OPTIONS = {"mode": "train", "batch": 64, "device": "cpu", "seed": 0, "dropout": False}
REFERENCE = Path(__file__).parents[1] / "data/reference/lenet.json"


def test_it_computes_the_reference():
    reference = json.loads(REFERENCE.read_text())
    network = networks.get("lenet")
    program = Program(network, OPTIONS)
    program.load(networks.initial_weights(network, 0))
    batches = data.batches(network, 64, 0, 8)
    outputs, expected = program.outputs(batches[0][0]), np.array(reference["outputs"])
    assert np.abs(outputs - expected).max() <= 1e-4 * np.abs(expected).max()
    shapes = {layer.name: list(layer.output_shape) for layer in network.layers if layer.type != "loss"}
    assert program.layer_shapes(batches[0][0]) == shapes
    assert sum(row["count"] for row in program.parameters()) == networks.parameter_count(network)
    program.train(itertools.islice(program.stream(iter(program.prepare(batches))), 3))
    np.testing.assert_allclose(program.losses, reference["losses"], rtol=1e-3)


def test_a_recording_shows_its_layers(tmp_path):
    command = [sys.executable, "-m", "kernelscope.cli.main", "run", "lenet", "-f", "plainnumpy", "--python", sys.executable]
    options = ["--steps", "5", "--batch", "16", "--threads", "1", "-o", str(tmp_path / "run")]
    done = subprocess.run(command + options, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = ks.open(tmp_path / "run")
    layers = run.breakdown("layer").table.set_index("layer")
    described = {layer.name for layer in networks.get("lenet").layers}
    assert described <= set(layers.index)
    whole = layers["time_ns"].sum()
    assert layers.loc[sorted(described), "time_ns"].sum() >= 0.85 * whole
