"""The budget of the layers pass: which ranges stay, which layer then holds whose time, and that PyTorch's are as chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.sides import load
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.profiling import budget
from kernelscope.tracer.inside.ranges import Recorder

SCRIPT, LEAST = (Path(__file__).parent / "children" / name for name in ("train_tiny.py", "train_least.py"))
COSTS = budget.Costs(10.0, forward=1.0, backward=1.0, hook=1.0, other=1.0)


def _call(start: int, end: int, layer: str, phase: str = "forward", thread: int = 1) -> tuple[Any, ...]:
    return (thread, start, end, "layer", layer, layer, phase, 0)


def _phase(start: int, end: int, name: str) -> tuple[Any, ...]:
    return (1, start, end, "phase", name, None, name, 0)


# a model of a block with two convolutions and a head; the gradients of these three, and the phase around them
STEP = [
    _call(0, 1000, "net"), _call(100, 800, "block"), _call(110, 700, "block.conv1"), _call(700, 790, "block.conv2"),
    _call(850, 935, "head"), _phase(1000, 2000, "backward"), _call(1000, 1100, "head", "backward", 2),
    _call(1100, 1200, "block.conv2", "backward", 2), _call(1200, 1900, "block.conv1", "backward", 2),
]  # fmt: skip


def test_nothing_changes_where_all_ranges_fit() -> None:
    """Five calls, three gradients with their hooks and one phase are 5 + 6 + 1 times 10 ns: 2.5% of 4,800 ns and more."""
    assert budget.choose(STEP, {0: 120 + 4802}, COSTS) is None
    assert budget.choose(STEP, {0: 120 + 4788}, COSTS) is not None


def test_the_layers_with_most_time_for_their_cost_stay_and_those_around_them() -> None:
    """A clean step of 2,100 ns gives 52 ns: one for the phase, and four for calls; the fifth, of the head, holds least."""
    choice = budget.choose(STEP, {0: 2100 + 120}, COSTS)
    assert choice is not None
    assert choice.kept == {"forward": {"net", "block", "block.conv1", "block.conv2"}, "backward": set()}
    assert choice.left_out["forward"] == {"head": ["net"]}
    assert choice.left_out["backward"] == {"head": [None], "block.conv1": [None], "block.conv2": [None]}
    assert choice.share == pytest.approx(120 / 2100)
    assert choice.kept_share == pytest.approx(50 / 2100)
    assert "6% of a step" in choice.text()
    assert "1 of 5 forward, 3 of 3 backward" in choice.text()
    assert choice.phases
    assert "phases" not in choice.text()


def test_the_step_counts_in_which_ranges_weigh_most() -> None:
    later = [(*row[:7], 1) for row in STEP]
    assert budget.choose(STEP + later, {0: 9000 + 120, 1: 4802 + 120}, COSTS) is None
    choice = budget.choose(STEP + later, {0: 9000 + 120, 1: 2100 + 120}, COSTS)
    assert choice is not None
    assert choice.share == pytest.approx(120 / 2100)


def test_where_not_even_phases_fit_there_are_none() -> None:
    choice = budget.choose(STEP, {0: 200 + 120}, COSTS)
    assert choice is not None
    assert choice.kept == {"forward": set(), "backward": set()}
    assert choice.left_out["forward"]["block.conv1"] == [None]
    assert not choice.phases
    assert choice.kept_share == 0
    assert choice.text().endswith("so are the phases' ranges, which alone would take 5%")


def test_gradients_stay_where_they_hold_more_and_their_hooks_are_paid_for() -> None:
    """conv1's gradients hold 7,800 ns for two prices; of 92 ns the phase takes one, all calls five, and these two."""
    long = [*STEP[:-1], _call(1200, 9000, "block.conv1", "backward", 2)]
    choice = budget.choose(long, {0: 3710 + 120}, COSTS)
    assert choice is not None
    assert choice.kept["backward"] == {"block.conv1"}
    assert choice.kept["forward"] == {"net", "block", "block.conv1", "block.conv2", "head"}


def test_a_shared_layer_is_held_by_all_that_call_it() -> None:
    step = [_call(0, 400, "a"), _call(10, 30, "shared"), _call(500, 900, "b"), _call(510, 530, "shared (2)")]
    choice = budget.choose(step, {0: 40 + 1204}, COSTS)
    assert choice is not None
    assert choice.kept["forward"] == {"a", "b"} or choice.kept["forward"] == {"a", "b", "shared"}
    choice = budget.choose(step, {0: 40 + 840}, COSTS)
    assert choice is not None
    assert choice.kept["forward"] == {"a", "b"}
    assert choice.left_out["forward"] == {"shared": ["a"], "shared (2)": ["b"]}


