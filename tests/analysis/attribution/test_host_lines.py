"""Host lines on a timeline: innermost lines, whose work it is, and sums that are the step exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.attribution.host_lines import FILE, OUTSIDE, UNKNOWN, timeline
from kernelscope.analysis.trace import Trace, conform

_LOOP_SOURCE = ["def train():\n", "    for x in data:\n", "        step(\n", "            x,\n", "        )\n"]
_STEP_SOURCE = ["def step(x):\n", "    loss = net(x)\n", "    loss.backward()\n"]
_FUNCTIONS = [
    {"file": "train.py", "function": "train", "first_line": 10, "source": _LOOP_SOURCE},
    {"file": "train.py", "function": "step", "first_line": 1, "source": _STEP_SOURCE},
]
ENTERED, LEFT = 0, -1
# time, function (0 train, 1 step), line; the loop's function was running, in its line 12, when watching began
_EVENTS = [
    (0, 0, ENTERED), (0, 0, -1 - 12), (100, 0, 11), (110, 0, 12), (115, 0, 13), (120, 0, 12), (130, 1, ENTERED), (140, 1, 2),
    (200, 1, 3), (290, 1, LEFT), (310, 0, 11),
]  # fmt: skip


def _written(folder: Path, **changed: Any) -> Path:
    times, functions, lines = zip(*_EVENTS, strict=True)
    session = {"time_ns": times, "function": functions, "line": lines, "end_ns": 330, **changed}
    (folder / FILE).write_text(json.dumps({"thread": 7, "functions": _FUNCTIONS, "sessions": [session]}))
    return folder


def _pieces(table: pd.DataFrame) -> list[tuple[int, int, str, int]]:
    return list(zip(table["start_ns"], table["end_ns"], table["function"], table["line"], strict=True))


def test_each_instant_has_its_innermost_statement(tmp_path: Path) -> None:
    table = timeline(_written(tmp_path))
    assert _pieces(table) == [
        (0, 100, "train", 12), (100, 110, "train", 11), (110, 115, "train", 12), (115, 120, "train", 12), (120, 130, "train", 12),
        (130, 140, "step", 1), (140, 200, "step", 2), (200, 290, "step", 3), (290, 310, "train", 12), (310, 330, "train", 11),
    ]  # fmt: skip
    assert table["text"].iloc[0] == "step( x, )"
    assert (table["thread"] == 7).all()


def test_a_call_whose_end_was_not_told_ends_with_what_comes_after_it(tmp_path: Path) -> None:
    rows = [event for event in _EVENTS if event[2] != LEFT]
    times, functions, lines = zip(*rows, strict=True)
    table = timeline(_written(tmp_path, time_ns=times, function=functions, line=lines))
    assert _pieces(table)[-2:] == [(200, 310, "step", 3), (310, 330, "train", 11)]


def test_a_pass_without_lines_has_none(tmp_path: Path) -> None:
    assert timeline(tmp_path).empty


@pytest.mark.parametrize(
    "changed", [{"line": [1]}, {"function": [9] * len(_EVENTS)}, {"end_ns": "soon"}, {"time_ns": None}, {"time_ns": ["x"] * 11}]
)
def test_files_that_nobody_wrote_so_are_errors(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match="cannot be read as lines"):
        timeline(_written(tmp_path, **changed))


def _trace(folder: Path, kernels: list[dict[str, Any]], framework: str = "pytorch") -> Trace:
    steps = {"step": [0], "window": [0], "warmup": [False], "thread": [7], "start_ns": [100], "end_ns": [320]}
    common = {"count": 1, "device": "cpu", "kind": "elementwise", "phase": "other", "name": "k", "library": "aten"}
    rows = [{**common, "duration_ns": row["end_ns"] - row["start_ns"], **row} for row in kernels]
    return Trace(
        steps=conform("steps", pd.DataFrame(steps)),
        kernels=conform("kernels", rows),
        host_lines=timeline(_written(folder)),
        info={"framework": framework},
    )


def _rows(trace: Trace) -> dict[tuple[str, Any], tuple[int, int, int]]:
    table = breakdown(trace, "line").table
    assert table["time_ns"].sum() == table["host_ns"].sum() == 220
    assert (table["time_ns"] == table["device_ns"] + table["idle_ns"]).all()
    keys = zip(table["function"], table["line"].astype(object).where(table["line"].notna(), None), strict=True)
    return dict(zip(keys, zip(table["host_ns"], table["device_ns"], table["idle_ns"], strict=True), strict=True))


def test_work_of_the_cpu_belongs_to_the_line_that_computes_it(tmp_path: Path) -> None:
    """Two kernels overlap for 10 ns, which both have half of; one runs across a line's end and stays with its own."""
    kernels = [{"start_ns": 150, "end_ns": 190}, {"start_ns": 180, "end_ns": 210}, {"start_ns": 90, "end_ns": 105}]
    rows = _rows(_trace(tmp_path, kernels))
    assert rows == {
        ("train", 11): (20, 0, 15),
        ("train", 12): (40, 5, 40),
        ("step", 1): (10, 0, 10),
        ("step", 2): (60, 60, 10),
        ("step", 3): (90, 0, 80),
    }


def test_work_of_a_gpu_belongs_to_the_line_that_launched_it(tmp_path: Path) -> None:
    """Launched from line 2 by the loop's thread and during line 3 by another one; of the third no launch is known."""
    kernels = [
        {"device": "cuda:0", "start_ns": 210, "end_ns": 260, "launch_ns": 150, "launch_thread": 7},
        {"device": "cuda:0", "start_ns": 260, "end_ns": 320, "launch_ns": 205, "launch_thread": 8},
        {"device": "cuda:0", "start_ns": 120, "end_ns": 130},
    ]
    rows = _rows(_trace(tmp_path, kernels))
    assert rows["step", 2] == (60, 50, 60)
    assert rows["step", 3] == (90, 60, 10)
    assert rows[UNKNOWN, None] == (0, 10, 0)
    assert breakdown(_trace(tmp_path, kernels), "line").coverage == pytest.approx(210 / 220)


def test_work_behind_the_hosts_back_has_no_line(tmp_path: Path) -> None:
    rows = _rows(_trace(tmp_path, [{"start_ns": 150, "end_ns": 190}], framework="mxnet"))
    assert rows[UNKNOWN, None] == (0, 40, 0)
    assert rows["step", 2] == (60, 0, 20)


def test_what_no_line_covers_is_outside(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [])
    trace.host_lines = trace.host_lines[trace.host_lines["function"] == "step"]
    assert _rows(trace)[OUTSIDE, None] == (60, 0, 60)


def test_the_line_profilers_numbers_stand_beside(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [])
    place = {"file": "train.py", "function": "step", "line": 2, "last_line": 2, "text": "loss = net(x)"}
    trace.lines = conform("lines", [{**place, "hits": 4, "time_ns": 444}])
    trace.info["lines_steps"] = 4
    table = breakdown(trace, "line").table
    found = table[table["profiled_ns"].notna()]
    assert found[["line", "count", "duration_ns", "profiled_ns"]].to_numpy().tolist() == [[2, 1, 111, 111]]
