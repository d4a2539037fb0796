"""Lines of scripts: which functions are watched, and that hits and times are right in frames that were running already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.attribution.host_lines import timeline
from kernelscope.tracer.inside.profiling import focus
from kernelscope.tracer.outside import interpreters
from kernelscope.tracer.outside.staging import stage

SCRIPT = Path(__file__).parent / "children" / "line_steps.py"
SOURCE = SCRIPT.read_text().splitlines()
STEPS = 5


def _line(text: str) -> int:
    return SOURCE.index(text) + 1


@pytest.fixture(scope="module", params=["3.6", "3.8", "3.11", "3.12", "3.13"])
def python(request: pytest.FixtureRequest) -> str:
    """Each interpreter that is there: they tell lines in different ways."""
    if sys.version_info[:2] == tuple(map(int, request.param.split("."))):
        return sys.executable
    found = interpreters.find(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} on this machine")
    return str(found.path)


def _run(python: str, kind: str, folder: Path, *wanted: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(stage(folder / "staged"))}
    done = subprocess.run(
        [python, str(SCRIPT), kind, str(folder), *wanted], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def _timings(folder: Path) -> dict[str, dict[int, tuple[int, int]]]:
    record = json.loads((folder / "lines.json").read_text())
    assert record["unit_s"] == 1e-9
    return {one["function"]: {line: (hits, time) for line, hits, time in one["timings"]} for one in record["functions"]}


def test_the_functions_that_hold_the_loop_and_what_they_call(python: str, tmp_path: Path) -> None:
    report = _run(python, "lines", tmp_path)
    found = _timings(tmp_path)
    assert report["lines_root"] == "train"
    assert set(found) == {"<module>", "main", "train", "train_step", "batches", "Model.call", "Layer.forward"}
    hits = {line: count for line, (count, _) in found["train"].items()}
    assert hits[_line("        train_step(model, batch)")] == STEPS
    assert hits[_line("        model.sizes = [number * 2 for number in range(3)]")] == STEPS
    assert found["batches"][_line("        yield number")][0] == STEPS
    assert found["Model.call"][_line("                failing()")][0] == 2 * STEPS
    assert found["main"] == {_line("    train()"): (0, sum(time for _, time in found["train"].values()))}


def test_a_running_functions_lines_add_up_to_the_steps(python: str, tmp_path: Path) -> None:
    """From the end of one step to that of the next: what lies between them is our own."""
    began = _run(python, "lines", tmp_path)["began"]
    total = sum(time for _, time in _timings(tmp_path)["train"].values())
    assert 0 < total <= began[-1] - began[0]


def test_what_was_asked_for_is_watched_and_nothing_else(python: str, tmp_path: Path) -> None:
    report = _run(python, "lines", tmp_path, "line_steps.py:Model.call", "children/line_steps.py:shifted", "other.py:shifted")
    assert set(_timings(tmp_path)) == {"Model.call", "shifted"}
    assert report["focus_missed"] == ["other.py:shifted"]


def test_the_timeline_of_lines(python: str, tmp_path: Path) -> None:
    _run(python, "kernels", tmp_path)
    table = timeline(tmp_path)
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    assert (end[:-1] <= start[1:]).all()
    lines = set(zip(table["function"].astype(str), table["line"], strict=True))
    assert ("train", _line("        train_step(model, batch)")) in lines
    assert ("Model.call", _line("                x += 1")) in lines
    assert "shifted" not in {function for function, _ in lines}


_TRACES = """
import sys
from kernelscope.tracer.inside.profiling import focus, host_lines

class Counter:  # as line_profiler does it
    kernelscope_codes = {}
    def enable_by_count(self):
        sys.settrace(lambda *_: None)
    def disable_by_count(self):
        sys.settrace(None)

def own(*_):
    return own

host_lines._line_profiler = lambda codes: Counter() if "counts" in sys.argv else None
host_lines._counts = lambda profiler: {}
sys.modules["line_profiler"] = type("Stub", (), {"__version__": "4"})
kind = host_lines.Timeline if "kernels" in sys.argv else host_lines.Totals
lines = kind(focus.Focus([], []), sys.argv[1])
lines._learning = 0
lines.begin()
sys.settrace(own)
lines.end(True, 1, 2)
print(sys.gettrace() is own)
lines.begin()
lines.close()
print(sys.gettrace() is own, lines.unavailable, hasattr(sys, "monitoring"))
"""


@pytest.mark.parametrize("kind", ["kernels", "lines", "counts"])
def test_a_tracer_that_the_script_set_meanwhile_stays(python: str, tmp_path: Path, kind: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(stage(tmp_path / "staged"))}
    line = [python, "-c", _TRACES, str(tmp_path), kind]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stdout.splitlines()
    assert first == "True"
    beside = second.endswith(" True") and kind != "counts"
    assert second.startswith("True None" if beside else "True the script set a tracer of its own")


@pytest.mark.parametrize(
    ("path", "file", "same"),
    [
        ("/home/me/train.py", "train.py", True),
        ("/home/me/pack/train.py", "pack/train.py", True),
        ("/home/me/pack/train.py", "pack.train", True),
        ("/home/me/pack/__init__.py", "pack", True),
        ("train.py", "./train.py", True),
        ("/home/me/pretrain.py", "train.py", False),
        ("/home/me/train.py", "pack.train", False),
    ],
)
def test_how_files_are_named(path: str, file: str, same: bool) -> None:
    assert focus._same_file(path, file) is same
