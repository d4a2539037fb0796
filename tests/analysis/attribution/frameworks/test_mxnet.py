"""MXNet's operators and kernels with their layers, on small captures that this project recorded."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.attribution.frameworks import Clock, Context, mxnet
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "mxnet"
STEPS = 6


def context_of(folder, mode):
    report = read_object(folder / "child.json")
    clock = Clock.from_anchors(report["anchors"])
    steps = read_table(folder / "steps.jsonl", "steps")
    ranges = read_table(folder / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], mode, report, clock)


def capture(name, mode):
    context = context_of(DATA / name, mode)
    return context, mxnet.read(DATA / name, context)


@pytest.fixture(scope="module")
def lenet():
    return capture("lenet-train", "train")


@pytest.fixture(scope="module")
def lstm():
    return capture("lstm-infer", "infer")


@pytest.fixture
def copy(tmp_path):
    """Return a writable copy of the training capture's folder."""
    return Path(shutil.copytree(DATA / "lenet-train", tmp_path / "kernels"))


def of(kernels, layer, phase, kind):
    return kernels[(kernels["layer"] == layer) & (kernels["phase"] == phase) & (kernels["kind"] == kind)]


@pytest.mark.parametrize("name", ["lenet", "lstm"])
def test_at_least_nine_tenths_of_the_steps_are_explained(name, request):
    context, evidence = request.getfixturevalue(name)
    operators, kernels = conform("operators", evidence.operators), conform("kernels", evidence.kernels)
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=operators, kernels=kernels)
    trace.check()
    found = breakdown(trace, "layer")
    assert found.table["time_ns"].sum() == found.step_ns
    assert found.coverage >= 0.92


def test_convolutions_and_their_gradients_are_told_apart_with_their_problems(lenet):
    kernels = lenet[1].kernels
    for layer, problem in (("conv1", "mb64_ic1oc6_ih28oh28kh5"), ("conv2", "mb64_ic6oc16_ih14oh10kh5")):
        for phase, kind in (("forward", "convolution forward"), ("backward", "convolution weight gradient")):
            rows = of(kernels, layer, phase, kind)
            assert len(rows) == STEPS
            assert rows["problem"].str.startswith(problem).all()
            assert (rows["library"] == "onednn").all()
            assert (rows["attribution"] == "graph order").all()
    assert len(of(kernels, "conv2", "backward", "convolution data gradient")) == STEPS
    # the first layer's input needs no gradient
    assert len(of(kernels, "conv1", "backward", "convolution data gradient")) == 0


def test_matrix_products_carry_their_sizes(lenet):
    products = lenet[1].kernels[lenet[1].kernels["kind"] == "gemm"]
    assert set(products["layer"]) == {"fc1", "fc2", "fc3"}
    forward = products[products["phase"] == "forward"].drop_duplicates(["layer", "m", "n", "k"])
    sizes = {row.layer: (row.m, row.n, row.k) for row in forward.itertuples()}
    assert sizes == {"fc1": (64, 120, 400), "fc2": (64, 84, 120), "fc3": (64, 10, 84)}


def test_a_layout_conversion_belongs_to_the_layer_whose_operator_does_it(lenet):
    kernels = lenet[1].kernels
    weights = kernels[(kernels["kind"] == "layout") & (kernels["problem"] == "16x6x5x5")]
    assert len(weights) >= STEPS
    assert set(weights["layer"]) == {"conv2"}
    assert set(weights["operator"]) <= {"Convolution", "_backward_Convolution"}


def test_every_layer_is_seen_forward_and_backward(lenet):
    operators = lenet[1].operators
    layers = [layer["name"] for layer in lenet[0].network["layers"]]
    for phase in ("forward", "backward"):
        assert set(operators[operators["phase"] == phase]["layer"].dropna()) == set(layers)


def test_the_time_of_operators_agrees_with_the_ranges_of_python(lstm):
    context, evidence = lstm
    operators = evidence.operators[evidence.operators["layer"].notna()]
    waits = context.ranges[context.ranges["name"] == "asnumpy"].sort_values("start_ns")
    calls = context.ranges[context.ranges["name"] == "forward"].sort_values("start_ns")
    for start, end in zip(calls["start_ns"], waits["end_ns"], strict=True):
        mine = operators[(operators["start_ns"] > start - 10_000) & (operators["end_ns"] < end + 10_000)]
        assert len(mine) == 13  # all of a step's operators run between the forward call and the end of the wait
        assert mine["start_ns"].min() > start - 10_000


def test_the_optimizer_and_the_head_gradient_are_found_by_name(lenet):
    operators = lenet[1].operators
    updates = operators[operators["name"] == "multi_sgd_mom_update"]
    assert len(updates) == 3 * STEPS
    assert set(updates["phase"]) == {"optimizer"}
    head = operators[operators["name"] == "SetValueOp"]
    assert set(zip(head["layer"], head["phase"], head["attribution"], strict=True)) == {("loss", "backward", "operator name")}


def test_what_an_iterator_over_records_decodes_is_the_input_pipelines(copy):
    trace = copy / "operators.mxnet.json.gz"
    text = gzip.decompress(trace.read_bytes()).replace(b'"WaitForVar"', b'"DataLoader"')
    trace.write_bytes(gzip.compress(text))
    operators = mxnet.read(copy, context_of(copy, "train")).operators
    rows = operators[operators["name"] == "DataLoader"]
    assert len(rows) >= STEPS
    assert rows["layer"].isna().all()
    assert set(zip(rows["phase"], rows["attribution"], strict=True)) == {("data", "operator name")}


