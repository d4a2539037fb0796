"""cupti.records: from records such as cupti-python hands over (plain classes with the same attributes) to tables and a Trace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis import formats
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.cupti import records as cupti_records
from kernelscope.analysis.recordings import captures
from kernelscope.tracer.inside import activity_records
from tests.places import ROOT


def plain_class(name: str, table: str) -> type:
    """Return a class with the attributes that the table's records have, all 0."""
    attributes = [(attribute, code) for _, attribute, code in activity_records.TABLES[table][1:] if attribute]
    empty: dict[str, Any] = {attribute: "" if code == "s" else 0 for attribute, code in attributes if "." not in attribute}
    return type(name, (), {**empty, "kind": 0, "__init__": lambda self, **given: self.__dict__.update(given)})


Kernel = plain_class("Kernel", "kernels")
Memcpy = plain_class("Memcpy", "copies")
PeerMemcpy = plain_class("PeerMemcpy", "peer_copies")
Memset = plain_class("Memset", "memsets")
Api = plain_class("Api", "calls")
Synchronization = plain_class("Synchronization", "syncs")
GraphTrace = plain_class("GraphTrace", "graphs")
External = plain_class("External", "external")
Overhead = plain_class("Overhead", "overheads")
Memory = plain_class("Memory", "memory")
Device = plain_class("Device", "devices")
Context = plain_class("Context", "contexts")


class Bytes:
    """As CUuuid: `bytes` is its 16 bytes."""

    def __init__(self, value: bytes) -> None:
        self.bytes = value


class _Pair:
    process_id, thread_id = 4242, 77


class _Object:
    pt = _Pair()


BASE = 1_700_000_000_000_000_000  # CUPTI's clock, which is the wall's; ours is 5 s then

# One buffer: two launches of one kernel, one inside a graph, and one of each of the others
RECORDS = [
    Device(kind=8, id=0, name="NVIDIA H100", uuid=Bytes(bytes(range(16))), compute_capability_major=9, num_multiprocessors=132,
           global_memory_size=80 << 30),
    Context(kind=9, context_id=1, device_id=0),
    External(kind=39, external_kind=5, external_id=12, correlation_id=101),
    Api(kind=5, cbid=211, start=BASE + 1000, end=BASE + 3000, process_id=4242, thread_id=77, correlation_id=101),
    Kernel(kind=10, name="_Z4gemmPf", start=BASE + 5000, end=BASE + 9000, device_id=0, context_id=1, stream_id=7,
           correlation_id=101, grid_x=2, grid_y=3, grid_z=1, block_x=128, block_y=1, block_z=1, registers_per_thread=40,
           static_shared_memory=1024, dynamic_shared_memory=2048, shared_memory_executed=32768, local_memory_per_thread=16),
    Api(kind=4, cbid=514, start=BASE + 10_000, end=BASE + 12_000, process_id=4242, thread_id=77, correlation_id=102),
    Kernel(kind=10, name="_Z4gemmPf", start=BASE + 13_000, end=BASE + 14_000, context_id=1, stream_id=7, correlation_id=102,
           grid_x=1, grid_y=1, grid_z=1, block_x=32, block_y=1, block_z=1, graph_id=3, graph_node_id=9_000_000_001,
           cluster_x=2, cluster_y=1, cluster_z=1, launch_type=1, queued=BASE + 10_500),
    Memcpy(kind=1, copy_kind=1, src_kind=2, dst_kind=3, flags_=1, bytes=4096, start=BASE + 15_000, end=BASE + 16_000,
           context_id=1, stream_id=7, correlation_id=103, copy_count=1),
    PeerMemcpy(kind=22, copy_kind=10, src_kind=3, dst_kind=3, bytes=64, start=BASE + 16_000, end=BASE + 16_500, src_device_id=0,
               dst_device_id=1, context_id=1, stream_id=8, correlation_id=104),
    Memset(kind=2, bytes=256, value=255, memory_kind=3, start=BASE + 17_000, end=BASE + 17_200, context_id=1, stream_id=7,
           correlation_id=105),
    Synchronization(kind=38, type=3, start=BASE + 18_000, end=BASE + 20_000, context_id=1, stream_id=7, cuda_event_id=0xFFFFFFFF,
                    correlation_id=106),
    Synchronization(kind=38, type=4, start=BASE + 21_000, end=BASE + 22_000, context_id=1, stream_id=0xFFFFFFFF,
                    cuda_event_id=0xFFFFFFFF, correlation_id=107),
    Overhead(kind=17, overhead_kind=4 << 16, object_kind=2, object_id=_Object(), start=BASE + 100, end=BASE + 400),
    Memory(kind=49, memory_operation_type=1, memory_kind=3, address=0x7F0000000000, bytes=1 << 20, timestamp=BASE + 500,
           process_id=4242, context_id=1, stream_id=0xFFFFFFFF),
]  # fmt: skip


