"""CNTK's nodes and MKL's calls with their layers, on small captures that this project recorded."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, cntk
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "cntk"
TIMED = ("lenet_train", "lstm_train", "mlp_infer", "cnn_train")
ALL = (*TIMED, "lenet_train_verbose", "lstm_infer_verbose", "lenet_train_layers")


def context_of(folder, mode):
    report = read_object(folder / "child.json")
    clock = Clock.from_anchors(report["anchors"])
    steps = read_table(folder / "steps.jsonl", "steps")
    ranges = read_table(folder / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], mode, report, clock)


def read(name, folder=None):
    folder = folder or DATA / name
    context = context_of(folder, "infer" if "infer" in name else "train")
    return context, cntk.read(folder, context)


def trace_of(context, evidence):
    operators, kernels = conform("operators", evidence.operators), conform("kernels", evidence.kernels)
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=operators, kernels=kernels)
    trace.check()
    return trace


@pytest.fixture(scope="module")
def captures():
    return {name: read(name) for name in ALL}


@pytest.mark.parametrize("name", ALL)
def test_at_least_nine_tenths_of_the_steps_are_explained(captures, name):
    context, evidence = captures[name]
    found = partition(trace_of(context, evidence))
    cells = found.cells
    known = cells["layer"].notna() | cells["phase"].isin(["optimizer", "data"])
    assert cells["time_ns"].sum() == found.step_ns
    share = 0.8 if name == "mlp_infer" else 0.92  # an inference of half a millisecond is partly CNTK's own Python
    assert cells[known]["time_ns"].sum() >= share * found.step_ns
    named = known | cells["cause"].isin(["in the framework"])
    assert cells[named]["time_ns"].sum() >= 0.95 * found.step_ns


@pytest.mark.parametrize("name", ALL)
def test_nodes_lie_in_the_calls_that_ran_them(captures, name):
    context, evidence = captures[name]
    assert evidence.diagnostics["cntk_unpaired_events"] == 0
    assert evidence.diagnostics["cntk_events_outside_calls"] == 0
    assert evidence.diagnostics["cntk_nodes_without_layer"] == 0
    calls = context.ranges[context.ranges["name"] == "cntk call"].sort_values("start_ns")
    at = np.searchsorted(calls["start_ns"], evidence.operators["start_ns"], side="right") - 1
    assert (at >= 0).all()
    assert (evidence.operators["end_ns"].to_numpy() <= calls["end_ns"].to_numpy()[at]).all()


@pytest.mark.parametrize("name", TIMED)
def test_calls_of_mkl_pin_the_profilers_clock_to_a_few_microseconds(captures, name):
    _, evidence = captures[name]
    assert evidence.diagnostics["cntk_clock_residual_ns"] < 10_000
    assert evidence.diagnostics["mkl_calls_outside_nodes"] == 0


def of(evidence, layer, phase, kind):
    kernels = evidence.kernels
    return kernels[(kernels["layer"] == layer) & (kernels["phase"] == phase) & (kernels["kind"] == kind)]


def test_convolutions_and_their_gradients_are_told_apart_with_their_problems(captures):
    _, evidence = captures["lenet_train"]
    problem = "mb64_ic6oc16_ih14oh10kh5sh1ph0_iw14ow10kw5sw1pw0"
    for phase, kind in (
        ("forward", "convolution forward"),
        ("backward", "convolution data gradient"),
        ("backward", "convolution weight gradient"),
    ):
        found = of(evidence, "conv2", phase, kind)
        assert len(found) == 3
        assert set(found["problem"]) == {problem}
        assert set(found["algorithm"]) == {"direct"}
        assert set(found["library"]) == {"mkl"}
        assert set(found["attribution"]) == {"operator name"}
    first = of(evidence, "conv1", "forward", "convolution forward")
    assert set(first["problem"]) == {"mb64_ic1oc6_ih28oh28kh5sh1ph2_iw28ow28kw5sw1pw2"}
    # nobody needs the gradient of the images
    assert of(evidence, "conv1", "backward", "convolution data gradient").empty
    assert len(of(evidence, "conv1", "backward", "convolution weight gradient")) == 3


def test_layout_conversions_show_with_their_shapes_and_both_layouts(captures):
    _, evidence = captures["cnn_train"]
    found = of(evidence, "conv3", "forward", "layout")
    assert {"64x32x15x15", "64x64x15x15"} <= set(found["problem"])
    assert {"src abcd dst internal(src)", "src internal(dst) dst abcd"} <= set(found["layout"])
    backward = of(evidence, "conv4", "backward", "layout")
    assert "src internal(diff_filter) dst abcd" in set(backward["layout"])
    assert set(backward["operator"]) == {"Convolution"}


@pytest.mark.parametrize("name", ["lenet_train", "lenet_train_verbose"])
def test_products_have_their_dimensions_timed_or_not(captures, name):
    _, evidence = captures[name]
    products = evidence.kernels[(evidence.kernels["kind"] == "gemm") & (evidence.kernels["library"] == "mkl")]
    steps = 3 if name == "lenet_train" else 2
    found = products.groupby(["layer", "phase", "transpose", "m", "n", "k"]).size()
    assert set(found) == {steps}
    assert set(found.index) == {
        ("fc1", "forward", "NN", 120, 64, 400), ("fc2", "forward", "NN", 84, 64, 120), ("fc3", "forward", "NN", 10, 64, 84),
        ("fc1", "backward", "NT", 120, 400, 64), ("fc1", "backward", "TN", 400, 64, 120),
        ("fc2", "backward", "NT", 84, 120, 64), ("fc2", "backward", "TN", 120, 64, 84),
        ("fc3", "backward", "NT", 10, 84, 64), ("fc3", "backward", "TN", 84, 64, 10),
    }  # fmt: skip
    assert set(products["attribution"]) == ({"operator name"} if name == "lenet_train" else {"shape"})


def test_untimed_lines_leave_both_gradients_in_one_kernel_that_says_so(captures):
    _, evidence = captures["lenet_train_verbose"]
    kernels = evidence.kernels[(evidence.kernels["operator"] == "Convolution") & (evidence.kernels["phase"] == "backward")]
    assert set(kernels["algorithm"]) == {"data and weight gradient together"}
    assert evidence.diagnostics["mkl_lines_not_placed"] > 0  # vector operations, of the optimizer above all


def test_a_loop_belongs_to_its_layer_and_so_does_what_it_leaves_for_its_end(captures):
    _, evidence = captures["lstm_train"]
    kernels = evidence.kernels
    recurrent = kernels[(kernels["kind"] == "gemm") & (kernels["m"] == 512) & (kernels["n"] == 64)]
    assert len(recurrent) == 2 * 28
    assert set(recurrent["layer"]) == {"lstm1"}
    gradient = kernels[(kernels["kind"] == "gemm") & (kernels["problem"] == "m512 n128 k1792")]
    assert len(gradient) == 2
    assert set(gradient["layer"]) == {"lstm1"}
    assert set(gradient["phase"]) == {"backward"}
    assert set(gradient["attribution"]) == {"graph order"}


def test_the_optimizers_calls_name_their_parameters(captures):
    _, evidence = captures["lenet_train"]
    update = evidence.kernels[evidence.kernels["phase"] == "optimizer"]
    assert set(update["kind"]) == {"optimizer"}
    assert update["layer"].isna().all()
    # momentum: three passes over each of ten parameters
    assert set(update.groupby("problem").size()) == {3 * 3}
    assert {"n48000 fc1.W", "n120 fc1.b", "n150 conv1.W"} <= set(update["problem"])


def test_an_update_that_cntk_computes_itself_is_its_own_kernel(captures):
    _, evidence = captures["cnn_train"]
    kernels = evidence.kernels[evidence.kernels["phase"] == "optimizer"]
    assert set(kernels["kind"]) == {"optimizer"}
    own = kernels[kernels["library"] == "cntk"]
    assert set(own["name"]) == {"Weight Update"}
    operator = evidence.operators[evidence.operators["name"] == "Weight Update"]
    whole = (operator["end_ns"] - operator["start_ns"]).sum()
    assert 0.8 * whole <= kernels["duration_ns"].sum() <= whole + 10_000 * len(operator)


def test_kernels_of_a_node_do_not_overlap(captures):
    for name in TIMED:
        kernels = captures[name][1].kernels.sort_values("start_ns")
        overlap = kernels["end_ns"].to_numpy()[:-1] - kernels["start_ns"].to_numpy()[1:]
        # the profiler's whole microseconds and the fit of its clock leave a few
        assert overlap.max() <= 10_000


def test_what_the_trainer_adds_to_the_graph_belongs_to_the_loss(captures):
    _, evidence = captures["lenet_train"]
    operators = evidence.operators
    added = operators[operators["attribution"] == "graph order"]
    assert set(added["layer"]) == {"loss"}
    assert set(added["name"]) == {"ReduceElements"}
    assert len(added) == 3 * 2


def test_dropout_draws_nothing_in_inference(captures):
    kernels = captures["mlp_infer"][1].kernels
    assert set(kernels[kernels["operator"] == "Dropout"]["kind"]) <= {"copy"}


def test_without_the_timeline_the_reader_says_what_to_do(tmp_path):
    folder = tmp_path / "pass"
    shutil.copytree(DATA / "lenet_train", folder)
    (folder / "operators.cntk.json").unlink()
    with pytest.raises(EvidenceError, match=r"operators\.cntk\.json.*run it again"):
        read("lenet_train", folder)


def test_a_cut_list_of_calls_is_refused(tmp_path):
    folder = tmp_path / "pass"
    shutil.copytree(DATA / "lenet_train", folder)
    calls = (folder / "calls.mkl.jsonl").read_bytes()
    (folder / "calls.mkl.jsonl").write_bytes(calls[: len(calls) // 2 - 7])
    with pytest.raises(EvidenceError, match=r"calls\.mkl\.jsonl"):
        read("lenet_train", folder)


def test_a_pass_that_ended_before_its_first_step_is_empty_but_readable(tmp_path):
    folder = tmp_path / "pass"
    shutil.copytree(DATA / "lenet_train", folder)
    (folder / "operators.cntk.json").write_text("[\n]\n")
    (folder / "calls.mkl.jsonl").write_text("")
    context, evidence = read("lenet_train", folder)
    trace = trace_of(context, evidence)
    assert trace.kernels.empty
    assert trace.operators.empty


def test_another_offset_of_the_profilers_clock_changes_nothing(tmp_path, captures):
    folder = tmp_path / "pass"
    shutil.copytree(DATA / "lenet_train", folder)
    events = json.loads((folder / "operators.cntk.json").read_text())
    for event in events:
        event["ts"] += 5_000_000
    (folder / "operators.cntk.json").write_text(json.dumps(events))
    _, shifted = read("lenet_train", folder)
    columns = ["start_ns", "end_ns", "name", "layer", "phase"]
    pd.testing.assert_frame_equal(shifted.operators[columns], captures["lenet_train"][1].operators[columns])
