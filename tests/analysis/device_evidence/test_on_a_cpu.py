"""A kernels pass that was recorded on a CPU under nsys 2022.4: its calls, on our clock, beside kernels from libraries' lines."""

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.trace import text_columns

DATA = Path(__file__).parents[2] / "data" / "pytorch" / "lenet-train-nsys"


@pytest.fixture
def run(tmp_path, write_run):
    kernels = write_run(tmp_path / "run", [(0, 1, False, 1)], [], 0, 0, device="cpu", collector="nsys")
    for path in DATA.iterdir():
        if path.suffix == ".gz" and path.stem == "nsys.sqlite":
            (kernels / "nsys.sqlite").write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, kernels / path.name)
    return tmp_path / "run"


def _calls(path, steps):
    """Start, end, name and thread of the operating system's calls that reach into a step, on our clock by way of UTC."""
    anchors = json.loads((path / "child.json").read_text())["anchors"]
    offset = anchors[-1]["monotonic_ns"] - anchors[-1]["wall_ns"]
    with sqlite3.connect(path / "nsys.sqlite") as database:
        utc = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()[0]
        rows = database.execute("SELECT start, end, value, globalTid & 0xffffff FROM OSRT_API JOIN StringIds ON id = nameId")
        rows = [(start + utc + offset, end + utc + offset, *rest) for start, end, *rest in rows]
    spans = list(zip(steps["start_ns"], steps["end_ns"], strict=True))
    return sorted(row for row in rows if any(row[0] < stop and row[1] > begin for begin, stop in spans))


def test_the_operating_systems_calls_enter_the_trace_on_our_clock(run):
    trace = ks.read(run)
    expected = _calls(run / "kernels" / "1", trace.steps)
    calls = text_columns(trace.calls).sort_values("start_ns")
    assert len(calls) == len(expected) > 10
    assert set(calls["api"]) == {"os"}
    assert calls["name"].tolist() == [name for _, _, name, _ in expected]
    assert calls["thread"].tolist() == [thread for *_, thread in expected]
    # two ways to our clock: ranges recorded by both, and the wall clock
    assert max(abs(calls["start_ns"].to_numpy() - [start for start, *_ in expected])) < 50_000
    assert trace.diagnostics["nsys: ranges that tie its clock to ours"] == len(trace.ranges) == 99


def test_kernels_are_those_of_the_run_without_nsys(run):
    with_calls = ks.read(run)
    (run / "kernels" / "1" / "nsys.sqlite").unlink()
    without = ks.read(run)
    assert without.calls.empty
    assert text_columns(with_calls.kernels).equals(text_columns(without.kernels))
    assert set(with_calls.kernels["library"]) == {"onednn", "mkl", "aten"}
    assert set(with_calls.kernels["device"]) == {"cpu"}


def test_idle_time_is_named_by_calls_and_adds_up(run):
    found = ks.breakdown(ks.read(run), "idle")
    assert found.table["time_ns"].sum() == found.step_ns
    assert "in the operating system" in set(found.table["cause"])


def test_a_report_that_cannot_be_read_leaves_the_rest(run):
    (run / "kernels" / "1" / "nsys.sqlite").write_bytes(b"SQLite format 3\0 and then the disk was full")
    trace = ks.read(run)
    assert trace.calls.empty
    assert len(trace.kernels)
    assert "nsys.sqlite" in trace.info["unavailable"]["calls"]
