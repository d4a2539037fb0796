"""What was changed in the program itself: lines in the step's loop, the batch, functions that are compiled anew."""

import pytest

from kernelscope.analysis.explain.causes import changed_code

MS = 1_000_000


def line(delta_ns, number=4, before=None, in_model=False, called_ns=None):
    """A change of one line. before: its lines in A, which take 2 ms."""
    a_ns = 2 * MS if before else 0
    words = f"train.py line {number} `x = slow(x)`"
    text = {"file": "train.py", "line": number, "text": "x = slow(x)", "words": words, "in_model": in_model}
    times = {"a_ns": a_ns, "b_ns": None if delta_ns is None else a_ns + delta_ns, "delta_ns": delta_ns, "called_ns": called_ns}
    return {**text, **times, "a_lines": before, "b_lines": [number, number]}


ROWS = [
    ("conv", "forward", "convolution forward", 5 * MS, 5 * MS),
    ("(unattributed)", "other", "elementwise", 0, 3 * MS),
    ("(in the program)", "other", "(host: in the program)", MS, 2 * MS),
]


def test_lines_that_were_added_to_the_loop(make_case, make_side):
    case = make_case(ROWS, make_side("A"), make_side("B"))
    case.changes = [line(4 * MS)]
    [found] = changed_code.lines(case)
    assert (found.cause, found.confidence) == ("changed lines", "high")
    assert sum(found.claims.values()) == 4 * MS
    assert set(found.claims) == {"r2", "r3"}
    assert "train.py line 4" in found.title


def test_lines_that_call_keras_loops_have_keras_remedy(make_case, make_side):
    predicting = [("(predict)", "other", "(host: in operators)", 0, 9 * MS), *ROWS]
    case = make_case(predicting, make_side("A"), make_side("B"))
    case.changes = [line(12 * MS, before=[4, 4])]
    [found] = changed_code.lines(case)
    assert "model.predict_on_batch: predict is for whole data sets" in found.remedy
    assert "r1" in found.claims
    case = make_case([("(predict)", "other", "(host: in operators)", 0, MS), *ROWS], make_side("A"), make_side("B"))
    case.changes = [line(5 * MS, before=[4, 4])]
    assert "move it out of the step" in changed_code.lines(case)[0].remedy


