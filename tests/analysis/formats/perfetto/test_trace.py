"""Perfetto traces as its SDK, rocprofv3, drivers of GPUs and our own exports write them."""

import gzip
import zlib

import pandas as pd
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.recordings import captures
from kernelscope.reports.export import perfetto as export
from kernelscope.reports.export.events import events, origins
from tests.places import CORPUS

BEGIN, END, INSTANT, COUNTER = (
    TrackEvent.TYPE_SLICE_BEGIN,
    TrackEvent.TYPE_SLICE_END,
    TrackEvent.TYPE_INSTANT,
    TrackEvent.TYPE_COUNTER,
)


class Writer:
    """Packets of one sequence."""

    def __init__(self, trace=None, sequence=7):
        self.trace, self.sequence = trace or Packets(), sequence

    def packet(self, timestamp=None, **fields):
        packet = self.trace.packet.add(trusted_packet_sequence_id=self.sequence, **fields)
        if timestamp is not None:
            packet.timestamp = timestamp
        return packet

    def thread(self, uuid, tid, name, pid=100):
        track = self.packet().track_descriptor
        track.uuid, track.thread.pid, track.thread.tid, track.thread.thread_name = uuid, pid, tid, name

    def track(self, uuid, name, parent=0):
        track = self.packet().track_descriptor
        track.uuid, track.name, track.parent_uuid = uuid, name, parent

    def slice(self, uuid, start, end, name, category="app"):
        event = self.packet(start).track_event
        event.type, event.track_uuid, event.name = BEGIN, uuid, name
        event.categories.append(category)
        event = self.packet(end).track_event
        event.type, event.track_uuid = END, uuid

    def saved(self, path):
        path.write_bytes(self.trace.SerializeToString())
        assert detect(path).name == "perfetto"
        return captures.read(path)


def interned(writer, names, categories=()):
    packet = writer.packet(sequence_flags=1)
    for number, name in names.items():
        packet.interned_data.event_names.add(iid=number, name=name)
    for number, name in dict(categories).items():
        packet.interned_data.event_categories.add(iid=number, name=name)
    return packet


def spans(table):
    return [(str(row.name_), row.start_ns, row.end_ns) for row in table.rename(columns={"name": "name_"}).itertuples()]


def test_slices_with_interned_names_and_default_tracks(tmp_path):
    writer = Writer()
    writer.thread(1 << 63 | 5, 42, "worker")
    interned(writer, {1: "outer", 2: "inner"}, {9: "db"}).trace_packet_defaults.track_event_defaults.track_uuid = 1 << 63 | 5
    for time, kind, name in ((100, BEGIN, 1), (110, BEGIN, 2), (120, END, 0), (130, INSTANT, 2), (150, END, 0), (160, BEGIN, 3)):
        event = writer.packet(time, sequence_flags=2).track_event
        event.type = kind
        if name:
            event.name_iid = name
            event.category_iids.append(9)
    counter = writer.packet(170).track_event
    counter.type, counter.counter_value = COUNTER, 5
    writer.packet(180).ftrace_events.cpu = 1
    trace = writer.saved(tmp_path / "a.pftrace")
    assert spans(trace.ranges) == [("outer", 100, 150), ("inner", 110, 120), ("inner", 130, 130), ("", 160, 160)]
    assert trace.ranges["category"].tolist() == ["user", "user", "mark", "user"]
    assert set(trace.ranges["thread"]) == {42}
    assert set(trace.ranges["domain"]) == {"db"}
    assert trace.info["threads"] == {"42": "worker"}
    assert trace.diagnostics == {
        "values of counters, not read": 1,
        "names that the trace refers to and does not hold": 1,
        "begins and ends without the other": 1,
    }
    assert trace.info["not_read"] == {"ftrace bundles": 1}


def test_texts_are_void_when_a_sequence_begins_anew(tmp_path):
    writer = Writer()
    other = Writer(writer.trace, 8)
    for one, name, uuid in ((writer, "a", 1), (other, "b", 2), (writer, "c", 3)):
        interned(one, {1: name})
        for time, kind in ((uuid * 100, BEGIN), (uuid * 100 + 5, END)):
            event = one.packet(time, sequence_flags=2).track_event
            event.type, event.track_uuid, event.name_iid = kind, uuid, 1
    trace = writer.saved(tmp_path / "a.pftrace")
    assert spans(trace.ranges) == [("a", 100, 105), ("b", 200, 205), ("c", 300, 305)]
    assert trace.ranges["thread"].nunique() == 3


def test_times_of_other_clocks(tmp_path):
    writer = Writer()
    snapshot = writer.packet(sequence_flags=1).clock_snapshot
    snapshot.clocks.add(clock_id=6, timestamp=1_000_000)
    snapshot.clocks.add(clock_id=3, timestamp=400_000)
    snapshot.clocks.add(clock_id=64, timestamp=0, is_incremental=True, unit_multiplier_ns=1000)
    for clock, time, kind in ((64, 5, BEGIN), (64, 10, END), (3, 500_000, BEGIN), (3, 500_001, END), (5, 7, INSTANT)):
        packet = writer.packet(time, timestamp_clock_id=clock)
        packet.track_event.type, packet.track_event.track_uuid = kind, 1
        packet.track_event.name = f"clock {clock}"
    trace = writer.saved(tmp_path / "a.pftrace")
    assert sorted(spans(trace.ranges)) == [
        ("clock 3", 1_100_000, 1_100_001),
        ("clock 5", 7, 7),
        ("clock 64", 1_005_000, 1_015_000),
    ]
    assert trace.diagnostics == {"times of a clock that nothing ties to the others": 1}


