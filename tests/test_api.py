"""The public functions: `import kernelscope as ks`."""

import json
import subprocess
import sys

import pytest

import kernelscope as ks
from kernelscope.analysis import EvidenceError
from kernelscope.analysis.recordings.kinds import Kind
from tests.places import ROOT

CAPTURE = ROOT / "tests/data/pytorch/lenet-train/operators.pt.trace.json.gz"


def kineto(path, busy_us, steps=6):
    """A trace of one kernel a step, of which each but the duration is the same."""
    events = []
    for step in range(steps):
        start = step * 5000
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": start, "dur": 5000},
            {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": start + 100, "dur": busy_us,
             "args": {"device": 0, "stream": 7, "correlation": step + 1}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start + 10, "dur": 20,
             "args": {"correlation": step + 1}},
        ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_what_is_public_is_listed_and_nothing_else():
    names = "__version__ advise breakdown compare energy explain gate open ranks read roofline"
    assert sorted(ks.__all__) == names.split()
    assert ks.__version__ == "0.1.0"
    assert dir(ks) == sorted(ks.__all__)
    script = "import sys, kernelscope; sys.exit(any(name in sys.modules for name in ('numpy', 'pandas', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0, "commands begin with it"


def test_a_recording_makes_each_part_once():
    recording = ks.open(CAPTURE)
    assert recording.kind is Kind.CAPTURE
    assert recording.trace is recording.trace
    assert recording.steps is recording.trace.steps
    by_kind = recording.breakdown("kind")
    assert by_kind is recording.breakdown("kind")
    assert int(by_kind.table["time_ns"].sum()) == by_kind.step_ns
    assert recording.facts["source"]
    assert recording.runs == [recording]
    assert ks.breakdown(CAPTURE, "kind").table.equals(by_kind.table)


def test_paths_and_recordings_are_taken_alike(tmp_path):
    a, b = kineto(tmp_path / "a.json", 1000), kineto(tmp_path / "b.json", 3000)
    found = ks.explain(a, ks.open(b))
    assert found["wall_delta_ns"] == ks.explain(ks.open(a), b)["wall_delta_ns"]
    assert ks.gate(a, a).status == "undecided", "one recording does not tell how processes differ"
    assert ks.advise(a)["schema"] == "kernelscope/advise/1"
    assert len(ks.read(a).kernels) == 6
    assert set(ks.roofline(a).as_dict()) >= {"rows", "by"}


def test_a_folder_of_runs_holds_them(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    assert [one.path.name for one in ks.open(tmp_path).runs] == ["first", "second"]


def test_what_is_not_there_or_not_recorded_is_said(tmp_path):
    with pytest.raises(EvidenceError, match="no such file or folder"):
        ks.open(tmp_path / "nothing")
    with pytest.raises(EvidenceError, match="not a run folder"):
        ks.energy(CAPTURE)
