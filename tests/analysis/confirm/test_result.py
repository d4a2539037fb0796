"""What trials came to: what is tried of a recording, rows with verdicts, what is kept, and how it is said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kernelscope.analysis.confirm import candidates, interventions, result
from kernelscope.analysis.confirm.candidates import Claim
from kernelscope.analysis.confirm.result import UNCHANGED, Together
from kernelscope.analysis.confirm.runs import TrialRun
from kernelscope.reports import confirmed, tables
from kernelscope.tracer.inside import changes

MS = 1_000_000
RECORD = {"framework": "pytorch", "options": {"mode": "train"}}
AFTER = result.after(
    {"a": {"step_ns": 10 * MS}, "b": {"step_ns": 8 * MS}, "parts_by": "kind",
     "parts": [{"part": "optimizer", "delta_ns": -3 * MS}, {"part": "the rest", "delta_ns": MS}]},
    {"advice": [{"title": "convolutions", "saves_ns": MS, "at_most": True}]},
)  # fmt: skip
SETTINGS = ["one-thread", "kept-heap", "sleeping-threads"]


@pytest.fixture(autouse=True)
def no_other_allocator(monkeypatch):
    """As on a machine that has the C library's only."""
    monkeypatch.setattr(interventions, "find_library", lambda _: None)
    interventions.heaps.cache_clear()
    yield
    interventions.heaps.cache_clear()


def outcome(step_ns, reason="", met=("Adam",), values=(2.5, 2.4)):
    return TrialRun(step_ns, reason, met, values, peak_bytes=1000)


def advice(*pieces):
    return candidates.of_advice({"advice": [{"topic": topic, "title": f"about {topic}", "saves_ns": ns} for topic, ns in pieces]})


def runs(*times, **more):
    return [outcome(round(time * MS), **more) for time in times]


def names(found):
    return [one.intervention.name for one in found]


def test_what_advice_asks_for_is_tried_what_promises_most_first():
    found = candidates.candidates("pytorch", advice(("optimizer", 3 * MS), ("fusion", 9 * MS)))
    assert names(found) == ["compiled-model", "fused-optimizer", "foreach-optimizer", *SETTINGS]
    assert [one.claimed_ns for one in found] == [9 * MS, 3 * MS, 3 * MS, None, None, None]
    assert names(candidates.candidates("pytorch", advice(("optimizer", MS)), general=False)) == [
        "fused-optimizer",
        "foreach-optimizer",
    ]


def test_only_what_a_framework_has_is_tried():
    fusion = advice(("fusion", MS))
    assert names(candidates.candidates("mxnet", fusion))[0] == "hybridized"
    assert names(candidates.candidates("keras-tensorflow", fusion))[0] == "xla"
    assert names(candidates.candidates("keras-torch", fusion))[0] == "compiled-model"
    assert names(candidates.candidates("cntk", fusion)) == SETTINGS


def test_named_changes_are_tried_whatever_was_found():
    found = candidates.candidates("pytorch", advice(("fusion", MS)), ["channels-last", "nothing"])
    assert names(found) == ["channels-last", "nothing"]


def test_of_an_explanation_what_makes_the_slower_side_slower_is_tried():
    causes = [("thread count", -4 * MS, "high"), ("input pipeline", MS, "low")]
    found = [{"cause": cause, "title": cause, "explains_ns": ns, "confidence": sure} for cause, ns, sure in causes]
    side, findings = candidates.of_explanation({"wall_delta_ns": -3 * MS, "findings": found})
    assert side == "a"
    assert findings == [Claim("thread count", "thread count", 4 * MS, "high")]
    assert candidates.of_explanation({"wall_delta_ns": 3 * MS, "findings": found})[1][0].topic == "input pipeline"


def test_allocators_are_tried_where_they_are_installed(monkeypatch):
    installed = {"jemalloc": "libjemalloc.so.2"}
    monkeypatch.setattr(interventions, "find_library", installed.get)
    interventions.heaps.cache_clear()
    try:
        [one] = interventions.heaps()
        assert (one.name, one.keep, one.variables) == (
            "jemalloc",
            "LD_PRELOAD=libjemalloc.so.2",
            {"LD_PRELOAD": "libjemalloc.so.2"},
        )
        assert "jemalloc" in interventions.known()
        assert one in interventions.of_framework("mxnet")
    finally:
        interventions.heaps.cache_clear()


