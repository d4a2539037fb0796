"""PyTorch's operators and kernels with their layers, on small captures that this project recorded."""

import gzip
import json
import re
import shutil

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, pytorch
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.records import read_object, read_table
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "pytorch"


def context_of(folder, mode):
    report = read_object(folder / "child.json")
    clock = Clock.from_anchors(report["anchors"])
    steps = read_table(folder / "steps.jsonl", "steps")
    ranges = read_table(folder / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], mode, report, clock)


@pytest.fixture(scope="module")
def lenet():
    context = context_of(DATA / "lenet-train", "train")
    return context, pytorch.read(DATA / "lenet-train", context)


@pytest.fixture(scope="module")
def lstm():
    context = context_of(DATA / "lstm-infer", "infer")
    return context, pytorch.read(DATA / "lstm-infer", context)


def of(kernels, layer, phase, kind):
    return kernels[(kernels["layer"] == layer) & (kernels["phase"] == phase) & (kernels["kind"] == kind)]


@pytest.mark.parametrize("name", ["lenet", "lstm"])
def test_at_least_nine_tenths_of_the_steps_are_explained(name, request):
    context, evidence = request.getfixturevalue(name)
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=evidence.operators, kernels=evidence.kernels)
    trace.check()
    found = partition(trace)
    cells = found.cells
    known = cells["layer"].notna() | cells["phase"].isin(["optimizer", "data"])
    assert cells["time_ns"].sum() == found.step_ns
    assert cells[known]["time_ns"].sum() >= 0.9 * found.step_ns


def test_convolutions_and_their_gradients_are_told_apart_with_their_problems(lenet):
    context, evidence = lenet
    steps = len(context.steps)
    for layer, problem in (("conv1", "mb64_ic1oc6_ih28oh28kh5"), ("conv2", "mb64_ic6oc16_ih14oh10kh5")):
        for phase, kind in (("forward", "convolution forward"), ("backward", "convolution weight gradient")):
            rows = of(evidence.kernels, layer, phase, kind)
            assert len(rows) == steps
            assert rows["problem"].str.startswith(problem).all()
            assert (rows["library"] == "onednn").all()
            assert (rows["attribution"] == "launch range").all()
    assert len(of(evidence.kernels, "conv2", "backward", "convolution data gradient")) == steps
    # the first layer's input needs no gradient
    assert len(of(evidence.kernels, "conv1", "backward", "convolution data gradient")) == 0


def test_every_library_line_of_the_stream_becomes_one_kernel(lenet):
    _, evidence = lenet
    text = (DATA / "lenet-train" / "stdout.raw").read_text()
    inside = text[text.index("B step 0") : text.rindex("E step")]
    counts = evidence.kernels["library"].value_counts()
    assert counts["onednn"] == len(re.findall(r"primitive,exec", inside))
    assert counts["mkl"] == len(re.findall(r"MKL_VERBOSE SGEMM", inside))
    assert evidence.diagnostics["kernels_without_operator"] == 0
    assert evidence.diagnostics["mkl_calls_without_their_product"] == 0


def test_matrix_products_belong_to_the_layer_of_their_shape(lenet):
    context, evidence = lenet
    gemms = evidence.kernels[evidence.kernels["library"] == "mkl"]
    inputs, outputs = {"fc1": 400, "fc2": 120, "fc3": 84}, {"fc1": 120, "fc2": 84, "fc3": 10}
    for layer, rows in gemms.groupby("layer"):
        shapes = set(zip(rows["phase"], rows["m"], rows["n"], rows["k"], rows["transpose"], strict=True))
        n_in, n_out = inputs[layer], outputs[layer]
        forward = ("forward", n_out, 64, n_in, "TN")
        gradients = {("backward", n_in, 64, n_out, "NN"), ("backward", n_in, n_out, 64, "NT")}
        assert shapes == {forward} | gradients
        assert (rows.groupby(["phase", "m", "n"]).size() == len(context.steps)).all()
    assert set(gemms["attribution"]) == {"stream order"}
    assert set(gemms["layer"]) == set(inputs)


def test_untimed_lines_lie_inside_their_operator_and_between_their_marks(lenet):
    _, evidence = lenet
    operators = evidence.operators[evidence.operators["name"].isin(["aten::mm", "aten::addmm"])]
    gemms = evidence.kernels[evidence.kernels["library"] == "mkl"]
    for _, gemm in gemms.iterrows():
        around = operators[(operators["start_ns"] <= gemm["start_ns"]) & (gemm["end_ns"] <= operators["end_ns"])]
        assert len(around) == 1
        assert around["layer"].item() == gemm["layer"]


