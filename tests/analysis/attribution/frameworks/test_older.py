"""Chainer, Lasagne on Theano, and Keras 2 on CNTK and MXNet: small captures that this project recorded, 3 steps of 4 images."""

import json
from itertools import pairwise

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, chainer, keras2, lasagne, theano
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.tracer.inside.frameworks.theano.workload import laid_out
from kernelscope.workloads import networks
from tests.places import ROOT

DATA = ROOT / "tests" / "data"
CAPTURES = {
    "chainer": (chainer.read, DATA / "chainer" / "lenet-train"),
    "lasagne": (lasagne.read, DATA / "theano" / "lenet-train"),
    "keras-cntk": (keras2.read, DATA / "keras2" / "cntk-lenet-train"),
    "keras-mxnet": (keras2.read, DATA / "keras2" / "mxnet-lenet-train"),
}
STEPS = 3


def context_of(folder):
    report = read_object(folder / "child.json")
    steps, ranges = read_table(folder / "steps.jsonl", "steps"), read_table(folder / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], "train", report, Clock.from_anchors(report["anchors"]))


@pytest.fixture(scope="module", params=CAPTURES)
def capture(request):
    read, folder = CAPTURES[request.param]
    context = context_of(folder)
    return request.param, folder, context, read(folder, context)


def rows(folder, name):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_steps_add_up_and_belong_to_layers(capture):
    name, _, context, evidence = capture
    kernels = conform("kernels", evidence.kernels)
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=conform("operators", evidence.operators), kernels=kernels)
    trace.check()
    found = partition(trace)
    assert found.cells["time_ns"].sum() == found.step_ns
    cells = found.cells
    known = (
        cells["layer"].notna()
        | cells["phase"].isin(["optimizer", "data"])
        | cells["cause"].isin(["in the framework", "synchronisation"])
    )
    assert cells[known]["time_ns"].sum() >= 0.85 * found.step_ns, name


def test_every_layer_computes_forward_and_backward(capture):
    name, _, _, evidence = capture
    kernels = evidence.kernels
    layers = [layer.name for layer in networks.get("lenet").layers if layer.type not in ("flatten", "loss")]
    for phase in ("forward", "backward"):
        assert set(layers) <= set(kernels[kernels["phase"] == phase]["layer"].dropna()), (name, phase)
    assert set(kernels["layer"].dropna()) <= {layer.name for layer in networks.get("lenet").layers}
    assert (kernels["phase"] == "optimizer").any()


def test_products_of_blas_have_the_layers_sizes(capture):
    """Forward of fc1 (400 to 120) and fc2 (120 to 84), 4 images: computed here from the sizes, found by the calls."""
    name, _, _, evidence = capture
    if name == "keras-mxnet":
        return  # oneDNN prints nothing of products that MXNet leaves to OpenBLAS
    kernels = evidence.kernels[(evidence.kernels["kind"] == "gemm") & evidence.kernels["m"].notna()]
    for layer, inputs, outputs in (("fc1", 400, 120), ("fc2", 120, 84)):
        own = kernels[(kernels["layer"] == layer) & (kernels["phase"] == "forward")]
        sizes = {(*sorted((int(row.m), int(row.n))), int(row.k)) for row in own.itertuples()}
        assert sizes == {(4, outputs, inputs)}, (name, layer)
        assert len(own) == STEPS


@pytest.mark.parametrize("name", ["chainer", "lasagne"])
def test_calls_of_blas_and_own_times_do_not_overlap(name):
    read, folder = CAPTURES[name]
    evidence = read(folder, context_of(folder))
    kernels = evidence.kernels.sort_values("start_ns")
    assert (kernels["start_ns"].to_numpy()[1:] >= kernels["end_ns"].to_numpy()[:-1]).all()
    # what computes has no other time than its kernels: the operators' union, counted from the file
    computing = [(row["start_ns"], row["end_ns"]) for row in rows(folder, "operators.jsonl") if row["computes"]]
    edges = sorted({edge for pair in computing for edge in pair})
    covered = sum(last - first for first, last in pairwise(edges) if any(s <= first and last <= e for s, e in computing))
    outside = kernels[kernels["operator"].isna()]
    assert int(kernels["duration_ns"].sum() - outside["duration_ns"].sum()) >= 0.99 * covered
    assert int(kernels["duration_ns"].sum() - outside["duration_ns"].sum()) <= 1.01 * covered


