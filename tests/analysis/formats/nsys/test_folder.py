"""Exports as folders: recorded SQLite exports, written as nsys writes folders, must say the same."""

import sqlite3
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.nsys import folder as nsys_folder
from kernelscope.analysis.formats.nsys import sqlite as nsys_sqlite
from kernelscope.analysis.trace import TABLES
from tests.places import CORPUS

EXPORTS = sorted(path for path in (CORPUS / "nsys").glob("*.sqlite") if "dldb" not in path.name)
SKIPPED = (
    "ENUM_",
    "TARGET_INFO_SYSTEM",
    "META_DATA_CAPTURE",
    "PROCESSES",
    "Thread",
    "Process",
    "OSRT_CALL",
    "SAMPLING",
    "COMPOSITE",
)
# As nsys 2023.4 types them; the rest is int64.
UNSIGNED = {"globalTid", "globalPid", "domainId", "totalMemory", "bytes"}
SMALL = {"textId", "nameId", "eventType", "deviceId", "streamId", "copyKind", "syncType", "smCount"}


def folder_of(export, folder, kind):
    """Write the tables of a SQLite export the way nsys does."""
    folder.mkdir()
    with sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True) as database:
        database.text_factory = lambda raw: raw.decode("utf8", errors="replace")
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in (table for table in tables if not table.startswith(SKIPPED)):
            info = [(row[1], row[2]) for row in database.execute(f'PRAGMA table_info("{table}")')]
            rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
            columns = dict(zip((name for name, _ in info), zip(*rows, strict=True) if rows else ([],) * len(info), strict=True))
            arrays = {name: array(columns[name], kind_of(name, declared, kind)) for name, declared in info}
            write(pa.table(arrays), folder / f"{table}.{kind}")
    return folder


def array(values, kind):
    """Values as an array; SQLite holds numbers beyond 63 bits as negative ones."""
    if kind == pa.uint64():
        values = [value if value is None else value % (1 << 64) for value in values]
    return pa.array(values, type=kind)


def kind_of(name, declared, kind):
    if declared == "TEXT":
        return pa.string()
    if declared == "REAL":
        return pa.float64()
    if name in UNSIGNED:
        return pa.uint64()
    return pa.uint32() if name in SMALL and kind == "arrow" else pa.int64()


def write(table, path, as_file=False):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=5000)
        return
    with (pa.ipc.new_file if as_file else pa.ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3000)


@pytest.mark.parametrize(("export", "kind"), list(zip(EXPORTS or [None], cycle(["parquet", "arrow"]), strict=False)))
def test_folders_say_what_the_sqlite_export_says(tmp_path, export, kind):
    if export is None:
        pytest.skip("recorded exports need ../shared/corpus")
    folder = folder_of(export, tmp_path / "x", kind)
    assert nsys_folder.matches(read_head(folder))
    assert not nsys_sqlite.matches(read_head(folder))
    found, expected = nsys_folder.read(folder), nsys_sqlite.read(export)
    for table in TABLES:
        pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table))
    assert found.diagnostics == expected.diagnostics
    assert found.info == expected.info | {"source": expected.info["source"] | {"format": "nsys-folder"}}


def small(folder, kind="parquet", **tables):
    folder.mkdir(exist_ok=True)
    tables = {
        "StringIds": {"id": [1, 2], "value": ["one", "two"]},
        "META_DATA_EXPORT": {"name": ["EXPORT_PRODUCT_VERSION"], "value": ["2025.1.3.140"]},
    } | tables
    for table, columns in tables.items():
        write(pa.table(columns), folder / f"{table}.{kind}")
    return folder


RANGES = {
    "start": [1, 5],
    "end": [9, None],
    "eventType": [59, 59],
    "globalTid": [1 << 56, 1 << 56],
    "textId": [2, 1],
    "text": ["x", None],
}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_small_folder(tmp_path, kind):
    text = pa.array(["x", None]).dictionary_encode() if kind == "arrow" else pa.array(["x", None], type=pa.large_string())
    trace = nsys_folder.read(small(tmp_path / "x", kind, NVTX_EVENTS=RANGES | {"text": text}))
    assert trace.ranges["name"].tolist() == ["x", "one"]
    assert trace.ranges["end_ns"].tolist() == [9, 9]
    assert trace.diagnostics == {"open ranges": 1}
    assert trace.info["source"]["version"] == "2025.1.3"


