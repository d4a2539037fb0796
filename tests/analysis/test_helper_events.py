"""What a helper sends of a torch.profiler trace: the columns come over as they are, and what is not as agreed is nothing."""

import copy
import gzip
import json
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from kernelscope.analysis import helper, helper_events, secrets
from kernelscope.analysis import helper_messages as messages
from kernelscope.analysis.helper_values import Memory
from kernelscope.analysis.readers import kineto_columns
from kernelscope.analysis.readers.kineto_categories import GROUPS
from kernelscope.analysis.readers.kineto_columns import Integers

SECRET = "ghp_" + "a1B2c3D4" * 5
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1.5, "dur": 9, "args": {"Input Dims": [[2, 3]]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 2, "dur": 1,
     "args": {"correlation": 5}},
    {"ph": "X", "cat": "kernel", "name": "sgemm ö", "pid": 0, "tid": "stream 7", "ts": 4, "dur": 2.25,
     "args": {"correlation": 5, "device": 0, "stream": 7, "grid": [1, 2, 3], "block": [64, 1, 1]}},
    {"ph": "X", "cat": "kernel", "name": "never timed", "pid": 0, "tid": 0, "ts": 4},
]  # fmt: skip


def trace_file(folder, packed=True, **header):
    path = folder / ("trace.json.gz" if packed else "trace.json")
    content = json.dumps({"schemaVersion": 1, "deviceProperties": [], **header, "traceEvents": EVENTS}).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.fixture
def sent(tmp_path):
    """Columns of a file: (what was gathered, its message, the memory)."""
    memory = Memory()
    columns = kineto_columns.gather(trace_file(tmp_path), GROUPS, room=memory.room)
    yield columns, messages.found("events", helper_events.described(columns, memory)), memory
    memory.close()


def mapped(memory):
    return [mmap.mmap(descriptor, os.fstat(descriptor).st_size) for descriptor in memory.passed]


def plain(column):
    return (column.values.tolist(), column.valid.tolist()) if isinstance(column, Integers) else column.tolist()


def test_columns_come_over_as_they_are(sent):
    columns, message, memory = sent
    task, got = messages.unpacked(message, mapped(memory))
    assert task == "events"
    assert got.tables["kernels"]["start_ns"].tolist() == [4000]
    assert got.tables["kernels"]["duration_ns"].tolist() == [2250]
    assert got.tables["kernels"]["stream"].values.tolist() == [7]
    assert got.texts["name"][got.tables["kernels"]["name"][0]] == "sgemm ö"
    assert got.untimed["kernels"] == 1
    for group, table in columns.tables.items():
        assert {name: plain(column) for name, column in table.items()} == {
            name: plain(column) for name, column in got.tables[group].items()
        }
    assert (got.texts, got.counts, got.untimed, got.repaired) == (columns.texts, columns.counts, columns.untimed, 0)
    assert got.header == columns.header == {"schemaVersion": b"1", "deviceProperties": b"[]"}


def test_bytes_of_the_header_that_are_no_text_come_over(sent):
    columns, _, memory = sent
    columns.header["odd"] = b'"\xff\xfe"'
    described = helper_events.described(columns, memory)
    assert messages.unpacked(messages.found("events", described), mapped(memory))[1].header["odd"] == b'"\xff\xfe"'


def spoiled(message, *place, value):
    body = copy.deepcopy(json.loads(message))
    inside = body
    for key in place[:-1]:
        inside = inside[key]
    if value is None:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tables",), []), (("tables", "kernels"), None), (("tables", "more"), {}), (("tables", "kernels"), []),
        (("tables", "kernels", "grid"), None), (("tables", "kernels", "more"), ["<i4", 0, None]),
        (("tables", "kernels", "name"), ["<i4", 0, None]), (("tables", "kernels", "name"), ["<i8", 1, 0]),
        (("tables", "kernels", "start_ns"), ["<i4", 1, 0]), (("tables", "kernels", "start_ns"), {}),
        (("tables", "kernels", "stream"), ["<i8", 1, 0]), (("tables", "kernels", "stream", "valid"), ["|b1", 0, None]),
        (("tables", "kernels", "stream", "valid"), ["<i8", 1, 0]), (("tables", "kernels", "stream", "values"), None),
        (("texts", "name"), []), (("texts", "name"), None), (("texts", "name"), "abc"), (("texts", "name", 0), 5),
        (("texts",), []),
        (("counts",), [["X", "kernel"]]), (("counts",), [["X", 5, 1]]), (("counts",), [["X", "kernel", 1.5]]), (("counts",), 5),
        (("untimed",), {}), (("untimed", "kernels"), "1"), (("header",), []), (("header", "schemaVersion"), 1),
        (("repaired",), True), (("repaired",), None), (("more",), 1), (("task",), 5),
    ],
)  # fmt: skip
def test_what_is_not_as_agreed_is_nothing(sent, place, value):
    _, message, memory = sent
    assert messages.unpacked(message, mapped(memory)) is not None
    assert messages.unpacked(spoiled(message, *place, value=value), mapped(memory)) is None


