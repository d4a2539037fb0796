"""What is said of ONNX Runtime's profiles; numbers are sums of the made events."""

import pytest

from kernelscope.analysis import advise as advising
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.analysis.formats.onnxruntime import nodes
from kernelscope.analysis.recordings import captures
from tests.analysis.formats.onnxruntime import profiles
from tests.analysis.formats.onnxruntime.profiles import CPU

RUNS = 12
IMAGE, GIVEN = [2, 3, 20, 20], [2, 8, 20, 20]


def tensors(*shapes):
    return [{"float": list(shape)} for shape in shapes]


def node(operator, name, us, inputs, output):
    """Return a node of a run: how long it takes, its inputs' sizes and its result's."""
    return operator, name, us, tensors(*inputs), tensors(output)


def profile(made, runs=RUNS, gap=1, outliers=(), slower=1.0):
    """Return events of runs of these nodes. outliers: (run, node's name, us) in place of the node's time."""
    found, now = profiles.loading(), 2000
    for number in range(runs):
        begin = now
        now += 10
        for operator, name, us, inputs, outputs in made:
            took = next((other for run, who, other in outliers if (run, who) == (number, name)), round(us * slower) + number % 3)
            one = profiles.node(operator, name, now, took)
            one["args"] |= {"input_type_shape": inputs, "output_type_shape": outputs}
            found.append(one)
            now += took + gap
        found += profiles.run(begin, now + 10 - begin)
        now += 50
    return found


def saved(tmp_path, found, name="profile.json"):
    path = tmp_path / name
    path.write_text(found if isinstance(found, str) else profiles.text(found))
    return path


def advice(tmp_path, found):
    result = advising.advise(saved(tmp_path, found))
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    return result


def topics(result):
    return {one["topic"]: one for one in result["advice"]}


TINY = [node("Add" if number % 2 else "Mul", f"e{number}", 5, [[6], [6]], [6]) for number in range(60)]


def test_chains_end_with_their_run_and_outliers_count_as_usual(tmp_path):
    result = advice(tmp_path, profile(TINY, outliers=[(4, "e7", 6000)]))
    fusion = topics(result)["fusion"]
    assert "1 chain of 60 kernels takes" in fusion["evidence"][0]
    usual = 1000 * sum(60 * (5 + run % 3) for run in range(RUNS)) / RUNS
    assert fusion["saves_ns"] == pytest.approx(usual * 59 / 60, rel=0.02)
    assert "1 execution in few steps took far longer" in fusion["evidence"][1]
    assert "ORT_ENABLE_ALL" in fusion["remedy"]


def test_time_between_many_small_nodes_is_dispatch(tmp_path):
    dispatch = topics(advice(tmp_path, profile(TINY, gap=4)))["dispatch"]
    assert dispatch["saves_ns"] == 1000 * (60 * 4 + 20)
    assert "for each of 60 nodes" in dispatch["evidence"][0]
    assert "profiler adds some microseconds" in dispatch["estimate"]
    assert dispatch["at_most"]
    assert "dispatch" not in topics(advice(tmp_path, profile(LAYERS)))


X, SWAPPED, SCORES = [2, 16, 48], [2, 48, 16], [2, 16, 16]
# Weights are constants, whose shapes the profile does not give
DENSE = [
    one
    for place in range(3)
    for one in (
        node("MatMul", f"mm{place}", 300, [X], X),
        node("Transpose", f"there{place}", 20, [X], SWAPPED),
        node("Transpose", f"back{place}", 20, [SWAPPED], X),
        node("Softmax", f"soft{place}", 60, [X], X),
    )
]
ATTENTION = [
    one
    for place in range(3)
    for one in (
        node("MatMul", f"qk{place}", 100, [X, SWAPPED], SCORES),
        node("Softmax", f"soft{place}", 60, [SCORES], SCORES),
        node("MatMul", f"av{place}", 100, [SCORES, X], X),
    )
]


def test_attention_needs_products_of_two_activations(tmp_path):
    found = topics(advice(tmp_path, profile(DENSE)))
    assert "attention" not in found
    assert found["graph optimisation"]["saves_ns"] == pytest.approx(1000 * (6 * 20 + 6), rel=0.01)
    matrix = [
        node("MatMul", f"mm{place}", 300, [X, [48, 48]], X) if one[0] == "MatMul" else one for place, one in enumerate(DENSE)
    ]
    assert "attention" not in topics(advice(tmp_path, profile(matrix)))
    attention = topics(advice(tmp_path, profile(ATTENTION)))["attention"]
    assert "onnxruntime.transformers.optimizer" in attention["remedy"]
    assert attention["saves_ns"] == 1000 * 3 * (60 + 1)


def test_one_transposition_or_equal_sizes_show_nothing(tmp_path):
    alone = [one for one in DENSE if not one[1].startswith("back")]
    assert "graph optimisation" not in topics(advice(tmp_path, profile(alone)))
    square = [
        node("MatMul", "mm", 90, [[2, 9, 9]], [2, 9, 9]),
        *(node("Transpose", f"t{n}", 30, [[2, 9, 9]], [2, 9, 9]) for n in (0, 1)),
    ]
    assert "graph optimisation" not in topics(advice(tmp_path, profile(square)))


