"""Threads are called what captures and runs call them."""

import json

import pandas as pd
import pytest

from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import thread_names
from kernelscope.reports.export.events import events
from tests.places import ROOT

DATA = ROOT / "tests" / "data"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MainThread", "main thread"), ("pt_main_thread", "main thread"), ("pt_autograd_3", "autograd thread 3"),
        ("Thread-1 (_pin_memory_loop)", "data loader, pinning memory"), ("python3.10", None), ("thread 12", None), ("", None),
        ("Thread-2 (prefetch)", "Thread-2 (prefetch)"),
    ],
)  # fmt: skip
def test_names_in_words(name, words):
    assert thread_names.readable(name) == words


def test_of_several_names_the_last_that_tells_any():
    assert thread_names.named([(1, "python"), (1, "pt_autograd_0"), (1, "python"), (2, "python")]) == {"1": "autograd thread 0"}


def test_lines_of_an_xspace():
    lines = pd.DataFrame({"thread": [5, 5, 7], "line": ["tf_XLAEigen/5", "tf_XLAEigen/5", "python"]})
    assert thread_names.of_lines(lines) == {"5": "tf_XLAEigen"}


def _kineto(path):
    """A trace of two threads, the main one and autograd's, and of a device's stream, which is no thread."""
    names = [(10, 10, "thread 10 (python3)"), (10, 11, "thread 11 (python3)"), (10, 11, "thread 11 (pt_autograd_0)")]
    names.append((0, 7, "stream 7 "))
    labels = [{"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}} for pid, tid, name in names]
    work = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 10, "tid": tid, "ts": 1, "dur": 5, "args": {}} for tid in (10, 11)
    ]
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 2,
        "dur": 3,
        "args": {"device": 0, "stream": 7},
    }
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*labels, *work, kernel]}))
    return path


def test_tracks_of_an_export_have_the_names(tmp_path):
    trace = captures.read(_kineto(tmp_path / "a.json"))
    assert trace.info["threads"] == {"10": "main thread", "11": "autograd thread 0"}
    assert {track.name for track in events(trace).tracks} == {"main thread (10)", "autograd thread 0 (11)", "cuda:0 stream 7"}
    trace.info["threads"] = {}
    assert {track.name for track in events(trace).tracks} == {"thread 10", "thread 11", "cuda:0 stream 7"}


def test_a_recorded_trace_of_tensorflow_names_its_pools():
    trace = captures.read(DATA / "tensorflow/lenet-train/operators.xplane.pb")
    assert "tf_Compute" in trace.info["threads"].values()
