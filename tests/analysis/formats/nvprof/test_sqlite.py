"""nvprof's SQLite files: every number is recomputed with plain SQL; variants of the schema are written here."""

import contextlib
import random
import shutil
import sqlite3
import struct
import subprocess
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.cupti import callbacks as cupti_callbacks
from kernelscope.analysis.formats.nvprof import sqlite as nvprof_sqlite
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import Trace, page_faults
from tests.analysis.formats.lower_case import lowered
from tests.places import CORPUS

NAMES = (
    "esarmstrong__ece408__timeline.nvprof",
    "josiahdavis__profiling-lm__net_189edf9a5e.sql",
    "josiahdavis__profiling-lm__net_1c98352da5.sql",
    "sandeep-krishnamurthy__mxnet-profiler-demo__basic_nvprof_output.nvvp",
    "syed-ahmed__TensorFlow-Tutorial__out.nvvp",
    "tbd-ai__tbd-suite__inception-tensorflow.nvvp",
)
PREFIX = "CUPTI_ACTIVITY_KIND_"


@pytest.fixture(params=NAMES)
def capture(request) -> Path:
    path = CORPUS / "nvprof" / request.param
    if not path.exists():
        pytest.skip("nvprof's captures of other people: needs ../shared/corpus")
    return path


@cache
def trace_of(path: Path) -> Trace:
    return nvprof_sqlite.read(path)


def sql(path: Path, statement: str) -> list[tuple]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        return database.execute(statement).fetchall()


def demangled(names: list[str]) -> list[str]:
    filtered = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return filtered.split("\n")[: len(names)]


def test_only_the_files_of_nvprof_are_taken():
    if not CORPUS.exists():
        pytest.skip("captures of other people: needs ../shared/corpus")
    taken = {path.name for path in CORPUS.glob("*/*") if path.is_file() and nvprof_sqlite.matches(read_head(path))}
    assert taken == set(NAMES)


def test_kernels_by_name(capture):
    if shutil.which("c++filt") is None:
        pytest.skip("compares names with c++filt: needs binutils")
    rows = sql(
        capture,
        "SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k "
        "JOIN StringTable s ON k.name = s._id_ GROUP BY k.name",
    )
    expected: dict[str, tuple[int, int]] = {}
    for name, (_, count, total) in zip(demangled([row[0] for row in rows]), rows, strict=True):
        before = expected.get(name, (0, 0))
        expected[name] = (before[0] + count, before[1] + total)
    kernels = trace_of(capture).kernels
    found = kernels.groupby("name", observed=True)["duration_ns"].agg(["count", "sum"])
    assert {str(name): (int(count), int(total)) for name, count, total in found.itertuples()} == expected


def test_kernels_one_by_one(capture):
    rows = sql(
        capture,
        "SELECT start, end, deviceId, streamId, correlationId, gridX || ',' || gridY || ',' || gridZ, "
        "blockX || ',' || blockY || ',' || blockZ, registersPerThread, staticSharedMemory + dynamicSharedMemory "
        "FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
    )
    kernels = trace_of(capture).kernels
    columns = ["start_ns", "end_ns", "device", "thread", "correlation", "grid", "block", "registers", "shared_memory"]
    assert sorted(kernels[columns].itertuples(index=False, name=None)) == sorted(
        (start, end, f"cuda:{device}", *rest) for start, end, device, *rest in rows
    )
    assert kernels["start_ns"].is_monotonic_increasing
    assert (kernels["duration_ns"] == kernels["end_ns"] - kernels["start_ns"]).all()


def test_copies_by_kind(capture):
    expected = {}
    operations = {1: "host to device", 2: "device to host", 8: "device to device"}
    rows = sql(
        capture, "SELECT copyKind, count(*), sum(end - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY copyKind"
    )
    for kind, *numbers in rows:
        expected[operations[kind]] = tuple(numbers)
    count, *numbers = sql(capture, "SELECT count(*), sum(end - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMSET")[0]
    if count:
        expected["set"] = (count, *numbers)
    copies = trace_of(capture).copies
    found = copies.groupby("operation", observed=True).agg(
        count=("count", "sum"), time=("duration_ns", "sum"), size=("bytes", "sum")
    )
    assert {str(name): tuple(map(int, numbers)) for name, *numbers in found.itertuples()} == expected


