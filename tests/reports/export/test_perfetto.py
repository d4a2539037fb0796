"""Perfetto traces, read back by their wire format, by Perfetto's own schema and by Perfetto's own trace processor."""

import gzip
from collections import Counter

import pandas as pd
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace

from kernelscope.analysis.trace import Trace, conform
from kernelscope.reports.export import perfetto
from kernelscope.reports.export.events import events, origins

TABLES = ("steps", "ranges", "operators", "calls", "kernels", "graphs", "copies", "syncs", "host_lines")


def written(folder, *traces, name="trace.pftrace"):
    found = [events(trace) for trace in traces]
    zero = origins(traces, found)
    sides = [(f"side {number}", part, at) for number, (part, at) in enumerate(zip(found, zero, strict=True))]
    perfetto.write(sides, "a test", folder / name)
    return folder / name, zero


def intervals(trace, table, origin):
    rows = getattr(trace, table)
    return Counter((int(start) - origin, int(end) - origin) for start, end in zip(rows["start_ns"], rows["end_ns"], strict=True))


@pytest.mark.parametrize("name", ["nvprof", "kineto", "rocm", "mxnet"])
def test_every_event_is_there_to_the_nanosecond(name, trace, tmp_path, perfetto_file):
    source = trace(name)
    path, (origin,) = written(tmp_path, source)
    found = perfetto_file(path)
    for table in TABLES:
        mine = Counter((start, end) for _, _, start, end, said in found.slices if said["table"] == table)
        assert mine == intervals(source, table, origin), table
    named = Counter(text for _, text, *_, said in found.slices if said["table"] == "kernels")
    assert named == Counter(map(str, source.kernels["name"]))
    assert sum(named.values()) > 10


def test_slices_say_what_the_table_says(trace, tmp_path, perfetto_file):
    source = trace("kineto")
    path, (origin,) = written(tmp_path, source)
    said = {(start, end): details for _, _, start, end, details in perfetto_file(path).slices if details["table"] == "kernels"}
    for row in source.kernels.to_dict("records"):
        details = said[row["start_ns"] - origin, row["end_ns"] - origin]
        for column in ("kind", "library", "operator", "layer", "grid", "registers", "tensor_core"):
            expected = None if pd.isna(row[column]) else row[column]
            assert details.get(column) == expected


def test_arrows_lead_from_calls_to_the_work_they_launched(trace, tmp_path, perfetto_file):
    source = trace("nvprof")
    path, (origin,) = written(tmp_path, source)
    ends = {}
    for number, track, time in perfetto_file(path).flows:
        ends.setdefault(number, []).append((time, track))
    calls = {(row.process, row.correlation): row.start_ns - origin for row in source.calls.itertuples()}
    expected = Counter(
        (calls[row.process, row.correlation], row.start_ns - origin)
        for table in (source.kernels, source.copies, source.syncs)
        for row in table.itertuples()
        if (row.process, row.correlation) in calls
    )
    drawn = Counter((pair[0][0], end[0]) for pair in map(sorted, ends.values()) for end in pair[1:])
    assert drawn == expected
    assert len(expected) > 160


def test_counters_hold_memory_and_samples(trace, tmp_path, perfetto_file):
    source = trace("kineto")
    path, (origin,) = written(tmp_path, source)
    found = perfetto_file(path)
    names = {uuid: track[2][0].decode() for uuid, track in found.tracks.items() if 2 in track}
    counters = {names[track]: values for track, values in found.counters.items()}
    rows = source.memory[source.memory["device"] == "cuda:0"].dropna(subset="allocated_bytes")
    assert counters["memory in use on cuda:0"] == list(zip(rows["time_ns"] - origin, rows["allocated_bytes"], strict=True))


def test_sides_begin_together_with_their_first_measured_steps(tmp_path, perfetto_file):
    steps = [(0, True, 100, 200), (1, False, 200, 260)], [(0, True, 7000, 7900), (1, True, 7900, 7950), (2, False, 7950, 8000)]
    traces = []
    for rows in steps:
        table = pd.DataFrame(rows, columns=["step", "warmup", "start_ns", "end_ns"]).assign(thread=1)
        traces.append(Trace(steps=conform("steps", table)))
    path, _ = written(tmp_path, *traces)
    slices = perfetto_file(path).slices
    measured = {(name, start) for _, name, start, _, said in slices if not said["warmup"]}
    assert measured == {("step 1", 950), ("step 2", 950)}
    assert min(start for _, _, start, _, _ in slices) == 0