def test_what_a_workload_has_already_is_not_tried_unless_it_is_named():
    found = advice(("dispatch", 3 * MS))

    def of(settings, *only):
        return names(candidates.candidates("tensorflow", found, only, general=False, settings=settings))

    assert of({"execution": "eager", "xla_jit": "off"}) == ["graphs", "xla"]
    assert of({"execution": "graph (tf.function)", "xla_jit": "off"}) == ["xla"]
    assert of({"execution": "graph (tf.function)", "xla_jit": "jit_compile"}) == []
    assert of({"execution": "graph (tf.function)"}, "graphs") == ["graphs"]


def test_nothing_is_to_keep_where_separate_runs_show_no_effect():
    found = candidates.candidates("pytorch", advice(("optimizer", 2 * MS)), ["fused-optimizer"])
    trials = {UNCHANGED: runs(10, 11, 10, 11), "fused-optimizer": runs(8, 9, 8, 9)}

    def told(*times):
        together = Together(("fused-optimizer",), "both", {UNCHANGED: runs(10, 11, 10, 11), "both": runs(*times)}, ())
        said = result.result("run", RECORD, [], result.tried(found, trials), trials, together, [], {})
        return said["keep"], confirmed.answer(said)

    lines, answer = told(8, 9.1, 8, 9)
    assert lines == ["torch.optim.Adam(..., fused=True)"]
    assert "fused-optimizer makes it" in answer
    lines, answer = told(3, 14, 12, 9)
    assert lines == []
    assert "separate runs showed no sure effect" in answer
    assert "try again on an idle machine, or with more --rounds, before you keep it" in answer


def test_vectors_are_widened_where_processors_have_wider_ones(monkeypatch, tmp_path):
    for flags, there in (("fpu avx2 avx512f avx512dq", True), ("fpu avx2 avx512_bf16", False)):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
        monkeypatch.setattr(interventions, "_PROCESSORS", tmp_path / "cpuinfo")
        assert ("wide-vectors" in [one.name for one in interventions.of_framework("jax")]) is there


def test_a_variable_with_several_settings_keeps_the_program_s_own_and_is_one_line_to_keep():
    assert interventions.combined(
        {"XLA_FLAGS": "--xla_a=1", "OMP_NUM_THREADS": "1"}, {"XLA_FLAGS": "--xla_b=2", "OMP_NUM_THREADS": "2"}
    ) == {
        "XLA_FLAGS": "--xla_a=1 --xla_b=2",
        "OMP_NUM_THREADS": "2",
    }
    found = candidates.candidates("jax", [], ["hidden-communication", "one-thread"])
    several = {one.intervention.name: runs(8, 8, 8, 8) for one in found}
    base = {UNCHANGED: runs(10, 10, 10, 10)}
    rows = result.tried(found, {**base, **several})
    both = Together(("hidden-communication", "one-thread"), "both", {**base, "both": runs(7, 7, 7, 7)}, ())
    said = result.result("run", {**RECORD, "framework": "jax"}, [], rows, {**base, **several}, both, [], {})
    assert said["keep"] == ["XLA_FLAGS='--xla_gpu_enable_latency_hiding_scheduler=true --xla_cpu_multi_thread_eigen=false'"]