@pytest.mark.parametrize(("api", "names"), [("runtime", cupti_callbacks.RUNTIME), ("driver", cupti_callbacks.DRIVER)])
def test_calls_by_function(capture, api, names):
    expected: dict[str, list[int]] = {}
    table = PREFIX + api.upper()
    for cbid, count, total in sql(capture, f"SELECT cbid, count(*), sum(end - start) FROM {table} GROUP BY cbid"):
        entry = expected.setdefault(names.get(cbid, f"cbid {cbid}"), [0, 0])
        entry[0] += count
        entry[1] += total
    calls = trace_of(capture).calls
    calls = calls[calls["api"] == api].assign(time=lambda rows: rows["end_ns"] - rows["start_ns"])
    found = calls.groupby("name", observed=True)["time"].agg(["count", "sum"])
    assert {str(name): list(map(int, numbers)) for name, *numbers in found.itertuples()} == expected


def test_calls_are_of_their_process_and_thread(capture):
    rows = sql(capture, "SELECT processId, threadId, start FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    rows += sql(capture, "SELECT processId, threadId, start FROM CUPTI_ACTIVITY_KIND_DRIVER")
    calls = trace_of(capture).calls
    found = zip(calls["process"], calls["thread"] % 2**32, calls["thread"] // 2**32, calls["start_ns"], strict=True)
    assert sorted(found) == sorted((process, thread % 2**32, process, start) for process, thread, start in rows)


def test_ranges_by_name(capture):
    rows = sql(
        capture,
        "SELECT s.value, b.timestamp, e.timestamp, hex(b.objectId) FROM CUPTI_ACTIVITY_KIND_MARKER b "
        "JOIN CUPTI_ACTIVITY_KIND_MARKER e ON b.id = e.id AND b.flags = 2 AND e.flags = 4 JOIN StringTable s ON b.name = s._id_",
    )
    expected = sorted((name, start, end, int.from_bytes(bytes.fromhex(blob)[4:8], "little")) for name, start, end, blob in rows)
    ranges = trace_of(capture).ranges
    found = zip(ranges["name"], ranges["start_ns"], ranges["end_ns"], ranges["thread"] % 2**32, strict=True)
    assert sorted(found) == expected
    assert ranges["nested"].all()


def test_waits_and_devices(capture):
    names = {3: "stream", 4: "context", 1: "event", 2: "stream wait event"}
    trace = trace_of(capture)
    if sql(capture, f"SELECT 1 FROM sqlite_master WHERE name = '{PREFIX}SYNCHRONIZATION'"):
        rows = sql(capture, "SELECT type, start, end, correlationId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
        found = trace.syncs[["kind", "start_ns", "end_ns", "correlation"]].itertuples(index=False, name=None)
        assert sorted(found) == sorted((names[kind], *rest) for kind, *rest in rows)
    devices = sql(capture, "SELECT id, value FROM CUPTI_ACTIVITY_KIND_DEVICE d JOIN StringTable s ON d.name = s._id_ ORDER BY id")
    assert [(device["device"], device["name"]) for device in trace.info["devices"]] == [
        (f"cuda:{number}", name) for number, name in devices
    ]
    assert trace.info["source"]["schema"] == sql(capture, "SELECT version FROM Version")[0][0]
    assert trace.info["clock"] == "wall"
    assert trace.diagnostics == {}
    trace.check()


def test_the_overhead_is_said_and_the_command_line_is_not(capture):
    trace = trace_of(capture)
    notes = " ".join(trace.info["notes"])
    for total, count in sql(capture, "SELECT sum(end - start), count(*) FROM CUPTI_ACTIVITY_KIND_OVERHEAD GROUP BY overheadKind"):
        assert f" {total / 1e6:,.3f} ms in {count} intervals" in notes
    assert "python" not in str(trace.info["devices"]) + notes + str(trace.info["source"])


def test_frameworks_and_what_is_missing():
    if not CORPUS.exists():
        pytest.skip("nvprof's captures of other people: needs ../shared/corpus")
    infos = [trace_of(CORPUS / "nvprof" / name).info for name in NAMES]
    assert [info.get("framework") for info in infos] == ["mxnet", "pytorch", None, "mxnet", "tensorflow", None]
    nothing = ["calls", "copies", "kernels", "ranges"]
    assert [sorted(info["unavailable"]) for info in infos] == [["ranges"], [], nothing, ["ranges"], ["ranges"], nothing]
    assert "lists devices but holds no kernel" in infos[2]["unavailable"]["kernels"]
    assert "all its tables but holds no kernel" in infos[5]["unavailable"]["kernels"]


# Variants written here

SPAN = {"start": "INT", "end": "INT"}
WORK = {**SPAN, "deviceId": "INT", "contextId": "INT", "streamId": "INT", "correlationId": "INT"}
CALL = {"cbid": "INT", **SPAN, "processId": "INT", "threadId": "INT", "correlationId": "INT"}
MARKER = {
    "flags": "INT",
    "timestamp": "INT",
    "id": "INT",
    "objectKind": "INT",
    "objectId": "BLOB",
    "name": "INT",
    "domain": "INT",
}
TEXTS = ("-- null --", "python train.py", "GPU", "_Z6kernelIfEvPT_i", "step", "_ZN5wrong", "inner", "crossing", "domain of mine")


def written(tmp_path: Path, **tables: tuple[dict[str, str], list[tuple]]) -> Path:
    path = tmp_path / "made.nvprof"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE)")
        database.executemany("INSERT INTO StringTable VALUES(?, ?)", list(enumerate(TEXTS)))
        database.execute("CREATE TABLE Version(version INTEGER)")
        database.execute("INSERT INTO Version VALUES(5)")
        for kind, (columns, rows) in tables.items():
            listed = ", ".join(f'"{name}" {type_} NOT NULL' for name, type_ in columns.items())
            database.execute(f"CREATE TABLE {PREFIX}{kind}(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {listed})")
            marks = ", ".join("?" * len(columns))
            names = ", ".join(f'"{name}"' for name in columns)
            database.executemany(f"INSERT INTO {PREFIX}{kind}({names}) VALUES({marks})", rows)
        database.commit()
    return path


def read(path: Path) -> Trace:
    assert nvprof_sqlite.matches(read_head(path))
    trace = nvprof_sqlite.read(path)
    trace.check()
    return trace


def test_serial_kernels_of_old_files(tmp_path):
    columns = {**WORK, "runtimeCorrelationId": "INT", "name": "INT"}
    path = written(
        tmp_path,
        KERNEL=(columns, [(200, 260, 1, 1, 2, 7, 12, 3), (100, 130, 1, 1, 2, 6, 11, 5), (300, 310, 1, 1, 2, 8, 0, 99)]),
        RUNTIME=(CALL, [(13, 90, 95, 77, -5, 11), (13, 190, 195, 77, -5, 12), (9999, 290, 295, 77, -5, 8)]),
    )
    trace = read(path)
    assert trace.kernels["name"].astype(object).where(trace.kernels["name"].notna(), None).tolist() == [
        "_ZN5wrong", "void kernel<float>(float*, int)", None,
    ]  # fmt: skip
    assert trace.kernels["correlation"].tolist() == [11, 12, 8]
    assert trace.kernels["device"].unique().tolist() == ["cuda:1"]
    assert trace.kernels["process"].unique().tolist() == [77]
    assert trace.kernels["grid"].isna().all()
    assert trace.calls["name"].tolist() == ["cudaLaunch", "cudaLaunch", "cbid 9999"]
    assert trace.calls["thread"].unique().tolist() == [77 * 2**32 + 2**32 - 5]
    assert trace.diagnostics == {"kernel_names_not_demangled": 1, "kernels_without_name": 1}
    assert trace.info["source"]["schema"] == 5


def test_names_of_tables_and_columns_may_be_in_any_case(tmp_path):
    columns = {**WORK, "runtimeCorrelationId": "INT", "name": "INT"}
    path = written(tmp_path, KERNEL=(columns, [(200, 260, 1, 1, 2, 7, 12, 3)]), RUNTIME=(CALL, [(13, 190, 195, 77, -5, 12)]))
    trace = read(lowered(path, tmp_path / "lower.nvprof"))
    assert trace.kernels[["name", "duration_ns", "process"]].values.tolist() == [["void kernel<float>(float*, int)", 60, 77]]
    assert trace.calls["name"].tolist() == ["cudaLaunch"]
    assert trace.diagnostics == {}


def test_rows_without_usable_time_are_counted(tmp_path):
    columns = {**WORK, "name": "INT"}
    kernels = [
        (0, 0, 0, 1, 7, 1, 3),
        (500, 400, 0, 1, 7, 2, 3),
        (600, 0, 0, 1, 7, 3, 3),
        (700, 710, 0, 1, 7, 4, 3),
        (-5, 5, 0, 1, 7, 5, 3),
    ]
    trace = read(written(tmp_path, CONCURRENT_KERNEL=(columns, kernels)))
    assert trace.kernels["correlation"].tolist() == [4]
    assert trace.diagnostics == {"kernels_without_time": 3, "kernels_ending_before_start": 1, "device_work_of_unknown_process": 1}
    assert captures.lost(trace) == {"kernels ending before start": 1, "kernels without time": 3}, "which every command tells"


def test_the_process_of_a_kernel_among_several(tmp_path):
    columns = {**WORK, "name": "INT"}
    path = written(
        tmp_path,
        CONCURRENT_KERNEL=(columns, [(100, 101, 0, 1, 7, 1, 3), (200, 201, 0, 1, 7, 2, 3), (300, 301, 0, 1, 7, 3, 3)]),
        RUNTIME=(CALL, [(211, 90, 95, 10, 1, 1), (211, 90, 95, 10, 1, 2), (211, 90, 95, 20, 1, 2), (211, 90, 95, 20, 1, 4)]),
    )
    trace = read(path)
    assert trace.kernels["process"].astype(object).where(trace.kernels["process"].notna(), None).tolist() == [10, None, None]
    assert trace.diagnostics == {"device_work_of_unknown_process": 2}
    assert trace.calls["thread"].nunique() == 2


def test_kernels_in_two_tables_count_once(tmp_path):
    columns = {**WORK, "name": "INT"}
    row = (100, 101, 0, 1, 7, 1, 3)
    path = written(
        tmp_path,
        CONCURRENT_KERNEL=(columns, [row]),
        KERNEL=(columns, [row, (200, 201, 0, 1, 7, 2, 3)]),
        CDP_KERNEL=(columns, [(100, 101, 0, 1, 7, 1, 6)]),
    )
    trace = read(path)
    assert len(trace.kernels) == 3
    assert trace.diagnostics["kernels_in_two_tables"] == 1
    assert "1 kernels were launched by other kernels" in " ".join(trace.info["notes"])


def mark(flags, time, number, name, thread=5, kind=2, domain=0):
    return flags, time, number, kind, struct.pack("<III", 77, thread, 0), name, domain


def test_ranges_of_every_sort(tmp_path):
    rows = [
        mark(2, 100, 1, 4), mark(2, 110, 2, 6, domain=8), mark(4, 120, 2, 0), mark(4, 200, 1, 0),  # nested
        mark(2, 150, 3, 7, thread=9, kind=1), mark(4, 250, 3, 0, thread=9, kind=1),  # of the process
        mark(1, 160, 4, 6),  # an instant
        mark(2, 300, 5, 4), mark(2, 310, 6, 6), mark(4, 320, 5, 0), mark(4, 330, 6, 0),  # crossing
        mark(2, 400, 7, 4),  # never closed
        mark(4, 410, 8, 0),  # never opened
        mark(2, 420, 1, 6), mark(4, 430, 1, 0),  # an id that comes again
        mark(2, 500, 9, 4), mark(4, 490, 9, 0),  # backwards
        mark(2, 0, 10, 4),
    ]  # fmt: skip
    path = written(tmp_path, MARKER=(MARKER, rows), RUNTIME=(CALL, [(211, 90, 600, 77, 5, 1)]))
    trace = read(path)
    ranges = trace.ranges.assign(domain=trace.ranges["domain"].astype(object).where(trace.ranges["domain"].notna(), None))
    found = ranges[["start_ns", "end_ns", "name", "category", "nested", "domain"]].itertuples(index=False, name=None)
    assert list(found) == [
        (100, 200, "step", "user", True, None),
        (110, 120, "inner", "user", True, "domain of mine"),
        (150, 250, "crossing", "user", False, None),
        (160, 160, "inner", "mark", False, None),
        (300, 320, "step", "user", False, None),
        (310, 330, "inner", "user", False, None),
        (400, 600, "step", "user", True, None),
        (420, 430, "inner", "user", True, None),
    ]
    assert trace.ranges["thread"].iloc[0] == trace.calls["thread"].iloc[0]
    assert trace.diagnostics == {
        "marks_without_time": 1, "open_ranges": 1, "range_ends_without_start": 1, "ranges_ending_before_start": 1,
        "ranges_not_in_stack_order": 2,
    }  # fmt: skip


def test_peer_copies_unified_memory_sets_and_samples(tmp_path):
    copy = {"copyKind": "INT", "srcKind": "INT", "dstKind": "INT", "bytes": "INT", **WORK}
    unified = {"counterKind": "INT", "value": "INT", **SPAN, "srcId": "INT", "dstId": "INT", "processId": "INT"}
    environment = {"deviceId": "INT", "timestamp": "INT", "environmentKind": "INT", "data": "BLOB"}
    path = written(
        tmp_path,
        MEMCPY=(copy, [(1, 2, 3, 64, 100, 110, 0, 1, 7, 1), (0, 0, 0, 8, 200, 210, 0, 1, 7, 2)]),
        MEMCPY2=(copy, [(8, 3, 3, 32, 300, 330, 1, 1, 7, 3)]),
        MEMSET=({"value": "INT", "bytes": "INT", **WORK, "memoryKind": "INT"}, [(0, 16, 400, 404, 0, 1, 7, 4, 3)]),
        UNIFIED_MEMORY_COUNTER=(
            unified,
            [(1, 4096, 500, 505, 2**32 - 1, 0, 77), (2, 8192, 510, 515, 1, -1, 77), (4, 3, 520, 525, 0, 0, 77),
             (4, 1, 530, 537, 0, 0, 77), (4, 1, 540, 0, 0, 0, 77), (3, 0x58344172, 550, 0, -1, -1, 77)],
        ),
        ENVIRONMENT=(
            environment,
            [
                (0, 50, 1, struct.pack("<IIIII", 1290, 877, 3, 16, 0)), (1, 60, 2, struct.pack("<I", 41) + bytes(16)),
                (1, 70, 3, struct.pack("<II", 71234, 300000)), (0, 80, 4, struct.pack("<I", 33)),
            ],
        ),
    )  # fmt: skip
    trace = read(path)
    rows = trace.copies.assign(memory=trace.copies["memory"].astype(object).where(trace.copies["memory"].notna(), None))
    assert list(rows[["operation", "device", "bytes", "duration_ns", "memory"]].itertuples(index=False, name=None)) == [
        ("host to device", "cuda:0", 64, 10, "pinned to device"),
        ("other", "cuda:0", 8, 10, None),
        ("peer to peer", "cuda:1", 32, 30, "device to device"),
        ("set", "cuda:0", 16, 4, "device"),
        ("unified memory", "cuda:0", 4096, 5, None),
        ("unified memory", "cuda:1", 8192, 5, None),
    ]
    assert rows["process"].tolist()[-2:] == [77, 77]
    samples = trace.samples[["time_ns", "metric", "value"]].itertuples(index=False, name=None)
    assert list(samples) == [
        (50, "gpu_sm_clock_hz", 1290e6), (50, "gpu_memory_clock_hz", 877e6), (60, "gpu_temperature_c", 41.0),
        (70, "gpu_power_w", pytest.approx(71.234)), (70, "gpu_power_limit_w", 300.0), (80, "gpu_fan_speed", pytest.approx(0.33)),
        (520, "unified_memory_gpu_page_faults", 3.0), (530, "unified_memory_gpu_page_faults", 1.0),
        (540, "unified_memory_gpu_page_faults", 1.0), (550, "unified_memory_cpu_page_faults", 1.0),
    ]  # fmt: skip
    assert page_faults.of(trace) == page_faults.PageFaults(3, 5 + 7, 1), "one has no end: how long it took is not known"
    assert trace.samples["device"].tolist()[:3] == ["cuda:0", "cuda:0", "cuda:1"]


def test_unified_memory_of_old_files_and_allocations(tmp_path):
    old = {"scope": "INT", "counterKind": "INT", "deviceId": "INT", "value": "INT", "timestamp": "INT", "processId": "INT"}
    memory = {"memoryKind": "INT", "bytes": "INT", **SPAN, "processId": "INT", "deviceId": "INT"}
    path = written(
        tmp_path,
        UNIFIED_MEMORY_COUNTER=(old, [(1, 1, 0, 4096, 500, 77), (1, 3, 0, 2, 510, 77)]),
        MEMORY=(memory, [(3, 100, 10, 90, 77, 0), (2, 50, 20, 0, 77, 0)]),
    )
    trace = read(path)
    assert trace.samples[["metric", "value"]].values.tolist() == [
        ["unified_memory_host_to_device_bytes", 4096.0], ["unified_memory_cpu_page_faults", 2.0],
    ]  # fmt: skip
    assert page_faults.of(trace) == page_faults.PageFaults(0, 0, 2)
    assert trace.memory[["time_ns", "device", "bytes"]].values.tolist() == [
        [10, "cuda:0", 100],
        [20, "cpu", 50],
        [90, "cuda:0", -100],
    ]


def test_values_of_another_type_are_counted(tmp_path):
    columns = {**WORK, "name": "INT"}
    rows = [(100, 101, 0, 1, 7, 1, 3), (b"x", 101, 0, 1, 7, 1, 3), (100, "later", 0, 1, 7, 1, 3), (1.5, 101, 0, 1, 7, 1, 3)]
    trace = read(written(tmp_path, CONCURRENT_KERNEL=(columns, rows)))
    assert len(trace.kernels) == 1
    assert trace.diagnostics["unreadable_rows:CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"] == 3


def test_rows_of_a_table_that_lacks_a_column_are_counted(tmp_path):
    trace = read(written(tmp_path, CONCURRENT_KERNEL=(WORK, [(100, 101, 0, 1, 7, 1), (102, 103, 0, 1, 7, 1)])))
    assert trace.kernels.empty
    assert trace.diagnostics == {"unreadable_rows:CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": 2}


def test_absurd_numbers_do_no_harm(tmp_path):
    most, least = 2**63 - 1, -(2**63)
    path = written(
        tmp_path,
        CONCURRENT_KERNEL=(
            {**WORK, "name": "INT", "staticSharedMemory": "INT"},
            [(1, most, most, least, least, most, least, most)],
        ),
        RUNTIME=(CALL, [(most, 1, most, most, least, most), (least, 1, 2, least, most, 1)]),
        MARKER=(MARKER, [(most, 1, most, most, b"", most, least), (2, 5, 5, 2, b"\x01", 4, 0)]),
        MEMSET=({"bytes": "INT", **WORK, "memoryKind": "INT"}, [(least, 1, 2, most, most, most, most, most)]),
        DEVICE=({"id": "INT", "name": "INT"}, [(most, least)]),
        SYNCHRONIZATION=({**SPAN, "type": "INT"}, [(1, 2, least)]),
    )
    trace = read(path)
    assert len(trace.kernels) == 1


def test_views_are_not_read(tmp_path):
    path = written(tmp_path, RUNTIME=(CALL, []))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end, i AS name FROM n"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE VIEW {PREFIX}CONCURRENT_KERNEL AS {endless}")
        database.commit()
    assert read(path).kernels.empty


def test_generated_columns_are_refused(tmp_path):
    path = written(tmp_path, RUNTIME=(CALL, []))
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE {PREFIX}KERNEL(start INT, end INT AS (start + 1), name INT)")
        database.commit()
    with pytest.raises(EvidenceError, match=r"made.nvprof: table CUPTI_ACTIVITY_KIND_KERNEL has computed columns"):
        nvprof_sqlite.read(path)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"SQLite format 3\x00" + bytes(5000), b"no database"])
