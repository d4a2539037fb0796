"""What is said of two of ONNX Runtime's profiles, of time outside of nodes, and of first runs; numbers are of the made events."""

import gzip
import json

import pytest

from kernelscope.analysis import advise as advising
from kernelscope.analysis.explain import onnx_nodes, pair
from kernelscope.analysis.formats.onnxruntime import nodes
from kernelscope.analysis.recordings import captures
from tests.analysis.formats.onnxruntime import profiles
from tests.analysis.formats.onnxruntime.profiles import CPU, CUDA
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "onnxruntime" / "profiles"
DML = "DmlExecutionProvider"
# name, operator, us in a run, shape of the input: as in a posted profile of a first run
DIGITS = [
    ("Convolution28", "Conv", 66_055, [1, 1, 28, 28]),
    ("ReLU32", "Relu", 775, [1, 8, 28, 28]),
    ("Pooling66", "MaxPool", 8_818, [1, 8, 28, 28]),
    ("Convolution110", "Conv", 1_120, [1, 8, 14, 14]),
    ("ReLU114", "Relu", 23, [1, 16, 14, 14]),
    ("Times212/MatMulAddFusion", "Gemm", 32_264, [1, 256]),
]
SOUND = [("DmlFusedNode_0_41", None, 378, None), ("/0/0.0/STFT", None, 661, None), ("/1/lstm/LSTM", None, 108, None)]


def profile(made, provider=CUDA, runs=1, gap=1, before=300, behind=100, session=True, times=()):
    """Return events of runs of these nodes. times: factors of the runs' node times; 1 for all if there are none."""
    found, now = profiles.loading() if session else [], 2000
    for number in range(runs):
        begin, now = now, now + before
        for name, operator, us, shape in made:
            took = round(us * (times[number] if times else 1))
            args = {"op_name": operator, "provider": provider} if operator else {}
            args |= {"input_type_shape": [{"float": shape}]} if shape else {}
            found.append(profiles.event("Node", f"{name}_kernel_time", now, took, **args))
            now += took + gap
        found.append(profiles.event("Session", "SequentialExecutor::Execute", begin + before, now - begin - before))
        found.append(profiles.event("Session", "model_run", begin, now + behind - begin))
        now += behind + 50
    return found


def saved(tmp_path, found, name="profile.json"):
    path = tmp_path / name
    path.write_text(profiles.text(found))
    return path


def explained(tmp_path, a, b, force=False):
    result = pair.read(saved(tmp_path, a, "a.json"), saved(tmp_path, b, "b.json")).explain(force=force)
    assert sum(row["delta_ns"] for row in result["rows"]) + result["instrumentation_ns"] == result["wall_delta_ns"]
    return result


def advice(tmp_path, found):
    result = advising.advise(saved(tmp_path, found))
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    return result


def slower(made, name, factor):
    return [(one, operator, round(us * factor) if one == name else us, shape) for one, operator, us, shape in made]


# --- two models ---------------------------------------------------------------------------------------------------------------


def test_models_without_a_common_node_differ_in_their_work_and_get_no_cause(tmp_path):
    result = explained(tmp_path, profile(DIGITS), profile(SOUND, None))
    (said,) = result["differs"]
    assert said.startswith("no node of a.json has the name, or the operator and the shapes, of a node of b.json")
    assert result["findings"] == []
    assert "no node in common" in result["abstained"]
    forced = explained(tmp_path, profile(DIGITS), profile(SOUND, None), force=True)
    assert forced["differs"] == [said]
    assert {one["confidence"] for one in forced["findings"]} <= {"low"}


def test_one_model_under_other_names_or_with_another_batch_is_the_same_work(tmp_path):
    renamed = [(f"node{number}", *rest) for number, (_, *rest) in enumerate(DIGITS)]
    resized = [(*rest, [4, *shape[1:]]) for *rest, shape in DIGITS]
    a = captures.read(saved(tmp_path, profile(DIGITS), "a.json"))
    for number, made in enumerate((renamed, resized)):
        b = captures.read(saved(tmp_path, profile(made), f"{number}.json"))
        assert onnx_nodes.shared(a, b) == ((1.0, 1.0), (1.0, 1.0))


def test_what_a_provider_compiled_does_not_make_another_model(tmp_path):
    compiled = [("TensorrtExecutionProvider_TRTKernel_graph_main_1_0", "TRTKernel_graph_main_1", 9000, None)]
    result = explained(tmp_path, profile(DIGITS, CPU, runs=3), profile(compiled, "TensorrtExecutionProvider", runs=3))
    assert result["differs"] == []
    assert [(one["cause"], one["confidence"]) for one in result["findings"]] == [("unequal configuration", "low")]
    assert "executes" not in str(result["findings"])
    assert any("whether both ran one model is not known (nodes that a provider compiled" in note for note in result["notes"])
    assert not any("Nothing else" in sentence for sentence in result["findings"][0]["evidence"])


