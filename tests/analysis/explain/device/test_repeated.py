"""Several captures a side, each of a process of its own: how far these differ decides what the difference is worth."""

import gzip
import json

import numpy as np
import pytest
from scipy import stats

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.analysis.explain.device import CaptureSide, explain_processes
from tests.analysis.explain.device.synthetic import Kernel, Wait, recording

MS = 1_000_000


def captures(name, *factors, rank=None):
    """Return captures of six steps; a step computes for 10 ms times the factor."""
    found = []
    for number, factor in enumerate(factors):
        work = [Kernel(f"gemm_{place}", 1000 * factor, "gemm") for place in range(10)]
        trace = recording([*work, Wait()], 6)
        if rank is not None:
            trace.info["distributed"] = {"rank": rank + number}
        found.append(CaptureSide(f"{name}/{number}.json", trace))
    return found


def welch_reach(a, b):
    """Return how far the difference of two means may be off (95%), with equal degrees of freedom, as by hand."""
    error = np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    return stats.t.ppf(0.975, len(a) + len(b) - 2) * error


def test_the_middle_recording_is_explained_and_the_interval_is_that_of_processes():
    said = explain_processes(captures("a", 1.0, 1.1, 0.9), captures("b", 1.5, 1.4, 1.6))
    assert [said[key]["restarts"] for key in "ab"] == [3, 3]
    assert [said[key]["path"] for key in "ab"] == ["a/0.json", "b/0.json"]
    assert said["wall_delta_ns"] == pytest.approx(5 * MS, rel=0.01)
    low, high = said["wall_interval_ns"]
    off = welch_reach([10 * MS, 11 * MS, 9 * MS], [15 * MS, 14 * MS, 16 * MS])
    assert (high - low) / 2 == pytest.approx(off, rel=0.02)
    assert sum(row["delta_ns"] for row in said["rows"]) == said["wall_delta_ns"]
    assert said["notes"][0].startswith("A: 3 recordings with steps of 10.")
    assert not any("recorded once" in note for note in said["notes"])


def test_a_difference_as_large_as_that_of_processes_is_none():
    said = explain_processes(captures("a", 1.0, 1.3, 0.8), captures("b", 1.1, 0.85, 1.35))
    assert said["significant"] is False
    assert all(finding["confidence"] != "high" for finding in said["findings"])


def test_one_side_recorded_once_is_said():
    said = explain_processes(captures("a", 1.0, 1.02), captures("b", 1.5))
    assert [said[key]["restarts"] for key in "ab"] == [2, 1]
    [note] = [note for note in said["notes"] if "recorded once" in note]
    assert note.startswith("B was recorded once")


def test_copies_and_ranks_are_no_processes():
    same = captures("a", 1.0)
    with pytest.raises(EvidenceError, match="name one of them"):
        explain_processes([*same, CaptureSide("a/copy.json", same[0].trace)], captures("b", 1.5))
    with pytest.raises(EvidenceError, match=r"captures of other ranks \(0, 1\); name the folder to `kernelscope ranks`"):
        explain_processes(captures("a", 1.0, 1.1, rank=0), captures("b", 1.5))


@pytest.fixture
def folders(tmp_path):
    """Two folders of captures by torch.profiler, with a note beside them."""
    for side, factors in (("a", (1.0, 1.02)), ("b", (1.5, 1.48))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "notes.txt").write_text("three processes\n")
        for number, factor in enumerate(factors):
            kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
            step = {"ph": "X", "cat": "gpu_user_annotation", "pid": 0, "tid": 7}
            events = []
            for place in range(8):
                begin = place * 2000 * factor
                events.append({**kernel, "ts": begin, "dur": 1900 * factor})
                events.append({**step, "name": f"ProfilerStep#{place}", "ts": begin, "dur": 2000 * factor})
            text = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": events})
            (tmp_path / side / f"{number}.json.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path / "a", tmp_path / "b"


def test_folders_of_captures_are_sides(folders):
    both = pair.read(*folders)
    assert [len(side) for side in both.captures] == [2, 2]
    said = both.explain()
    assert [said[key]["restarts"] for key in "ab"] == [2, 2]
    assert said["significant"]
    mixed = pair.read(folders[0], folders[1] / "0.json.gz").explain()
    assert [mixed[key]["restarts"] for key in "ab"] == [2, 1]
