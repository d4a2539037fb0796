"""SQLite exports: what plain SQL counts in recorded ones, and hand-written ones for what no recorded one holds."""

import re
import sqlite3
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.nsys import sqlite as nsys_sqlite
from kernelscope.analysis.trace import TABLES, page_faults
from tests.analysis.formats.lower_case import lowered
from tests.places import CORPUS, ROOT

EXPORTS = sorted(path for path in (CORPUS / "nsys").glob("*.sqlite") if "dldb" not in path.name)
KERNEL, NVTX, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"
COPY_KINDS = {1: "host to device", 2: "device to host", 8: "device to device", 10: "peer to peer", 11: "unified memory"}


@pytest.fixture(scope="module", params=EXPORTS or [None], ids=lambda path: path.stem if path else "none")
def export(request):
    if request.param is None:
        pytest.skip("recorded exports need ../shared/corpus")
    database = sqlite3.connect(f"file:{request.param}?mode=ro&immutable=1", uri=True)
    database.text_factory = lambda raw: raw.decode("utf8", errors="replace")
    yield database, nsys_sqlite.read(request.param)
    database.close()


def sql(database, table, query, default=()):
    """Rows of a query on a table, none if there is no such table."""
    known = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return database.execute(query.format(table)).fetchall() if known else list(default)


def totals(table, *keys):
    """Count and time by some columns, as a dictionary."""
    grouped = table.astype(dict.fromkeys(keys, object)).groupby(list(keys), dropna=False)["duration_ns"]
    return {key if len(keys) > 1 else key[0]: (len(rows), int(rows.sum())) for key, rows in grouped}


def test_time_and_count_of_every_kernel(export):
    database, trace = export
    query = "SELECT s.value, 'cuda:' || k.deviceId, count(*), sum(k.end - k.start) FROM {} k "
    query += "JOIN StringIds s ON s.id = k.demangledName GROUP BY 1, 2"
    expected = {(name, device): (count, time) for name, device, count, time in sql(database, KERNEL, query)}
    assert totals(trace.kernels, "name", "device") == expected


def test_every_column_of_every_kernel(export):
    database, trace = export
    query = """SELECT start, end, streamId, (globalPid / 16777216) % 16777216, correlationId, registersPerThread,
        staticSharedMemory + dynamicSharedMemory, gridX || ',' || gridY || ',' || gridZ, blockX || ',' || blockY || ',' || blockZ
        FROM {} ORDER BY rowid"""
    names = ["start_ns", "end_ns", "thread", "process", "correlation", "registers", "shared_memory", "grid", "block"]
    found = trace.kernels[names].astype(object).to_numpy().tolist()
    assert found == [list(row) for row in sql(database, KERNEL, query)]
    assert trace.kernels["graph"].isna().all()  # none of these was recorded with --cuda-graph-trace=node


def test_copies_and_sets_by_kind(export):
    database, trace = export
    found = {
        key: (len(rows), int(rows["bytes"].sum()), int(rows["duration_ns"].sum()))
        for key, rows in trace.copies.astype({"operation": object}).groupby("operation")
    }
    expected = {}
    query = "SELECT copyKind, count(*), sum(bytes), sum(end - start) FROM {} GROUP BY 1"
    for kind, *numbers in sql(database, "CUPTI_ACTIVITY_KIND_MEMCPY", query):
        expected[COPY_KINDS[kind]] = tuple(numbers)
    for *numbers, _ in sql(
        database, "CUPTI_ACTIVITY_KIND_MEMSET", "SELECT count(*), sum(bytes), sum(end - start), 1 FROM {} GROUP BY 4"
    ):
        expected["set"] = tuple(numbers)
    assert found == expected


def test_calls_by_name_and_api(export):
    database, trace = export
    expected = defaultdict(lambda: (0, 0))
    query = "SELECT eventClass, s.value, count(*), sum(end - start) FROM {} JOIN StringIds s ON s.id = nameId GROUP BY 1, 2"
    for table in (RUNTIME, "OSRT_API"):
        for kind, name, count, time in sql(database, table, query):
            api = "os" if table == "OSRT_API" else {0: "runtime", 1: "driver"}[kind]
            key = (api, re.sub(r"_v\d+$", "", name))
            expected[key] = (expected[key][0] + count, expected[key][1] + time)
    calls = trace.calls.assign(duration_ns=trace.calls["end_ns"] - trace.calls["start_ns"])
    assert totals(calls, "api", "name") == dict(expected)


