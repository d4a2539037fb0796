"""How far a recording is, from the files that it writes: written here by the classes that write them in a recording."""

import io
import json
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from kernelscope.analysis.recordings import progress
from kernelscope.cli import watch
from kernelscope.cli.main import main
from kernelscope.reports.progress import Drawn, line, seconds
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.run_folder import RunFolder

STEPS = Path(__file__).parents[1] / "data" / "jax" / "lenet-train" / "steps.jsonl"
OPTIONS = RunOptions("lenet", steps=30, repeats=2)
BEGAN = 1_790_000_000.0  # s since 1970
DONE = 2  # steps of the pass that goes on
CREATED = datetime.fromtimestamp(BEGAN, UTC).isoformat()


def side(folder, label, passes, **record):
    """A side whose passes took as long as is said: [(name, repeat, seconds or None for the one that goes on)]."""
    run = RunFolder(folder, {"label": label, "framework": label, "options": OPTIONS.as_dict(), **record})
    run.record["created"] = CREATED
    run.write()
    start = BEGAN
    for name, repeat, lasted in passes:
        place = run.pass_folder(name, repeat)
        touch(place / "spec.json", start)
        if lasted is not None:
            touch(place / "samples.parquet", start + lasted - 1)
            start += lasted
    os.utime(folder / "run.json", (BEGAN, BEGAN))
    return run


def touch(path, when, content=b"{}"):
    path.write_bytes(content)
    os.utime(path, (when, when))


def shown(seen, now, width=120, held=True):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(Drawn(seen, now, held))
    return console.file.getvalue()


@pytest.fixture
def comparison(tmp_path):
    """Two sides in the first kernels pass of two, one of them DONE steps in; two passes took 20 s, one 40 s."""
    for label in ("pytorch", "mxnet"):
        passes = [("check", 1, 20), ("clean", 1, 40), ("layers", 1, 20), ("kernels", 1, None)]
        side(tmp_path / label, label, passes)
    lines = STEPS.read_bytes().splitlines(keepends=True)
    measured = [text for text in lines if not json.loads(text)["warmup"]]
    written = b"".join([text for text in lines if json.loads(text)["warmup"]] + measured[:DONE]) + measured[DONE][:40]
    touch(tmp_path / "pytorch" / "kernels" / "1" / "steps.jsonl", BEGAN + 95, written)
    return tmp_path


