"""Run folders around captures that were really recorded on GPUs: ranges and steps as our Recorder would have written them."""

import gzip
import json
from pathlib import Path

import pytest

from tests.places import CORPUS

NETWORK = json.loads((Path(__file__).parents[2] / "data" / "pytorch" / "lenet-train" / "child.json").read_text())["network"]
NO_OPERATORS = gzip.compress(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}).encode())


@pytest.fixture(scope="session")
def captured():
    """A function that returns the path of a capture of the corpus by its folder and name; the test is skipped where it is not."""

    def path(*names):
        found = CORPUS.joinpath(*names)
        if not found.is_file():
            pytest.skip(f"{names[-1]} of the corpus is not here")
        return found

    return path


@pytest.fixture(scope="session")
def write_run():
    """The function `_write`, for fixtures that make a run folder."""
    return _write


def _write(folder, steps, ranges, offset_ns, wall_ns, device="cuda", collector=None, mode="train", framework="pytorch"):
    """Write run.json and the records of a kernels pass; return the pass's folder, to put the capture into.

    steps: (start, end, warmup, thread); ranges: (thread, start, end, category, name, layer, phase), all in the capture's ns.
    offset_ns: from there to our clock. wall_ns: the capture's zero in UTC.
    """
    kernels = folder / "kernels" / "1"
    kernels.mkdir(parents=True)
    with (kernels / "steps.jsonl").open("w") as out:
        for number, (start, end, warmup, thread) in enumerate(steps):
            row = {"step": number, "window": 0, "warmup": warmup, "thread": thread}
            out.write(json.dumps({**row, "start_ns": start + offset_ns, "end_ns": end + offset_ns}) + "\n")
    with (kernels / "ranges.jsonl").open("w") as out:
        for thread, start, end, *said in ranges:
            row = {"thread": thread, "start_ns": start + offset_ns, "end_ns": end + offset_ns}
            out.write(json.dumps({**row, **dict(zip(("category", "name", "layer", "phase"), said, strict=True))}) + "\n")
    first, last = steps[0][0], steps[-1][1]
    anchors = [{"monotonic_ns": at + offset_ns, "wall_ns": at + wall_ns, "uncertainty_ns": 100} for at in (first, last)]
    report = {"anchors": anchors, "network": NETWORK, "versions": {}, "settings": {}}
    (kernels / "child.json").write_text(json.dumps(report))
    (kernels / "stdout.raw").write_text("")
    (kernels / "operators.pt.trace.json.gz").write_bytes(NO_OPERATORS)
    used = {"collector": {"asked": "auto", "used": collector, "reason": "it was asked for"}} if collector else {}
    record = {
        "schema": "kernelscope/run/1", "framework": framework, "network": NETWORK, "conditions": "as it comes", "complete": True,
        "options": {"network": "lenet", "mode": mode, "batch": 64, "device": device}, "unavailable": {},
        "passes": {"kernels": {"status": "complete", "folders": ["kernels/1"], **used}},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    return kernels