def test_every_column_of_every_cuda_call(export):
    database, trace = export
    query = """SELECT start, end, globalTid, (globalTid / 16777216) % 16777216, correlationId FROM {}
        ORDER BY start, end DESC, rowid"""
    calls = trace.calls[trace.calls["api"].isin(["runtime", "driver"])]
    found = calls[["start_ns", "end_ns", "thread", "process", "correlation"]].astype(object).to_numpy().tolist()
    assert found == [list(row) for row in sql(database, RUNTIME, query)]


def test_every_range(export):
    database, trace = export
    query = """SELECT start, end, globalTid, eventType = 59, coalesce(text, s.value) FROM {} n
        LEFT JOIN StringIds s ON s.id = n.textId WHERE eventType IN (59, 60) ORDER BY n.rowid"""
    found = trace.ranges[["start_ns", "end_ns", "thread", "nested", "name"]].astype(object).to_numpy().tolist()
    assert found == [list(row) for row in sql(database, NVTX, query)]
    assert trace.ranges["domain"].isna().all()


def test_syncs_and_graphs(export):
    database, trace = export
    query = """SELECT start, end, 'cuda:' || deviceId, CASE streamId WHEN 4294967295 THEN NULL ELSE streamId END, correlationId,
        CASE syncType WHEN 1 THEN 'event' WHEN 2 THEN 'stream wait event' WHEN 3 THEN 'stream' WHEN 4 THEN 'context'
        ELSE 'unknown' END FROM {} ORDER BY rowid"""
    found = trace.syncs[["start_ns", "end_ns", "device", "thread", "correlation", "kind"]].astype(object)
    found = found.where(found.notna(), None).to_numpy().tolist()
    assert found == [list(row) for row in sql(database, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", query)]
    query = "SELECT start, end, 'cuda:' || deviceId, streamId, correlationId, graphExecId FROM {} ORDER BY rowid"
    found = trace.graphs[["start_ns", "end_ns", "device", "thread", "correlation", "graph"]].astype(object).to_numpy().tolist()
    assert found == [list(row) for row in sql(database, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", query)]


def test_what_is_not_there_has_a_reason(export):
    database, trace = export
    trace.check()
    missing = {
        what
        for what, table in (("kernels", KERNEL), ("calls", RUNTIME), ("ranges", NVTX))
        if not sql(database, table, "SELECT 1 FROM {}")
    }
    assert set(trace.info["unavailable"]) == missing
    reasons = trace.info["unavailable"].values()
    assert all("record with nsys profile" in reason or "might have not been started" in reason for reason in reasons)


def test_source_and_devices(export):
    database, trace = export
    told = dict(sql(database, "META_DATA_EXPORT", "SELECT name, value FROM {}"))
    told |= dict(sql(database, "EXPORT_META_DATA", "SELECT name, value FROM {}"))
    version = told.get("EXPORT_PRODUCT_VERSION", "")
    assert trace.info["source"] == {
        "format": "nsys-sqlite",
        "tool": "nsys",
        "version": ".".join(version.split(".")[:3]) or None,
        "schema": told.get("EXPORT_SCHEMA_VERSION"),
    }
    gpus = {f"cuda:{number}": name for number, name in sql(database, "TARGET_INFO_GPU", "SELECT cuDevice, name FROM {}")}
    assert {row["device"]: row.get("name") for row in trace.info["devices"]}.items() <= (
        gpus or {"cuda:0": None, "cuda:1": None}
    ).items()
    assert trace.info["clock"] == "relative"


def test_nothing_of_environment_and_command_line_gets_in(export):
    database, trace = export
    secrets = {value for (value,) in sql(database, "TARGET_INFO_SYSTEM_ENV", "SELECT value FROM {}")}
    secrets |= {value for (value,) in sql(database, "META_DATA_CAPTURE", "SELECT value FROM {} WHERE name LIKE 'PROCESS_%'")}
    public = {row["name"] for row in trace.info["devices"] if "name" in row}
    told = repr(trace.info) + repr(trace.diagnostics)
    assert not [value for value in secrets - public if value and len(value) > 6 and value in told]


def test_only_exports_of_nsys_are_taken():
    if not CORPUS.exists():
        pytest.skip("telling recorded files apart needs ../shared/corpus")
    files = [path for path in CORPUS.glob("*/*") if path.is_file() and path.stat().st_size]
    assert sorted(path for path in files if nsys_sqlite.matches(read_head(path))) == EXPORTS


def write(path, **tables):
    """Write a small export: each table a list of dictionaries; StringIds from the texts used."""
    database = sqlite3.connect(path)
    for table, rows in ({"StringIds": [{"id": 1, "value": "one"}, {"id": 2, "value": "two"}]} | tables).items():
        names = list(dict.fromkeys(name for row in rows for name in row)) or ["start", "end"]
        kinds = ", ".join(
            f'"{name}"' + (" INTEGER PRIMARY KEY" if name == "id" and table == "StringIds" else "") for name in names
        )
        database.execute(f'CREATE TABLE "{table}" ({kinds})')
        marks = ", ".join("?" * len(names))
        database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', [[row.get(name) for name in names] for row in rows])
    database.commit()
    database.close()
    return path


TID = (1 << 56) + (7 << 24) + 9
KERNEL_ROW = {
    "start": 10,
    "end": 15,
    "deviceId": 0,
    "streamId": 7,
    "correlationId": 3,
    "globalPid": TID - 9,
    "demangledName": 1,
    "shortName": 2,
}


def test_few_columns_are_enough(tmp_path):
    trace = nsys_sqlite.read(write(tmp_path / "x", **{KERNEL: [{"start": 1, "end": 4}], "EXPORT_META_DATA": []}))
    row = trace.kernels.iloc[0]
    assert (row["start_ns"], row["end_ns"], row["duration_ns"], row["count"]) == (1, 4, 3, 1)
    assert (
        trace.kernels[["device", "thread", "name", "grid", "registers", "graph", "process", "correlation"]].isna().all(axis=None)
    )
    assert trace.info["devices"] == []


def test_events_of_all_kinds_and_domains(tmp_path):
    events = [
        {"start": 1, "end": None, "eventType": 75, "globalTid": TID, "text": "NCCL", "domainId": 3},
        {"start": 1, "end": None, "eventType": 75, "globalTid": TID + (1 << 24), "textId": 1, "domainId": 3},
        {
            "start": 2,
            "end": 9,
            "eventType": 59,
            "globalTid": TID,
            "text": "aten::view, op_id = 314290",
            "textId": 1,
            "domainId": 0,
        },
        {"start": 3, "end": None, "eventType": 60, "globalTid": TID, "textId": 2, "domainId": 3},
        {"start": 4, "end": None, "eventType": 34, "globalTid": TID, "text": "here", "domainId": 4},
        {"start": 5, "end": None, "eventType": 59, "globalTid": TID + (1 << 24), "textId": 77, "domainId": 3},
        {"start": 8, "end": 6, "eventType": 70, "globalTid": TID, "text": ""},
        {"start": 8, "end": 9, "eventType": 33, "globalTid": TID, "text": "a category"},
        {"start": 8, "end": 9, "eventType": 999, "globalTid": TID, "text": "what?"},
        {"start": None, "end": 9, "eventType": 59, "globalTid": TID, "text": "when?"},
        {"start": 8, "end": 9, "eventType": 59, "globalTid": None, "text": "where?"},
    ]
    tables = {NVTX: events, KERNEL: [KERNEL_ROW | {"end": 40}], "ANALYSIS_DETAILS": [{"stopTime": 50}]}
    trace = nsys_sqlite.read(write(tmp_path / "x", **tables))
    ranges = trace.ranges.astype(object).where(trace.ranges.notna(), None)
    names = ["start_ns", "end_ns", "thread", "category", "name", "nested", "domain"]
    assert ranges[names].to_numpy().tolist() == [
        [2, 9, TID, "user", "aten::view, op_id = 314290", True, None],
        [3, 50, TID, "user", "two", False, "NCCL"],
        [4, 4, TID, "mark", "here", False, "domain 4"],
        [5, 50, TID + (1 << 24), "user", None, True, "one"],
        [8, 8, TID, "user", "", True, None],
    ]
    assert trace.diagnostics == {
        "NVTX events of an unknown kind, left out": 1,
        "names that StringIds lacks": 1,
        "open ranges": 2,
        "ranges that end before they start": 1,
        "ranges without a start or a thread, left out": 2,
    }


def test_kernels_of_graphs_and_times_that_are_not_known(tmp_path):
    rows = [
        KERNEL_ROW,
        KERNEL_ROW | {"graphNodeId": 0},
        KERNEL_ROW | {"graphNodeId": (12 << 32) + 5},
        KERNEL_ROW | {"graphNodeId": 5},
        KERNEL_ROW | {"graphNodeId": (12 << 32) + 5, "graphId": 4},
        KERNEL_ROW | {"start": 0, "end": 0, "demangledName": None},
        KERNEL_ROW | {"start": -5, "end": -2},
        KERNEL_ROW | {"start": 9, "end": 3},
        KERNEL_ROW | {"start": -(1 << 63), "end": (1 << 63) - 1},
    ]
    kernels = nsys_sqlite.read(write(tmp_path / "x", **{KERNEL: rows})).kernels
    assert kernels["graph"].astype(object).where(kernels["graph"].notna(), None).tolist() == [
        None,
        None,
        12,
        5,
        4,
        None,
        None,
        None,
        None,
    ]
    assert kernels["start_ns"].isna().tolist() == [False] * 5 + [True, False, True, True]
    assert kernels["duration_ns"].tolist() == [5] * 5 + [0, 3, 0, 0]
    assert kernels["name"].tolist() == ["one"] * 5 + ["two"] + ["one"] * 3


def test_library_calls_memory_metrics_and_losses(tmp_path):
    call = {"start": 1, "end": 2, "globalTid": TID, "nameId": 1, "eventClass": 28}
    tables = {
        "CUDNN_EVENTS": [call],
        "CUBLAS_EVENTS": [call | {"nameId": 2, "end": None}],
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {"start": 1, "globalPid": TID, "deviceId": 1, "bytes": 512, "memKind": 2, "memoryOperationType": 0},
            {"start": 2, "globalPid": TID, "deviceId": 1, "bytes": 512, "memKind": 2, "memoryOperationType": 1},
            {"start": 3, "globalPid": TID, "deviceId": 1, "bytes": 64, "memKind": 1, "memoryOperationType": 0},
        ],
        "TARGET_INFO_GPU_METRICS": [{"typeId": (8 << 8) + 1, "metricId": 4, "metricName": "SM Active [Throughput %]"}],
        "TARGET_INFO_GPU": [{"id": 1, "cuDevice": 0, "name": "GPU of id 1"}, {"id": 0, "cuDevice": 1, "name": "GPU of id 0"}],
        "GPU_METRICS": [
            {"timestamp": 5, "typeId": (8 << 8) + 1, "metricId": 4, "value": 17},
            {"timestamp": 6, "typeId": 2048, "metricId": 9},
        ],
        "DIAGNOSTIC_EVENT": [
            {"severity": 2, "text": "Not all CUDA events might have been collected. TOKEN=secret"},
            {"severity": 3, "text": "Dropped 12 CUPTI records for /home/me"},
            {"severity": 1, "text": "Nothing was lost"},
            {"severity": 2, "text": "TOKEN=secret"},
        ],
        "PROFILER_OVERHEAD": [{"start": 5, "end": 12}, {"start": 20, "end": 21}],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [{"start": 5, "end": 9, "overheadType": kind} for kind in (2, 3, 8)],
    }
    trace = nsys_sqlite.read(write(tmp_path / "x", **tables))
    assert Counter(zip(trace.calls["api"], trace.calls["name"], strict=True)) == {("cudnn", "one"): 1, ("cublas", "two"): 1}
    assert trace.memory[["time_ns", "device", "bytes"]].astype(object).to_numpy().tolist() == [
        [1, "cuda:1", 512], [2, "cuda:1", -512], [3, "cpu", 64]
    ]  # fmt: skip
    sample = trace.samples.iloc[0]
    assert (len(trace.samples), sample["time_ns"], sample["device"], sample["metric"], sample["value"]) == (
        1, 5, "cuda:0", "SM Active [Throughput %]", 17
    )  # fmt: skip
    assert trace.diagnostics == {
        "calls without an end": 1,
        "nsys warnings of dropped records": 1,
        "nsys: Not all CUDA events might have been collected": 1,
        "overhead of CUDA's compiling, loading and full buffers, ns": 8,
        "profiler's own overhead, ns": 12,
        "samples without time or value, left out": 1,
    }
    assert "secret" not in repr((trace.info, trace.diagnostics))


def test_page_faults_of_unified_memory(tmp_path):
    fault = {"globalPid": TID, "deviceId": 0, "address": 4096, "numberOfPageFaults": 3, "faultAccessType": 1}
    tables = {
        KERNEL: [KERNEL_ROW],
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [fault | {"start": 10, "end": end} for end in (12, 13, None)],
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [{"start": 1, "globalPid": TID, "address": 4096}] * 4,
    }
    trace = nsys_sqlite.read(write(tmp_path / "x", **tables))
    assert page_faults.of(trace) == page_faults.PageFaults(3, 2 + 3, 4)
    assert len(trace.kernels) == 1


def test_why_nothing_was_traced(tmp_path):
    text = "CUDA profiling might have not been started correctly."
    call = {"start": 1, "end": 2, "globalTid": TID, "nameId": 1, "eventClass": 28}
    tables = {"OSRT_API": [call], "DIAGNOSTIC_EVENT": [{"severity": 2, "text": text}] * 3}
    trace = nsys_sqlite.read(write(tmp_path / "x", **tables))
    assert trace.info["unavailable"]["kernels"].startswith(
        "the capture holds no CUDA kernels (nsys: CUDA profiling might have not been started correctly); let the program end"
    )


def test_copies_tell_kinds_of_memory(tmp_path):
    copy = {"start": 1, "end": 3, "deviceId": 0, "streamId": 7, "bytes": 100, "copyKind": 1, "srcKind": 0, "dstKind": 2}
    copies = [
        copy,
        copy | {"copyKind": 13, "srcKind": 4, "dstKind": 99},
        copy | {"copyKind": 3, "srcKind": None, "dstKind": None},
        copy | {"copyKind": 77},
    ]
    tables = {"CUPTI_ACTIVITY_KIND_MEMCPY": copies, "CUPTI_ACTIVITY_KIND_MEMSET": [copy | {"memKind": 2}, copy]}
    found = nsys_sqlite.read(write(tmp_path / "x", **tables)).copies
    assert found["operation"].tolist() == ["host to device", "unified memory", "host to device", "other", "set", "set"]
    assert found["memory"].astype(object).where(found["memory"].notna(), None).tolist() == [
        "pageable to device", "managed to unknown", None, "pageable to device", "device", None
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"StringIds": [], KERNEL: [{"end": 5}]}, "table CUPTI_ACTIVITY_KIND_KERNEL has no column start"),
        ({KERNEL: [KERNEL_ROW | {"start": "soon"}]}, "column start holds a value that is not an integer"),
        ({KERNEL: [KERNEL_ROW | {"demangledName": "inline"}]}, "column demangledName holds a value that is not an integer"),
        (
            {NVTX: [{"start": 1, "end": 2, "eventType": 59, "globalTid": TID, "text": 5}]},
            "column text holds a value that is not a text",
        ),
        ({"StringIds": [{"id": 1, "value": 7}]}, "column value holds a value that is not a text"),
        (
            {"GPU_METRICS": [{"timestamp": 1, "typeId": 1, "metricId": 1, "value": "much"}]},
            "column value holds a value that is not",
        ),
    ],
)
def test_tables_that_are_wrong_are_told_in_one_line(tmp_path, tables, message):
    path = write(tmp_path / "x.sqlite", **tables)
    with pytest.raises(EvidenceError) as caught:
        nsys_sqlite.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_texts_no_export(tmp_path):
    path = write(tmp_path / "x", StringIds=[{"start": 1}])
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE StringIds")
    with pytest.raises(EvidenceError, match="no table StringIds"):
        nsys_sqlite.read(path)


