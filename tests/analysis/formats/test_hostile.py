"""Files made to break readers: each is refused in one line, or read, within 10 s of processor time and 1 GiB of memory.

Every case runs in a process of its own, forked from one that has imported everything: its memory is measured there.
"""

import gzip
import json
import os
import pickle
import random
import socket
import sqlite3
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

SECONDS, MEMORY = 10, 1 << 30

SERVER = r"""
import importlib, json, os, resource, sys
from pathlib import Path
from kernelscope.analysis import formats
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.errors import EvidenceError

for form in formats.all_formats():
    importlib.import_module(form.module)

def answer(path, name):
    try:
        form = formats.format_named(name) if name else formats.detect(path)
        trace = form.read(path)
        captures.finish(trace)
    except EvidenceError as error:
        return {"error": str(error)[:5000]}
    kernels = [str(value)[:100] for value in trace.kernels["name"].unique()[:10]]
    return {"format": form.name, "kernels": len(trace.kernels), "names": kernels}

print("ready", flush=True)
for line in sys.stdin:
    path, name, seconds, memory = json.loads(line)
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
        try:
            result = answer(Path(path), name)
        except BaseException as error:
            result = {"escaped": f"{type(error).__name__}: {error}"}
        result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        os.write(sender, json.dumps(result).encode())
        os._exit(0)
    os.close(sender)
    with open(receiver, "rb") as pipe:
        result = pipe.read()
    status = os.waitpid(child, 0)[1]
    print(result.decode() or json.dumps({"escaped": f"died with status {status}"}), flush=True)
"""


