"""Advice on steps that the host's processors compute, on made-up rows."""

from dataclasses import replace

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE, KEYS
from kernelscope.analysis.accounting.idle_causes import FETCHING, OPERATOR, PROGRAM, RANGE
from kernelscope.analysis.advise.advice import of_subject, parts
from kernelscope.analysis.advise.rules import fusion, host, inputs, joining, layouts, loops, settings
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import Trace, conform
from kernelscope.reports.advice import answer
from tests.analysis.advise.test_parameters import subject as with_lines

MS = 1_000_000


def subject(*rows, framework="tensorflow", operators=(), host_lines=()):
    """A step of 10 ms. rows: part, cause, detail, phase, ms."""
    table = pd.DataFrame(rows, columns=["part", "cause", "detail", "phase", "ms"])
    table = table.assign(time_ns=(table.pop("ms") * MS).astype("int64"), count=1.0, duration_ns=0)
    table = table.reindex(columns=[*KEYS, "count", "duration_ns", "time_ns"]).astype(dict.fromkeys(KEYS, "string"))
    steps = conform("steps", pd.DataFrame([{"step": 0, "warmup": False, "thread": 1, "start_ns": 0, "end_ns": 10 * MS}]))
    tables = {"operators": conform("operators", pd.DataFrame(list(operators)))} if operators else {}
    if host_lines:
        tables["host_lines"] = conform("host_lines", pd.DataFrame(list(host_lines)))
    return Subject("run", Trace(steps=steps, **tables), table, 10 * MS, "cpu", None, STEPS, None, 1, {"framework": framework})


KERNEL = (COMPUTE, None, None, "forward", 4.0)


def of_kinds(*kinds, framework):
    made = subject(*[KERNEL for _ in kinds], framework=framework)
    return replace(made, rows=made.rows.assign(kind=pd.Series(list(kinds), dtype="string")))


def test_layouts_on_processors():
    (one,) = layouts.conversions(of_kinds("layout", "convolution forward", framework="pytorch"))
    assert one.saves_ns == round(4 * MS / 3), "a third of the conversions"
    assert "channels_last" in one.remedy
    (other,) = layouts.conversions(of_kinds("layout", "gemm", framework="pytorch"))
    assert "channels" not in other.remedy, "it has no convolutions"
    assert layouts.conversions(of_kinds("layout", "gemm", framework="jax")) == [], "XLA chooses layouts"


def test_remedies_are_for_processors():
    (one,) = inputs.waiting(subject((IDLE, FETCHING, None, "data", 4.0), framework="pytorch"))
    assert "whole batches" in one.remedy
    assert not any(word in one.remedy for word in ("GPU", "pin_memory", ".to(device"))


def test_a_net_that_is_hybridized_is_not_told_to_hybridize():
    made = subject(KERNEL, framework="mxnet")
    assert made.kinds[-2:] == ["mxnet", ""]
    assert "mxnet, compiled" not in made.kinds
    graph = subject(KERNEL, framework="mxnet")
    graph.facts["settings"] = {"execution": "hybridized inline_limit=2"}
    assert graph.kinds[0] == "mxnet, compiled"
    assert "hybridize" not in fusion.FUSE["mxnet, compiled"]


def test_callbacks_are_the_programs_own_code_and_no_dispatch():
    rows = [
        (COMPUTE, None, None, "forward", 5.0),
        (IDLE, OPERATOR, "callbacks", "other", 4.0),
        (IDLE, OPERATOR, "call", "other", 1.0),
    ]
    (one,) = host.own_code(subject(*rows))
    assert one.saves_ns == 4 * MS
    assert host.dispatch(subject(*rows)) == []


@pytest.mark.parametrize(
    ("statement", "named"), [("hist = np.histogram(v)", True), ("model.fit(data, callbacks=[Log()])", False)]
)
def test_a_line_in_which_the_framework_steps_is_none_of_its_own(statement, named):
    line = {"thread": 1, "file": "train.py", "function": "main", "line": 7, "last_line": 7, "text": statement}
    lines = [{**line, "start_ns": 0, "end_ns": 4 * MS}]
    (one,) = host.own_code(subject((IDLE, PROGRAM, None, "other", 4.0), host_lines=lines))
    assert (statement in " ".join(one.evidence)) is named