def test_what_makes_a_framework_s_layer_slower_than_another_s_is_tried_where_a_setting_selects_other_kernels():
    def of(cause, framework):
        said = {"cause": cause, "title": "computes pool1 with aten", "explains_ns": 2 * MS, "confidence": "medium"}
        side, claims = candidates.of_explanation({"wall_delta_ns": 3 * MS, "findings": [said]})
        assert side == "b"
        return names(candidates.candidates(framework, claims, general=False))

    assert of("slower library", "pytorch") == ["compiled-model", "channels-last"]
    assert of("slower library", "tensorflow") == ["xla"]
    assert of("slower library", "cntk") == []
    assert of("convolution algorithm", "pytorch") == ["channels-last", "cudnn-benchmark"]
    assert of("library switched off", "mxnet") == ["onednn-on"]
    assert of("layout conversions", "mxnet") == ["hybridized"]
    assert of("optimizer implementation", "mxnet") == ["aggregated-updates"]
    assert of("recomputation", "mxnet") == ["no-mirror"]


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
    found = advice(("optimizer", 2 * MS), ("fusion", 5 * MS), ("input pipeline", 6 * MS), ("mixed precision", MS))
    mine = [one for one in candidates.candidates("pytorch", found) if one.intervention.name != "one-thread"]
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
    rows = result.tried(mine, outcomes)
    kept = result.worth_keeping(rows)
    together = Together(("fused-optimizer",), "fused-optimizer", outcomes, (("kept-heap", "fused-optimizer"),))
    judged = result.of_findings([*found, Claim("casts", "about casts", MS)], mine, rows)
    return result.result("run", RECORD, judged, rows, outcomes, together, mine[:1], AFTER), kept


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


def test_each_finding_is_judged_by_the_change_that_answers_it_best(said):
    found = [(row["topic"], row["verdict"], row["change"], row["reason"]) for row in said[0]["findings"]]
    assert found == [
        ("input pipeline", "confirmed", "one-batch", None),
        ("fusion", "could not be tried", "compiled-model", "the program ended with status 1: no compiler"),
        ("optimizer", "confirmed", "fused-optimizer", None),
        ("mixed precision", "confirmed", "bfloat16", None),
        ("casts", "could not be tried", None, "no change from outside answers it"),
    ]


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
    assert "no change from outside answers it" in text
    assert "### Where the time went, by kind (recorded once each, with steps of 10.00 ms and 8.00 ms)" in text
    assert "3.00 ms  optimizer\n" in text
    assert "### What remains\n\n- convolutions: at most 1.00 ms" in text
    assert "upper bound: no remedy" in text
    assert "kept-heap does not help in addition to fused-optimizer." in confirmed.notes(said[0])
    assert "Not tried for lack of time (--budget): loader-workers." in confirmed.notes(said[0])
    assert json.loads(tables.to_json(said[0]))["schema"] == result.SCHEMA


def test_what_helps_with_other_results_is_in_the_answer_where_nothing_else_helps(said):
    whole = {**said[0], "together": None, "keep": [], "account": None}
    row = next(row for row in whole["tried"] if row["name"] == "bfloat16")
    low, high = (f"{ns / 1e6:.2f}" for ns in row["interval_ns"])
    assert confirmed.answer(whole) == (
        f"A step takes 10.50 ms; bfloat16 makes it 2.98 ms shorter (28%; between {low} and {high} ms), with other results "
        "(models compute in bfloat16); no tried change is known to help without changing results."
    )
    text = confirmed.markdown(whole)
    assert "If other results are acceptable:\n\n    with torch.autocast(device_type, dtype=torch.bfloat16):\n" in text
    assert "OMP_WAIT_POLICY" not in text, "losses that differ without a reason are none to keep it"
    rest = {**whole, "tried": [one for one in whole["tried"] if one["name"] in ("one-batch", "sleeping-threads")]}
    assert confirmed.answer(rest).startswith("A step takes 10.50 ms; no tried change is known to help without ")


def test_nothing_helps(said):
    whole = {**said[0], "together": None, "keep": [], "tried": [row for row in said[0]["tried"] if row["name"] == "kept-heap"]}
    seen = "(more than 0.59 ms, 6% of a step, would have been visible; more --rounds would show smaller effects)"
    low, high = whole["tried"][0]["interval_ns"]
    assert round((high - low) / 2e6, 2) == 0.59
    assert confirmed.answer(whole) == f"A step takes 10.50 ms; the tried change does not help {seen}."
    assert confirmed.answer({**whole, "tried": whole["tried"] * 2}).endswith(f"; none of the 2 tried changes helps {seen}.")
    blind = {**whole["tried"][0], "interval_ns": [-5_000_000, 5_000_000]}
    assert "; the trials cannot tell whether the change helps: only more than 5.00 ms, 48% of a step" in confirmed.answer(
        {**whole, "tried": [blind]}
    )


