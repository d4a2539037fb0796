"""What was emitted is compared with what the capture holds; the numbers expected here are counted by hand or by plain SQL."""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from kernelscope.nsys_wrappers.verify import verify
from tests.places import CORPUS

OLD = "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT)"
DRIVER = (
    "Installed CUDA driver version (13.2) is not supported by this build of Nsight Systems. "
    "CUDA trace will be collected using libraries for driver version 12.8"
)


def export(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INT, value TEXT)")
        for statement in statements:
            database.execute(statement)
    return path


def ranges(*rows):
    return [OLD, *(f"INSERT INTO NVTX_EVENTS VALUES (1, 2, {kind}, {text}, {number})" for kind, text, number in rows)]


def version(number, table="META_DATA_EXPORT"):
    return [f"CREATE TABLE {table} (name TEXT, value TEXT)", f"INSERT INTO {table} VALUES ('EXPORT_PRODUCT_VERSION', '{number}')"]


def diagnostics(*texts):
    return ["CREATE TABLE DIAGNOSTIC_EVENT (source INT, severity INT, text TEXT)",
            *(f"INSERT INTO DIAGNOSTIC_EVENT VALUES (3, {severity}, '{text}')" for severity, text in texts)]  # fmt: skip


def test_ranges_are_counted_by_name_whereever_their_text_is(tmp_path):
    rows = ranges((59, "'step'", "NULL"), (59, "NULL", 7), (60, "NULL", 7), (34, "'step'", "NULL"), (59, "'other'", "NULL"))
    path = export(tmp_path / "e.sqlite", *rows, "INSERT INTO StringIds VALUES (7, 'conv1')")
    found = verify(path, {"step": 1, "conv1": 2})
    assert (found.emitted, found.recorded, found.lost, found.missing) == (3, 3, {}, ())
    found = verify(path, {"step": 3, "conv1": 1, "gone": 1})  # a mark is no range, and no name makes up for another
    assert (found.emitted, found.recorded, found.lost) == (5, 2, {"step": 2, "gone": 1})
    assert found.missing[0].startswith("3 of 5 NVTX ranges were lost ('step', 'gone')")
    assert found.as_dict()["nvtx"] == {"emitted": 5, "recorded": 2}


@pytest.mark.parametrize(
    ("number", "told"),
    [("2022.4.2.1", "no nvtxDomainIsEnabled"), ("2024.2.3.38", "nvtx 0.2.11"), ("2024.6.2.225", "NVTX was not traced"),
     ("", "NVTX was not traced")],
)  # fmt: skip
def test_the_dummy_domain_of_the_package_nvtx_is_told_by_the_release(tmp_path, number, told):
    table = "EXPORT_META_DATA" if number < "2023" else "META_DATA_EXPORT"
    path = export(tmp_path / "e.sqlite", *version(number, table))
    found = verify(path, {"a": 4, "b": 0})
    assert (found.recorded, found.lost) == (0, {"a": 4})
    assert told in found.missing[0]
    assert verify(path, {"a": 4}, version="2022.4.2.1").missing[0].count("0.2.12") == 1
    assert verify(path, {}).missing == ()


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT)", "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1)"],
         "1 executions of CUDA graphs as a whole; record with cuda_graph_trace=node"),
        (diagnostics((2, DRIVER)), "the driver's CUDA 13.2 is newer than this nsys, made for 12.8; install one made for 13.2"),
        (["CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT)", "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1)"],
         "but 1 CUDA calls: another profiler in the process uses CUPTI"),
        ([], "libcuda.so.1 is missing"),
    ],
)  # fmt: skip
def test_why_there_is_no_kernel(tmp_path, statements, told):
    path = export(tmp_path / "e.sqlite", *statements)
    [line] = verify(path, {}, cuda=True).missing
    assert told in line
    assert verify(path, {}).missing == ()  # none was asked for


def test_warnings_pass_no_paths_on(tmp_path):
    texts = [
        (2, "Not all NVTX events might have been collected."), (2, "Not all NVTX events might have been collected."),
        (1, "Not all CUDA events might have been collected."), (2, "log of /home/me/secret: 3 events were dropped"),
        (3, "Unable to open /home/me/token"), (2, DRIVER),
    ]  # fmt: skip
    kernel = ["CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT)", "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1)"]
    found = verify(export(tmp_path / "e.sqlite", *diagnostics(*texts), *kernel), {}, cuda=True)
    assert found.warnings == (
        "3 events were dropped",
        "Not all NVTX events might have been collected",
        "the driver's CUDA 13.2 is newer than this nsys, made for 12.8; install one made for 13.2",
    )
    assert (found.kernels, found.missing, found.overhead_ns) == (1, (), None)


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_a_file_that_cannot_be_read_is_said(tmp_path, content):
    path = tmp_path / "e.sqlite"
    if content is not None:
        path.write_bytes(content)
    found = verify(path, {"a": 1}, cuda=True)
    assert found.lost == {"a": 1}
    assert found.missing


def of_corpus(name):
    path = CORPUS / name
    if not path.exists():
        pytest.skip("recorded captures need ../shared/corpus")
    return path


def test_recorded_ranges_of_both_schemas():
    with_text = of_corpus("nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite")
    with closing(sqlite3.connect(f"file:{with_text}?mode=ro", uri=True)) as database:
        emitted = dict(database.execute("SELECT text, count(*) FROM NVTX_EVENTS WHERE eventType = 59 GROUP BY 1"))
    found = verify(with_text, emitted, cuda=True)
    assert (found.emitted, found.recorded, found.kernels, found.missing) == (516, 516, 7328, ())
    with_ids = of_corpus("nsys/YoonKyonghwan__EfficientCenterFormer__baseline.sqlite")
    with closing(sqlite3.connect(f"file:{with_ids}?mode=ro", uri=True)) as database:
        query = "SELECT value, count(*) FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE eventType IN (59, 60) GROUP BY 1"
        emitted = dict(database.execute(query))
    found = verify(with_ids, emitted)
    assert found.emitted == found.recorded > 1000
    assert verify(with_ids, {name: count + 1 for name, count in emitted.items()}).lost == dict.fromkeys(emitted, 1)


def test_a_database_of_nvprof():
    path = of_corpus("nvprof/josiahdavis__profiling-lm__net_189edf9a5e.sql")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT value FROM CUPTI_ACTIVITY_KIND_MARKER m, StringTable s WHERE s._id_ = name AND flags = 2")
        emitted = Counter(name for (name,) in rows)
    found = verify(path, emitted, cuda=True)
    assert (found.emitted, found.recorded, found.kernels, found.missing) == (683, 683, 160, ())


def test_cuda_graphs_recorded_as_a_whole():
    found = verify(of_corpus("nsys/zx3xyy__assignment2-systems__result_2_7B_compile_ro.sqlite"), {}, cuda=True)
    assert (found.kernels, found.graphs, found.missing) == (30, 10, ())
    assert any(line.startswith("10 executions of CUDA graphs") for line in found.warnings)
    assert found.overhead_ns > 0
