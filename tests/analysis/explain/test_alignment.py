"""Alignment of layers: names, structure, groups, gaps; ground truth written down by hand or by rule."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.alignment import align
from kernelscope.analysis.explain.model import Layer, Match
from kernelscope.workloads import networks


def network(name: str) -> list[Layer]:
    entries = networks.as_dict(networks.get(name))["layers"]
    return [Layer(e["name"], n, e["type"], tuple(e["output_shape"]), e["flops"], e["parameters"]) for n, e in enumerate(entries)]


def numbered(layers: list[Layer]) -> list[Layer]:
    return [replace(layer, order=n) for n, layer in enumerate(layers)]


def pairs(matches: list[Match]) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    return {(match.a, match.b) for match in matches}


@pytest.mark.parametrize("name", list(networks.NETWORKS))
def test_a_network_aligned_with_itself_is_sure(name: str) -> None:
    layers = network(name)
    matches = align(layers, layers)
    assert [(m.a, m.b, m.confidence, m.how, m.note) for m in matches] == [
        ((x.name,), (x.name,), 1.0, "name", None) for x in layers
    ]


@pytest.mark.parametrize("name", list(networks.NETWORKS))
@pytest.mark.parametrize("seed", range(5))
def test_names_that_mislead_are_not_followed(name: str, seed: int) -> None:
    layers = network(name)
    names = [layer.name for layer in layers]
    random.Random(seed).shuffle(names)
    other = [replace(layer, name=text) for layer, text in zip(layers, names, strict=True)]
    if sum(x.name != y.name for x, y in zip(layers, other, strict=True)) > 2:
        assert pairs(align(layers, other)) == {((x.name,), (y.name,)) for x, y in zip(layers, other, strict=True)}


@pytest.mark.parametrize("name", list(networks.NETWORKS))
def test_unknown_names_of_equal_structure_align_fully(name: str) -> None:
    layers = network(name)
    other = [replace(layer, name=f"node{7 * n % 100}") for n, layer in enumerate(layers)]
    matches = align(layers, other)
    assert pairs(matches) == {((x.name,), (y.name,)) for x, y in zip(layers, other, strict=True)}
    assert all(m.how == "alignment" and 0.8 < m.confidence < 1 for m in matches)


def test_each_deleted_layer_is_missing_and_nothing_else_moves() -> None:
    layers = [replace(layer, name=f"x{n}") for n, layer in enumerate(network("cnn"))]
    for gone in range(len(layers)):
        other = numbered([replace(layer, name=layer.name.replace("x", "y")) for n, layer in enumerate(layers) if n != gone])
        matches = align(layers, other)
        missing = [match for match in matches if match.how == "missing"]
        assert [(m.a, m.b, m.note) for m in missing] == [((f"x{gone}",), (), "only in A")]
        assert all(m.a[0][1:] == m.b[0][1:] for m in matches if m.b)


def test_a_fused_activation_is_told_from_one_that_is_gone() -> None:
    a = network("cnn")
    fused = numbered([replace(a[0], flops=a[0].flops + a[1].flops), *a[2:]])  # type: ignore[operator]
    first = align(a, fused)[0]
    assert (first.a, first.b, first.how) == (("conv1", "relu1"), ("conv1",), "fused")
    assert first.note == "fused: one layer of B for 2 of the other side"
    gone = align(a, numbered([a[0], *a[2:]]))
    assert [(m.a, m.b, m.how) for m in gone[:2]] == [(("conv1",), ("conv1",), "name"), (("relu1",), (), "missing")]


def test_a_projection_that_one_side_splits() -> None:
    def dense(name: str, order: int, width: int) -> Layer:
        return Layer(name, order, "dense", (10, width), 2 * 10 * 64 * width, 64 * width)

    a = [dense("qkv", 0, 192), Layer("attend", 1, "attention", (10, 64)), dense("out", 2, 64)]
    b = numbered([dense("q", 0, 64), dense("k", 1, 64), dense("v", 2, 64), a[1], a[2]])
    match = align(a, b)[0]
    assert (match.a, match.b, match.how) == (("qkv",), ("q", "k", "v"), "fused")
    assert match.note == "fused: one layer of A for 3 of the other side"


def test_a_convolution_that_pools_has_the_output_of_the_pooling() -> None:
    a = [Layer("c", 0, "convolution", (8, 6, 6), None, 400), Layer("p", 1, "pooling_max", (8, 3, 3)),
         Layer("d", 2, "dense", (10,), None, 720)]  # fmt: skip
    b = [Layer("x", 0, "convolution", (8, 3, 3), None, 400), Layer("y", 1, "dense", (10,), None, 720)]
    assert pairs(align(a, b)) == {(("c", "p"), ("x",)), (("d",), ("y",))}


def test_a_block_that_is_gone_is_not_fused_into_its_neighbours() -> None:
    block = [Layer("norm", 0, "elementwise", (64, 512)), Layer("up", 0, "dense", (64, 2048), 134_217_728, 1_048_576),
             Layer("act", 0, "silu", (64, 2048)), Layer("mul", 0, "elementwise", (64, 2048)),
             Layer("down", 0, "dense", (64, 512), 134_217_728, 1_048_576)]  # fmt: skip
    a = numbered([replace(layer, name=f"{layer.name}{n}") for n in range(4) for layer in block])
    b = numbered([replace(layer, name=f"{layer.name}_{n}") for n in range(3) for layer in block])
    matches = align(a, b)
    assert sorted(match.how for match in matches) == ["alignment"] * 15 + ["missing"] * 5
    assert all(match.a[0][:-1] == match.b[0][:-2] for match in matches if match.b)


def test_a_shared_module_stands_for_its_calls() -> None:
    a = [Layer("cell", 0, "dense", (64,), 3000, 500), Layer("head", 1, "dense", (10,), 1280, 650)]
    b = numbered([Layer(f"cell_{n}", n, "dense", (64,), 1000, 500) for n in range(3)] + [replace(a[1], name="top")])
    match = align(a, b)[0]
    assert (match.a, match.b) == (("cell",), ("cell_0", "cell_1", "cell_2"))
    assert match.note == "shared: one module of A, run for 3 layers of the other side"


def test_what_is_computed_again_goes_with_its_layer() -> None:
    a = [Layer("net/conv1", 0), Layer("net/conv2", 1)]
    b = [Layer("net/conv1", 0), Layer("net/conv2", 1), Layer("net/checkpoint/conv1", 2)]
    match = align(a, b)[0]
    assert (match.b, match.how, match.note) == (("net/conv1", "net/checkpoint/conv1"), "name", "recomputed in B")


def test_equal_names_in_another_order_stay_matched() -> None:
    layers = network("cnn")
    swapped = numbered([*layers[:3], layers[5], layers[4], layers[3], *layers[6:]])
    assert pairs(align(layers, swapped)) == {((x.name,), (x.name,)) for x in layers}


def test_wrapped_names_are_nearly_sure_and_contradictions_are_told() -> None:
    a = [Layer("features.conv1", 0, "convolution", (6, 28, 28)), Layer("features.fc", 1, "dense", (10,), 100)]
    b = [Layer("model/module/Conv1", 0, "convolution", (28, 28, 6)), Layer("model/module/FC", 1, "dense", (20,), 200)]
    first, second = align(a, b)
    assert (first.how, first.confidence, first.note) == ("name", 0.95, None)
    assert second.how == "name"
    assert second.confidence == pytest.approx(0.95 - 2 * 0.25)
    assert second.note == "output elements 10 against 20; FLOPs 100 against 200"


def test_the_map_overrides_names_and_structure() -> None:
    layers = network("lenet")
    matches = align(layers, layers, {"tanh1": "tanh2", "conv2": ""})
    assert (("tanh1",), ("tanh2",)) in pairs(matches)
    assert (("conv2",), ()) in pairs(matches)
    assert {m.how for m in matches if m.a == ("tanh1",)} == {"map"}
    several = align(layers, layers, {"conv1 + tanh1": "conv1", "pool1": "tanh1 + pool1"})
    assert {(("conv1", "tanh1"), ("conv1",)), (("pool1",), ("tanh1", "pool1"))} <= pairs(several)


def test_the_map_names_what_is_not_there_with_the_nearest_name() -> None:
    layers = network("lenet")
    with pytest.raises(EvidenceError, match=r"'conv11', which is no layer of A; did you mean conv1\?"):
        align(layers, layers, {"conv11": "conv1"})
    with pytest.raises(EvidenceError, match=r"'zzz', which is no layer of B$"):
        align(layers, layers, {"conv1": "zzz"})
    with pytest.raises(EvidenceError, match="'conv2' of B twice"):
        align(layers, layers, {"conv1": "conv2", "conv2": "conv2 + tanh2"})


def test_empty_sides() -> None:
    layers = network("mlp")
    assert align([], []) == []
    assert [(m.a, m.b, m.note) for m in align([], layers)] == [((), (x.name,), "only in B") for x in layers]


# --- properties ---------------------------------------------------------------------------------------------------------------

_NUMBERS = st.one_of(st.none(), st.sampled_from([0, 10, 20, 1000]))
_LAYER = st.builds(
    Layer,
    st.sampled_from(["conv1", "conv2", "fc", "module.conv1", "checkpoint/conv1", "block.0.relu", "a", "b"]),
    st.integers(0, 5),
    st.sampled_from([None, "convolution", "gemm", "relu", "elementwise", "unknown"]),
    st.one_of(st.none(), st.sampled_from([(8, 4, 4), (4, 4, 8), (128,), ()])),
    _NUMBERS,
    _NUMBERS,
)
_SIDE = st.lists(_LAYER, max_size=9)


@settings(max_examples=120, deadline=None)
@given(_SIDE, _SIDE)
def test_every_layer_stands_in_one_match_and_sides_mirror(a: list[Layer], b: list[Layer]) -> None:
    matches = align(a, b)
    assert Counter(name for match in matches for name in match.a) == Counter(layer.name for layer in a)
    assert Counter(name for match in matches for name in match.b) == Counter(layer.name for layer in b)
    assert all(0 <= match.confidence <= 1 and (match.a or match.b) for match in matches)
    mirrored = Counter((m.b, m.a, m.confidence, m.how) for m in align(b, a))
    assert mirrored == Counter((m.a, m.b, m.confidence, m.how) for m in matches)


@settings(max_examples=40, deadline=None)
@given(_SIDE)
def test_a_side_with_itself_is_sure(a: list[Layer]) -> None:
    assert all(match.a == match.b and match.confidence == 1 for match in align(a, a))


@settings(max_examples=40, deadline=None)
@given(_SIDE, _SIDE)
def test_matches_stand_in_the_order_of_a(a: list[Layer], b: list[Layer]) -> None:
    ordered = sorted(a, key=lambda layer: layer.order)
    names = [layer.name for layer in ordered]
    firsts = [names.index(match.a[0]) for match in align(a, b) if match.a]
    if len(set(names)) == len(names):
        assert firsts == sorted(firsts)


def attention(name: str) -> list[Layer]:
    """Attention as Keras makes it: a layer with its products, and layers of its own for the weights."""
    parts = [("value", "dense", 100), ("query", "dense", 100), ("key", "dense", 100), (None, "attention", 0),
             ("softmax", "softmax", 0), ("dropout", "dropout", 0), ("output", "dense", 100)]  # fmt: skip
    return [Layer(f"{name}.{part}" if part else name, 0, kind, parameters=size) for part, kind, size in parts]


def test_a_module_stands_for_a_container_and_all_its_parts() -> None:
    around = [Layer("norm", 0, "normalisation", parameters=8), Layer("drop", 0, "dropout", parameters=0)]
    one = Layer("block.self_attn", 0, "attention", parameters=400)
    a = numbered([around[0], one, around[1], Layer("fc", 0, "dense", parameters=300)])
    renamed = [replace(around[0], name="layer_norm"), *attention("mha"), replace(around[1], name="after")]
    b = numbered([*renamed, Layer("dense", 0, "dense", parameters=300)])
    found = pairs(align(a, b))
    whole = tuple(layer.name for layer in attention("mha"))
    assert found == {(("norm",), ("layer_norm",)), ((one.name,), whole), (("drop",), ("after",)), (("fc",), ("dense",))}
    assert pairs(align(b, a)) == {(y, x) for x, y in found}


def test_a_recurrent_layer_stands_for_its_cells() -> None:
    a = numbered([Layer("gru", 0, "gru", parameters=600), Layer("fc", 0, "dense", parameters=9)])
    b = numbered([Layer("gru", 0, "gru", parameters=0), Layer("gru.gru_cell (2)", 0, "dense", parameters=600),
                  Layer("dense", 0, "dense", parameters=9)])  # fmt: skip
    assert pairs(align(a, b)) == {(("gru",), ("gru", "gru.gru_cell (2)")), (("fc",), ("dense",))}


def test_parts_whose_parameters_contradict_it_stay_alone() -> None:
    a = numbered([Layer("block", 0, "elementwise", parameters=10)])
    b = numbered([Layer("block", 0, "elementwise", parameters=10), Layer("block.extra", 0, "dense", parameters=5000)])
    assert pairs(align(a, b)) == {(("block",), ("block",)), ((), ("block.extra",))}