def test_rocprofv3(tmp_path):
    writer = Writer()
    writer.thread(1, 42, "main")
    writer.track(2, "COMPUTE AGENT [4] QUEUE [1] (GPU)")
    writer.track(3, "COPY to AGENT [4] THREAD [0] (GPU)")
    writer.slice(1, 10, 20, "hipLaunchKernel", "hip_api")
    writer.slice(1, 30, 40, "my range", "marker_api")
    writer.slice(2, 50, 90, "Cijk_Ailk_Bljk_SB_MT32x32x16", "kernel_dispatch")
    writer.slice(3, 50, 60, "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy")
    trace = writer.saved(tmp_path / "a.pftrace")
    assert spans(trace.kernels) == [("Cijk_Ailk_Bljk_SB_MT32x32x16", 50, 90)]
    assert trace.kernels[["device", "thread", "kind"]].values.tolist() == [["rocm agent 4", 1, "gemm"]]
    assert trace.copies[["operation", "duration_ns", "device"]].values.tolist() == [["host to device", 10, "rocm agent 4"]]
    assert trace.calls[["name", "process", "thread"]].values.tolist() == [["hipLaunchKernel", 100, 42]]
    assert trace.ranges["name"].tolist() == ["my range"]


def test_slices_of_others_are_never_kernels(tmp_path):
    writer = Writer()
    writer.thread(1, 42, "main")
    writer.slice(1, 10, 20, "x", "kernels")
    writer.slice(1, 30, 40, "y", "kernel_dispatch")
    trace = writer.saved(tmp_path / "a.pftrace")
    assert trace.kernels.empty
    assert len(trace.ranges) == 2


def test_render_stages_are_kernels(tmp_path):
    writer = Writer()
    packet = writer.packet(sequence_flags=1)
    packet.interned_data.gpu_specifications.add(iid=3, name="Compute")
    for time, length, name in ((100, 50, ""), (200, 25, "blur")):
        stage = writer.packet(time, sequence_flags=2).gpu_render_stage_event
        stage.event_id, stage.duration, stage.stage_iid, stage.hw_queue_iid, stage.gpu_id = time, length, 3, 8, 1
        if name:
            stage.name = name
    trace = writer.saved(tmp_path / "a.pftrace")
    assert spans(trace.kernels) == [("Compute", 100, 150), ("blur", 200, 225)]
    assert trace.kernels[["device", "thread"]].values.tolist() == [["gpu:1", 8], ["gpu:1", 8]]


def test_packed_packets(tmp_path):
    inner = Writer()
    inner.thread(1, 42, "main")
    inner.slice(1, 10, 20, "inside")
    outer = Writer()
    outer.packet(1, compressed_packets=zlib.compress(inner.trace.SerializeToString()))
    outer.slice(1, 30, 40, "behind")
    trace = outer.saved(tmp_path / "a.pftrace")
    assert spans(trace.ranges) == [("inside", 10, 20), ("behind", 30, 40)]


def test_damage_is_refused_in_a_line(tmp_path):
    writer = Writer()
    writer.slice(1, 10, 20, "x")
    path = tmp_path / "a.pftrace"
    path.write_bytes(writer.trace.SerializeToString()[:-3])
    with pytest.raises(EvidenceError, match="damaged or cut short") as error:
        captures.read(path, "perfetto")
    assert "\n" not in str(error.value)
    empty = Writer()
    empty.packet(5).ftrace_events.cpu = 1
    path.write_bytes(empty.trace.SerializeToString())
    with pytest.raises(EvidenceError, match=r"holds no slices and no GPU work \(ftrace bundles 1\)"):
        captures.read(path)


def sums(table):
    return table.astype({"name": "str"}).groupby("name")[["count", "duration_ns"]].sum().sort_index()


def smallest(folder, pattern):
    found = sorted((CORPUS / folder).glob(pattern), key=lambda path: path.stat().st_size)
    if not found:
        pytest.skip("the captures of others are not here")
    return found[0]


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("nvprof", "*.nvvp"), ("nvprof", "*.nvprof"), ("kineto", "*cuda*.json*"), ("kineto", "*.json"), ("mxnet", "*.json")],
)
def test_our_own_exports_read_back_with_the_same_kernels(tmp_path, folder, pattern):
    source = captures.read(smallest(folder, pattern))
    found = events(source)
    export.write([("a side", found, origins([source], [found])[0])], "kernelscope 1", tmp_path / "a.pftrace.gz")
    assert gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes()).startswith(b"\n")
    back = captures.read(tmp_path / "a.pftrace.gz")
    timed = source.kernels[source.kernels["start_ns"].notna()]
    spans_of = timed.assign(duration_ns=timed["end_ns"] - timed["start_ns"], count=1)
    pd.testing.assert_frame_equal(sums(back.kernels), sums(spans_of), check_dtype=False)
    assert len(back.copies) == int(source.copies["start_ns"].notna().sum())
    assert (
        back.copies["operation"].astype("str").value_counts().to_dict()
        == source.copies.loc[source.copies["start_ns"].notna(), "operation"].astype("str").value_counts().to_dict()
    )
    assert sorted(back.kernels["device"].astype("str").unique()) == sorted(timed["device"].astype("str").unique())
    assert len(back.calls) == len(source.calls)