def test_python_within_a_pipeline_of_tensorflow():
    calls = [{"thread": 2, "name": "PyFunc", "start_ns": place * MS, "end_ns": (place + 1) * MS} for place in range(3)]
    (one,) = inputs.waiting(subject((IDLE, FETCHING, None, "data", 4.0), operators=calls))
    assert "The pipeline calls Python 3 times a step" in " ".join(one.evidence)
    assert "tf.numpy_function" in one.remedy
    (plain,) = inputs.waiting(subject((IDLE, FETCHING, None, "data", 4.0)))
    assert "tf.data" in plain.remedy


@pytest.mark.parametrize(("used_ms", "saves_ms"), [(19, 4), (12, None)], ids=["busy", "idle cores"])
def test_python_beside_the_step_takes_its_cores(used_ms, saves_ms):
    calls = [{"thread": 2, "name": "PyFunc", "start_ns": place * MS, "end_ns": (place + 1) * MS} for place in range(8)]
    made = subject((COMPUTE, None, None, "forward", 10.0), operators=calls)
    made.facts["machine"] = {"allowed_threads": 2}
    made.used_ns = used_ms * MS
    found = inputs.crowding(made)
    assert [one.saves_ns for one in found] == ([] if saves_ms is None else [saves_ms * MS])


def on_cores(foreign, threads=1, cores=2):
    made = subject((COMPUTE, None, None, "forward", 8.0), framework="pytorch")
    facts = {**made.facts, "settings": {"threads": threads}, "machine": {"allowed_threads": cores}}
    return replace(made, facts=facts, used_ns=8.0 * MS, foreign_cores=foreign)


def test_threads_for_cores_that_are_free():
    """One thread on two cores: the other core is free, or another process's."""
    (one,) = settings.idle_threads(on_cores(0.1))
    assert "torch.set_num_threads(2)" in one.remedy
    assert settings.idle_threads(on_cores(0.9)) == []
    assert settings.idle_threads(on_cores(None)) != []


@pytest.mark.parametrize(
    ("on", "framework", "saves"), [(True, "pytorch", [3 * MS]), (False, "pytorch", []), (True, "tensorflow", [])]
)
def test_deterministic_algorithms_fill_memory(on, framework, saves):
    """PyTorch fills what it is about to write; TensorFlow does not, and what slower algorithms cost is unknown."""
    rows = [{"part": COMPUTE, "operator": name, "name": name, "count": 1.0, "ms": 3.0} for name in ("aten::fill_", "aten::mm")]
    made = with_lines(rows, operators=[], optimizer=None, framework=framework)
    made = replace(made, facts={**made.facts, "settings": {"deterministic_algorithms": on}})
    found = settings.deterministic(made)
    assert [one.saves_ns for one in found] == saves
    assert all("fill_uninitialized_memory = False" in one.remedy for one in found)


def test_a_busy_machine_is_told():
    assert of_subject(on_cores(0.9))["busy"] == {"cores": 2, "others": 0.9}
    assert of_subject(on_cores(0.2))["busy"] is None
    assert of_subject(on_cores(None))["busy"] is None


@pytest.mark.parametrize(("foreign", "threads", "noted"), [(1.4, 1, True), (1.4, 2, False), (0.1, 1, False), (None, 1, False)])
def test_what_threads_would_save_is_not_known_on_a_busy_machine(foreign, threads, noted):
    """On a machine that is not busy it is known, and advised; two threads are as many as there are cores."""
    result = of_subject(on_cores(foreign, threads))
    assert any("what more threads would save is not known" in note for note in result["notes"]) is noted
    assert ("threads" in [one["topic"] for one in result["advice"]]) is (threads == 1 and not noted)


def small_operators(count, batch=32):
    made = subject((COMPUTE, None, None, "other", 4.0), KERNEL, framework="pytorch")
    rows = made.rows.assign(operator=pd.Series(["aten::norm", None], dtype="string"), count=[float(count), 1.0])
    return replace(made, rows=rows, facts={**made.facts, "options": {"batch": batch}})


@pytest.mark.parametrize(("count", "topic"), [(128, "loop over samples"), (404, "small operators"), (127, "loop over samples")])
def test_operators_for_each_sample_are_told_from_others(count, topic):
    """404 are no multiple of 32 samples; of 127 one is missing."""
    (one,) = loops.over_samples(small_operators(count))
    assert one.topic == topic
    assert ("samples" in one.estimate) == (topic == "loop over samples")