def test_an_operator_with_primitives_is_no_kernel_and_one_without_is(lenet):
    own = lenet[1].kernels[lenet[1].kernels["library"] == "mshadow"]
    assert {"multi_sgd_mom_update", "pick", "mean"} <= set(own["name"])
    assert not set(own["name"]) & {"Convolution", "FullyConnected", "Pooling", "DeleteVariable", "WaitForVar"}
    assert (own["kind"] != "unknown").all()


def test_signals_to_waiting_threads_are_no_work(lenet):
    assert "WaitForVar" not in set(lenet[1].operators["name"])
    assert lenet[1].diagnostics["engine signals left out"] > 0


@pytest.mark.parametrize("name", ["lenet", "lstm"])
def test_nothing_was_lost_or_misplaced(name, request):
    diagnostics = request.getfixturevalue(name)[1].diagnostics
    assert {key: count for key, count in diagnostics.items() if count} == {
        "engine signals left out": diagnostics["engine signals left out"]
    }


def test_two_devices_that_run_the_graph_at_once_are_told_apart(copy, lenet):
    """The capture as if a second device had done the same, each operator 40 us after the first one's, and both had summed up."""
    path, later_us = copy / "operators.mxnet.json.gz", 40
    trace = json.loads(gzip.decompress(path.read_bytes()))
    own = [event for event in trace["traceEvents"] if event["ph"] in "BE" and event["name"] != "WaitForVar"]
    second = [{**event, "pid": 1, "tid": event["tid"] // 2, "ts": event["ts"] + later_us} for event in own]
    sums = [{**event, "name": "ElementwiseSum"} for event in second if event["name"] == "multi_sgd_mom_update"]
    trace["traceEvents"] += [event for event in second if event["name"] != "multi_sgd_mom_update"] + sums
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    lines = []
    for line in (copy / "stdout.raw").read_text().splitlines():
        lines.append(line)
        fields = line.split(",")
        if fields[2:3] == ["exec"]:
            fields[1] = f"{float(fields[1]) + later_us / 1000:.6f}"
            lines.append(",".join(fields))
    (copy / "stdout.raw").write_text("\n".join(lines) + "\n")
    evidence = mxnet.read(copy, context_of(copy, "train"))
    names = ["layer", "phase", "kind", "name", "problem"]
    one, both = (
        kernels[kernels["layer"].notna() & kernels["problem"].notna()].groupby(names, observed=True).size()
        for kernels in (lenet[1].kernels, evidence.kernels)
    )
    off = both.sub(2 * one, fill_value=0)
    assert not off[off.index.get_level_values("kind").str.startswith("convolution")].any()
    assert off.abs().sum() / 2 <= 0.05 * both.sum(), "what is at a wrong layer counts at two"
    operators = (table.operators.groupby(["layer", "phase", "name"], observed=True).size() for table in (lenet[1], evidence))
    assert (next(operators) * 2).to_dict() == next(operators).to_dict()
    assert evidence.diagnostics["operators out of the graph's order"] == 0
    assert evidence.diagnostics["oneDNN lines with several operators running"] == 0
    exchanged = evidence.kernels[evidence.kernels["kind"] == "communication"]
    assert (len(exchanged), set(exchanged["phase"]), exchanged["layer"].notna().any()) == (3 * STEPS, {"optimizer"}, False)


def test_operators_that_do_not_fit_the_graph_are_left_without_a_layer_and_counted(copy):
    graph = json.loads((copy / "graph.json").read_text())
    nodes = graph["graphs"][0]["nodes"]
    nodes.append({"op": "Convolution", "name": "lenet_conv9_fwd", "layer": "conv9", "phase": "forward", "inputs": []})
    (copy / "graph.json").write_text(json.dumps(graph))
    evidence = mxnet.read(copy, context_of(copy, "train"))
    rows = evidence.operators[evidence.operators["name"] == "Convolution"]
    assert rows["layer"].isna().all()
    assert set(rows["attribution"]) == {"none"}
    assert evidence.diagnostics["operators out of the graph's order"] == len(rows) == 2 * STEPS


@pytest.mark.parametrize(
    ("name", "field", "shape", "primitives"),
    [
        ("conv2", "output_shape", [17, 10, 10], 3),  # forward, data gradient, weight gradient
        ("fc1", "output_shape", [121], 3),
        ("tanh1", "output_shape", [7, 28, 28], 2),  # forward and backward
        ("tanh3", "output_shape", [121], 2),
        ("pool1", "input_shape", [7, 28, 28], 2),
    ],
)
def test_a_layer_with_another_layers_shape_is_noticed(copy, name, field, shape, primitives):
    context = context_of(copy, "train")
    next(layer for layer in context.network["layers"] if layer["name"] == name)[field] = shape
    evidence = mxnet.read(copy, context)
    assert evidence.diagnostics["primitives of another shape than their layer's"] == primitives * STEPS


def test_a_missing_trace_or_graph_is_named(copy):
    context = context_of(copy, "train")
    (copy / "graph.json").unlink()
    with pytest.raises(EvidenceError, match=r"graph\.json"):
        mxnet.read(copy, context)
    context.report["operator_files"] = []
    with pytest.raises(EvidenceError, match="no operator trace"):
        mxnet.read(copy, context)