def test_files_that_are_no_database(tmp_path, content):
    path = tmp_path / "broken.nvvp"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=r"broken\.nvvp") as raised:
        nvprof_sqlite.read(path)
    assert "\n" not in str(raised.value)


def test_the_source_is_never_written(tmp_path):
    path = written(tmp_path, RUNTIME=(CALL, [(211, 90, 600, 77, 5, 1)]))
    path.chmod(0o444)
    before = path.read_bytes()
    read(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def endless(path: Path, table: str) -> None:
    """Let a table's pages point to one another, 500 times each and six deep: 500 ** 6 rows in a few pages."""
    with closing(sqlite3.connect(path)) as database:
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        size = database.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(path.read_bytes())
    page = bytes(content[(root - 1) * size : root * size])
    for _ in range(6):
        content += page
        below = len(content) // size
        places = [size - 5 * number for number in range(1, 501)]
        inner = bytearray(struct.pack(">BHHHBI", 5, 0, 500, places[-1], 0, below) + struct.pack(">500H", *places)).ljust(
            size, b"\0"
        )
        for place in places:
            inner[place : place + 5] = struct.pack(">IB", below, 1)
        page = bytes(inner)
    content[(root - 1) * size : root * size] = page
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)


@pytest.mark.parametrize("start", [1, "no number"])
def test_tables_without_end_are_refused(tmp_path, start):
    path = written(tmp_path, CONCURRENT_KERNEL=({**WORK, "name": "INT"}, [(start, 2, 0, 1, 7, 1, 3)] * 50))
    endless(path, f"{PREFIX}CONCURRENT_KERNEL")
    assert path.stat().st_size < 200_000
    with pytest.raises(EvidenceError, match=r"CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: a page is used twice"):
        nvprof_sqlite.read(path)


