"""Layers of captures: recordings of this project against the canonical network, others' captures against what their files say."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.levels import KEYS
from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context
from kernelscope.analysis.explain.alignment import align
from kernelscope.analysis.explain.model import Layer
from kernelscope.analysis.explain.problems import Problem, of_operator, of_problem, shapes, type_of_operator
from kernelscope.analysis.explain.trace_layers import labels, layers_of, of_network, range_label
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.workloads import networks
from tests.places import CORPUS

DATA = Path(__file__).parents[2] / "data"
RECORDED = {"pytorch": "lenet-train", "tensorflow": "lenet-train", "mxnet": "lenet-train", "cntk": "lenet_train"}


@cache
def recorded(framework: str) -> list[Layer]:
    """The layers of LeNet in a recording of this project, without what the run says of its network."""
    folder = DATA / framework / RECORDED[framework]
    report = read_object(folder / "child.json")
    steps, ranges = (read_table(folder / f"{name}.jsonl", name) for name in ("steps", "ranges"))
    clock = Clock.from_anchors(report["anchors"])
    context = Context(steps, ranges, networks.as_dict(networks.get("lenet")), "train", report, clock)
    found = importlib.import_module(f"kernelscope.analysis.attribution.frameworks.{framework}").read(folder, context)
    trace = Trace(
        steps=steps, ranges=ranges, operators=conform("operators", found.operators), kernels=conform("kernels", found.kernels)
    )
    return layers_of(trace, partition(trace).cells)


@cache
def captured(pattern: str) -> list[Layer]:
    paths = sorted(CORPUS.glob(pattern))
    if not paths:
        pytest.skip(f"the corpus of others' captures is not here: {pattern}")
    trace = ks.read(paths[0])
    return layers_of(trace, partition(trace).cells)


# --- our own recordings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", list(RECORDED))
def test_what_a_recording_tells_agrees_with_the_network(framework: str) -> None:
    network = {layer.name: layer for layer in of_network(networks.as_dict(networks.get("lenet")))}
    found = {layer.name: layer for layer in recorded(framework)}
    assert set(found) <= set(network)
    for name in ("conv1", "conv2", "fc1", "fc2", "fc3"):
        mine, stated = found[name], network[name]
        assert (mine.type, mine.output_shape) == (stated.type, stated.output_shape)
        assert mine.flops == pytest.approx(stated.flops, rel=0.025)  # some count the bias, some do not
        assert mine.parameters is None or mine.parameters == pytest.approx(stated.parameters, rel=0.05)


def test_pytorch_tells_everything() -> None:
    network = of_network(networks.as_dict(networks.get("lenet")))
    found = recorded("pytorch")
    assert [layer.name for layer in found] == [layer.name for layer in network]
    for mine, stated in zip(found[:-1], network[:-1], strict=True):
        assert (mine.type, mine.output_shape) == (stated.type, stated.output_shape)
        assert (mine.flops, mine.parameters) in {(stated.flops, stated.parameters), (None, None)}


@pytest.mark.parametrize("framework", ["mxnet", "cntk"])
def test_layers_of_two_frameworks_align_by_what_was_recorded_alone(framework: str) -> None:
    other = {f"n{n}": layer.name for n, layer in enumerate(recorded(framework))}
    unnamed = [replace(layer, name=name) for name, layer in zip(other, recorded(framework), strict=True)]
    matches = align(recorded("pytorch"), unnamed)
    found = {match.a[0]: other[match.b[0]] for match in matches if len(match.a) == len(match.b) == 1}
    assert {name: found.get(name) for name in ("conv1", "tanh1", "pool1", "conv2", "tanh2", "pool2", "fc1", "fc2", "fc3")} == {
        name: name for name in ("conv1", "tanh1", "pool1", "conv2", "tanh2", "pool2", "fc1", "fc2", "fc3")
    }


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet", "cntk"])
def test_the_canonical_names_of_the_four_frameworks_match(framework: str) -> None:
    a, b = recorded("pytorch"), recorded(framework)
    common = {layer.name for layer in a} & {layer.name for layer in b}
    assert len(common) >= 12
    matches = align(a, b)
    assert {match.a[0] for match in matches if match.how == "name" and match.a == match.b} == common
    assert all(match.confidence >= 0.5 for match in matches if match.how == "name")


def test_the_stated_network_comes_first() -> None:
    network = networks.as_dict(networks.get("mlp"))
    cells = pd.DataFrame({"layer": ["fc1", "extra", None], "range": None})
    found = layers_of(Trace(info={"network": network}), cells)
    assert found[:8] == of_network(network)
    assert found[8:] == [Layer("extra", 8)]


# --- what others captured -----------------------------------------------------------------------------------------------------


def test_a_language_model_of_transformers() -> None:
    """Qwen1.5-0.5B: 24 layers of 1024 with 16 heads and 2816 inside, 151936 tokens (its config.json); batch 16 of 559 tokens."""
    found = {layer.name: layer for layer in captured("kineto/*Qwen1.5-0.5B*")}
    inside = "Qwen2Model_0/Qwen2DecoderLayer_23"
    embedding = found["Qwen2Model_0/Embedding_0"]
    assert (embedding.type, embedding.output_shape, embedding.parameters) == ("embedding", (559, 1024), 151936 * 1024)
    query = found[f"{inside}/Qwen2Attention_23/Linear_161"]
    assert query == Layer(query.name, query.order, "dense", (559, 1024), 559 * 1024 * (2 * 1024 + 1), 1024 * 1024 + 1024)
    up = found[f"{inside}/Qwen2MLP_23/Linear_165"]
    assert (up.output_shape, up.flops, up.parameters) == ((559, 2816), 2 * 559 * 1024 * 2816, 1024 * 2816)
    assert found[f"{inside}/Qwen2MLP_23/SiLU_23"].type == "silu"
    blocks = [int(hit[1]) for layer in found.values() if (hit := re.search(r"DecoderLayer_(\d+)/", layer.name))]
    assert blocks == sorted(blocks)
    assert set(blocks) == set(range(24))


def test_a_block_of_the_language_model_taken_out() -> None:
    a = captured("kineto/*Qwen1.5-0.5B*")
    kept = [layer for layer in a if "DecoderLayer_7" not in layer.name]
    b = [replace(layer, order=n, name=f"m{n}") for n, layer in enumerate(kept)]
    matches = align(a, b)
    missing = [match for match in matches if match.how == "missing"]
    assert len(missing) == len(a) - len(kept) == 13
    assert all(match.how in ("alignment", "missing") for match in matches)
    plain = {layer.name: re.sub(r"_\d+", "", layer.name) for layer in a}
    kinds = {layer.name: plain[before.name] for layer, before in zip(b, kept, strict=True)}
    assert all(plain[match.a[0]] == kinds[match.b[0]] for match in matches if match.b)


def test_a_checkpointed_resnet_is_recomputed() -> None:
    """ResNet-18 with a checkpoint around its stages, by its file's name: their modules run again outside of the model."""
    layers = captured("kineto/*mi300_resnet_act_checkpoint*")
    first = next(layer for layer in layers if layer.name.endswith("ResNet_0/Conv2d_0"))
    assert (first.type, first.output_shape, first.parameters) == ("convolution", (64, 112, 112), 64 * 3 * 7 * 7)
    assert first.flops == 2 * 64 * 3 * 7 * 7 * 112 * 112
    plain = [layer for layer in layers if layer.name.startswith("DistributedDataParallel_0")]
    matches = align(plain, layers)
    assert all(match.how == "name" for match in matches)
    again = [match for match in matches if match.note == "recomputed in B"]
    assert len(again) == sum(layer.name.startswith("Sequential_") for layer in layers) > 40
    for match in again:
        assert match.b[0] == match.a[0]
        assert match.b[0].endswith(f"/{match.b[1]}")