# The process that forks must have no threads, so each test reads in a process of its own.
READ = """
import os, sys
from kernelscope.analysis import helper
from kernelscope.analysis.errors import EvidenceError
helper._WORTHWHILE = 0
{before}
import kernelscope.analysis as ka
from pathlib import Path
try:
    with helper.started(Path(sys.argv[1])) as ahead:
        from kernelscope.analysis.captures import kineto
        gather, here = kineto.kineto_columns.gather, []
        kineto.kineto_columns.gather = lambda *given: here.append(1) or gather(*given)
        trace = ka.read(sys.argv[1], helper=ahead)
    print("decoded here", bool(here), "helper", ahead is not None)
    for name in ("kernels", "calls", "operators"):
        print(getattr(trace, name).to_csv(index=False))
    print(trace.info, trace.diagnostics)
except EvidenceError as error:
    print("error", error)
"""


def read(path, before=""):
    script = READ.replace("{before}", before)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split("\n", 1)


@pytest.mark.parametrize("packed", [True, False])
def test_the_same_trace_with_a_helper_and_without(tmp_path, packed):
    path = trace_file(tmp_path, packed, environment=f"GITHUB_TOKEN={SECRET}")
    here, alone = read(path, "helper._possible = lambda: False")
    assert here == "decoded here True helper False"
    assert "sgemm ö" in alone
    assert "looks like a secret: GitHub token" in alone
    assert SECRET not in alone
    assert read(path) == ["decoded here False helper True", alone]
    assert read(path, "helper._gather = lambda *given: os._exit(1)") == ["decoded here True helper True", alone]
    assert read(path, "helper._MOST_KEPT = 10") == ["decoded here False helper True", alone]


def test_a_damaged_trace_is_told_as_without_a_helper(tmp_path):
    path = trace_file(tmp_path, packed=False)
    path.write_bytes(path.read_bytes()[:-20])
    told = read(path)
    assert told[0].startswith(f"error {path}: not JSON, or cut short")
    assert told == read(path, "helper._possible = lambda: False")


def test_which_process_does_what(tmp_path):
    assert helper._shares(trace_file(tmp_path)) == [("events", "secrets")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helper, "_MOST_KEPT", 1000)
        assert helper._shares(trace_file(tmp_path)) == [("events",)]
        assert helper._shares(trace_file(tmp_path, packed=False, more=" " * 1000)) == [("events",)]
    other = tmp_path / "other.json"
    other.write_text('{"traceEvents": [{"cat": "Op"}]}')
    assert helper._shares(other) == [("secrets",)]


def test_much_text_is_not_kept(monkeypatch):
    monkeypatch.setattr(helper, "_MOST_KEPT", 10)
    for blocks, content in (
        ([b"a", b"bc"], b"abc"),
        ([b"12345"] * 2, b"1234512345"),
        ([b"12345"] * 3, b""),
        ([b"1" * 11, b"1"], b""),
    ):
        kept = helper._Kept()
        for block in blocks:
            kept.keep(block)
        assert kept.content() == content


@pytest.mark.parametrize("at", [0, 8185, 70_000, 1_500_000])
def test_secrets_in_kept_text_are_those_of_the_file(tmp_path, at):
    text = bytearray(np.random.default_rng(3).integers(97, 123, 1_600_000, dtype=np.uint8).tobytes())
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(bytes(text), 1))
    assert secrets.remarks(path, memoryview(text)) == secrets.remarks(path) == []
    text[at : at + len(SECRET) + 1] = f" {SECRET}".encode()
    path.write_bytes(gzip.compress(bytes(text), 1))
    assert secrets.remarks(path, memoryview(text)) == secrets.remarks(path)
    assert "GitHub token" in secrets.remarks(path, memoryview(text))[0][1]