def test_arrow_files_are_read_like_streams(tmp_path):
    folder = small(tmp_path / "x", "arrow", NVTX_EVENTS=RANGES)
    expected = nsys_folder.read(folder)
    write(pa.table(RANGES), folder / "NVTX_EVENTS.arrow", as_file=True)
    pd.testing.assert_frame_equal(nsys_folder.read(folder).ranges, expected.ranges)


def test_numbers_beyond_63_bits_wrap_as_in_sqlite(tmp_path):
    thread = pa.array([(1 << 64) - 2, 5], type=pa.uint64())
    trace = nsys_folder.read(small(tmp_path / "x", NVTX_EVENTS=RANGES | {"globalTid": thread}))
    assert trace.ranges["thread"].tolist() == [-2, 5]


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("NVTX_EVENTS", RANGES | {"start": [1.5, 2.5]}, "column start holds double, not integers"),
        ("NVTX_EVENTS", RANGES | {"text": [3, 4]}, "column text holds int64, not texts"),
        ("NVTX_EVENTS", {"start": [1]}, "table NVTX_EVENTS has no column end"),
        ("StringIds", {"id": ["a"], "value": ["b"]}, "column id holds string, not integers"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", {"start": ["1"], "end": ["2"]}, "column start holds string, not integers"),
    ],
)
def test_columns_of_another_type_are_told(tmp_path, table, columns, message):
    with pytest.raises(EvidenceError, match=message):
        nsys_folder.read(small(tmp_path / "x", **{table: columns}))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_that_are_cut_short_or_something_else(tmp_path, kind):
    folder = small(tmp_path / "x", kind, NVTX_EVENTS={name: values * 500 for name, values in RANGES.items()})
    path = folder / f"NVTX_EVENTS.{kind}"
    whole = path.read_bytes()
    for content in (b"", whole[:4], whole[: len(whole) // 2], b"PAR1" + bytes(100), b"ARROW1" + bytes(100), bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(EvidenceError, match=r"NVTX_EVENTS.*(damaged|has no column)") as caught:
            nsys_folder.read(folder)
        assert "\n" not in str(caught.value)
    path.unlink()
    path.mkdir()
    with pytest.raises(EvidenceError, match="NVTX_EVENTS"):
        nsys_folder.read(folder)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_bytes_turned_at_random_never_escape(tmp_path, kind):
    folder = small(tmp_path / "x", kind, NVTX_EVENTS={name: values * 500 for name, values in RANGES.items()})
    draw = np.random.default_rng(5)
    names = ("NVTX_EVENTS", "StringIds", "META_DATA_EXPORT")
    wholes = {name: np.fromfile(folder / f"{name}.{kind}", dtype=np.uint8) for name in names}
    failures = 0
    for _ in range(60):
        for name, whole in wholes.items():
            content = whole.copy()
            content[draw.integers(0, whole.size, 3)] = draw.integers(0, 256, 3)
            content.tofile(folder / f"{name}.{kind}")
        try:
            nsys_folder.read(folder).check()
        except EvidenceError as error:
            failures += "\n" not in str(error)
    assert failures


def test_folders_of_other_things_are_left_alone(tmp_path):
    for names in ([], ["StringIds.parquet"], ["StringIds.sqlite", "NVTX_EVENTS.parquet"], ["run.json", "samples.parquet"]):
        folder = tmp_path / str(len(names)) / "-".join(names or ["empty"])
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"")
        assert not nsys_folder.matches(read_head(folder))
    assert not nsys_folder.matches(read_head(Path(__file__)))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_bytes_that_are_no_text_are_replaced(tmp_path, kind):
    offsets, content = pa.py_buffer(np.array([0, 2, 5], dtype=np.int32)), pa.py_buffer(b"\xff\xfeone")
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, content])
    trace = nsys_folder.read(small(tmp_path / "x", kind, NVTX_EVENTS=RANGES | {"text": text}))
    assert trace.ranges["name"].tolist() == ["\ufffd\ufffd", "one"]
