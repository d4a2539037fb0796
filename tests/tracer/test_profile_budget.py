"""The budget of the layers pass: which ranges stay, which layer then holds whose time, and that PyTorch's are as chosen."""

from __future__ import annotations

from typing import Any

import pytest

from kernelscope.tracer.inside.profiling import budget
from kernelscope.tracer.inside.ranges import Recorder

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
    """Five calls, three gradients with their hooks and one phase are 5 + 6 + 1 times 10 ns: 3.5% of 3,429 ns and more."""
    assert budget.choose(STEP, 120 + 3430, COSTS) is None
    assert budget.choose(STEP, 120 + 3420, COSTS) is not None


def test_the_layers_with_most_time_for_their_cost_stay_and_those_around_them() -> None:
    """A clean step of 1,500 ns gives 52 ns: one for the phase, and four for calls; the fifth, of the head, holds least."""
    choice = budget.choose(STEP, 1500 + 120, COSTS)
    assert choice is not None
    assert choice.kept == {"forward": {"net", "block", "block.conv1", "block.conv2"}, "backward": set()}
    assert choice.left_out["forward"] == {"head": ["net"]}
    assert choice.left_out["backward"] == {"head": [None], "block.conv1": [None], "block.conv2": [None]}
    assert choice.share == pytest.approx(120 / 1500)
    assert choice.kept_share == pytest.approx(50 / 1500)
    assert "8% of a step" in choice.text()
    assert "1 of 5 forward, 3 of 3 backward" in choice.text()


def test_where_not_even_phases_fit_the_text_says_so() -> None:
    choice = budget.choose(STEP, 200 + 120, COSTS)
    assert choice is not None
    assert choice.kept == {"forward": set(), "backward": set()}
    assert choice.left_out["forward"]["block.conv1"] == [None]
    assert choice.text().endswith("the phases' ranges alone take 5%")


def test_gradients_stay_where_they_hold_more_and_their_hooks_are_paid_for() -> None:
    """conv1's gradients hold 7,800 ns for two prices; of 92 ns the phase takes one, all calls five, and these two."""
    long = [*STEP[:-1], _call(1200, 9000, "block.conv1", "backward", 2)]
    choice = budget.choose(long, 2650 + 120, COSTS)
    assert choice is not None
    assert choice.kept["backward"] == {"block.conv1"}
    assert choice.kept["forward"] == {"net", "block", "block.conv1", "block.conv2", "head"}


def test_a_shared_layer_is_held_by_all_that_call_it() -> None:
    step = [_call(0, 400, "a"), _call(10, 30, "shared"), _call(500, 900, "b"), _call(510, 530, "shared (2)")]
    choice = budget.choose(step, 40 + 860, COSTS)
    assert choice is not None
    assert choice.kept["forward"] == {"a", "b"} or choice.kept["forward"] == {"a", "b", "shared"}
    choice = budget.choose(step, 40 + 600, COSTS)
    assert choice is not None
    assert choice.kept["forward"] == {"a", "b"}
    assert choice.left_out["forward"] == {"shared": ["a"], "shared (2)": ["b"]}


def test_a_bare_range_costs_something(tmp_path: Any) -> None:
    assert 0 < budget.bare_ns(Recorder(str(tmp_path), layers=True)) < 1_000_000
