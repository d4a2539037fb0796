"""`steps` as a user calls it: what it prints of marked steps, of steps that are found, and of captures that have none."""

import csv
import io
import json

import pytest

from kernelscope.cli import main

STEPS = 6
GAP = 100  # µs between steps


def _event(name, category, start, duration, thread, **arguments):
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration, "pid": 1, "tid": thread, "args": arguments}


def capture(path, marks="ProfilerStep#{}", steps=STEPS, kernels=("embed", "gemm_a", "gemm_b", "loss"), device=True):
    """Write a torch.profiler trace: steps of kernels of 500 us each, one after another, and 100 us in which the device idles."""
    events = []
    length = 500 * len(kernels) + GAP
    for step in range(steps):
        start = 1000 + length * step  # a time of 0 is none
        if marks:
            events.append(_event(marks.format(step), "user_annotation", start, length - 10, 10))
        for place, name in enumerate(kernels):
            number = step * len(kernels) + place + 1
            at = start + 500 * place
            events.append(_event("cudaLaunchKernel", "cuda_runtime", at + 5, 2, 10, correlation=number))
            if device:
                name = name.format(step)
                events.append(_event(name, "kernel", at + 20, 500, 7, correlation=number, device=0, stream=7))
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A GPU"}], "traceEvents": events}
    path.write_text(json.dumps(trace))
    return path


def steps(capsys, *arguments):
    """Return (exit status, stdout, stderr)."""
    try:
        status = main.main(["steps", *map(str, arguments)])
    except SystemExit as left:
        status = left.code
    return status, *capsys.readouterr()


def rows(capsys, *arguments):
    status, out, err = steps(capsys, *arguments, "--format", "json")
    assert status == 0, err
    content = json.loads(out)
    assert content["schema"] == "kernelscope/steps/1"
    return content["rows"]


def test_names_cannot_steer_the_terminal(tmp_path, capsys):
    path = capture(tmp_path / "a.json", kernels=("\x1b]0;title\x07", "gemm_a", "gemm_b"))
    status, out, err = steps(capsys, path)
    assert status == 0, err
    assert "each begins with \\x1b]0;title\\x07" in out
    assert "\x1b" not in out + err


def test_steps_that_the_profiler_marks(tmp_path, capsys):
    found = rows(capsys, capture(tmp_path / "a.json"))
    assert [row["step"] for row in found] == list(range(STEPS))
    assert [row["kernels"] for row in found] == [4] * STEPS
    assert [row["busy_ms"] for row in found] == pytest.approx([2.0] * STEPS)
    assert [row["step_ms"] for row in found][1:-1] == pytest.approx([2.1] * (STEPS - 2))
    assert [row["of_usual"] for row in found] == pytest.approx([1.0] * STEPS, abs=0.06)
    assert found[0]["start_ms"] == pytest.approx(-0.02, abs=0.011)  # of the device's first work, as windows are
    assert [row["start_ms"] for row in found] == sorted(row["start_ms"] for row in found)
    assert {(row["method"], row["confidence"]) for row in found} == {("profiler", "high")}


def test_steps_that_are_found_say_how(tmp_path, capsys):
    status, out, _ = steps(capsys, capture(tmp_path / "a.json", marks="train_step {}"))
    assert status == 0
    assert "from one range to the next" in out
    assert "train_step" in out
    assert "confidence high" in out
    assert "or: " in out  # the period of the kernels says the same, as another way to find them


def test_what_else_marked_steps_may_be(tmp_path, capsys):
    status, out, _ = steps(capsys, capture(tmp_path / "a.json"))
    assert status == 0
    assert "marked by the profiler" in out
    assert "or: " in out
    assert "the period of the kernels" in out
    assert "or: " not in steps(capsys, tmp_path / "a.json", "--steps", "period")[1]


def test_steps_from_the_period_of_the_kernels(tmp_path, capsys):
    found = rows(capsys, capture(tmp_path / "a.json", marks=""))
    assert len(found) in (STEPS - 2, STEPS - 1)
    assert [row["step_ms"] for row in found] == pytest.approx([2.1] * len(found), rel=0.02)


def test_other_steps_on_request(tmp_path, capsys):
    path = capture(tmp_path / "a.json")
    assert len(rows(capsys, path, "--steps", "kernel:^loss")) == STEPS - 1
    assert len(rows(capsys, path, "--device", "cuda:0")) == STEPS


def test_formats(tmp_path, capsys):
    path = capture(tmp_path / "a.json")
    status, out, _ = steps(capsys, path, "--format", "csv")
    assert status == 0
    table = list(csv.DictReader(io.StringIO(out)))
    assert [int(row["step"]) for row in table] == list(range(STEPS))
    status, out, _ = steps(capsys, path, "--format", "markdown")
    assert status == 0
    assert sum(line.startswith("|") for line in out.splitlines()) == STEPS + 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"marks": "", "steps": 1}, "nothing in it repeats"),
        ({"marks": "", "device": False}, "no kernels"),
        ({"marks": "", "kernels": ("one{}", "two{}", "three{}")}, "nothing in it repeats"),
    ],
)
def test_captures_without_steps_say_why(tmp_path, capsys, options, said):
    status, out, err = steps(capsys, capture(tmp_path / "a.json", **options))
    assert status == 0
    assert said in out + err


def test_the_whole_on_request_has_no_steps(tmp_path, capsys):
    status, out, err = steps(capsys, capture(tmp_path / "a.json"), "--steps", "whole")
    assert status == 0
    assert "no steps" in out + err


def test_json_is_json_where_there_are_no_steps(tmp_path, capsys):
    assert rows(capsys, capture(tmp_path / "a.json", marks="", steps=1)) == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--steps", "kernel:("], 2, "regular expression"),
        (["--steps", "often"], 2, "--steps"),
        (["--steps", "range:none of the kind"], 3, "no range has that name"),
        (["--steps", "period", "--device", "cuda:5"], 3, "cuda:5"),
    ],
)
def test_what_cannot_be_had_is_said(tmp_path, capsys, arguments, status, said):
    got, _, err = steps(capsys, capture(tmp_path / "a.json"), *arguments)
    assert got == status
    assert said in err


def test_a_device_that_is_not_there_is_said_with_marked_steps_too(tmp_path, capsys):
    got, _, err = steps(capsys, capture(tmp_path / "a.json"), "--device", "cuda:5")
    assert got == 3
    assert "device" in err


def test_what_is_no_capture(tmp_path, capsys):
    (tmp_path / "a.json").write_text("{}")
    assert steps(capsys, tmp_path / "a.json")[0] == 3
    assert steps(capsys, tmp_path / "none.json")[0] == 3