def test_slices_that_cross_go_to_rows_of_their_own(tmp_path, perfetto_file):
    rows = [(10, 50), (20, 60), (30, 40), (50, 55), (60, 60), (60, 70), (60, 70)]
    table = pd.DataFrame(rows, columns=["start_ns", "end_ns"]).assign(thread=1, category="user", name="a", nested=False)
    path, _ = written(tmp_path, Trace(ranges=conform("ranges", table)))
    found = perfetto_file(path)
    assert Counter((start + 10, end + 10) for _, _, start, end, _ in found.slices) == Counter(rows)
    by_track = {}
    for track, _, start, end, _ in found.slices:
        by_track.setdefault(track, []).append((start, end))
    assert len(by_track) == 2
    for spans in by_track.values():
        assert not [1 for a, b in spans for c, d in spans if a < c < b < d]


def test_what_is_too_deep_for_viewers_goes_to_another_row(tmp_path, perfetto_file):
    rows = [(place, 2000 - place) for place in range(600)]
    table = pd.DataFrame(rows, columns=["start_ns", "end_ns"]).assign(thread=1, category="user", name="a")
    path, _ = written(tmp_path, Trace(ranges=conform("ranges", table)))
    found = perfetto_file(path)
    assert Counter((start, end) for _, _, start, end, _ in found.slices) == Counter(rows)
    assert sorted(Counter(track for track, *_ in found.slices).values()) == [100, 500]


def test_perfettos_schema_reads_it_and_names_are_kept_whatever_they_are(tmp_path, perfetto_file):
    names = ["<script>alert(1)</script>", "\x1b[31m\x00", "\u202egnp.exe", "A" * 10_000, "", "=1+1"]
    rows = pd.DataFrame(
        {"start_ns": range(0, 60, 10), "end_ns": range(5, 65, 10), "name": names, "thread": -7, "category": "user"}
    )
    path, _ = written(tmp_path, Trace(ranges=conform("ranges", rows)), name="trace.pftrace.gz")
    plain = gzip.decompress(path.read_bytes())
    schema = PerfettoTrace.FromString(plain)
    assert sum(packet.HasField("track_event") for packet in schema.packet) == 12
    (tmp_path / "plain").write_bytes(plain)
    shown = [name for _, name, *_ in perfetto_file(tmp_path / "plain").slices]
    assert shown[:3] == names[:3]
    assert len(shown[3]) < 5000
    assert shown[4:] == names[4:]


def test_perfettos_trace_processor_counts_what_went_in(trace, tmp_path, trace_processor):
    sides = [trace("nvprof"), trace("kineto")]
    path, zero = written(tmp_path, *sides, name="trace.pftrace.gz")
    slices, errors, counted, flows = trace_processor(
        path,
        "select side.name as side, s.category, s.ts, s.dur, s.name from slice s join track t on s.track_id = t.id "
        "join track side on t.parent_id = side.id",
        "select name, value from stats where severity = 'error' and value > 0",
        "select t.name, count(*), sum(c.value) from counter c join counter_track t on c.track_id = t.id group by 1",
        "select count(*) from flow",
    )
    assert errors == []
    for number, (source, origin) in enumerate(zip(sides, zero, strict=True)):
        mine = [row[1:] for row in slices if row[0] == f"side {number}"]
        for table in TABLES:
            found = Counter((start, start + length) for category, start, length, _ in mine if category == table)
            assert found == intervals(source, table, origin), table
        assert Counter(text for category, *_, text in mine if category == "kernels") == Counter(map(str, source.kernels["name"]))
    assert len(slices) == sum(len(part.start) for source in sides for part in events(source).slices)
    assert {text: (count, value) for text, count, value in counted} == {
        counter.name: (len(counter.time), pytest.approx(float(counter.values.sum()))) for counter in events(sides[1]).counters
    }
    arrows = [pd.concat([pd.Series(part.flow[part.flow >= 0]) for part in events(source).slices]) for source in sides]
    assert flows == [(sum(len(numbers) - numbers.nunique() for numbers in arrows),)]