def test_operators_that_hold_primitives_or_compute_nothing_are_no_kernels(lenet):
    _, evidence = lenet
    own = set(evidence.kernels[evidence.kernels["library"] == "aten"]["name"])
    assert {"aten::tanh", "aten::tanh_backward", "aten::avg_pool2d", "aten::sum", "aten::_log_softmax"} <= own
    assert not own & {
        "aten::addmm",
        "aten::mm",
        "aten::linear",
        "aten::mkldnn_convolution",
        "aten::view",
        "aten::t",
        "aten::empty",
    }
    assert not any("Backward0" in name for name in own)
    tanh = of(evidence.kernels, "tanh1", "forward", "activation")
    assert (tanh["problem"] == "64x6x28x28").all()
    assert (tanh["dtype"] == "f32").all()


def test_arithmetic_of_the_optimizer_is_of_that_kind(lenet):
    _, evidence = lenet
    rows = evidence.kernels[evidence.kernels["phase"] == "optimizer"]
    assert len(rows) > 0
    assert set(rows["kind"]) == {"optimizer"}


def test_the_lstm_and_its_weight_conversions_are_found_and_warm_up_is_left_out(lstm):
    context, evidence = lstm
    measured = int((~context.steps["warmup"]).sum())
    assert 0 < measured < len(context.steps)
    assert len(of(evidence.kernels, "lstm1", "forward", "recurrent")) == measured
    assert len(of(evidence.kernels, "lstm1", "forward", "layout")) > 0
    assert len(of(evidence.kernels, "fc1", "forward", "gemm")) == measured
    first = context.steps[~context.steps["warmup"]]["start_ns"].min()
    assert evidence.kernels["start_ns"].min() >= first


def test_without_backward_ranges_the_sequence_number_ties_operators_to_their_layer(lenet):
    context, with_ranges = lenet
    is_backward_layer = (context.ranges["category"] == "layer") & (context.ranges["phase"] == "backward")
    fewer = Context(
        context.steps, context.ranges[~is_backward_layer], context.network, context.mode, context.report, context.clock
    )
    evidence = pytorch.read(DATA / "lenet-train", fewer)
    for kind in ("convolution weight gradient", "convolution data gradient", "gemm"):
        rows = evidence.kernels[(evidence.kernels["kind"] == kind) & (evidence.kernels["phase"] == "backward")]
        expected = with_ranges.kernels[(with_ranges.kernels["kind"] == kind) & (with_ranges.kernels["phase"] == "backward")]
        assert rows["layer"].tolist() == expected["layer"].tolist()
    convolutions = evidence.kernels[evidence.kernels["kind"] == "convolution weight gradient"]
    assert set(convolutions["attribution"]) == {"sequence number"}


def test_lines_without_their_operators_still_find_their_layer(lenet, tmp_path):
    context, _ = lenet
    for name in ("stdout.raw", "child.json"):
        shutil.copy(DATA / "lenet-train" / name, tmp_path / name)
    with gzip.open(DATA / "lenet-train" / "operators.pt.trace.json.gz") as file:
        content = json.load(file)
    content["traceEvents"] = []
    (tmp_path / "operators.pt.trace.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    evidence = pytorch.read(tmp_path, context)
    assert evidence.operators.empty
    gemms = evidence.kernels[evidence.kernels["library"] == "mkl"]
    assert set(gemms["layer"]) == {"fc1", "fc2", "fc3"}
    assert set(gemms["attribution"]) == {"stream order"}
    convolutions = evidence.kernels[evidence.kernels["kind"] == "convolution forward"]
    assert set(convolutions["layer"]) == {"conv1", "conv2"}
    assert set(convolutions["attribution"]) == {"time"}


def test_products_are_read_from_shapes():
    assert aten.dimensions("aten::addmm", "[[120], [64, 400], [400, 120], [], []]") == (64, 120, 400)
    assert aten.dimensions("aten::bmm", "[[8, 64, 32], [8, 32, 16]]") == (64, 16, 32)
    assert aten.dimensions("aten::mv", "[[64, 32], [32]]") == (64, 1, 32)
    assert aten.dimensions("aten::add", "[[64, 32], [64, 32]]") is None
    assert aten.dimensions("aten::mm", "") is None
    assert aten.dimensions("aten::mm", "[[], []]") is None
    assert aten.problem("[[64, 6], [], [[1, 2], [3]], [6]]") == "64x6:6"
    assert aten.problem("[[], []]") is None
    assert aten.dtype('["", "Scalar", "c10::BFloat16"]') == "bf16"