@pytest.mark.parametrize(("count", "advised"), [(460, True), (40, False)])
def test_values_that_are_read_one_by_one(count, advised):
    """What runs for each of them is the loop's, and no dispatch that compiling would save; a loss or two is none."""
    rows = [
        (IDLE, OPERATOR, "item", "other", 1.0),
        (IDLE, OPERATOR, "aten::item", "other", 2.0),
        (IDLE, OPERATOR, "x", "other", 3.0),
    ]
    made = subject(*rows, framework="pytorch")
    operators = pd.Series([None, "aten::item", "aten::x"], dtype="string")
    made = replace(made, rows=made.rows.assign(operator=operators, count=[float(count), float(count), 100.0]))
    assert [one.saves_ns for one in loops.one_by_one_read(made)] == [3 * MS] * advised
    (dispatched,) = host.dispatch(made)
    assert "3.00 ms" in dispatched.evidence[0] if advised else "6.00 ms" in dispatched.evidence[0]


@pytest.mark.parametrize(("ms", "told"), [(3, "(3.00 ms)"), (40, "(80% of the time of these functions)")])
def test_lines_that_make_batches_are_named_however_long_the_lines_pass_took_for_them(ms, told):
    """Line by line a statement that loops takes many times as long; how it compares with the others is still seen."""
    made = subject((IDLE, FETCHING, None, "data", 4.0), framework="pytorch")
    line = {"file": "a.py", "function": "DS.__getitem__", "hits": 64}
    table = [
        {**line, "line": 5, "last_line": 5, "text": "total = sum(squares)", "time_ns": 2 * ms * MS},
        {**line, "line": 6, "last_line": 6, "text": "return total", "time_ns": ms * MS // 2},
    ]
    trace = replace(made.trace, lines=conform("lines", pd.DataFrame(table)))
    trace.info["lines_steps"] = 2
    (one,) = inputs.waiting(replace(made, trace=trace))
    assert f"a.py:5 `total = sum(squares)` {told}" in one.evidence[-1]


@pytest.mark.parametrize(("ms", "saves_ms"), [(1, 2), (6, 4)])
def test_a_line_that_makes_batches_can_save_all_of_the_wait_where_it_takes_most_of_it(ms, saves_ms):
    """Other processes could save 2 of the 4 ms: of 20 ms of two cores the step uses 16."""
    made = subject((IDLE, FETCHING, None, "data", 4.0), framework="pytorch")
    line = {"file": "a.py", "function": "DS.__getitem__", "line": 5, "last_line": 5, "text": "total = sum(squares)", "hits": 64}
    trace = replace(made.trace, lines=conform("lines", pd.DataFrame([{**line, "time_ns": ms * MS}])))
    trace.info["lines_steps"] = 2
    facts = {**made.facts, "machine": {"allowed_threads": 2}}
    (one,) = inputs.waiting(replace(made, trace=trace, facts=facts, used_ns=16.0 * MS))
    assert one.saves_ns == saves_ms * MS
    assert ("; other processes alone save 2.00 ms, what the 2 cores can do besides the step" in one.estimate) == (saves_ms == 4)


def augmented(*counts, batch=32):
    """Operators outside of layers: two small ones for each sample, and a convolution of 3 ms that runs so often."""
    small = [(COMPUTE, None, None, "other", 0.5), (COMPUTE, None, None, "other", 0.5)]
    made = subject(*small, *[(COMPUTE, None, None, "other", 3.0) for _ in counts], framework="pytorch")
    names = ["aten::mul", "aten::rand", *["aten::conv2d" for _ in counts]]
    rows = made.rows.assign(operator=pd.Series(names, dtype="string"), count=[3.0 * batch, 1.0 * batch, *map(float, counts)])
    return replace(made, rows=rows, facts={**made.facts, "options": {"batch": batch}})


@pytest.mark.parametrize(("count", "advised"), [(256, True), (120, True), (40, False)])
def test_a_loop_is_seen_where_no_batch_is_known(count, advised):
    """Such as a tensor that is read row by row, or parameters that are updated one by one; not what runs a few times."""
    made = small_operators(count)
    found = loops.over_samples(replace(made, facts={**made.facts, "options": {}}))
    assert [one.topic for one in found] == ["small operators"] * advised
    assert all(f"{count} times or more" in one.evidence[0] for one in found)


@pytest.mark.parametrize(("count", "ms"), [(25.5, 4.0), (2.0, 1.0)], ids=["four of five samples", "twice a step"])
def test_operators_that_run_by_chance_are_of_the_loop(count, ms):
    """An augmentation of four images in five costs as much as the others, and is no loop of its own."""
    (one,) = loops.over_samples(augmented(count))
    assert one.topic == "loop over samples"
    assert one.saves_ns == pytest.approx(ms * MS * 31 / 32)


def test_operators_that_run_by_chance_are_no_loop_by_themselves():
    made = augmented(25.5)
    rows = made.rows.assign(operator=made.rows["operator"].where(made.rows["operator"] == "aten::conv2d"))
    assert loops.over_samples(replace(made, rows=rows)) == []


def test_all_of_loading_is_waiting_for_input():
    """Whatever the host is in meanwhile, an operator or a range."""
    made = subject((IDLE, OPERATOR, "aten::select", "data", 3.0), (IDLE, FETCHING, None, "data", 2.0), KERNEL)
    assert {part["what"]: part["ns"] for part in parts(made)} == {"waiting for input": 5 * MS, "computing": 4 * MS}


def test_what_loading_computes_is_no_computing_of_the_model():
    made = subject((COMPUTE, None, "aten::avg_pool2d", "data", 3.0), (IDLE, FETCHING, None, "data", 2.0), KERNEL)
    times = {"preparing input": 3 * MS, "waiting for input": 2 * MS, "computing": 4 * MS}
    assert {part["what"]: part["ns"] for part in parts(made)} == times


def test_inference_with_autograd_on():
    made = subject(KERNEL, (IDLE, OPERATOR, "aten::mm", None, 6.0), framework="pytorch")
    made.rows.loc[0, "count"] = 2000.0
    for setting, found in ((None, []), (False, []), (True, [2.0])):
        made.facts["settings"] = {"autograd_in_inference": setting}
        assert [one.saves_ns / MS for one in settings.autograd(made)] == found, "1 us for each operator"
    made.rows = made.rows.assign(count=50_000.0)
    assert settings.autograd(made)[0].saves_ns == 6.0 * MS, "no more than there is outside of kernels"
    assert "inference_mode" in settings.autograd(made)[0].remedy


def test_one_sample_a_call():
    made = subject(KERNEL, (IDLE, OPERATOR, "aten::mm", None, 4.0), (IDLE, PROGRAM, None, None, 2.0), framework="pytorch")
    for options, found in (
        ({"mode": "infer", "batch": 1}, [6.0 * 7 / 8]), ({"mode": "train", "batch": 1}, []), ({"mode": "infer", "batch": 2}, []),
        ({"mode": "infer", "batch": None}, []),
    ):  # fmt: skip
        made.facts["options"] = options
        assert [one.saves_ns / MS for one in loops.one_by_one(made)] == found


def test_what_a_program_did_between_its_steps_is_told_where_it_took_long():
    reasons = {"a model was switched to evaluation": [2, 30 * MS], "a function was compiled": [1, 4 * MS]}
    aside = {"left_out_steps": {"reasons": reasons, "steps": 60, "watched_ns": 100 * MS}}
    made = subject(KERNEL)
    notes = of_subject(replace(made, facts={**made.facts, **aside}))["notes"]
    told = [note for note in notes if note.startswith("left out")]
    assert told == [
        "left out: 2 of 60 steps in which a model was switched to evaluation; they took 30.0 ms of the 100 ms watched"
    ]
    assert not [note for note in of_subject(made)["notes"] if note.startswith("left out")]


def test_a_step_that_is_mostly_recording_tells_nothing_of_the_programs_own_code():
    made = subject((IDLE, PROGRAM, None, "other", 5.0), KERNEL)
    assert [one.topic for one in host.own_code(made)] == ["python"]
    assert host.own_code(replace(made, facts={**made.facts, "traced_step_ns": 40 * MS})) == []


def test_steps_that_are_few_are_told():
    made = subject(KERNEL)
    assert of_subject(replace(made, facts={**made.facts, "clean_steps": 2}))["few_steps"] == 2
    assert of_subject(replace(made, facts={**made.facts, "clean_steps": 20}))["few_steps"] is None


def test_where_layers_alone_were_recorded_what_computes_is_not_known():
    made = subject(
        (IDLE, RANGE, None, "forward", 7.0), (IDLE, OPERATOR, None, "forward", 1.0), (IDLE, PROGRAM, None, "other", 2.0)
    )
    assert of_subject(made)["advice"], "as if it were recorded that nothing computes"
    result = of_subject(replace(made, facts={**made.facts, "untraced": "no kernels pass: it was killed; run it again"}))
    assert result["advice"] == []
    assert {part["what"]: part["ns"] // MS for part in result["parts"]} == {
        "in layers": 7,
        "outside of layers": 2,
        "between layers": 1,
    }
    assert "What could be saved is unknown." in answer(result)
    assert result["notes"][0].endswith("separated from dispatch: no kernels pass: it was killed; run it again")


def joined(shapes, layer=None):
    """A step in which these tensors are joined, each pair for 0.1 ms."""
    operators = [
        {
            "thread": 1,
            "start_ns": n * MS // 10,
            "end_ns": (n + 1) * MS // 10,
            "name": "aten::cat",
            "shapes": f"[{pair}, []]",
            "layer": layer,
        }
        for n, pair in enumerate(shapes)
    ]
    made = subject((COMPUTE, None, None, "other", 8.0), operators=operators)
    return replace(made, rows=made.rows.assign(name=pd.Series(["aten::cat"], dtype="string")))


def test_a_tensor_that_grows_piece_by_piece():
    """Of the n-th join n of its n + 1 pieces were joined before."""
    grows = [[[3 * n, 2], [3, 2]] for n in range(30)]
    (one,) = joining.piece_by_piece(joined(grows))
    assert one.saves_ns == pytest.approx(sum(n / (n + 1) for n in range(1, 30)) * MS / 10)
    said = "29 calls of aten::cat in each step append to the result of an earlier call, which grows to 180 elements"
    assert said in one.evidence[0]
    assert "2.90 ms (29%)" in one.evidence[0]
    two = [pair for n in range(30) for pair in ([[n, 4], [1, 4]], [[n, 7], [1, 7]])]  # keys and values, say
    assert joining.piece_by_piece(joined(two))


def stepping(shapes):
    """Steps of 1 ms, each of which joins such a pair for 0.1 ms, and goes through what is made of it for 0.3 ms."""
    operators, steps = [], []
    for n, pair in enumerate(shapes):
        rows, columns = pair[0][0] + pair[1][0], pair[0][1]
        common = {"thread": 1, "layer": None}
        joins = {"name": "aten::cat", "shapes": f"[{pair}, []]", "start_ns": n * MS, "end_ns": n * MS + MS // 10}
        mean = {
            "name": "aten::mean",
            "shapes": f"[[{rows}, {columns}]]",
            "start_ns": n * MS + MS // 2,
            "end_ns": n * MS + 8 * MS // 10,
        }
        operators += [{**common, **joins}, {**common, **mean}]
        steps.append({"step": n, "warmup": False, "thread": 1, "start_ns": n * MS, "end_ns": (n + 1) * MS})
    made = subject((COMPUTE, None, None, "other", 8.0), operators=operators)
    trace = replace(made.trace, steps=conform("steps", pd.DataFrame(steps)))
    return replace(made, trace=trace, rows=made.rows.assign(name=pd.Series(["aten::mean"], dtype="string")))


def test_a_tensor_that_grows_from_step_to_step():
    grows = [[[64 * n, 4], [64, 4]] for n in range(10, 20)]
    (one,) = joining.from_step_to_step(stepping(grows))
    assert one.saves_ns == pytest.approx(0.4 * stepping(grows).step_ns), "joining it, and going through it"
    assert "from 2,560 to 5,120 elements over the 10 recorded steps" in one.evidence[0]
    assert "Processed in full by aten::mean" in one.evidence[1]
    same = [[[640, 4], [64, 4]] for _ in range(10)]
    window = [[[576, 4], [64, 4]] for _ in range(10)]  # the last ten pieces
    assert [joining.from_step_to_step(stepping(shapes)) for shapes in (same, window, grows[:4])] == [[], [], []]


def test_joins_that_copy_nothing_twice():
    assert joining.piece_by_piece(joined([[[3 * n, 2], [3, 2]] for n in range(15)])) == [], "few pieces"
    assert joining.piece_by_piece(joined([[[64, 8], [64, 8]] for _ in range(60)])) == [], "none is of another"
    dense = [[[64, n], [64, 1]] for n in range(1, 40)]
    assert joining.piece_by_piece(joined(dense, layer="block1")) == [], "so a network is built"
    for shapes in ("[]", "[" * 100_000, "[[[1, 2]]", '[["x"]]', "[[[-1, 2], [1, 2]]]"):
        assert joining.piece_by_piece(joined([shapes] * 40)) == [], "unknown shapes"