def test_a_bare_range_costs_something(tmp_path: Any) -> None:
    assert 0 < budget.bare_ns(Recorder(str(tmp_path), layers=True)) < 1_000_000


# --- a real script -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profiled(pytorch_run: Callable[[Path, int], Run]) -> Run:
    return pytorch_run(SCRIPT, 10)


def _layers_pass(run: Run) -> Any:
    """Return the layers pass; skip where the machine was so busy that a range cost more than all of them may."""
    [layers] = run.passes("layers")
    if layers.report["left_out"]["phases"] is False:
        pytest.skip("the machine was too busy for any range in measured steps")
    return layers


def _ranges(run: Run) -> Any:
    trace = run.layers_trace()
    assert trace is not None
    measured = trace.steps[~trace.steps["warmup"]]["step"]
    ranges = trace.ranges[trace.ranges["category"] == "layer"]
    return ranges[ranges["step"].isin(measured)] if "step" in ranges else ranges[ranges["start_ns"] >= _began(trace)]


def _began(trace: Any) -> int:
    return int(trace.steps[~trace.steps["warmup"]]["start_ns"].min())


@pytest.mark.slow
def test_measured_steps_have_the_ranges_that_were_kept_and_no_others(profiled: Run) -> None:
    layers = _layers_pass(profiled)
    left_out, ranges = layers.report["left_out"], _ranges(profiled)
    for way in ("forward", "backward"):
        found = {budget.call_of(name) for name in ranges[ranges["phase"] == way]["layer"].dropna().unique()}
        assert found == set(left_out["kept"][way])
        assert not found & {budget.call_of(name) for name in left_out["layers"][way]}
    assert "cell.inner.0" in left_out["layers"]["forward"]  # 12 times 4 values: its range takes longer than it does
    assert "ranges of all layers would take" in layers.report["methods"]["layers pass"]
    # a range's cost is measured: on a busy machine none may fit, but none is kept without those around it
    assert not left_out["kept"]["forward"] or "Loop" in left_out["kept"]["forward"]


@pytest.mark.slow
def test_the_kernels_pass_has_all_layers(profiled: Run) -> None:
    layers = {budget.call_of(str(name)) for name in breakdown(profiled.trace(), "layer").table["layer"]}
    assert {"Loop", "cell", "cell.inner.0", "cell.inner.1", "cell.outer", "wide.0", "wide.1", "wide.2", "loss"} <= layers


@pytest.mark.slow
def test_explain_takes_layers_that_hold_each_other_as_one(profiled: Run) -> None:
    """The layers pass says what a group of layers takes; the account's rows are of single layers and add up to the clean step."""
    layers, side = _layers_pass(profiled), load(profiled.path)
    if side.layers_ns is None:
        pytest.skip("the machine was so busy that the layers pass took half as long again as the clean one, which tells nothing")
    groups = side.grouped["forward"]
    for layer, holders in layers.report["left_out"]["layers"]["forward"].items():
        assert {groups[layer]} == {groups.get(holder, holder) for holder in holders if holder is not None} or None in holders
    mean = layers.measured["end_ns"].sub(layers.measured["start_ns"]).mean()
    assert side.layers_ns.sum() == pytest.approx(mean, rel=0.5)  # of the half of the windows closest to the clean step
    result = explain(side, side)
    assert sum(row["delta_ns"] for row in result["rows"]) == 0


@pytest.mark.slow
@pytest.mark.long
def test_steps_in_which_not_even_phases_fit_have_no_ranges(pytorch_run: Callable[[Path, int], Run]) -> None:
    """And what recording its kernels cost is taken out by the events, as without a layers pass; the kernels pass has all."""
    run = pytorch_run(LEAST, 20)
    [layers] = run.passes("layers")
    assert layers.report["left_out"]["phases"] is False
    assert "so are the phases' ranges" in layers.report["methods"]["layers pass"]
    rows = [json.loads(line) for line in (layers.folder / "ranges.jsonl").read_text().splitlines()]
    measured = set(layers.measured["step"])
    assert {row["category"] for row in rows if row["step"] in measured} == {"step"}
    assert {"phase", "layer"} < {row["category"] for row in rows}  # of the steps that told what they would cost
    assert run.layers_trace() is None
    assert {"Linear", "(optimizer)"} <= set(breakdown(run.trace(), "layer").table["layer"])
    assert sum(row["delta_ns"] for row in explain(load(run.path), load(run.path))["rows"]) == 0
