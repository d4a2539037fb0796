"""Passes end, and what is recorded stays small, however long a script runs."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.recordings.run import Run
from tests.tracer.toy import TOY, measured, profiled, steps_of


@pytest.mark.long
@pytest.mark.slow
def test_the_oldest_parts_make_room(tmp_path: Path) -> None:
    """2500 clean steps of 290 bytes and ranges of the layers pass are more than 1 MB; what remains is whole and the newest."""
    folder = tmp_path / "run"
    options = ("--steps", "2500", "--warmup", "0", "--max-trace-size", "1MB", "--seconds", "100")
    environment = {**os.environ, "TOY_TRACE": "100"}
    done = profiled(folder, sys.executable, str(TOY), "7000", options=options, env=environment)
    record = json.loads((folder / "run.json").read_text())
    layers = record["passes"]["layers"]
    assert f"layers: the first {layers['dropped_steps']} steps were dropped to stay below --max-trace-size" in done.stderr
    rows = [row for place in layers["folders"] for row in _json_rows(folder / place / "steps.jsonl") if not row["warmup"]]
    assert len(rows) + layers["dropped_steps"] == 1250
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    assert len(layers["folders"]) < 10


def test_a_pass_that_takes_long_ends(tmp_path: Path) -> None:
    options = ("--steps", "100", "--warmup", "0", "--seconds", "0.05")
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "200", options=options)
    assert re.search(r"clean: ended after \d+ steps: --seconds 0\.05 were over", done.stderr)
    assert 3 <= len(measured(tmp_path / "run", "clean")) < 100


def test_a_kernels_pass_that_grows_ends(tmp_path: Path) -> None:
    """The toy takes 1 MB in each step: with room for 4 MB the pass has no more than 4 of its 10 steps."""
    folder = tmp_path / "run"
    options = ("--warmup", "0", "--max-trace-size", "8MB")
    environment = {**os.environ, "TOY_GROWS": "1000000"}
    done = profiled(folder, sys.executable, str(TOY), "200", options=options, env=environment)
    assert "of trace can come: --max-trace-size is" in done.stderr
    assert 1 <= len(measured(folder, "kernels")) <= 4
    assert len(measured(folder, "lines")) == 10


def test_a_kernels_pass_goes_on_where_its_trace_can_be_written_in_parts(tmp_path: Path) -> None:
    """Until what is written takes all the room."""
    options = ("--warmup", "0", "--max-trace-size", "8MB")
    environment = {**os.environ, "TOY_GROWS": "1000000", "TOY_PARTS": "1"}
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "200", options=options, env=environment)
    assert "ended" not in done.stderr
    assert len(measured(tmp_path / "run", "kernels")) == 10
    files = json.loads((tmp_path / "run/kernels/1/child.json").read_text())["operator_files"]
    numbered = [f"operators.{number}.pt.trace.json.gz" for number in range(2, len(files) + 1)]
    assert files == [*numbered, "operators.pt.trace.json.gz"]
    assert len(files) > 2
    full = {**environment, "TOY_TRACE": "1000000"}
    done = profiled(tmp_path / "full", sys.executable, str(TOY), "200", options=options, env=full)
    assert "kernels: ended after" in done.stderr
    assert "more would not stay below --max-trace-size" in done.stderr
    assert 1 <= len(measured(tmp_path / "full", "kernels")) < 10


def _json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.long
def test_samples_of_long_passes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = profiled(folder, sys.executable, str(TOY), "700", options=("--steps", "500", "--warmup", "2"))
    assert "steps: clean 500" in done.stderr
    samples = Run(folder).passes("clean")[0].samples()
    assert {"core_busy", "resident_bytes", "threads"} <= set(samples["metric"])
    steps = steps_of(folder, "clean")
    assert samples["time_ns"].between(steps[0]["start_ns"], steps[-1]["end_ns"] + 1_000_000_000).all()
    sampling = json.loads((folder / "run.json").read_text())["passes"]["clean"]["sampling"]
    assert sampling["readings"] == samples["time_ns"].nunique() > 0
