"""Run folders made of recorded passes, with what a test wants to know of them: which windows, how much slower."""

import json
import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"


def slower(source, target, factor):
    """Copy a recorded pass whose steps, and all within, take `factor` times as long in the steps' table only."""
    shutil.copytree(source, target)
    steps = target / "steps.jsonl"
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    for row in rows:
        row["end_ns"] = row["start_ns"] + round((row["end_ns"] - row["start_ns"]) * factor)
    steps.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _run_folder(folder, source="pytorch/lenet-train", clean=(1.0,), kernels=1, **record):
    """Make a run of a recorded kernels pass: `clean` has a factor per restart, `kernels` equal repeats."""
    source = DATA / source
    for number in range(1, kernels + 1):
        shutil.copytree(source, folder / "kernels" / str(number))
    for number, factor in enumerate(clean, start=1):
        slower(source, folder / "clean" / str(number), factor)
    network = json.loads((source / "child.json").read_text())["network"]
    passes = {"kernels": [f"kernels/{n}" for n in range(1, kernels + 1)], "clean": [f"clean/{n + 1}" for n in range(len(clean))]}
    options = {"network": network["name"], "mode": "train", "batch": 64, "device": "cpu"}
    content = {
        "schema": "kernelscope/run/1", "framework": source.parent.name, "network": network, "conditions": "as it comes",
        "complete": True, "options": options, "unavailable": {}, "version": "1",
        "passes": {name: {"status": "complete", "folders": folders} for name, folders in passes.items()}, **record,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="session")
def run_folder():
    """The function that makes run folders."""
    return _run_folder
