"""What is said of TensorRT's layers: of an iteration, whatever how long trtexec repeated, and where engines do other work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.advise import advise
from kernelscope.analysis.explain import pair
from kernelscope.analysis.recordings import captures
from kernelscope.reports import advice, breakdown_words, explanation
from tests.analysis.formats.tensorrt.profiles import COPY, LAYERS, LINE, Layers, exported, table

NARROW: Layers = tuple((name, tuple(value / 2 for value in times) * 40) for name, times in LAYERS)  # half of it, 80 iterations
QUANTISED: Layers = (("QuantizeLinear_1", (0.5, 0.5)), ("w.weight + QuantizeLinear_2 + Conv_3", (0.9, 0.9)), *LAYERS[2:])


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def explained(folder: Path, a: str, b: str) -> dict[str, Any]:
    return pair.read(written(folder, "one.txt", a), written(folder, "two.txt", b)).explain()


def test_a_breakdown_says_which_iteration(tmp_path):
    found = breakdown(captures.read(written(tmp_path, "profile", exported()))).as_dict()
    assert breakdown_words.three_numbers(found) == "sum of kernel times 3.20 ms in an iteration (the mean of 2)"


def test_copies_into_other_formats_are_advised_on(tmp_path):
    layers = [*LAYERS, ("Transpose_9", (1.0, 1.0)), (f"{COPY}Softmax_1", (0.0, 0.0))]
    result = advise(written(tmp_path, "log", table(layers)))
    assert advice.answer(result).startswith("Layers of an iteration (the mean of 2) add up to 4.20 ms on cuda:0: computing 100%")
    (one,) = result["advice"]
    assert (one["saves_ns"], one["topic"]) == (300_000, "layout")  # without the transposition, which is the network's own
    assert one["evidence"][0].startswith("1 such copies take 300 µs (7%) of an iteration")
    assert "--inputIOFormats" in one["remedy"]
    assert any("the layers of an iteration (the mean of 2)" in note for note in result["notes"])


def test_advice_tells_what_else_the_log_states(tmp_path):
    text = f"{LINE}Throughput: 310.5 qps\n{table()}"
    notes = advise(written(tmp_path, "log", text))["notes"]
    assert notes[-1] == "the log also gives, for whole iterations: throughput 310.5 iterations a second"


def test_copies_count_if_all_else_is_compiled(tmp_path):
    layers = [(f"{COPY}{{ForeignNode[a...b]}}", (1.0, 1.0)), ("{ForeignNode[a...b]}", (4.0, 4.0))]
    (one,) = advise(written(tmp_path, "log", table(layers, version=10)))["advice"]
    assert one["saves_ns"] == 1_000_000


def test_runs_of_other_lengths_are_compared_by_iteration(tmp_path):
    result = explained(tmp_path, table(), table(NARROW))
    assert result["wall_delta_ns"] == -1_600_000
    assert explanation.answer(result).startswith("Layers of an iteration of B")
    assert not result["differs"]
    assert all("--dumpLayerInfo" in one["remedy"] for one in result["findings"] if "convolution" in one["title"])


def test_precisions_are_other_work_where_the_log_states_them(tmp_path):
    texts = [f"{LINE}Precision: {one}\n{table(layers)}" for one, layers in (("FP32", LAYERS), ("FP32+FP16", NARROW))]
    assert explained(tmp_path, *texts)["differs"] == ["A's engine may compute in FP32, B's in FP32+FP16"]
    assert explained(tmp_path, texts[0], table(NARROW))["differs"] == []  # of B nothing is known


@pytest.mark.parametrize(("a", "b", "there"), [(LAYERS, QUANTISED, "B"), (QUANTISED, LAYERS, "A")])
def test_layers_that_quantise_are_other_work(tmp_path, a, b, there):
    other = "A" if there == "B" else "B"
    said = f"{there} quantises what it computes with (QuantizeLinear in 2 layers), {other} does not"
    assert explained(tmp_path, table(a), table(b))["differs"] == [said]
    assert explained(tmp_path, table(QUANTISED), table(QUANTISED))["differs"] == []