def test_what_is_kept_is_said_with_the_step_of_its_own_runs(said):
    together = {
        "names": ["graphs"],
        "step_ns": 60 * MS,
        "saved_ns": 54 * MS,
        "interval_ns": [53 * MS, 55 * MS],
        "p": 0.0,
        "dropped": [],
    }
    text = confirmed.answer({**said[0], "step_ns": 50 * MS, "together": together})
    assert text == "A step takes 60.00 ms; graphs makes it 54.00 ms shorter (90%; between 53.00 and 55.00 ms)."


def test_beside_other_work_changes_of_threads_are_not_kept():
    found = candidates.candidates("pytorch", [], ("one-thread", "kept-heap"))
    busy = [TrialRun(step_ns * MS, foreign_cores=1.5, cores=2) for step_ns in (130, 131, 132, 133)]
    tried = {
        "unchanged": busy, "one-thread": [replace(run, step_ns=60 * MS) for run in busy],
        "kept-heap": [replace(run, step_ns=run.step_ns - 9 * MS) for run in busy],
    }  # fmt: skip
    rows = result.tried(found, tried)
    assert result.busy(tried) == {"cores": 2, "others": 1.5}
    assert result.worth_keeping(rows) == ["one-thread", "kept-heap"]
    assert result.worth_keeping(rows, result.busy(tried)) == ["kept-heap"]
    said = result.result("run", RECORD, [], rows, tried, None, [], {})
    assert confirmed.answer(said).endswith("Other processes kept 1.5 of 2 cores busy: results may differ on an idle machine.")
    assert any(
        "Not kept because other processes on the machine" in note and "one-thread" in note for note in confirmed.notes(said)
    )


def test_recordings_that_met_other_work_do_not_say_where_the_time_went(said):
    account = {**said[0]["account"], "a_ns": 124 * MS}
    text = confirmed.markdown({**said[0], "account": account})
    assert "### Where the time went is unknown" in text
    assert "the recording of the unchanged program has steps of 124.00 ms, its trials of 10.50 ms" in text
    assert "the recording of the changed program" not in text


def test_changes_that_noise_hides_are_named_with_the_rounds_that_show_them(said):
    found = candidates.candidates("pytorch", [Claim("fusion", "chains", 2 * MS)], ("compiled-model", "kept-heap"))
    tried = {UNCHANGED: runs(20, 22, 20, 22), "compiled-model": runs(19, 21.9, 20, 21), "kept-heap": runs(20, 21.9, 20.1, 22)}
    whole = result.result("run", RECORD, [], result.tried(found, tried), tried, None, [], {})
    by_name = {row["name"]: row for row in whole["tried"]}
    low, high = by_name["compiled-model"]["interval_ns"]
    assert low < 0 < MS < high, "half of what was claimed is possible"
    [note] = [note for note in confirmed.notes(whole) if "too large to rule out" in note]
    assert "compiled-model (may save up to 1.88 ms), kept-heap (may save up to 1.27 ms)" in note
    # Half of the widest interval is 1.36 times the least that matters, which is below 1.5, the least that rounds are meant for
    assert note.endswith("repeat with --rounds 9."), "4 rounds times the square of 1.5"
    sure = {**whole, "tried": [{**by_name["kept-heap"], "interval_ns": [-MS // 2, MS // 2]}]}
    assert not any("too large to rule out" in note for note in confirmed.notes(sure)), "half a ms is no 5% of 21"


def test_each_finding_gets_a_trial_before_any_gets_a_second():
    found = candidates.candidates("pytorch", advice(("optimizer", 9 * MS), ("input pipeline", 3 * MS)))
    assert names(found)[:2] == ["fused-optimizer", "loader-workers"]
    assert names(found).index("foreach-optimizer") == 2
