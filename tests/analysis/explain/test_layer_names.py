"""Names that are the same on both sides, names computed again, and the file of --map."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.layer_names import SameName, read_map, recomputed, same_names
from kernelscope.analysis.explain.model import Layer


def pairs(a: list[str], b: list[str]) -> list[tuple[str, str, bool]]:
    return [(a[same.a[0]], b[same.b[0]], same.exact) for same in same_names(a, b)]


def test_equal_names_first_then_up_to_what_wraps_them() -> None:
    assert pairs(["conv1", "fc"], ["fc", "conv1"]) == [("conv1", "conv1", True), ("fc", "fc", True)]
    assert pairs(["net/Conv1", "net/fc"], ["module.conv1", "module.fc"]) == [
        ("net/Conv1", "module.conv1", False), ("net/fc", "module.fc", False),
    ]  # fmt: skip
    assert pairs(["model.layers.0.mlp"], ["_orig_mod.layers.0.mlp"]) == [("model.layers.0.mlp", "_orig_mod.layers.0.mlp", False)]


def test_a_shortened_name_of_several_layers_is_not_used() -> None:
    assert pairs(["module.fc", "fc", "x.y"], ["model.fc", "x.y"]) == [("x.y", "x.y", True)]


def test_a_name_that_comes_up_again_is_one_entry() -> None:
    assert same_names(["relu", "fc", "relu"], ["relu", "fc"]) == [SameName((0, 2), (0,), True), SameName((1,), (1,), True)]


def test_what_is_computed_again() -> None:
    def layers(*names: str) -> list[Layer]:
        return [Layer(name, order) for order, name in enumerate(names)]

    assert recomputed(layers("a/conv", "checkpoint/a/conv", "rematted_computation/b/conv")) == {1: 0}
    assert recomputed(layers("net/block/conv", "block/conv", "conv")) == {1: 0}
    assert recomputed(layers("net/checkpoint_0", "net")) == {}  # the scope itself
    assert recomputed(layers("one/block/conv", "two/block/conv", "block/conv")) == {}  # of which one is not known
    forward = Layer("block/conv", 1, "convolution", (8, 8), 100)
    assert recomputed([Layer("net/block/conv", 0), forward]) == {}  # it has forward work of its own


def test_lines_of_a_map(tmp_path: Path) -> None:
    file = tmp_path / "layers.map"
    file.write_text(
        "# names of A = names of B\n\nconv1 = block/conv_1   # the first\nfc1=dense\n"
        "conv2 + relu2 = fused\nlayer#3 = x#y\ndropout1 =\na=b = c=d\n"
    )
    assert read_map(file) == {
        "conv1": "block/conv_1", "fc1": "dense", "conv2": "fused", "relu2": "fused", "layer#3": "x#y", "dropout1": "",
        "a=b": "c=d",
    }  # fmt: skip


def test_a_map_in_json(tmp_path: Path) -> None:
    file = tmp_path / "layers.json"
    file.write_text(json.dumps({"conv1": "x", "a = b": "y"}))
    assert read_map(file) == {"conv1": "x", "a = b": "y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conv1 = x\nconv2 x\n", "line 2: not of the form `A-name = B-name`: 'conv2 x'"),
        ("= x\n", "line 1: not of the form"),
        ("conv1 = x\nconv1 = y\n", "line 2: 'conv1' appears twice; keep one"),
        ('{"a": 1}', "key 'a': expected a layer's name on both sides"),
        ('{"a": "x",\n "b" "y"}', "line 2: not valid JSON: Expecting ':' delimiter"),
        ('{"a": "x", "a": "y"}', "key 'a' appears twice; keep one"),
        ('{"a":' * 100_000, "line 1: nested too deeply"),
        ("conv\x1b[31m1\n", r"line 1: not of the form `A-name = B-name`: 'conv\\x1b\[31m1"),
    ],
)
def test_maps_that_are_wrong_name_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "map.txt"
    file.write_text(text)
    with pytest.raises(EvidenceError, match=message) as caught:
        read_map(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_maps_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="cannot be read: No such file"):
        read_map(tmp_path / "none.map")
    with pytest.raises(EvidenceError, match="cannot be read: Is a directory"):
        read_map(tmp_path)
    binary = tmp_path / "binary.map"
    binary.write_bytes(b"conv\xff\xfe = x\n")
    with pytest.raises(EvidenceError, match="not UTF-8 text at byte 4"):
        read_map(binary)
