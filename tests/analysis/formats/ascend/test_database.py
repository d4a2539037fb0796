"""Databases of Ascend's profilers, made with sqlite3 as their documentation has the tables."""

import sqlite3

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from tests.places import CORPUS

T = 1_700_000_000_000_000_000
MAIN, WORKER = (77 << 32) | 5, (77 << 32) | 6
ANALYSIS = CORPUS / "more" / (
    "Ascend__msinsight__test_data_pytorch_db_level0_rank0_ascend_pt_ASCEND_PROFILER_OUTPUT_analysis.db"
)  # fmt: skip
TEXTS = (
    "MatMulV2", "aclnnMm_MatMul_MatMulV2", "AI_CORE", "FLOAT16;FLOAT16", "8,8;8,8", "Notify_Wait", "hcom_allReduce__1_0",
    "hcom_allReduce_", "aten::mm", "launch", "Enqueue", "Dequeue@aclnnMm", "EVENT_WAIT", "MEMCPY_ASYNC", "ProfilerStep#3",
    "KERNEL_AICORE", "region",
)  # fmt: skip
SCHEMA = """
CREATE TABLE STRING_IDS(id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE TASK(startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
    globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO(name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER,
    taskType INTEGER, opType INTEGER, inputDataTypes INTEGER, inputShapes INTEGER);
CREATE TABLE COMMUNICATION_TASK_INFO(name INTEGER, globalTaskId INTEGER, taskType INTEGER, opId INTEGER);
CREATE TABLE COMMUNICATION_OP(opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, opId INTEGER PRIMARY KEY,
    dataType INTEGER, opType INTEGER, deviceId INTEGER);
CREATE TABLE CANN_API(startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER);
CREATE TABLE PYTORCH_API(startNs {0}, endNs {0}, globalTid INTEGER, connectionId INTEGER, name INTEGER,
    sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER);
CREATE TABLE CONNECTION_IDS(id INTEGER, connectionId INTEGER);
CREATE TABLE STEP_TIME(id INTEGER, startNs INTEGER, endNs INTEGER);
CREATE TABLE MSTX_EVENTS(startNs INTEGER, endNs INTEGER, eventType INTEGER, globalTid INTEGER, message INTEGER);
CREATE TABLE MEMCPY_INFO(globalTaskId INTEGER, size INTEGER, memcpyOperation INTEGER);
CREATE TABLE NPU_INFO(id INTEGER, name TEXT);
"""


def text(value):
    return TEXTS.index(value)


@pytest.fixture(params=["INTEGER", "TEXT"])
def database(request, tmp_path):
    """A database of one product, one collective, one wait and one copy; old torch_npu wrote times as text."""
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    made = sqlite3.connect(path)
    made.executescript(SCHEMA.format(request.param))
    made.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", list(enumerate(TEXTS)))
    made.executemany(
        "INSERT INTO TASK VALUES (?, ?, 3, ?, ?, 0, ?, 0, ?, 1, 0)",
        [
            (T + 1000, T + 1500, 10, 1, text("KERNEL_AICORE"), 2), (T + 2000, T + 2100, 11, 2, text("Notify_Wait"), 4),
            (T + 3000, T + 3010, 12, 3, text("EVENT_WAIT"), 2), (T + 4000, T + 4100, 13, 4, text("MEMCPY_ASYNC"), 2),
        ],
    )  # fmt: skip
    made.execute("INSERT INTO COMPUTE_TASK_INFO VALUES (1, 1, 8, 0, 2, 0, 3, 4)")
    made.execute("INSERT INTO COMMUNICATION_TASK_INFO VALUES (5, 2, 5, 1)")
    made.execute(f"INSERT INTO COMMUNICATION_OP VALUES (6, {T + 1990}, {T + 2200}, 11, 1, 4, 7, 3)")
    made.execute(f"INSERT INTO CANN_API VALUES ({T + 800}, {T + 850}, 10000, {WORKER}, 10, {text('launch')})")
    made.executemany(
        "INSERT INTO PYTORCH_API VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, NULL, ?)",
        [
            (T + 100, T + 5000, MAIN, None, text("ProfilerStep#3"), 50001), (T + 500, T + 700, MAIN, 1, text("aten::mm"), 50001),
            (T + 600, T + 620, MAIN, 2, text("Enqueue"), 50002), (T + 790, T + 900, WORKER, 2, text("Dequeue@aclnnMm"), 50002),
        ],
    )  # fmt: skip
    made.executemany("INSERT INTO CONNECTION_IDS VALUES (?, ?)", [(1, 10), (2, 5000)])
    made.execute(f"INSERT INTO STEP_TIME VALUES (3, {T}, {T + 6000})")
    made.execute(f"INSERT INTO MSTX_EVENTS VALUES ({T + 450}, {T + 750}, 1, {MAIN}, {text('region')})")
    made.execute("INSERT INTO MEMCPY_INFO VALUES (4, 4096, 1)")
    made.execute("INSERT INTO NPU_INFO VALUES (3, 'Ascend910B4')")
    made.commit()
    made.close()
    return path


