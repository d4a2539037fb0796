"""CNTK's timelines, recomputed with json."""

import gzip
import json
from collections import Counter, defaultdict

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.cntk import profiler as cntk_profiler
from tests.places import ROOT

OURS = sorted((ROOT / "tests/data/cntk").glob("*/operators.cntk.json*"))
SILENT = ("Input", "Parameter", "Constant", "Combine")


def pairs_of(path):
    """Return (name, start_ns, end_ns): the n-th begin of a name with its n-th end."""
    content = path.read_bytes()
    opened, found = defaultdict(list), []
    for event in json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content):
        if event["ph"] == "B":
            opened[event["name"]].append(event["ts"])
        else:
            found.append((event["name"], opened[event["name"]].pop(0) * 1000, event["ts"] * 1000))
    return found


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parent.name)
def test_nodes_that_compute_are_kernels_and_minibatches_are_steps(path):
    rows = pairs_of(path)
    kernels, operators = Counter(), Counter()
    for name, start, end in rows:
        if name == "__Weight Update":
            kernels["Weight Update", "optimizer", start, end] += 1
        elif not name.startswith("_"):
            kind = name.removesuffix("Forward").removesuffix("Backward")
            phase = name[len(kind) :].lower()
            operators[kind, phase, start, end] += 1
            if kind.rstrip("0123456789") not in SILENT:
                kernels[kind.rstrip("0123456789"), phase, start, end] += 1
    trace = cntk_profiler.read(path)
    trace.check()
    table = trace.kernels
    found = Counter(zip(table["name"], table["phase"], table["start_ns"], table["end_ns"], strict=True))
    assert found == kernels
    table = trace.operators
    assert Counter(zip(table["scope"], table["phase"], table["start_ns"], table["end_ns"], strict=True)) == operators
    steps = sorted((start, end) for name, start, end in rows if name == "_Minibatch Iteration")
    assert list(zip(trace.steps["start_ns"], trace.steps["end_ns"], strict=True)) == steps
    assert len(trace.ranges) == sum(name.startswith("_") for name, _, _ in rows)
    assert trace.diagnostics == {}


def event(name, phase, ts, tid=1):
    return {"pid": 1, "tid": tid, "name": name, "cat": "PERF", "ph": phase, "ts": ts}


def read(tmp_path, *events):
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(events, indent=1))
    assert cntk_profiler.matches(read_head(path))
    trace = cntk_profiler.read(path)
    trace.check()
    return trace


def test_odd_events_are_counted(tmp_path):
    trace = read(
        tmp_path, event("Plus1Forward", "B", 5), event("Plus1Forward", "E", 3), event("Times2Forward", "B", 8),
        event("_Minibatch Iteration", "B", 0), event("_Minibatch Iteration", "E", 9),
        event("_Minibatch Iteration", "B", 1, 2), event("_Minibatch Iteration", "E", 9, 2),
    )  # fmt: skip
    assert trace.diagnostics == {"events without a partner": 1, "ends before starts": 1, "minibatches of other threads": 1}
    assert trace.kernels["duration_ns"].tolist() == [0]


def test_a_timeline_without_nodes_says_how_to_get_them(tmp_path):
    trace = read(tmp_path, event("__Weight Update", "B", 1), event("__Weight Update", "E", 4))
    assert "set_node_timing" in trace.info["unavailable"]["kernels"]
    assert trace.kernels[["name", "kind", "phase"]].values.tolist() == [["Weight Update", "optimizer", "optimizer"]]


@pytest.mark.parametrize(
    "row", [event("a", "B", -1), event("a", "B", 10**17), event("a", "B", 1, 2**70), event(5, "B", 1), [], None]
)
def test_damaged_events_refuse_the_file_by_name(tmp_path, row):
    with pytest.raises(EvidenceError, match=r"timeline\.json: not a complete timeline"):
        read(tmp_path, event("Plus1Forward", "B", 5), row)
