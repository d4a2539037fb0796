"""An nsys report of a transformer on an A100 as the kernels pass of a run: sums and numbers against plain SQL."""

import collections
import json
import random
import shutil
import sqlite3

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.breakdowns import BY

OFFSET = 5_000_000_000_123
WALL = 1_790_000_000_000_000_000
THREAD = 777
CAPTURE = ("nsys", "zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite")
INNER = ("computing attention scores", "computing softmax", "final matmul")
OUTER = "scaled dot product attention"


@pytest.fixture(scope="module")
def attention(tmp_path_factory, captured, write_run):
    """A run of four passes through 32 layers, the first of them warm-up, with ranges stamped within a microsecond of NVTX's."""
    source, folder = captured(*CAPTURE), tmp_path_factory.mktemp("attention") / "run"
    with sqlite3.connect(source) as database:
        text = "SELECT start, end, coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE eventType = 59"
        rows = database.execute(text + " ORDER BY start").fetchall()
    outer = [(start, end) for start, end, name in rows if name == OUTER]
    assert len(outer) == 4 * 32
    steps = [(outer[32 * i][0] - 10**6, outer[32 * i + 31][1] + 10**6, i == 0, THREAD) for i in range(4)]
    late = random.Random(7)
    ranges = [
        (THREAD, start + late.randint(200, 900), end - late.randint(200, 900), "layer", name, name, "forward")
        for start, end, name in rows
        if name in (OUTER, *INNER)
    ]
    kernels = write_run(folder, steps, ranges, OFFSET, WALL, collector="nsys", mode="infer")
    shutil.copy(source, kernels / "nsys.sqlite")
    return folder, source, [(start, end) for start, end, warmup, _ in steps if not warmup]


def _by_sql(source, steps):
    """Sum and number of kernels that a step launched, or that reach into one, by the innermost range open at their launch."""
    query = """
        SELECT k.start, k.end, r.start, (
            SELECT coalesce(n.text, s.value) AS name FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
            WHERE n.globalTid = r.globalTid AND n.start <= r.start AND r.start < n.end AND name IN (?, ?, ?, ?)
            ORDER BY n.start DESC LIMIT 1)
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
    """
    found = collections.defaultdict(lambda: [0, 0])
    with sqlite3.connect(source) as database:
        for start, end, launched, name in database.execute(query, (OUTER, *INNER)):
            if any((start < stop and end > begin) or begin <= launched < stop for begin, stop in steps):
                found[name][0] += end - start
                found[name][1] += 1
    return {name: tuple(sums) for name, sums in found.items()}


def _sums(kernels, *columns):
    grouped = kernels.groupby(list(columns), dropna=False, observed=True)["duration_ns"].agg(["sum", "size"])
    return {key: tuple(row) for key, row in zip(grouped.index, grouped.to_numpy().tolist(), strict=True)}


def test_kernels_of_nsys_belong_to_the_range_of_their_launch(attention):
    folder, source, steps = attention
    expected = _by_sql(source, steps)
    kernels = ks.read(folder).kernels
    found = _sums(kernels.assign(layer=kernels["layer"].astype("object").where(kernels["layer"].notna(), None)), "layer")
    assert {None if key != key else key: sums for key, sums in found.items()} == expected
    assert set(expected) == {None, *INNER}
    assert set(kernels["attribution"]) == {"launch range", "none"}
    assert set(kernels.loc[kernels["layer"].notna(), "phase"]) == {"forward"}
    assert set(kernels["device"]) == {"cuda:0"}


def test_the_clock_of_nsys_is_tied_by_ranges_within_their_stamping(attention):
    folder, source, _ = attention
    trace = ks.read(folder)
    with sqlite3.connect(source) as database:
        first = database.execute(
            "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start > ?", (37_863_677_227,)
        ).fetchone()
    later = trace.kernels["start_ns"] >= 37_863_677_227 + OFFSET
    assert abs(trace.kernels["start_ns"][later].min() - OFFSET - first[0]) < 400
    assert trace.diagnostics["nsys: ranges that tie its clock to ours"] == 512
    assert trace.diagnostics["nsys: spread of their offsets, ns"] < 700  # each end is up to 350 ns off the middle of 550
    assert trace.info["devices"][0]["name"] == "NVIDIA A100-SXM4-80GB"
    assert trace.info["collector"] == "nsys"


def test_without_ranges_in_the_capture_its_start_in_utc_ties_the_clock(attention, tmp_path):
    folder, *_ = attention
    shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("trace"))
    copy = tmp_path / "run" / "kernels" / "1" / "nsys.sqlite"
    with sqlite3.connect(copy) as database:
        utc = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()[0]
        database.execute("DELETE FROM NVTX_EVENTS")
    report = copy.with_name("child.json")
    content = json.loads(report.read_text())
    content["anchors"] = [{"monotonic_ns": OFFSET + at, "wall_ns": utc + at, "uncertainty_ns": 100} for at in (0, 10**11)]
    report.write_text(json.dumps(content))
    trace, tied = ks.read(tmp_path / "run"), ks.read(folder)
    assert trace.diagnostics["nsys: ranges that tie its clock to ours"] == 0
    # threads are told by their ids: those of the capture are not those of the records, which were made up
    assert set(trace.kernels["launch_thread"].dropna()) == {2468200}
    assert abs(trace.kernels["start_ns"].iloc[-1] - tied.kernels["start_ns"].iloc[-1]) < 1000


def test_copies_calls_and_waits_of_nsys_are_those_of_the_steps(attention):
    folder, source, steps = attention
    trace = ks.read(folder)
    inside = " OR ".join(f"(start < {stop} AND end > {begin})" for begin, stop in steps)
    with sqlite3.connect(source) as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {table} WHERE {inside}").fetchone()[0]
            for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_RUNTIME")
        ]
    api = (trace.calls["api"] != "os").sum()
    assert [len(trace.copies), len(trace.syncs), api] == counts
    assert THREAD in set(trace.calls["thread"])


def test_every_breakdown_of_a_run_on_a_device_adds_up(attention):
    folder, source, steps = attention
    trace = ks.read(folder)
    measured = trace.steps[~trace.steps["warmup"]]
    wall = (measured["device_end_ns"] - measured["device_start_ns"]).mean()
    launched = " OR ".join(f"(r.start >= {begin} AND r.start < {stop})" for begin, stop in steps)
    join = "CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
    with sqlite3.connect(source) as database:
        busy = database.execute(f"SELECT sum(k.end - k.start) FROM {join} WHERE {launched}").fetchone()[0] / len(steps)
    host = (measured["end_ns"] - measured["start_ns"]).mean()
    assert wall == pytest.approx(busy, rel=0.03), "the device is always busy with what these steps launched"
    assert wall > 1.2 * host, "the host is ahead of it, and waits for nothing"
    for by in BY:
        if by != "line":
            found = ks.breakdown(trace, by)
            assert found.table["time_ns"].sum() == found.step_ns == round(wall)