def test_damaged_files_fail_in_one_way(tmp_path):
    columns = {**WORK, "name": "INT"}
    path = written(
        tmp_path,
        CONCURRENT_KERNEL=(columns, [(100 + i, 101 + i, 0, 1, 7, i, 3) for i in range(200)]),
        RUNTIME=(CALL, [(211, 90 + i, 95 + i, 77, 5, i) for i in range(200)]),
        MARKER=(MARKER, [mark(2 + 2 * (i % 2), 100 + i, i // 2, 4) for i in range(100)]),
    )
    whole = path.read_bytes()
    random_numbers = random.Random(3)
    for _ in range(25):
        broken = bytearray(whole)
        for _ in range(random_numbers.randint(1, 40)):
            broken[random_numbers.randrange(len(broken))] = random_numbers.randrange(256)
        if random_numbers.random() < 0.3:
            del broken[random_numbers.randrange(len(broken)) :]
        path.write_bytes(broken)
        with contextlib.suppress(EvidenceError):  # nothing else may come
            nvprof_sqlite.read(path).check()


@pytest.mark.parametrize(
    ("table", "number", "name"),
    [
        ("RUNTIME", 13, "cudaLaunch"),
        ("RUNTIME", 211, "cudaLaunchKernel"),
        ("DRIVER", 307, "cuLaunchKernel"),
        ("DRIVER", 1, "cuInit"),
    ],
)
def test_names_of_callbacks(table, number, name):
    assert getattr(cupti_callbacks, table)[number] == name