def test_scopes_of_tensorflow_in_two_builds() -> None:
    a, b = captured("tf/aistein__dlprof__timeline.ctf.json"), captured("tf/aistein__dlprof__mnist_xla_v1_timeline.ctf.json")
    matches = align(a, b)
    pairs = {match.a[0]: match.b[0] for match in matches if match.a and match.b}
    assert pairs == {name: name.replace("loss_1", "loss") for name in pairs}
    assert len(pairs) == 6
    assert [match.label.rpartition("/")[2] for match in matches if not match.b] == ["ones_like"]


def test_ranges_of_two_versions_of_a_program() -> None:
    matches = align(
        captured("nsys/*EfficientCenterFormer__baseline.sqlite"), captured("nsys/*EfficientCenterFormer__baseline_v2*")
    )
    assert {match.label for match in matches if match.how == "name"} == {
        "reader", "3D_backbone", "find_centers", "transformer_forward", "bbox_head", "post_processing",
    }  # fmt: skip
    assert {match.b[0] for match in matches if match.how == "missing"} == {"section_1", "section_2", "section_3"}


def test_operators_marked_by_emit_nvtx_are_few_and_named_without_numbers() -> None:
    layers = captured("nsys/*h100_2gpu_1s_v1*")
    names = {layer.name for layer in layers}
    assert {"aten::mm", "aten::add", "aten::_softmax"} <= names
    assert len(names) < 100
    assert not any("op_id" in name for name in names)
    assert next(layer.type for layer in layers if layer.name == "aten::mm") == "dense"