def test_shares_of_models_that_have_some_nodes_in_common(tmp_path):
    other = [*DIGITS[:1], ("fc/MatMul", "MatMul", 66_055, [7, 7]), ("norm/Add", "Add", 132_110, [9, 9])]
    result = explained(tmp_path, profile(DIGITS, CUDA, runs=3), profile(other, CPU, runs=3))
    assert result["differs"] == []
    share = 66_055 / sum(us for _, _, us, _ in DIGITS)
    assert any(
        f"take {share:.0%} of the time of the nodes of a.json and 25% of those of b.json" in one for one in result["notes"]
    )
    assert {one["confidence"] for one in result["findings"]} <= {"low"}


def test_other_providers_are_the_cause_if_the_nodes_are_the_same(tmp_path):
    result = explained(tmp_path, profile(DIGITS, CUDA, runs=5), profile(slower(DIGITS, DIGITS[-1][0], 3), CPU, runs=5))
    (found,) = result["findings"]
    assert (found["cause"], found["confidence"]) == ("unequal configuration", "medium")
    assert found["explains_ns"] == result["wall_delta_ns"] == 2 * 32_264_000


# --- one node that takes longer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("provider", "runs", "confidence"), [(CUDA, 1, "low"), (CUDA, 6, "medium"), (CPU, 6, "medium")])
def test_the_node_that_takes_longer_is_named(tmp_path, provider, runs, confidence):
    name = "Times212/MatMulAddFusion"
    a, b = (profile(slower(DIGITS, name, factor), provider, runs) for factor in (1, 3))
    for first, second, sign in ((a, b, 1), (b, a, -1)):
        result = explained(tmp_path, first, second)
        (found,) = result["findings"]
        slow = "b.json" if sign > 0 else "a.json"
        assert found["title"] == f"{name} (Gemm) takes 3 times as long in {slow}"
        assert found["explains_ns"] == sign * 2 * 32_264_000
        assert found["confidence"] == confidence
        assert "32.3 ms a run" in found["evidence"][0]
        assert "with the same shapes" in found["evidence"][0]
        assert "clocks" in found["remedy"]
        assert any("queue work" in one for one in found["evidence"]) == (provider == CUDA)
        assert any("too few runs" in one for one in found["evidence"]) == (runs == 1)
    first = any("only the first run of the session was recorded in b.json and a.json" in one for one in result["notes"])
    assert not first
    assert any("only the first run" in one for one in result["notes"]) == (runs == 1)


def test_nodes_that_all_take_longer_by_one_factor_have_no_single_one_as_reason(tmp_path):
    result = explained(tmp_path, profile(DIGITS, CPU, 6), profile(DIGITS, CPU, 6, times=[1.5] * 6))
    (found,) = result["findings"]
    assert found["title"].endswith("1.5 times as long in b.json")
    assert any("in no single one" in sentence for sentence in found["evidence"])
    assert found["explains_ns"] == sum(round(1.5 * us) - us for _, _, us, _ in DIGITS) * 1000


@pytest.mark.parametrize(
    ("factors", "more"),
    [
        ([1.12] * 6, []),  # less than two processes may differ
        ([1.0, 1.9, 1.0, 2.0, 1.0, 1.0], []),  # some runs are disturbed, and most are not
        ([1.0] * 6, [("Times300", "Gemm", 40_000, [3, 3])]),  # another node, not a slower one
    ],
)
def test_no_node_is_slower_if_runs_of_one_side_differ_as_much_or_it_is_another_node(tmp_path, factors, more):
    result = explained(tmp_path, profile(DIGITS, CPU, 6), profile([*DIGITS, *more], CPU, 6, times=factors))
    assert "slower nodes" not in [one["cause"] for one in result["findings"]]


@pytest.mark.parametrize(("factor", "found"), [(1.55, []), (1.65, ["slower nodes"])])
def test_in_single_runs_a_node_must_take_longer_than_a_disturbance(tmp_path, factor, found):
    b = slower(DIGITS, "Times212/MatMulAddFusion", factor)  # 32.3 ms: by 17.7 or by 21.0 ms
    assert [one["cause"] for one in explained(tmp_path, profile(DIGITS), profile(b))["findings"]] == found


def test_equal_profiles_get_no_cause(tmp_path):
    assert explained(tmp_path, profile(DIGITS), profile(DIGITS))["findings"] == []


