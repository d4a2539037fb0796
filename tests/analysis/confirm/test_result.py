"""What trials came to: what is tried of a recording, rows with verdicts, what is kept, and how it is said."""

from __future__ import annotations

import json

import pytest

from kernelscope.analysis.confirm import interventions, result
from kernelscope.analysis.confirm.result import UNCHANGED, Together
from kernelscope.analysis.confirm.runs import Run
from kernelscope.reports import confirmed, tables
from kernelscope.tracer.inside import changes

MS = 1_000_000


def outcome(step_ns, reason="", met=("Adam",), values=(2.5, 2.4)):
    return Run(step_ns, reason, met, values, peak_bytes=1000)


def advice(*pieces, framework="pytorch"):
    found = [{"topic": topic, "title": f"about {topic}", "saves_ns": saves} for topic, saves in pieces]
    return {"framework": framework, "path": "run", "advice": found}


def runs(*times, **more):
    return [outcome(round(time * MS), **more) for time in times]


def names(found):
    return [one.intervention.name for one in found]


def test_what_advice_asks_for_is_tried_what_promises_most_first():
    found = interventions.candidates(advice(("optimizer", 3 * MS), ("fusion", 9 * MS)))
    assert names(found) == ["compiled-model", "fused-optimizer", "foreach-optimizer", "kept-heap", "sleeping-threads"]
    assert [one.claimed_ns for one in found] == [9 * MS, 3 * MS, 3 * MS, None, None]


def test_only_what_a_framework_has_is_tried():
    assert names(interventions.candidates(advice(("fusion", MS), framework="mxnet")))[0] == "hybridized"
    assert names(interventions.candidates(advice(("fusion", MS), framework="keras-tensorflow")))[0] == "xla"
    assert names(interventions.candidates(advice(("fusion", MS), framework="jax"))) == ["kept-heap", "sleeping-threads"]


def test_named_changes_are_tried_whatever_the_advice_is():
    assert names(interventions.candidates(advice(("fusion", MS)), ["channels-last", "nothing"])) == ["channels-last", "nothing"]


@pytest.mark.parametrize("one", interventions.INTERVENTIONS, ids=lambda one: f"{one.name}-{'-'.join(one.frameworks)}")
def test_every_change_can_be_made_and_kept(one):
    assert one.changes or one.variables
    assert one.keep or one.bound
    assert one.topics
    for name in one.changes:
        family, _, change = name.partition(":")
        assert family in changes.MODULES.values()
        module = __import__(f"kernelscope.tracer.inside.changes.{family}", fromlist=["CHANGES"])
        assert module.CHANGES[change].__doc__


@pytest.fixture
def said():
    advised = advice(("optimizer", 2 * MS), ("fusion", 5 * MS), ("input pipeline", 6 * MS), ("mixed precision", MS))
    mine = interventions.candidates(advised)
    outcomes = {
        UNCHANGED: runs(10, 11, 10, 11),
        "fused-optimizer": runs(8, 9.1, 8, 9),
        "foreach-optimizer": runs(9.5, 10.6, 9.6, 10.4, met=()),
        "compiled-model": [outcome(None, "the program ended with status 1: no compiler")],
        "loader-workers": runs(14, 15.2, 14, 15.1),
        "one-batch": runs(5, 6, 5.1, 6),
        "bfloat16": runs(7, 8.1, 7, 8, values=(2.4, 2.2)),
        "kept-heap": runs(10.2, 10.7, 10.1, 11.1, met=()),
        "sleeping-threads": runs(9, 10.1, 9, 10, met=(), values=(2.5, 2.1)),
    }
    rows = result.tried(mine, outcomes, advised)
    kept = result.worth_keeping(rows)
    together = Together(("fused-optimizer",), "fused-optimizer", outcomes, (("kept-heap", "fused-optimizer"),))
    return result.result(advised, rows, outcomes, together, mine[:1]), kept


def test_verdicts(said):
    rows = {row["name"]: row for row in said[0]["tried"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "fused-optimizer": "confirmed", "foreach-optimizer": "nothing to change", "compiled-model": "could not be tried",
        "loader-workers": "made worse", "one-batch": "confirmed", "bfloat16": "confirmed", "kept-heap": "no effect seen",
        "sleeping-threads": "confirmed",
    }  # fmt: skip
    assert rows["fused-optimizer"]["saved_ns"] == pytest.approx(1.975 * MS)
    assert rows["compiled-model"]["reason"].endswith("no compiler")
    assert rows["sleeping-threads"]["results"] == "differ"
    assert rows["fused-optimizer"]["results"] == "same"
    assert rows["bfloat16"]["results"] == "models compute in bfloat16"


def test_only_what_leaves_results_as_they_are_is_kept(said):
    whole, kept = said
    assert kept == ["fused-optimizer"], "neither other results, nor a bound, nor other losses"
    assert whole["keep"] == ["torch.optim.Adam(..., fused=True)"]


def test_a_change_helps_beside_another_where_that_is_sure():
    assert result.helps(runs(10, 11, 10), runs(8, 9.1, 8))
    assert not result.helps(runs(10, 11, 10), runs(10.1, 10.8, 10.2))
    assert not result.helps(runs(8, 9.1, 8), runs(10, 11, 10))
    assert not result.helps(runs(10, 11, 10), [outcome(None)])


def test_it_is_said_in_one_sentence_then_what_to_keep(said):
    text = confirmed.markdown(said[0])
    assert confirmed.answer(said[0]).startswith("A step takes 10.50 ms; fused-optimizer makes it 1.98 ms shorter (19%; between ")
    assert text.startswith("### A step takes 10.50 ms; ")
    assert "    torch.optim.Adam(..., fused=True)" in text
    assert "could not be tried \\(the program ended with status 1: no compiler\\)" in text
    assert "at most to be won: no remedy" in text
    assert "kept-heap does not help beside fused-optimizer." in confirmed.notes(said[0])
    assert "Not tried, for lack of time (--budget): loader-workers." in confirmed.notes(said[0])
    assert json.loads(tables.to_json(said[0]))["schema"] == result.SCHEMA


def test_nothing_helps(said):
    whole = {**said[0], "together": None, "keep": [], "tried": [row for row in said[0]["tried"] if row["name"] == "kept-heap"]}
    assert confirmed.answer(whole) == "A step takes 10.50 ms; nothing helps of 1 changes that were tried."