# --- texts --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("aten::conv2d, seq = 12, sizes = [[1, 2], []]", "aten::conv2d"),
        ("aten::mul, op_id = 314339", "aten::mul"),
        ("ProfilerStep#12", "ProfilerStep"),
        ("train_step 7", "train_step"),
        ("epoch: 3 batch: 12", "epoch batch"),
        ("layer1.0.conv1", "layer1.0.conv1"),
        ("<function f at 0x7f0012>", "<function f>"),
        ("$util.py:175 <genexpr>", None),
        ("{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': []}", "torch.nn.functional.conv2d"),
        ("{'traceMarker': ['a.py:1', '/x/nn/sparse.py:114']}", "sparse.py:114"),
        ("{'traceMarker': ['a.py:1'], 'funcStack': '/<module>/net::forward/Conv2d::forward'}", "net::forward/Conv2d::forward"),
        ("{'op': __import__('os').system('true')}", "{'op': __import__('os').system('true')}"),
    ],
)
def test_ranges_are_named_without_what_changes(text: str, label: str | None) -> None:
    assert range_label(text) == label


def test_cells_without_layers_are_labelled_by_range() -> None:
    cells = pd.DataFrame({"layer": [None] * 3, "range": ["block, seq = 1", "block, seq = 2", None]})
    assert labels(cells).tolist()[:2] == ["block", "block"]
    assert labels(cells).isna().tolist() == [False, False, True]
    assert labels(cells.assign(layer=["x", None, None])).tolist()[:1] == ["x"]


def test_a_capture_of_nothing_has_no_layers() -> None:
    assert layers_of(Trace(), pd.DataFrame(columns=list(KEYS))) == []


def test_shapes_of_operators() -> None:
    assert shapes("[[64, 1], [], [[2, 3], [4]]]") == ((64, 1), (), (2, 3), (4,))
    assert shapes("64x6x28x28") == shapes("{}") == shapes("[" * 50_000) == ()


@pytest.mark.parametrize(
    ("name", "text", "work"),
    [
        ("aten::linear", "[[8, 10, 64], [32, 64], [32]]", Problem((8, 10, 32), 80 * 32 * (2 * 64 + 1), 32 * 64 + 32, 8)),
        ("aten::linear", "[[8, 64], [32, 64], []]", Problem((8, 32), 2 * 8 * 64 * 32, 32 * 64, 8)),
        ("aten::addmm", "[[32], [8, 64], [64, 32]]", Problem((8, 32), 8 * 32 * (2 * 64 + 1), 64 * 32 + 32)),
        ("aten::bmm", "[[4, 5, 6], [4, 6, 7]]", Problem((4, 5, 7), 2 * 4 * 5 * 6 * 7)),
        ("aten::embedding", "[[1000, 16], [8, 12]]", Problem((8, 12, 16), None, 16000, 8)),
        ("aten::native_layer_norm", "[[8, 12, 16], [], [16], [16], []]", Problem((8, 12, 16), None, 32, 8)),
        ("aten::linear_backward", "[[8, 64], [32, 64], [32]]", None),
        ("aten::mm", "[[8, 64], [32, 64]]", None),
    ],
)
def test_work_of_operators(name: str, text: str, work: Problem | None) -> None:
    assert of_operator(name, text) == work


@pytest.mark.parametrize(
    ("text", "output", "flops", "parameters"),
    [
        ("mb64_ic1oc6_ih28oh28kh5sh1dh0ph2_iw28ow28kw5sw1dw0pw2", (64, 6, 28, 28), 64 * 784 * 6 * 25 * 2, 150),
        ("mb2_g4ic8oc16_ih9oh7kh3sh1dh0ph0_iw9ow7kw3sw1dw0pw0", (2, 16, 7, 7), 2 * 2 * 49 * 16 * 2 * 9, 16 * 2 * 9),
        ("mb2_ic8oc16_iw9ow7kw3sw1dw0pw0", (2, 16, 7), 2 * 2 * 7 * 16 * 8 * 3, 16 * 8 * 3),
        ("mb64ic6_ih28oh14kh2sh2dh0ph0_iw28ow14kw2sw2dw0pw0", (64, 6, 14, 14), None, None),
        ("mb64ic400oc120", (64, 120), 2 * 64 * 400 * 120, 48000),
        ("64x84:84x10", (64, 10), 2 * 64 * 84 * 10, None),
        ("64x16x5x5", (64, 16, 5, 5), None, None),
    ],
)
def test_work_of_problems(text: str, output: tuple[int, ...], flops: int | None, parameters: int | None) -> None:
    found = of_problem(text)
    assert found is not None
    assert (found.output, found.flops, found.parameters) == (output, flops, parameters)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("aten::conv2d", "convolution"), ("_FusedConv2D", "convolution"), ("aten::convert", None), ("FullyConnected", "dense"),
     ("aten::max_pool2d_with_indices", "pooling_max"), ("AvgPool", "pooling_average"), ("aten::relu_", "relu"),
     ("ReluGrad", None), ("FusedBatchNormV3", "normalisation"), ("SparseSoftmaxCrossEntropyWithLogits", "loss"),
     ("aten::add", None)],
)  # fmt: skip
def test_types_of_operators(name: str, kind: str | None) -> None:
    assert type_of_operator(name) == kind