@pytest.mark.parametrize("name", ["cnn", "parallel"])
@pytest.mark.parametrize("how", ["halves", "in turns", "one each"])
def test_runs_of_one_session_get_no_cause_although_some_are_disturbed(tmp_path, name, how):
    found = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    ends = [place + 1 for place, one in enumerate(found) if one["name"] == "model_run"]
    runs = [found[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    half = len(runs) // 2
    sides = {"halves": (runs[:half], runs[half:]), "in turns": (runs[::2], runs[1::2]), "one each": (runs[1:2], runs[2:3])}[how]
    a, b = ([one for run in side for one in run] for side in sides)
    assert explained(tmp_path, a, b)["findings"] == []


# --- graph optimisation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "optimised"),
    [
        ("Times212/MatMulAddFusion", True),
        ("/encoder/norm/LayerNormFusion/", True),
        ("dense/MatMul/MatMulAddFusion_quant", True),
        ("/neck/FeatureFusion/conv/Conv", False),
        ("fusion", False),
        ("Relu_1", False),
    ],
)
def test_passes_of_the_optimizer_show_in_names(name, optimised):
    assert nodes.is_optimised(name, "Gemm") is optimised


def test_a_graph_with_fused_nodes_is_not_said_to_be_unoptimised(tmp_path):
    plain = [(name.removesuffix("/MatMulAddFusion"), *rest) for name, *rest in DIGITS]
    told = {
        key: [one["topic"] for one in advice(tmp_path, profile(made, CPU, 4))["advice"]]
        for key, made in (("fused", DIGITS), ("plain", plain))
    }
    assert "graph optimisation" not in told["fused"]
    assert "graph optimisation" in told["plain"]


@pytest.mark.parametrize(("a", "b"), [(CUDA, CPU), (CPU, CPU)])
def test_graphs_with_the_same_nodes_do_not_differ_in_optimisation(tmp_path, a, b):
    plain = [(name.removesuffix("/MatMulAddFusion"), *rest) for name, *rest in DIGITS]
    result = explained(tmp_path, profile(plain, a, 4), profile(slower(plain, "Times212", 3), b, 4))
    assert "graph optimisation" not in [one["cause"] for one in result["findings"]]


# --- parts of a run, and first runs -------------------------------------------------------------------------------------------


def test_time_outside_of_nodes_is_a_part_of_its_own(tmp_path):
    result = advice(tmp_path, profile(SOUND, DML, runs=2, before=7264, behind=13_357, gap=4))
    inside, between = 1000 * (378 + 661 + 108), 1000 * 3 * 4
    assert result["parts"] == [
        {"what": "outside of nodes", "ns": 1000 * (7264 + 13_357) + between},
        {"what": "in operators", "ns": inside},
    ]
    (told,) = [note for note in result["notes"] if note.startswith("outside of nodes: 20.6 ms (95%) a step")]
    assert "7.26 ms before ONNX Runtime begins to execute nodes, 13.4 ms after it has executed them, 12.0 µs between" in told
    assert any("IO binding" in note for note in result["notes"])


def test_nothing_is_said_of_little_time_outside_of_nodes_or_on_processors(tmp_path):
    assert not any("outside of nodes" in note for note in advice(tmp_path, profile(DIGITS))["notes"])
    on_processor = advice(tmp_path, profile(DIGITS[3:5], CPU, before=7264, behind=13_357))
    assert not any("outside of nodes" in note for note in on_processor["notes"])
    assert {part["what"] for part in on_processor["parts"]} == {"computing", "dispatch"}


def test_the_longest_nodes_of_a_gpus_provider_are_named(tmp_path):
    (told,) = [note for note in advice(tmp_path, profile(DIGITS))["notes"] if "take longest" in note]
    whole = sum(us for _, _, us, _ in DIGITS) + len(DIGITS) + 400
    assert f"Convolution28 (Conv) 66.1 ms ({66_055 / whole:.0%}), Times212 (Gemm) 32.3 ms ({32_264 / whole:.0%})" in told
    assert not any("take longest" in note for note in advice(tmp_path, profile(DIGITS, CPU))["notes"])


def test_the_only_run_of_a_session_is_its_first_and_gives_no_throughput(tmp_path):
    first = advice(tmp_path, profile(DIGITS))
    assert first["batch"] is None
    assert any("the only run is the session's first" in note for note in first["notes"])
    for found in (profile(DIGITS, runs=3), profile(DIGITS, session=False)):  # what came before is not known in the second
        other = advice(tmp_path, found)
        assert other["batch"] == 1
        assert not any("session's first" in note for note in other["notes"])


@pytest.mark.parametrize("runs", [2, 5])
def test_a_first_run_that_takes_far_longer_is_left_out(tmp_path, runs):
    usual = sum(round(us * 0.01) for _, _, us, _ in DIGITS) + len(DIGITS) + 400
    result = advice(tmp_path, profile(DIGITS, CPU, runs, times=[1.0] + [0.01] * (runs - 1)))
    assert result["step_ns"] == 1000 * usual
    assert any("left out: the session's first run, which took 109 ms" in note for note in result["notes"])
    unknown = profile(DIGITS, CPU, 2, times=[1.0, 0.01], session=False)  # may be a long run among others
    assert advice(tmp_path, unknown)["step_ns"] > 10 * 1000 * usual
    alike = profile(DIGITS, CPU, runs, times=[2.0] + [1.0] * (runs - 1))
    assert len(captures.read(saved(tmp_path, alike)).steps) == runs
    assert not captures.read(saved(tmp_path, alike)).steps["warmup"].any()