def test_tasks(database):
    trace = ks.read(database)
    product, collective = (trace.kernels.iloc[row] for row in (0, 1))
    assert (product["name"], product["operator"], product["dtype"]) == ("aclnnMm_MatMul_MatMulV2", "MatMulV2", "f16")
    assert (product["start_ns"], product["duration_ns"], product["device"], product["thread"]) == (T + 1000, 500, "npu:3", 2)
    assert (collective["name"], collective["duration_ns"], collective["kind"]) == ("hcom_allReduce__1_0", 210, "communication")
    assert (collective["thread"], collective["dtype"]) == (4, "f32")
    copy = trace.copies.iloc[0]
    assert (copy["operation"], copy["bytes"], copy["duration_ns"]) == ("host to device", 4096, 100)
    assert list(trace.syncs["kind"]) == ["EVENT_WAIT"]
    assert trace.diagnostics["tasks of collectives, which stand for them"] == 1
    assert trace.info["devices"] == [{"device": "npu:3", "name": "Ascend910B4"}]


def test_the_host(database):
    trace = ks.read(database)
    product = trace.kernels.iloc[0]
    assert (product["launch_ns"], product["launch_thread"]) == (T + 600, 5)  # where it was put into the queue
    assert trace.ranges["name"].iloc[product["range_id"]] == "region"
    assert [str(name) for name in trace.operators["name"]] == ["aten::mm"]
    assert list(trace.steps["step"]) == [3]
    assert list(trace.steps["thread"]) == [5]
    assert set(trace.calls["api"]) == {"cann", "task queue"}
    assert set(trace.calls["process"]) == {77}


def test_totals_alone_are_refused_with_what_to_name():
    if not ANALYSIS.exists():
        pytest.skip("needs ../shared/corpus")
    with pytest.raises(
        EvidenceError, match=r"totals of steps .* \(StepTraceTime\).* name ascend_pytorch_profiler_\*\.db, kernel_details"
    ):
        ks.read(ANALYSIS)


def test_without_tasks_it_is_refused(database):
    with sqlite3.connect(database) as made:
        made.execute("DELETE FROM TASK")
        made.execute("DELETE FROM COMMUNICATION_OP")
    with pytest.raises(EvidenceError, match="holds no NPU task; record with"):
        ks.read(database)


def test_cut_short_is_one_line(database):
    database.write_bytes(database.read_bytes()[:9000])
    with pytest.raises(EvidenceError, match=r"\.db: .*(cut short|damaged)"):
        ks.read(database)


def test_names_of_tables_that_are_stored_as_bytes(database):
    whole = ks.read(database)
    with sqlite3.connect(database) as made:
        made.execute("PRAGMA writable_schema = ON")
        made.execute("UPDATE sqlite_master SET name = CAST(name AS BLOB), tbl_name = CAST(tbl_name AS BLOB)")
    assert ks.read(database).kernels.equals(whole.kernels)