def test_chainers_gradients_are_of_the_layers_that_run_backward():
    evidence = chainer.read(CAPTURES["chainer"][1], context_of(CAPTURES["chainer"][1]))
    kinds = evidence.kernels.groupby("operator")["kind"].agg(set).to_dict()
    assert kinds["Convolution2DGradW"] == {"convolution weight gradient", "gemm"}
    assert kinds["im2col"] == {"layout"}
    weights = evidence.kernels[evidence.kernels["operator"] == "Convolution2DGradW"]
    assert set(weights["layer"]) == {"conv1", "conv2"}
    assert set(weights["phase"]) == {"backward"}
    # only conv2 has a gradient of its input: conv1's is the data
    assert set(evidence.kernels[evidence.kernels["operator"] == "Deconvolution2DFunction"]["layer"]) == {"conv2"}


def test_a_capture_without_its_operators_says_so(tmp_path):
    context = context_of(CAPTURES["chainer"][1])
    with pytest.raises(EvidenceError, match=r"operators.jsonl: missing; .*run it again"):
        chainer.read(tmp_path, context)
    (tmp_path / "operators.jsonl").write_text('{"start_ns": 1, "end')
    with pytest.raises(EvidenceError, match=r"operators.jsonl: incomplete list .*record the run again"):
        chainer.read(tmp_path, context)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CorrMM_gradWeights{half, (1, 1), (1, 1), 1 False}", "convolution weight gradient"),
        ("CorrMM_gradInputs{valid, (1, 1), (1, 1), 1 False}", "convolution data gradient"),
        ("CorrMM{valid, (1, 1), (1, 1), 1 False}", "convolution forward"),
        ("Dot22Scalar", "gemm"),
        ("Elemwise{Composite{tanh((i0 + i1))}}[(0, 0)]", "activation"),
        ("AveragePoolGrad{ignore_border=True, mode='average_exc_pad', ndim=2}", "pooling"),
        ("CrossentropySoftmax1HotWithBiasDx", "softmax"),
        ("Sum{axis=[0], acc_dtype=float64}", "reduction"),
        ("mrg_uniform{TensorType(float32, 4D),inplace}", "random"),
        ("InplaceDimShuffle{x,0}", "copy"),
        ("Elemwise{Composite{(i0 + (i1 - i2))}}[(0, 1)]", "elementwise"),
        ("SomethingElse", None),
    ],
)
def test_kinds_of_theanos_operators(name, kind):
    assert theano.kind_of(name) == kind


def test_theanos_nodes_are_laid_out_over_their_call():
    facts = (("a", "x", "forward"), ("b", "", ""), ("c", "y", ""))
    nodes = [{"op": op, "layer": layer, "phase": phase} for op, layer, phase in facts]
    found = laid_out(nodes, [3e-6, 0.0, 5e-6], 1_000, 12_000)
    # 8 of 11 µs, the second node did not run: 3 µs in three equal parts before, between and after the two that did
    assert [row[:5] for row in found] == [(2_000, 5_000, "a", "x", "forward"), (6_000, 11_000, "c", "y", "other")]
    # the last one's calls of OpenBLAS began at 6.5 µs and ended at 8: its 5 µs hold them
    found = laid_out(nodes, [3e-6, 0.0, 5e-6], 1_000, 12_000, {2: (6_500, 8_000)})
    assert [row[:2] for row in found] == [(2_000, 5_000), (6_000, 11_000)]
    # the first ends where the last one's calls say that this began
    found = laid_out(nodes, [3e-6, 0.0, 5e-6], 1_000, 12_000, {2: (4_000, 8_500)})
    assert [row[:2] for row in found] == [(2_000, 4_000), (4_000, 9_000)]
    # calls that took longer than Theano says of the node
    found = laid_out(nodes, [3e-6, 0.0, 1e-6], 1_000, 12_000, {2: (6_000, 9_000)})
    assert found[1][:2] == (6_000, 9_000)
    # times that are longer than the call stay within it
    assert [row[:2] for row in laid_out(nodes, [4e-6, 0.0, 4e-6], 0, 4_000)] == [(0, 4_000), (4_000, 4_000)]
    assert laid_out(nodes, [0.0, 0.0, 0.0], 0, 4_000) == []