def test_views_and_triggers_do_nothing(tmp_path):
    path = write(tmp_path / "x", **{NVTX: [{"start": 1, "end": 2, "eventType": 59, "globalTid": TID, "textId": 1, "text": None}]})
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i + 1 AS end FROM n"
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE VIEW {KERNEL} AS {endless}")
        database.execute(f"CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM {NVTX}; END")
    trace = nsys_sqlite.read(path)
    assert (len(trace.kernels), len(trace.ranges)) == (0, 1)


def test_a_log_beside_the_file_is_told(tmp_path):
    path = write(tmp_path / "x", **{KERNEL: [KERNEL_ROW]})
    assert nsys_sqlite.read(path).info["notes"] == []
    (tmp_path / "x-wal").write_bytes(b"rows")
    assert "write-ahead log" in nsys_sqlite.read(path).info["notes"][0]


def test_the_file_is_not_touched(tmp_path):
    path = write(tmp_path / "x", **{KERNEL: [KERNEL_ROW]})
    before, content = path.stat(), path.read_bytes()
    path.chmod(0o400)
    nsys_sqlite.read(path)
    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert list(tmp_path.iterdir()) == [path]


def test_bytes_turned_at_random_never_escape(tmp_path):
    if not EXPORTS:
        pytest.skip("turning bytes of recorded exports needs ../shared/corpus")
    source = min(EXPORTS, key=lambda path: path.stat().st_size)
    draw = np.random.default_rng(3)
    path, whole = tmp_path / "x.sqlite", np.fromfile(source, dtype=np.uint8)
    messages = []
    for _ in range(40):
        content = whole.copy()
        pages = draw.integers(0, whole.size // 4096, 30)
        content[pages * 4096 + draw.integers(0, 64, 30)] = draw.integers(0, 256, 30)
        path.write_bytes(content.tobytes()[: None if draw.random() < 0.8 else int(draw.integers(1, whole.size))])
        try:
            nsys_sqlite.read(path).check()
        except EvidenceError as error:
            messages.append(str(error))
    assert messages
    assert not [message for message in messages if "\n" in message or not message.startswith(f"{path}: ")]


def test_many_ranges_are_all_there(tmp_path):
    """More rows than one batch, texts inline and by number in turn."""
    count = 60_000
    rows = [
        {"start": i, "end": i + 3, "eventType": 59, "globalTid": TID + i % 3}
        | ({"textId": 1 + i % 2, "text": None} if i % 5 else {"textId": None, "text": f"t{i % 700}"})
        for i in range(count)
    ]
    ranges = nsys_sqlite.read(write(tmp_path / "x", **{NVTX: rows})).ranges
    pd.testing.assert_index_equal(ranges.index, pd.RangeIndex(count))
    assert ranges["name"].tolist() == [("one", "two")[i % 2] if i % 5 else f"t{i % 700}" for i in range(count)]
    assert (ranges["start_ns"] == np.arange(count)).all()
    assert (ranges["thread"] == TID + np.arange(count) % 3).all()


def test_names_of_tables_and_columns_may_be_in_any_case(tmp_path):
    path = ROOT / "tests/data/gpu/h200/lenet-pytorch-nsys/kernels/1/nsys.sqlite"
    other = lowered(path, tmp_path / "lower.sqlite")
    assert nsys_sqlite.matches(read_head(other))
    expected, found = nsys_sqlite.read(path), nsys_sqlite.read(other)
    assert len(expected.kernels)
    assert len(expected.ranges)
    assert found.info == expected.info
    for table in TABLES:
        pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table))