def test_the_passes_of_each_side_are_counted(comparison):
    seen = progress.read(comparison, watch.planned)
    mxnet, pytorch = seen.sides
    assert (pytorch.over, pytorch.planned) == (3, 7)  # check, clean, layers, kernels, clean, kernels, lines
    assert (pytorch.now.name, pytorch.now.repeat, pytorch.now.repeats) == ("kernels", 1, 2)
    measured = [json.loads(text) for text in STEPS.read_text().splitlines()]
    durations = sorted([step["end_ns"] - step["start_ns"] for step in measured if not step["warmup"]][:DONE])
    assert (pytorch.now.steps, pytorch.now.wanted) == (DONE, 30), "a line that is half written is no step yet"
    assert pytorch.now.step_ns == durations[DONE // 2]
    assert (mxnet.now.steps, mxnet.now.step_ns) == (0, None)
    assert not seen.ended


def test_the_time_left_is_that_of_passes_like_those_that_are_over(comparison):
    seen = progress.read(comparison, watch.planned)
    mean = (20 + 40 + 20) / 3
    # kernels twice and lines as long as the mean of all, clean as long as clean; 15 s of the first are over
    assert seen.left_s == pytest.approx(3 * mean + 40, abs=15)
    pytorch = next(side for side in seen.sides if side.label == "pytorch")
    assert pytorch.left_s == pytest.approx(3 * mean + 40 - 15)
    text = line(seen, BEGAN + 100)
    assert re.search(r"lenet · train · batch 64 · 6 of 14 passes · 1 min 40 s so far · about 1 min \d+ s left", text)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits_the_terminal_and_says_what_is_known(comparison, width):
    text = shown(progress.read(comparison, watch.planned), BEGAN + 100, width)
    assert max(map(len, text.splitlines())) <= width
    assert re.search(r"pytorch +3/7 .*kernels 1 of 2 +2/30 +[\d.]+ ms", text)
    assert re.search(r"mxnet +3/7 .*kernels 1 of 2 +0/30", text)
    assert "nothing was written" not in text
    assert "nothing was written for 15 min" in " ".join(shown(progress.read(comparison, watch.planned), BEGAN + 1000).split())


def test_a_side_that_dropped_out_says_why(comparison):
    failed = side(comparison / "cntk", "cntk", [("check", 1, None)])
    failed.pass_failed("check", "check pass: \x1b[31mno memory")
    for label in ("pytorch", "mxnet"):
        record = json.loads((comparison / label / "run.json").read_text())
        (comparison / label / "run.json").write_text(json.dumps({**record, "complete": True, "reason": None}))
    seen = progress.read(comparison, watch.planned)
    assert seen.ended
    assert [side.state for side in seen.sides] == ["failed", "complete", "complete"]
    text = shown(seen, BEGAN + 100)
    assert "cntk: check pass: \\x1b[31mno memory" in text
    assert "left" not in text


def test_energy_is_a_pass_and_passes_may_be_fewer():
    assert watch.planned({"repeats": 2, "energy": True})[-1] == ("energy", 1)
    assert watch.planned({"repeats": 3, "passes": ["clean"]}) == [("clean", 1), ("clean", 2), ("clean", 3)]


def test_a_script_decides_itself_how_long_it_takes(tmp_path):
    run = side(tmp_path, "train", [("clean", 1, 20)], recorder="profile")
    (tmp_path / "clean" / "1" / "child.json").write_text("{}")
    (tmp_path / "layers" / "1").mkdir(parents=True)
    shutil.copy(STEPS, tmp_path / "layers" / "1" / "steps.jsonl")
    (tmp_path / "now").write_text(json.dumps([1, "layers/1"]))
    (side_,) = progress.read(tmp_path, watch.planned).sides
    assert (side_.planned, side_.left_s, side_.now.name) == (None, None, "layers")
    (tmp_path / "now").write_text(json.dumps([1, "../../etc"]))
    assert progress.read(tmp_path, watch.planned).sides[0].now is None
    assert run.record["complete"] is False


def test_a_script_of_which_a_pass_was_given_up_has_not_failed(tmp_path):
    """What is recorded counts, also where the end of the pass that was given up left its sign behind."""
    passes = {"clean": {"status": "complete", "folders": ["clean/1"]}, "kernels": {"status": "failed", "folders": []}}
    run = side(tmp_path, "train", [("clean", 1, 20), ("kernels", 1, 20)], recorder="profile")
    for name in ("clean", "kernels"):
        (tmp_path / name / "1" / "child.json").write_text("{}")
    (tmp_path / "now").write_text(json.dumps([1, "kernels/1"]))
    run.record["passes"] = passes
    run.record["reason"] = "kernels: not recorded, no memory is left for it"
    run.write()
    seen = progress.read(tmp_path, watch.planned)
    assert (seen.ended, seen.sides[0].state, seen.sides[0].over) == (True, "incomplete", 1)
    assert "train: kernels: not recorded, no memory is left for it" in shown(seen, BEGAN + 100)
    assert main(["watch", str(tmp_path)]) == 0


def test_what_nobody_writes_any_more_is_said_soon(comparison):
    seen = progress.read(comparison, watch.planned)
    assert "nothing was written" not in shown(seen, seen.written + 4, held=False)
    text = " ".join(shown(seen, seen.written + 11, held=False).split())
    assert "nothing was written for 11 s: no command here writes it: it has ended, or it runs on another machine" in text
    assert "left" not in text
    assert f"last written after {seconds(seen.written - seen.began)}" in text
    assert "nothing was written" not in shown(seen, seen.written + 11, held=True)


def test_a_sweep_counts_cells(tmp_path):
    cells = [{"cell": f"cell-{number}"} for number in range(8)]
    record = {"title": "Threads", "created": CREATED, "cells": cells}
    touch(tmp_path / "sweep.json", BEGAN, json.dumps(record).encode())
    (tmp_path / ".staged").mkdir()
    for number in range(2):
        (tmp_path / "cells" / f"cell-{number}").mkdir(parents=True)
        touch(tmp_path / "cells" / f"cell-{number}" / "cell.json", BEGAN + 30 * (number + 1))
    side(tmp_path / "cells" / "cell-2", "cntk", [("clean", 1, None)])
    seen = progress.read(tmp_path, watch.planned)
    assert seen.cells == (2, 8)
    assert seen.left_s == pytest.approx(60 / 2 * 6)
    assert [one.label for one in seen.sides] == ["cell-2"]
    assert "Threads · 2 of 8 cells · 1 min 10 s so far · about 2 min 50 s left" in shown(seen, BEGAN + 70)


def test_the_command_ends_with_the_recording(comparison, tmp_path, capsys):
    assert main(["watch", str(comparison), "--once"]) == 0
    assert "kernels 1 of 2" in capsys.readouterr().out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["watch", str(empty)]) == 3
    assert "no recording here" in capsys.readouterr().err
    for label in ("pytorch", "mxnet"):
        RunFolder(comparison / label, {"label": label, "options": OPTIONS.as_dict()}).pass_failed("clean", "killed")
    assert main(["watch", str(comparison)]) == 4
    assert "killed" in capsys.readouterr().out


def test_the_command_ends_where_nobody_writes_any_more(comparison, capsys):
    assert main(["watch", str(comparison)]) == 4  # written long ago, by nobody who runs
    assert "no command here writes it: it has ended, or it runs on another machine" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (1000, "17 min"), (7500, "2 h 5 min")]
)
def test_times_for_reading(value, said):
    assert seconds(value) == said