@pytest.mark.parametrize(
    "changes", [[], [line(-4 * MS)], [line(None)], [line(MS // 2)]], ids=["none", "faster", "untimed", "small"]
)
def test_lines_that_did_not_move_are_no_cause(changes, make_case, make_side):
    case = make_case(ROWS, make_side("A"), make_side("B"))
    case.changes = changes
    assert changed_code.lines(case) == []


def test_lines_of_the_model_are_for_the_rules_of_layers(make_case, make_side):
    case = make_case([("conv", "forward", "elementwise", MS, 9 * MS)], make_side("A"), make_side("B"))
    case.changes = [line(8 * MS, in_model=True)]
    assert changed_code.lines(case) == []


def test_what_added_lines_run_in_layers_is_theirs(make_case, make_side):
    case = make_case([("conv", "forward", "gemm", 5 * MS, 9 * MS), *ROWS[1:]], make_side("A"), make_side("B"))
    case.changes = [line(6 * MS)]
    [found] = changed_code.lines(case)
    assert round(sum(found.claims.values())) == 8 * MS, "nothing else differs: all of it comes of them"
    case.changes = [line(MS // 10, called_ns=9 * MS)]
    [found] = changed_code.lines(case)
    assert round(sum(found.claims.values())) == 8 * MS, "what they call counts"
    case.changes = [line(6 * MS), line(-2 * MS, number=9, before=[9, 9])]
    [found] = changed_code.lines(case)
    assert round(sum(found.claims.values())) == 6 * MS, "another change does something, too"
    case.changes = [line(6 * MS, before=[4, 4])]
    [found] = changed_code.lines(case)
    assert set(found.claims) == {"r2", "r3"}, "a line that was changed ran the layers before, too"


def test_lines_that_take_little_of_what_they_claim_are_less_sure(make_case, make_side):
    case = make_case([("conv", "forward", "gemm", 5 * MS, 9 * MS), *ROWS[1:]], make_side("A"), make_side("B"))
    case.changes = [line(3 * MS)]
    [found] = changed_code.lines(case)
    assert (round(sum(found.claims.values())), found.confidence) == (8 * MS, "medium")
    assert found.evidence[0].startswith("The lines themselves take 3 ms longer")


def test_a_larger_batch(make_case, make_side):
    case = make_case([("conv", "forward", "gemm", 10 * MS, 18 * MS)], make_side("A", batch=32), make_side("B", batch=64))
    [found] = changed_code.batch(case)
    assert sum(found.claims.values()) == 8 * MS
    assert "32 in A, 64 in B" in found.title


def test_a_batch_explains_no_more_than_as_many_times_the_work(make_case, make_side):
    case = make_case([("conv", "forward", "gemm", 10 * MS, 50 * MS)], make_side("A", batch=32), make_side("B", batch=64))
    [found] = changed_code.batch(case)
    assert sum(found.claims.values()) == 10 * MS


@pytest.mark.parametrize("batches", [(32, 32), (64, 32), (None, 64)])
def test_batches_that_cannot_be_why(batches, make_case, make_side):
    a, b = (make_side(name, batch=batch) for name, batch in zip("AB", batches, strict=True))
    assert changed_code.batch(make_case([("conv", "forward", "gemm", 10 * MS, 18 * MS)], a, b)) == []


def test_compilation_in_each_step(make_case, make_side, make_steps):
    clean = [make_steps(20, 10 * MS)]
    a = make_side("A", clean=clean, compiled={"count": 0, "ns": 0})
    b = make_side("B", clean=clean, compiled={"count": 20, "ns": 20 * 90 * MS})
    case = make_case([("(in the framework)", "other", "(host: in the framework)", MS, 101 * MS)], a, b)
    [found] = changed_code.compilation(case)
    assert (found.cause, round(sum(found.claims.values()))) == ("compilation in each step", 90 * MS)
    case.changes = [line(100 * MS)]
    assert changed_code.lines(case) == []  # the line that calls it is no cause besides


@pytest.mark.parametrize("compiled", [None, {"count": 1, "ns": 90 * MS}], ids=["unknown", "once"])
def test_what_was_compiled_once_is_no_cause(compiled, make_case, make_side, make_steps):
    clean = [make_steps(20, 10 * MS)]
    a, b = make_side("A", clean=clean, compiled={"count": 0, "ns": 0}), make_side("B", clean=clean, compiled=compiled)
    assert (
        changed_code.compilation(make_case([("(in the framework)", "other", "(host: in the framework)", MS, 5 * MS)], a, b)) == []
    )


@pytest.mark.parametrize(
    ("kind", "why", "remedy"),
    [
        ("shape", "the shape of x changes", "pad inputs"),
        ("new", "it is another function each time", "call jax.jit once"),
        ("static value", "the static value of scale changes", "instead of a static argument"),
        ("something else", "nobody knows", "keep shapes, types"),
    ],
)
def test_why_a_function_is_compiled_is_in_the_evidence(kind, why, remedy, make_case, make_side, make_steps):
    clean = [make_steps(20, 10 * MS)]
    functions = [{"name": "train_step", "kind": kind, "why": why, "example": "float32[32,8] after float32[31,8]", "count": 20}]
    a = make_side("A", clean=clean, compiled={"count": 0, "ns": 0, "functions": []})
    b = make_side("B", clean=clean, compiled={"count": 20, "ns": 20 * 90 * MS, "functions": functions})
    [found] = changed_code.compilation(
        make_case([("(in the framework)", "other", "(host: in the framework)", MS, 101 * MS)], a, b)
    )
    said = f"Recompiled: train_step, 20 times in the clean steps: {why} (float32[32,8] after float32[31,8])."
    assert found.evidence[0] == said
    assert remedy in found.remedy
