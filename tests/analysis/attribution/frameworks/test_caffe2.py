"""Caffe2's operators and MKL's lines of LeNet's training, two steps of two images that this project recorded."""

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, caffe2
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.workloads import networks
from tests.places import ROOT

CAPTURE = ROOT / "tests" / "data" / "caffe2" / "lenet-train"
STEPS, BATCH = 2, 2


@pytest.fixture(scope="module")
def context():
    report = read_object(CAPTURE / "child.json")
    steps, ranges = read_table(CAPTURE / "steps.jsonl", "steps"), read_table(CAPTURE / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], "train", report, Clock.from_anchors(report["anchors"]))


@pytest.fixture(scope="module")
def evidence(context):
    return caffe2.read(CAPTURE, context)


def test_every_layer_has_its_operators_in_both_directions(evidence):
    operators = evidence.operators
    per_step = operators.groupby(["layer", "phase"], observed=True).size() / STEPS
    layers = [layer.name for layer in networks.get("lenet").layers]
    assert {layer for layer, phase in per_step.index if phase == "forward"} == set(layers)
    assert {layer for layer, phase in per_step.index if phase == "backward"} == set(layers)
    updates = operators[operators["phase"] == "optimizer"]["name"].value_counts().to_dict()
    assert updates == {"MomentumSGDUpdate": 10 * STEPS, "AtomicIter": STEPS, "LearningRate": STEPS}  # ten parameters


def test_products_are_in_their_operators(evidence):
    """A convolution multiplies once for each image, and once for each image's bias; sizes are MKL's, column-major."""
    calls = evidence.kernels[evidence.kernels["library"] == "mkl"]
    forward = calls[(calls["layer"] == "conv1") & (calls["phase"] == "forward") & (calls["name"] == "sgemm")]
    found = forward.groupby(["m", "n", "k"]).size().to_dict()
    assert found == {(784, 6, 25): STEPS * BATCH, (784, 6, 1): STEPS * BATCH}  # 28 x 28 places, 5 x 5 weights of one channel
    gradients = calls[(calls["layer"] == "fc1") & (calls["phase"] == "backward") & (calls["name"] == "sgemm")]
    assert {tuple(row) for row in gradients[["m", "n", "k"]].to_numpy().tolist()} == {(400, 120, BATCH), (400, BATCH, 120)}
    operators = evidence.operators.sort_values("start_ns")
    at = operators["start_ns"].searchsorted(calls["start_ns"], side="right") - 1
    assert (calls["end_ns"].to_numpy() <= operators["end_ns"].to_numpy()[at]).all()


def test_the_steps_add_up_and_are_explained(context, evidence):
    tables = {name: conform(name, getattr(evidence, name)) for name in ("operators", "kernels")}
    trace = Trace(steps=context.steps, ranges=context.ranges, **tables)
    trace.check()
    found = partition(trace)
    assert found.cells["time_ns"].sum() == found.step_ns
    cells = found.cells
    known = (
        cells["layer"].notna()
        | cells["phase"].isin(["data", "optimizer"])
        | cells["cause"].isin(["in the framework", "synchronisation"])
    )
    assert cells[known]["time_ns"].sum() >= 0.9 * found.step_ns
