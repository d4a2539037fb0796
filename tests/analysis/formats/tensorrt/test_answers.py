"""What is said of TensorRT's layers: of an iteration, whatever how long trtexec repeated, and where engines do other work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.advise import advise
from kernelscope.analysis.explain import pair
from kernelscope.analysis.recordings import captures
from kernelscope.reports import advice, breakdown_words, explanation, measured
from tests.analysis.formats.tensorrt.profiles import COPY, LAYERS, LINE, Layers, exported, of_first_samples, table

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
    assert advice.answer(result).startswith("Layers of an iteration (the mean of 2) add up to 4.20 ms on cuda:0: computing 93%")
    assert result["parts"][1] == {"what": "changing formats", "ns": 300_000}  # likewise
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


def test_a_copy_is_no_part_of_its_layer(tmp_path):
    layers = [("resize (plugin) input reformatter 0", (0.3, 0.5)), ("resize (plugin)", (0.7, 0.9)), ("conv2", (0.6, 0.6))]
    path = written(tmp_path, "log", of_first_samples(layers))
    result = advise(path)
    assert result["longest"] == {"name": "resize (plugin)", "ns": 800_000}
    (one,) = result["advice"]
    assert "1 x resize (plugin) input reformatter 0 (400 µs)" in one["evidence"][0]
    rows = breakdown(captures.read(path), "kernel").table
    assert dict(zip(rows["kernel"], rows["duration_ns"], strict=True)) == {
        "resize (plugin)": 800_000, "conv2": 600_000, "resize (plugin) input reformatter 0": 400_000
    }  # fmt: skip


ON_DLA: Layers = (("in to nvm", (0.1, 0.1)), ("{stem,body,head}", (0.2, 0.2)), ("in copy finish", (0.1, 0.1)),
                  ("out input reformatter 0", (3.0, 3.0)), ("head finish", (0.1, 0.1)), ("out", (0.1, 0.1)))  # fmt: skip
ON_GPU: Layers = (
    (f"{COPY}{{ForeignNode[stem...head]}}", (0.1, 0.1)),
    ("{ForeignNode[stem...head]}", (1.5, 1.5)),
    ("out", (0.1, 0.1)),
)
BY_LAYER: Layers = (("stem + body", (0.9, 0.9)), ("head", (0.6, 0.6)), ("out", (0.1, 0.1)))


def test_the_wait_for_a_dla_computes_nothing(tmp_path):
    result = advise(written(tmp_path, "log", table(ON_DLA, version=7)))
    assert result["parts"] == [{"what": "waiting for the DLA", "ns": 3_000_000}, {"what": "computing", "ns": 600_000}]
    assert advice.answer(result).endswith("waiting for the DLA 83%, computing 17%. No saving stands out.")
    assert not result["advice"]


@pytest.mark.parametrize("other", [ON_GPU, BY_LAYER])
def test_a_dla_and_its_wait_are_compared_with_the_same_layers(tmp_path, other):
    result = explained(tmp_path, table(ON_DLA, version=7), table(other))
    first = result["findings"][0]
    assert (first["cause"], first["explains_ns"]) == ("layers on a DLA", -2_000_000)
    assert (
        "layers that run on a DLA in A take longer in A than in B, waits included: 3.50 ms in A, 1.50 ms in B" in first["title"]
    )
    assert first["evidence"][:2] == [
        "The GPU's stream waits for the DLA: 3.00 ms in A.",
        f"In all, B is {3.6 / sum(times[0] for _, times in other):.3g} times as fast as A.",
    ]
    assert not any("times as long" in one["title"] or "only A has" in one["title"] for one in result["findings"])
    assert {"part": "waiting for the DLA", "delta_ns": -3_000_000} in result["parts"]


def test_two_engines_on_dlas_are_compared_with_their_waits(tmp_path):
    other = [(name, (2.0, 2.0) if "reformatter" in name else times) for name, times in ON_DLA]
    (one,) = explained(tmp_path, table(ON_DLA, version=7), table(other, version=7))["findings"]
    assert (one["cause"], one["explains_ns"]) == ("layers on a DLA", -1_000_000)
    assert "in A and B" in one["title"]
    assert one["evidence"][0] == "The GPU's stream waits for the DLA: 3.00 ms in A, 2.00 ms in B."


def of_network(*words: str) -> Layers:
    first, last = words
    return (
        (f"{COPY}{{ForeignNode[{first}/Conv_0...{last}/MatMul_9]}}", (0.1, 0.1)),
        (f"{{ForeignNode[{first}/Conv_0...{last}/MatMul_9]}}", (2.0, 2.0)),
        (f"{last}/Softmax", (0.3, 0.3)),
    )


def test_engines_without_a_common_name_are_different_networks(tmp_path):
    result = explained(
        tmp_path, table(of_network("Tower/stem", "Tower/head")), table(of_network("Decoder/embed", "Decoder/logits"))
    )
    assert result["differs"] == ["no layer of A has a name like one of B's: these seem to be different networks"]
    assert {one["confidence"] for one in result["findings"]} <= {"low"}
    common = explained(tmp_path, table(of_network("Tower/stem", "Tower/head")), table(of_network("Tower/body", "Tower/logits")))
    assert common["differs"] == []


def test_numbered_operators_do_not_tell_networks_apart(tmp_path):
    a, b = ([(f"Conv_{place} + Relu_{place + 1}", (took, took)) for place in range(0, 12, 3)] for took in (0.5, 0.9))
    b = [(name.replace("Relu", "Clip"), times) for name, times in b]
    assert explained(tmp_path, table(a), table(b))["differs"] == []


def test_layers_that_only_quantise_are_advised_on(tmp_path):
    layers = [("QuantizeLinear_4_quantize_scale_node", (0.6, 0.8)), ("DequantizeLinear_9_dequantize_scale_node", (0.3, 0.3)),
              ("w.weight + QuantizeLinear_7_quantize_scale_node + Conv_8", (2.0, 2.0))]  # fmt: skip
    (one,) = advise(written(tmp_path, "log", table(layers)))["advice"]
    assert (one["topic"], one["saves_ns"]) == ("quantisation", 1_000_000)
    assert one["evidence"][0].startswith(
        "2 such layers take 1.00 ms (33%) of an iteration: 1 x QuantizeLinear_4_quantize_scale_node"
    )
    assert "both inputs of residual additions" in one["remedy"]


@pytest.mark.parametrize(("share", "said"), [(0.9, True), (0.2, False)])
def test_a_block_that_takes_most_of_the_time_can_be_looked_into(tmp_path, share, said):
    layers = [("{ForeignNode[a/MatMul...b/MatMul]}", (share, share)), ("Conv_1", (1 - share, 1 - share))]
    notes = advise(written(tmp_path, "log", table(layers)))["notes"]
    assert any("90% is in one block of layers that were compiled into one (ForeignNode): nsys" in note for note in notes) == said


def _by_kernel(path: Path) -> dict[str, tuple[Any, ...]]:
    rows = breakdown(captures.read(path), "kernel").as_dict()["rows"]
    return {row["kernel"]: tuple(row[key] for key in ("mean_ns", "median_ns", "min_ns", "max_ns")) for row in rows}


def test_a_median_is_the_tables_or_unknown(tmp_path):
    layers = [("Conv_1", (0.2, 0.3, 0.7)), ("Relu_2", (0.1, 0.1, 0.1))]
    found = _by_kernel(written(tmp_path, "new", table(layers)))
    assert found == {"Conv_1": (400_000, 300_000, None, None), "Relu_2": (100_000, 100_000, None, None)}
    assert _by_kernel(written(tmp_path, "old", table(layers, version=7)))["Conv_1"] == (400_000, None, None, None)
    once = _by_kernel(written(tmp_path, "once", table([("Conv_1", (0.4,))], version=7)))
    assert once["Conv_1"] == (400_000, 400_000, 400_000, 400_000)  # a single iteration is all there is


def test_a_layer_that_is_long_in_few_iterations_is_noted(tmp_path):
    times = (0.005,) * 9
    layers = [("in_copy_input", (*times, 0.955)), ("Conv_1", (0.5,) * 10), ("out_copy_output", (*times, 0.155))]
    notes = advise(written(tmp_path, "log", table(layers)))["notes"]
    said = "in_copy_input is uneven (0.1000 ms on average, 0.0050 ms in the median), as is 1 other layer: few iterations"
    assert any(note.startswith(said) for note in notes)
    assert not any("uneven" in note for note in advise(written(tmp_path, "even", table()))["notes"])


def test_a_page_leaves_out_what_no_table_of_layers_tells(tmp_path):
    assert measured.of_device(captures.read(written(tmp_path, "log", table()))) == []