def header(**more: Any) -> dict[str, Any]:
    """Return what a collector's file begins with."""
    return {"format": 1, "process": 4242, "kinds": {}, "versions": {}, "tables": activity_records.layout(), **more}


def blocks(records: list[Any] | None = None, **more: Any) -> list[bytes]:
    """Return the parts of a whole file: magic, header, clock, records, ranges, dropped, clock, end."""
    encoder = activity_records.Encoder()
    encoded = encoder.encode(RECORDS if records is None else records)
    return [
        activity_records.MAGIC,
        activity_records.json_block(b"HEAD", header(**more)),
        encoder.rows("clock", [(BASE, 5_000_000_000, 80, 0)]),
        encoded,
        encoder.rows("ranges", [(12, "conv1", 77, 5_000_000_500, 5_000_004_000)]),
        encoder.rows("dropped", [(-1, -1, 3)]),
        encoder.rows("clock", [(BASE + 1_000_000, 5_000_999_000, 90, 2)]),
        activity_records.json_block(b"DONE", {"records": dict(encoder.counts), "dropped": 3}),
    ]


def write(path: Path, parts: list[bytes] | None = None) -> Path:
    """Write a file of these parts, the whole sample without any."""
    path.write_bytes(b"".join(blocks() if parts is None else parts))
    return path


@pytest.fixture
def tables(tmp_path):
    return cupti_records.read(write(tmp_path / "cupti.records"))


def only(frame):
    assert len(frame) == 1
    return frame.iloc[0]


def test_kernels_have_what_was_recorded(tables):
    first, second = (row for _, row in tables["kernels"].iterrows())
    assert (first["start_ns"], first["end_ns"]) == (BASE + 5000, BASE + 9000)
    assert first["name"] == "_Z4gemmPf"
    assert first[["device", "context", "stream", "correlation"]].tolist() == [0, 1, 7, 101]
    assert first[["grid_x", "grid_y", "grid_z", "block_x", "registers"]].tolist() == [2, 3, 1, 128, 40]
    assert first[["static_shared", "dynamic_shared", "shared_executed", "local_thread"]].tolist() == [1024, 2048, 32768, 16]
    assert pd.isna(first["graph"])
    assert pd.isna(first["queued_ns"])
    assert second[["graph", "graph_node", "queued_ns"]].tolist() == [3, 9_000_000_001, BASE + 10_500]
    assert (first["launch"], second["launch"], second["cluster_x"]) == ("regular", "cooperative", 2)


def test_copies_and_memsets(tables):
    copy, peer = (row for _, row in tables["copies"].iterrows())
    assert copy[["operation", "source", "destination", "bytes"]].tolist() == ["host to device", "pinned", "device", 4096]
    assert copy["asynchronous"]
    assert not peer["asynchronous"]
    assert peer[["operation", "source_device", "destination_device", "count"]].tolist() == ["peer to peer", 0, 1, 1]
    memset = only(tables["memsets"])
    assert memset[["bytes", "value", "memory", "correlation"]].tolist() == [256, 255, "device", 105]


def test_calls_have_their_names(tables):
    calls = tables["calls"]
    assert calls["api"].tolist() == ["runtime", "driver"]
    assert calls["name"].tolist() == ["cudaLaunchKernel", "cuGraphLaunch"]  # cupti_runtime_cbid.h 211, cupti_driver_cbid.h 514
    assert calls[["process", "thread", "correlation"]].iloc[0].tolist() == [4242, 77, 101]


def test_waits_know_their_device_from_the_context(tables):
    syncs = tables["syncs"]
    assert syncs["kind"].tolist() == ["stream", "context"]
    assert syncs["device"].tolist() == [0, 0]
    assert syncs["stream"].tolist()[0] == 7
    assert syncs["stream"].isna().tolist() == [False, True]
    assert syncs["event"].isna().all()


def test_a_launch_carries_its_range(tables):
    external = only(tables["external"])
    assert external[["correlation", "kind", "external"]].tolist() == [101, "ranges", 12]
    found = only(tables["ranges"])
    assert found.tolist() == [12, "conv1", 77, 5_000_000_500, 5_000_004_000]


