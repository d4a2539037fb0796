"""Primitives called without a framework, on a small capture that this project recorded."""

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, onednn
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.workloads import networks
from tests.places import ROOT

CAPTURE = ROOT / "tests" / "data" / "onednn" / "lenet-infer"
STEPS = 3


@pytest.fixture(scope="module")
def context():
    report = read_object(CAPTURE / "child.json")
    steps, ranges = read_table(CAPTURE / "steps.jsonl", "steps"), read_table(CAPTURE / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], "infer", report, Clock.from_anchors(report["anchors"]))


@pytest.fixture(scope="module")
def evidence(context):
    return onednn.read(CAPTURE, context)


def test_each_layer_has_its_primitive_and_steps_before_the_measured_ones_are_left_out(evidence):
    computing = [layer.name for layer in networks.get("lenet").layers if layer.type not in ("flatten", "loss")]
    kernels = evidence.kernels.sort_values("start_ns")
    assert kernels["layer"].tolist() == computing * STEPS
    assert set(kernels["attribution"]) == {"launch range"}
    kinds = kernels.drop_duplicates("layer").set_index("layer")["kind"].to_dict()
    assert [kinds[name] for name in ("conv1", "tanh1", "pool1", "fc1")] == [
        "convolution forward", "activation", "pooling", "gemm",
    ]  # fmt: skip
    # 22 lines of measured and 11 of other steps, and one that moved weights while the network was built
    lines = [line for line in (CAPTURE / "stdout.raw").read_text().splitlines() if ",exec," in line]
    assert len(lines) == 1 + 11 * (STEPS + 1)


def test_a_primitive_runs_inside_its_layers_range(context, evidence):
    layers = context.ranges[context.ranges["category"] == "layer"].sort_values("start_ns")
    kernels = evidence.kernels.sort_values("start_ns")
    early = layers["start_ns"].to_numpy() - kernels["start_ns"].to_numpy()
    late = kernels["end_ns"].to_numpy() - layers["end_ns"].to_numpy()
    assert max(early.max(), late.max()) < 20_000  # two clocks


def test_the_steps_add_up_and_are_explained(context, evidence):
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=evidence.operators, kernels=evidence.kernels)
    trace.check()
    found = partition(trace)
    assert found.cells["time_ns"].sum() == found.step_ns
    cells = found.cells
    known = cells["layer"].notna() | cells["phase"].isin(["data"]) | cells["cause"].isin(["in the framework", "synchronisation"])
    assert cells[known]["time_ns"].sum() >= 0.9 * found.step_ns