LAYERS = [
    node("Conv", "first", 400, [IMAGE, [8, 3, 3, 3]], GIVEN),
    node("BatchNormalization", "norm", 30, [GIVEN], GIVEN),
    node("Relu", "act", 10, [GIVEN], GIVEN),
    node("Conv", "second", 900, [GIVEN, [8, 8, 3, 3]], GIVEN),
    node("Relu", "out", 12, [GIVEN], GIVEN),
]
FUSED = [
    node("Conv", "act_nchwc", 300, [IMAGE, [8, 3, 3, 3]], GIVEN),
    node("Conv", "out_nchwc", 600, [GIVEN, [8, 8, 3, 3]], GIVEN),
    node("ReorderOutput", "ReorderOutput", 8, [GIVEN], GIVEN),
]


def test_graph_optimisation_that_is_off(tmp_path):
    found = topics(advice(tmp_path, profile(LAYERS)))["graph optimisation"]
    assert found["saves_ns"] == 1000 * (30 + 10 + 12 + 3)
    assert "ORT_ENABLE_ALL" in found["remedy"]
    assert "graph optimisation" not in topics(advice(tmp_path, profile(FUSED)))
    kept = [*FUSED[:2], node("Relu", "out", 12, [GIVEN], GIVEN)]  # its tensor is used twice
    assert "graph optimisation" not in topics(advice(tmp_path, profile(kept)))


def test_explained_by_the_setting(tmp_path):
    paths = [saved(tmp_path, profile(made), name) for made, name in ((LAYERS, "off.json"), (FUSED, "on.json"))]
    result = pair.read(*paths).explain()
    assert [one["cause"] for one in result["findings"]] == ["graph optimisation"]
    assert "ORT_ENABLE_ALL" in result["findings"][0]["remedy"]
    assert result["wall_delta_ns"] < 0


def test_float16_in_float32_has_the_same_layers_and_no_cause_if_it_is_slower(tmp_path):
    cast = [
        (operator, f"InsertedPrecisionFreeCast_{name}" if operator == "Conv" else name, *rest) for operator, name, *rest in FUSED
    ]
    cast = [node("Cast", "InsertedPrecisionFreeCast_x", 4, [IMAGE], IMAGE), *cast]
    paths = [saved(tmp_path, profile(made, slower=by), f"{by}.json") for made, by in ((FUSED, 1.0), (cast, 1.4))]
    assert any("compute in float32" in note for note in advising.advise(paths[1])["notes"])
    assert not any("compute in float32" in note for note in advising.advise(paths[0])["notes"])
    assert set(captures.read(paths[1]).kernels["layer"].dropna()) == set(captures.read(paths[0]).kernels["layer"].dropna())
    assert not pair.read(*paths).explain()["findings"]


@pytest.mark.parametrize(
    ("name", "operator", "layer"),
    [("InsertedPrecisionFreeCast_/a/conv/Conv_nchwc", "Conv", "a/conv"), ("InsertedPrecisionFreeCast_x", "Cast", None)],
)
def test_prefixes_of_casts_are_no_layer(name, operator, layer):
    assert nodes.path(name, operator) == layer


def test_a_file_without_runs_is_totals_of_its_nodes(tmp_path):
    old = [
        *profiles.loading(),
        profiles.event("Node", "_kernel_time", 5000, 700, op_name="Conv"),
        profiles.event("Node", "_kernel_time", 5900, 300, op_name="BatchNormalization"),
    ]
    result = advice(tmp_path, old)
    assert result["step_ns"] == 1_000_000
    assert result["parts"] == [{"what": "computing", "ns": 1_000_000}]
    assert topics(result).keys() == {"graph optimisation"}
    assert topics(result)["graph optimisation"]["saves_ns"] == 300_000


def test_lines_that_are_cut_are_named(tmp_path):
    lines = profiles.text(
        [*profiles.loading(), *(profiles.node("Conv", f"c{n}", 900 + n, 4, CPU) for n in range(2))]
    ).splitlines()
    quoted = "\n".join([*lines[1:3], *(line[:150] for line in lines[3:5])])
    with pytest.raises(EvidenceError, match=r"2 lines \(the first is line 3\) are cut"):
        captures.read(saved(tmp_path, quoted))


def test_long_runs_are_told_beside_the_mean(tmp_path):
    result = advice(tmp_path, profile(LAYERS, outliers=[(2, "first", 9000), (7, "second", 12000)]))
    lengths = [
        one["dur"] * 1000
        for one in profile(LAYERS, outliers=[(2, "first", 9000), (7, "second", 12000)])
        if one["name"] == "model_run"
    ]
    assert result["range_ns"] == [min(lengths), max(lengths)]
    assert result["median_ns"] < result["step_ns"] / 1.5


def test_one_run_gives_no_interval(tmp_path):
    paths = [saved(tmp_path, profile(LAYERS, runs=number), f"{number}.json") for number in (1, RUNS)]
    result = pair.read(*paths).explain()
    assert result["wall_interval_ns"] is None
    assert any("a single window in 1.json" in note for note in result["notes"])