def test_the_rest(tables):
    assert only(tables["overheads"])[["kind", "process", "thread"]].tolist() == ["module loading", 4242, 77]
    memory = only(tables["memory"])
    assert memory[["operation", "bytes", "address", "memory"]].tolist() == ["allocation", 1 << 20, 0x7F0000000000, "device"]
    assert only(tables["dropped"])["count"] == 3
    assert tables["dropped"][["context", "stream"]].isna().all(axis=None)
    device = only(tables["devices"])
    assert device["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert device[["name", "capability_major", "multiprocessors", "mig"]].tolist() == ["NVIDIA H100", 9, 132, False]
    assert tables["clock"]["place"].tolist() == ["begin", "end"]
    assert tables["graphs"].empty


def test_a_name_that_no_table_has_comes_from_the_recorder(tmp_path):
    encoder = activity_records.Encoder(lambda kind, number: {9001: "cudaNewThing_v14000_ptsz"}.get(number))
    encoded = encoder.encode([Api(kind=5, cbid=9001), Api(kind=5, cbid=9002)])
    path = write(tmp_path / "cupti.records", [*blocks()[:2], encoded])
    assert cupti_records.read(path)["calls"]["name"].tolist() == ["cudaNewThing", "runtime 9002"]


def test_times_move_to_our_clock_with_the_drift_between_two_readings(tables):
    times = pd.Series([BASE, BASE + 500_000, None, BASE + 1_000_000, BASE - 10], dtype="Int64")
    moved = cupti_records.to_monotonic(tables["clock"], times)
    # over 1 000 000 ns of CUPTI's clock ours went 999 000 ns; before the first reading the difference is the first one's
    expected = [5_000_000_000, 5_000_499_500, pd.NA, 5_000_999_000, 4_999_999_990]
    assert moved.dropna().tolist() == [value for value in expected if value is not pd.NA]
    assert moved.isna().tolist() == [value is pd.NA for value in expected]
    plain = cupti_records.to_monotonic(tables["clock"], pd.Series([BASE + 7]))
    assert (plain.dtype, plain.tolist()) == (np.int64, [5_000_000_007])
    with pytest.raises(EvidenceError, match="no reading of both clocks"):
        cupti_records.to_monotonic(tables["clock"][:0], times)


def test_records_as_numpy_keeps_them_in_older_packages():
    """Classes of cupti-python up to 13.0 hold a numpy record, and their texts are pointers into CUPTI's memory."""
    layout = np.dtype(
        {"names": ["kind", "registers_per_thread", "start", "end", "correlation_id", "name", "grid_x"],
         "formats": ["<i4", "<u2", "<u8", "<u8", "<u4", "<i8", "<i4"], "offsets": [0, 6, 16, 24, 92, 104, 52], "itemsize": 208}
    )  # fmt: skip

    class Old:
        asked = 0

        def __init__(self, pointer: int, **values: int) -> None:
            self._data = np.zeros(1, dtype=layout)
            for name, value in {"kind": 10, "name": pointer, **values}.items():
                self._data[name] = value
            self.kind = 10

        @property
        def name(self) -> str:
            Old.asked += 1
            return {1000: "gemm", 2000: "relu"}[int(self._data["name"][0])]

    records = [Old(1000, start=5, end=9, correlation_id=4, registers_per_thread=33, grid_x=-1), Old(2000), Old(1000, start=10)]
    new = [Kernel(kind=10, name="gemm", start=5, end=9, correlation_id=4, registers_per_thread=33, grid_x=-1),
           Kernel(kind=10, name="relu"), Kernel(kind=10, name="gemm", start=10)]  # fmt: skip
    assert activity_records.Encoder().encode(records) == activity_records.Encoder().encode(new)
    assert Old.asked == 2


def test_one_odd_record_costs_itself_only():
    encoder = activity_records.Encoder()
    encoder.encode([Kernel(kind=10, start=number) for number in range(50)] + [Kernel(kind=10, start=-1)] + [Kernel(kind=10)])
    assert encoder.counts == {"kernels": 51}
    assert encoder.failed == {"kernels": 1}
    encoder.encode([plain_class("Jit", "kernels")(kind=52)])
    assert encoder.unknown == {52: 1}


def test_texts_stay_bounded_and_keep_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(activity_records, "MOST_TEXTS", 2)
    encoder = activity_records.Encoder()
    names = ["a", "b", "c", "a", "d", "b", "a"]
    encoded = [encoder.encode([Kernel(kind=10, name=name)]) for name in names]
    assert len(encoder.texts) <= 3
    path = write(tmp_path / "cupti.records", [*blocks()[:2], *encoded])
    assert cupti_records.read(path)["kernels"]["name"].tolist() == names


def test_a_file_cut_off_anywhere_reads_up_to_there(tmp_path):
    """Cut at every byte: refused in one line before the header ends, then what is there, never more rows than were written."""
    parts = blocks()
    whole = b"".join(parts)
    path = tmp_path / "cupti.records"
    counts = []
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        if size < len(parts[0]) + len(parts[1]):
            with pytest.raises(EvidenceError, match=str(path)):
                cupti_records.load(path)
            continue
        capture = cupti_records.load(path)
        assert "byte" in capture.truncated
        counts.append(sum(map(len, capture.tables.values())))
    assert counts == sorted(counts)
    path.write_bytes(whole)
    capture = cupti_records.load(path)
    assert capture.truncated is None
    assert capture.report["dropped"] == 3
    assert sum(map(len, capture.tables.values())) == len(RECORDS) + 4
    # in the middle of the block of two kernels: the first one is there
    kernels = activity_records.Encoder().encode([record for record in RECORDS if isinstance(record, Kernel)])
    path.write_bytes(b"".join([*parts[:3], kernels[:-5]]))
    cut = cupti_records.load(path)
    assert cut.tables["kernels"]["correlation"].tolist() == [101]
    assert "cut off in the middle of a block" in cut.truncated


def test_changed_bytes_are_found_and_never_a_crash(tmp_path):
    chance = random.Random(4)
    whole = b"".join(blocks())
    path = tmp_path / "cupti.records"
    for _ in range(80):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
        if content == whole:
            continue
        try:
            told = cupti_records.load(path).truncated
        except EvidenceError as error:
            told = str(error)
        assert told is not None
        assert "\n" not in told


@pytest.mark.parametrize(
    "head",
    [
        {"tables": {"KERN": {"table": "kernels", "columns": [["start_ns", "O"]]}}},
        {"tables": {"KERN": {"table": "kernels", "columns": [["start_ns", "Q"], ["start_ns", "Q"]]}}},
        {"tables": {"KERN": {"table": "kernels", "columns": []}}},
        {"tables": []},
        {"tables": {"\u00e9": {"table": "kernels", "columns": []}}},
        [],
        {},
    ],
)
def test_headers_that_no_collector_writes_are_refused(tmp_path, head):
    parts = blocks()
    path = write(tmp_path / "cupti.records", [parts[0], activity_records.json_block(b"HEAD", head), *parts[2:]])
    with pytest.raises(EvidenceError, match="HEAD"):
        cupti_records.load(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"SQLite format 3\x00")
    with pytest.raises(EvidenceError, match="not a file of the CUPTI collector"):
        cupti_records.read(path)
    with pytest.raises(EvidenceError, match="No such file"):
        cupti_records.read(tmp_path / "absent")


def test_it_is_a_capture_like_others(tmp_path):
    """The file becomes a Trace on CLOCK_MONOTONIC: launches tied to calls, and through them to the ranges then open."""
    path = write(tmp_path / "anything")
    assert formats.detect(path).name == "cupti"
    trace = captures.read(path)
    first, second = (row for _, row in trace.kernels.iterrows())
    assert first["name"] == "gemm(float*)"
    assert (first["duration_ns"], first["grid"], first["block"], first["shared_memory"]) == (4000, "2,3,1", "128,1,1", 3072)
    assert first["start_ns"] == 5_000_000_000 + 5000 - 5  # drift: 1 ns in 1000
    assert (first["device"], first["thread"], first["process"]) == ("cuda:0", 7, 4242)
    assert first["launch_ns"] == 5_000_000_000 + 1000 - 1
    assert trace.ranges["name"][first["range_id"]] == "conv1"
    assert pd.isna(second["range_id"])
    assert second["graph"] == 3
    assert trace.copies["operation"].tolist() == ["host to device", "peer to peer", "set"]
    assert trace.copies["memory"].tolist() == ["pinned to device", "device to device", "device"]
    assert trace.syncs["kind"].tolist() == ["stream", "context"]
    assert trace.memory["bytes"].tolist() == [1 << 20]
    assert trace.diagnostics["records dropped by CUPTI"] == 3
    assert trace.info["devices"][0]["compute_capability"] == "9.0"


def test_a_cut_file_says_so_as_a_capture(tmp_path):
    path = write(tmp_path / "cupti.records", blocks(kinds={"RUNTIME": "Activity Kind RUNTIME not supported"})[:4])
    notes = captures.read(path).info["notes"]
    assert any("the file is incomplete" in note for note in notes)
    assert any("RUNTIME" in note for note in notes)


def test_the_file_of_the_fuzzer_is_this_sample():
    """tests/data/cupti/cupti.records was written by `write` above; a change of the format asks for a new one."""
    path = ROOT / "tests" / "data/cupti/cupti.records"
    assert path.read_bytes() == b"".join(blocks())
