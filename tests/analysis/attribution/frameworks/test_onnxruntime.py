"""ONNX Runtime's profile of LeNet's inference, on a small capture that this project recorded."""

import json
import shutil

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, onnxruntime
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.records import read_object, read_table
from tests.places import ROOT

CAPTURE = ROOT / "tests" / "data" / "onnxruntime" / "lenet-infer"
STEPS = 3
# nodes of a step in their order, with the layer that each computes for; activations are fused into what is before them
NODES = (
    ("tanh1_nchwc", "conv1", "convolution forward"), ("ReorderOutput", "conv1", "layout"), ("pool1", "pool1", "pooling"),
    ("tanh2_nchwc", "conv2", "convolution forward"), ("pool2_nchwc", "pool2", "pooling"),
    ("ReorderOutput_token_5", "pool2", "layout"), ("flatten", "flatten", "copy"), ("fused fc1", "fc1", "gemm"),
    ("fused fc2", "fc2", "gemm"), ("fc3", "fc3", "gemm"),
)  # fmt: skip


@pytest.fixture(scope="module")
def context():
    report = read_object(CAPTURE / "child.json")
    steps, ranges = read_table(CAPTURE / "steps.jsonl", "steps"), read_table(CAPTURE / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], "infer", report, Clock.from_anchors(report["anchors"]))


@pytest.fixture(scope="module")
def evidence(context):
    return onnxruntime.read(CAPTURE, context)


def test_every_node_of_the_measured_steps_has_its_layer(evidence):
    kernels = evidence.kernels.sort_values("start_ns", kind="stable")
    # the optimizer numbers what it puts in as it goes
    names = kernels["name"].astype("string").str.replace(r"_token_\d+$", "", regex=True)
    expected = [(name.partition("_token")[0], layer, kind) for name, layer, kind in NODES] * STEPS
    assert list(zip(names, kernels["layer"], kernels["kind"], strict=True)) == expected
    by_name = kernels["name"].astype("string").str.startswith("Reorder")
    assert set(kernels["attribution"][by_name]) == {"stream order"}
    assert set(kernels["attribution"][~by_name]) == {"operator name"}
    assert evidence.diagnostics == {"nodes of unknown layer": 0}


def test_times_and_shapes_are_the_profiles(evidence):
    raw = [event for event in json.loads((CAPTURE / "operators.onnxruntime.json").read_text()) if event["cat"] == "Node"]
    assert evidence.kernels["duration_ns"].sum() == 1000 * sum(event["dur"] for event in raw[-len(NODES) * STEPS :])
    product = evidence.kernels[evidence.kernels["name"] == "fused fc1"].iloc[0]
    assert (product["m"], product["n"], product["k"], product["dtype"]) == (2, 120, 400, "f32")
    convolution = evidence.kernels[evidence.kernels["name"] == "tanh1_nchwc"].iloc[0]
    # 6 channels are rounded up to a block of 16
    assert (convolution["problem"], convolution["layout"]) == ("2x1x28x28:16x1x5x5:16:2x16x28x28", "nchwc")
    assert set(evidence.kernels["library"]) == {"mlas", "onnxruntime"}


def test_the_steps_add_up_and_nodes_run_inside_calls(context, evidence):
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=evidence.operators, kernels=evidence.kernels)
    trace.check()
    found = partition(trace)
    assert found.cells["time_ns"].sum() == found.step_ns
    calls = context.ranges[context.ranges["name"] == "call"].sort_values("start_ns")
    kernels = evidence.kernels.sort_values("start_ns", kind="stable")
    first, last = kernels["start_ns"].to_numpy()[:: len(NODES)], kernels["end_ns"].to_numpy()[len(NODES) - 1 :: len(NODES)]
    assert (first >= calls["start_ns"].to_numpy() - 20_000).all()  # two clocks
    assert (last <= calls["end_ns"].to_numpy() + 20_000).all()


@pytest.mark.parametrize(
    ("layer", "operator", "expected"),
    [
        ("stage1_block1_bn3_nchwc", "Conv", "stage1_block1_conv3"),
        ("stage1_block1_bn_shortcut_nchwc", "Conv", "stage1_block1_shortcut"),
        ("relu1_nchwc", "Conv", "conv1"),
        ("fc", "Gemm", "fc"),
        ("pool_mean", "GlobalAveragePool", "pool"),
        ("ReorderInput", "ReorderInput", None),
    ],
)
def test_what_was_fused_is_the_layers_that_computes(layer, operator, expected):
    from kernelscope.workloads import networks

    layers = {one["name"]: one for one in networks.as_dict(networks.get("resnet50"))["layers"]}
    assert onnxruntime._layer(layer, operator, layers) == expected


@pytest.mark.parametrize("content", [b"", b"[{]", b'[{"cat": "Node", "name": "fc1_kernel_time"}]', b'{"a": 1}'])
def test_a_damaged_profile_is_refused_in_one_line(context, tmp_path, content):
    shutil.copytree(CAPTURE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "operators.onnxruntime.json").write_bytes(content)
    with pytest.raises(EvidenceError, match="not a profile of ONNX Runtime") as caught:
        onnxruntime.read(tmp_path, context)
    assert "\n" not in str(caught.value)