class Server:
    """The process from which every case is forked."""

    def __init__(self):
        variables = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        assert self.process.stdout.readline() == "ready\n"

    def read(self, path, name=None):
        """Return what came of reading the file, which must not have taken too much; `name` is a format's."""
        self.process.stdin.write(json.dumps([str(path), name, SECONDS, MEMORY]) + "\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        assert "escaped" not in result, result
        assert result["memory"] < MEMORY, result
        if "error" in result:
            assert result["error"].isprintable(), result
        return result

    def refused(self, path, name=None):
        """Return the message with which the file was refused."""
        result = self.read(path, name)
        assert "error" in result, result
        assert str(path) in result["error"]
        return result["error"]


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.process.stdin.close()
    server.process.wait()


def test_empty(server, tmp_path):
    path = tmp_path / "a"
    path.touch()
    assert "empty" in server.refused(path)
    path.write_bytes(gzip.compress(b""))
    server.refused(path)


def test_no_files(server, tmp_path):
    server.refused(tmp_path)
    assert "No such file" in server.refused(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "symbolic links" in server.refused(tmp_path / "loop")
    os.mkfifo(tmp_path / "fifo")
    assert "neither a file nor a folder" in server.refused(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert "neither a file nor a folder" in server.refused(tmp_path / "socket")
    for device in ("/dev/zero", "/dev/null", "/dev/urandom"):
        assert "neither a file nor a folder" in server.refused(device)
    (tmp_path / "symlink").symlink_to("/dev/zero")
    assert "neither a file nor a folder" in server.refused(tmp_path / "symlink")


def test_no_permission(server, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "a.json"
    path.write_text("{}")
    path.chmod(0)
    assert "Permission denied" in server.refused(path)


def test_folders_full_of_surprises(server, tmp_path):
    folder = tmp_path / "export"
    folder.mkdir()
    for name in ("META_DATA_EXPORT", "StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "TARGET_INFO_SYSTEM_ENV"):
        for suffix in (".parquet", ".arrow"):
            (folder / (name + suffix)).symlink_to("/dev/zero")
    server.refused(folder)
    server.refused(folder, "nsys-folder")
    for entry in folder.iterdir():
        entry.unlink()
        entry.write_bytes(b"PAR1" + b"\xff" * 1000 + struct.pack("<I", 0x7FFFFFFF) + b"PAR1")
    server.refused(folder, "nsys-folder")
    for entry in folder.iterdir():
        entry.unlink()
        entry.mkdir()
    server.refused(folder, "nsys-folder")


BEGINNINGS = {
    "zeros": (b"", b"\x00"),
    "kineto": (b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [', b" "),
    "kineto in one event": (b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "', b"a"),
    "kineto's commas": (b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{"ph":"X"}', b',{"ph":"X"}'),
    "deep": (b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [', b"["),
    "deep from the beginning": (b"[", b"["),
    "deep objects": (b'{"traceEvents": [{"args": ', b'{"a":'),
    "mxnet": (b'{"traceEvents": [{"ph": "M", "args": {"name": "cpu/0"}, "pid": 0, "name": "process_name"},', b"\n"),
    "tensorflow": (b'{"traceEvents": [{"name": "process_name", "args": {"name": "/job:localhost/device:CPU:0 Compute"}}', b","),
    "verbose": (b"dnnl_verbose,info,oneDNN v2.7.1\ndnnl_verbose,exec,cpu,convolution,", b"x"),
    "verbose's lines": (b"dnnl_verbose,info,oneDNN v2.7.1\n", b"\n"),
    "nvprof": (b"==1== NVPROF is profiling process 1\n==1== Profiling result:\nType,Time(%),Time,Calls,Avg,Min,Max,Name\n", b","),
    "nvidia-smi": (b"timestamp, index, utilization.gpu [%], power.draw [W]\n2020/01/01 00:00:00.000, 0, 1 %, 30 W\n", b'"'),
    "line_profiler": (b"Timer unit: 1e-06 s\n\nTotal time: 1 s\nFile: a.py\nFunction: f at line 1\n\nLine #  Hits  Time\n", b"="),
    "cntk": (b"Finished Epoch[ 1 of 1]: [Training] ", b"9"),
    "protobuf": (b"\x0a\xff\xff\xff\xff\x07", b"\x0a"),
    "pickle": (b"\x80\x04", b"("),
}  # fmt: skip


def bomb(path, beginning, filling, size=10 << 30):
    """Write a gzip file, of one member, that unpacks to `size` bytes; its checksum is wrong, but that stands at its end."""
    packer = zlib.compressobj(9, wbits=31)
    piece = filling * ((1 << 24) // len(filling))
    with path.open("wb") as file:
        file.write(packer.compress(beginning) + packer.flush(zlib.Z_FULL_FLUSH))
        again = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
        for _ in range(size // len(piece)):
            file.write(again)


def some_slow(fast):
    """Return the names of BEGINNINGS, of which only a few are tried by default."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in BEGINNINGS]


@pytest.mark.parametrize("name", some_slow(["zeros", "verbose", "protobuf"]))
def test_gzip_bombs(server, tmp_path, name):
    path = tmp_path / "a.gz"
    bomb(path, *BEGINNINGS[name])
    assert path.stat().st_size < 60 << 20
    server.refused(path)


@pytest.mark.slow
def test_gzip_bomb_of_many_members(server, tmp_path):
    path = tmp_path / "a.gz"
    beginning, filling = BEGINNINGS["kineto"]
    path.write_bytes(gzip.compress(beginning) + gzip.compress(filling * (1 << 26)) * 160)
    server.refused(path)


def test_nested_gzip(server, tmp_path):
    content = b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}'
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(gzip.compress(content)))
    server.refused(path)
    for _ in range(100):
        content = gzip.compress(content)
    path.write_bytes(content)
    server.refused(path)


@pytest.mark.parametrize("name", some_slow(["zeros", "pickle", "deep"]))
def test_plain_files_that_go_on_and_on(server, tmp_path, name):
    """The same, but not packed: 32 MB of it."""
    beginning, filling = BEGINNINGS[name]
    path = tmp_path / "a"
    path.write_bytes(beginning + filling * ((1 << 25) // len(filling)))
    server.read(path)


@pytest.mark.parametrize("depth", [100_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "around",
    ['{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [@]}', '{"schemaVersion": 1, "traceEvents": [], "@": @}',
     '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": @}]}', "@",
     '{"traceEvents": [{"ph": "M", "name": "process_name", "args": {"name": "cpu/0"}, "pid": 0}, @]}'],
)  # fmt: skip
def test_deep_json(server, tmp_path, depth, around):
    path = tmp_path / "a.json"
    path.write_text(around.replace("@", "[" * depth + "]" * depth))
    server.read(path)
    path.write_text(around.replace("@", '{"a":' * depth + "1" + "}" * depth))
    server.read(path)


@pytest.mark.parametrize(
    "start", [b"", b"SQLite format 3\x00", b"\x1f\x8b\x08\x00", b"\x80\x04", b"{", b"[", b"\x0a", b"PAR1", b"Timer unit: "]
)
def test_random_bytes(server, tmp_path, start):
    path = tmp_path / "a"
    for seed in range(3):
        path.write_bytes(start + random.Random(seed).randbytes(200_000))
        server.refused(path)


def test_pickles_build_nothing(server, tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    path = tmp_path / "a.lprof"
    for protocol in range(6):
        path.write_bytes(pickle.dumps({"timings": Attack(), "unit": 1e-6}, protocol))
        server.refused(path)
        server.refused(path, "line-profiler-pickle")
    assert not (tmp_path / "made").exists()
    # absurd counts: a text of 4 GB, and a memo's place of 2^32 - 1
    for content in (
        b"\x80\x04X\xff\xff\xff\xffabc.",
        b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fabc.",
        b"\x80\x02]r\xff\xff\xff\xff.",
    ):
        path.write_bytes(content)
        server.refused(path, "line-profiler-pickle")
    path.write_bytes(b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b".")
    server.refused(path, "line-profiler-pickle")


NSYS = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.16.1'), ('EXPORTED_BY_NSYS_VERSION', '2024.6.2');
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER);
INSERT INTO ANALYSIS_DETAILS VALUES (0, 1000, 0, 1000);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, cuDevice INTEGER);
"""
KERNELS = """CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL,
contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
"""


def export(path, script):
    with sqlite3.connect(path) as database:
        database.executescript(NSYS + script)
    database.close()
    return path


def with_kernels(path, count=1, name="k", extra=""):
    export(path, KERNELS + extra)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO StringIds VALUES (1, ?)", (name,))
        database.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, 281474976710656, 1, 1, 1, 1, 1, 1, 1, 1)",
            [(10 * n, 10 * n + 5, n) for n in range(count)],
        )
    database.close()
    return path


ENDLESS = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS start, n AS end, n AS value, n AS id FROM r"
)


def test_an_export_is_read(server, tmp_path):
    """What the hostile ones below are made of is read when it is honest."""
    result = server.read(with_kernels(tmp_path / "a.sqlite", 3))
    assert (result["format"], result["kernels"], result["names"]) == ("nsys-sqlite", 3, ["k"])


@pytest.mark.parametrize(
    "table", ["CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "PROCESSES", "DIAGNOSTIC_EVENT"]
)
def test_endless_views(server, tmp_path, table):
    result = server.read(export(tmp_path / "a.sqlite", f"CREATE VIEW {table} AS {ENDLESS}"))
    assert result.get("kernels", 0) == 0


def test_views_in_place_of_all_tables(server, tmp_path):
    path = tmp_path / "a.sqlite"
    names = (
        "StringIds",
        "META_DATA_EXPORT",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
        "NVTX_EVENTS",
    )
    with sqlite3.connect(path) as database:
        database.executescript("".join(f"CREATE VIEW {name} AS {ENDLESS};" for name in names))
    database.close()
    server.refused(path)
    for form in ("nsys-sqlite", "nvprof-sqlite"):
        assert server.read(path, form).get("kernels", 0) == 0


def test_triggers_and_the_file_itself(server, tmp_path):
    path = with_kernels(
        tmp_path / "a.sqlite",
        extra="CREATE TRIGGER boom AFTER UPDATE ON StringIds BEGIN DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; END;",
    )
    before = path.read_bytes()
    server.read(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.sqlite"]


def test_computed_columns(server, tmp_path):
    kernels = KERNELS.replace("gridX INTEGER", "gridX INTEGER AS (length(hex(zeroblob(400000000))))")
    path = export(tmp_path / "a.sqlite", "")
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.executescript(KERNELS)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 1, 7, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1)")
        database.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'", (kernels.strip().rstrip(";"),)
        )
    database.close()
    server.read(path)


@pytest.mark.parametrize("script", [
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (a)",
    "CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(text)",
    KERNELS + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 'a', x'00', 1e300, -9e999, '', '', 'x', 1, 2, 3, 4, 5, 6, 7, 8",
    KERNELS + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 9223372036854775807, -1 << 63, 0,0,0,0,0,0,0, 1, 1, 1, 1, 1, 1",
    "INSERT INTO StringIds VALUES (1, CAST(x'fffe00ff' AS TEXT)), (9223372036854775807, 'a'), (-9223372036854775808, 'b')",
])  # fmt: skip
def test_odd_tables(server, tmp_path, script):
    try:
        path = export(tmp_path / "a.sqlite", script)
    except sqlite3.Error as error:
        pytest.skip(f"this SQLite does not make it: {error}")
    server.read(path)


@pytest.mark.parametrize(("offset", "value"), [
    (16, b"\x00\x01"), (16, b"\xff\xff"), (16, b"\x00\x00"), (18, b"\x09\x09"), (20, b"\xff"), (21, b"\x00\x00\x00"),
    (28, b"\xff\xff\xff\xff"), (28, b"\x00\x00\x00\x01"),
    (32, b"\xff\xff\xff\xff\xff\xff\xff\xff"), (44, b"\x00\x00\x00\x09"), (56, b"\x00\x00\x00\x02"),
    (56, b"\xff\xff\xff\xff"), (100, b"\x05"), (103, b"\xff\xff"), (105, b"\x00\x00"), (100, b"\x00" * 8),
])  # fmt: skip
def test_absurd_database_headers(server, tmp_path, offset, value):
    path = with_kernels(tmp_path / "a.sqlite", 100)
    content = bytearray(path.read_bytes())
    content[offset : offset + len(value)] = value
    path.write_bytes(content)
    server.read(path)


def root_page(path, table):
    """Return a database's size of a page and the number of a table's root page."""
    with sqlite3.connect(path) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    database.close()
    return size, root


def interior(size, children):
    """Return an interior page of a table's tree that has these children."""
    cells = b"".join(struct.pack(">I", child) + bytes((number % 127,)) for number, child in enumerate(children[:-1]))
    start = size - len(cells)
    header = struct.pack(">BHHHBI", 5, 0, len(children) - 1, start, 0, children[-1])
    pointers = b"".join(struct.pack(">H", start + 5 * number) for number in range(len(children) - 1))
    return (header + pointers).ljust(start, b"\x00") + cells


def test_pages_that_point_at_the_same_pages(server, tmp_path):
    """A tree whose pages have one child 500 times over, five levels deep, has 500^5 times the rows that the file holds."""
    path = with_kernels(tmp_path / "a.sqlite", 50)
    size, root = root_page(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    content = bytearray(path.read_bytes())
    pages = len(content) // size
    leaf = content[(root - 1) * size : root * size]
    levels = 5
    content += leaf  # page pages + 1
    for level in range(1, levels):
        content += interior(size, [pages + level] * 500)
    content[(root - 1) * size : root * size] = interior(size, [pages + levels] * 500)
    struct.pack_into(">I", content, 28, len(content) // size)
    path.write_bytes(content)
    server.refused(path)


def test_pages_that_point_at_themselves(server, tmp_path):
    path = with_kernels(tmp_path / "a.sqlite", 50)
    size, root = root_page(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = interior(size, [root] * 300)
    path.write_bytes(content)
    server.refused(path)


def test_texts_whose_pages_go_round(server, tmp_path):
    """A cell that claims 900 MB on overflow pages that point at each other."""
    path = with_kernels(tmp_path / "a.sqlite", 1, "n" * 20_000)
    size, root = root_page(path, "StringIds")
    content = bytearray(path.read_bytes())
    base = (root - 1) * size
    cell = base + struct.unpack_from(">H", content, base + 8)[0]
    assert content[cell] & 0x80
    # the record's length, a varint of two or three bytes, becomes one of the same width and of the largest value that fits
    width = next(number for number in range(9) if not content[cell + number] & 0x80) + 1
    content[cell : cell + width] = b"\xff" * (width - 1) + b"\x7f"
    first = struct.unpack(">I", content[base + size - 4 : base + size])[0] or root
    if 0 < first <= len(content) // size:
        struct.pack_into(">I", content, (first - 1) * size, first)
    path.write_bytes(content)
    server.read(path)


def test_names_with_escapes_and_html(server, tmp_path):
    names = [
        "\x1b[2J\x1b]0;title\x07",
        "<script>alert(1)</script>",
        "a\nb\rc",
        "\u202eright to left",
        "a" * 1_000_000,
        "\x00",
        "{{7*7}}",
        "%s%n",
    ]
    for number, name in enumerate(names):
        result = server.read(with_kernels(tmp_path / f"{number}.sqlite", 2, name))
        assert result.get("kernels", 2) == 2
        events = [
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"stream": 7, "device": 0}}
        ]
        path = tmp_path / "a.json"
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
        result = server.read(path)
        assert "error" in result or result["kernels"] == 1
    path = tmp_path / "columns.sqlite"
    server.read(export(path, 'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ("sta\x1b[31mrt\n" INTEGER)'))


@pytest.mark.parametrize(
    "number",
    ["1e400", "-1e400", "NaN", "Infinity", "9" * 400, "9" * 5000, "1e-400", "18446744073709551616", "-0.0", "0x10", "true"],
)
@pytest.mark.parametrize("key", ["ts", "dur", "pid", "tid"])
def test_numbers_that_fit_nowhere(server, tmp_path, number, key):
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"stream": 7}, key: "@"}
    path = tmp_path / "a.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + json.dumps(event).replace('"@"', number) + "]}")
    server.read(path)


@pytest.mark.slow
def test_sparse_files(server, tmp_path):
    """Files of 100 GB that take no room on the disk."""
    for name in ("zeros", "kineto", "verbose", "nvprof", "pickle", "protobuf"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.write(BEGINNINGS[name][0])
            file.truncate(100 << 30)
        server.refused(path)


def test_source_code_is_no_capture(server):
    assert "no capture of a known format" in server.refused(Path(json.__file__))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"traceEvents": [', "JSON that is cut short"),
        ('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "na', "JSON that is cut short"),
        ('{"schemaVersion": 1, "traceEvents": []}', "a trace without any event"),
    ],
)
def test_short_traces_say_what_is_wrong_with_them(server, tmp_path, content, said):
    path = tmp_path / "trace.json"
    path.write_text(content)
    assert said in server.refused(path)
