"""Device evidence from nvprof, CUPTI's records and an XSpace of TensorFlow; and runs on a device that nothing recorded."""

import collections
import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import kernelscope as ks

DATA = Path(__file__).parents[2] / "data"
RANGE_PROFILER = (
    "kineto",
    "facebookresearch__HolisticTraceAnalysis__cupti_profiler_benchmark_result_924719_1679055439_trace.json.gz",
)
OFFSET = 5_000_000_000_123


# --- nvprof -------------------------------------------------------------------------------------------------------------------

NVPROF = ("nvprof", "josiahdavis__profiling-lm__net_189edf9a5e.sql")


@pytest.fixture(scope="module")
def language_model(captured):
    """What SQL says of the markers and kernels in an nvprof file: (thread, start, end, name), (start, end, launch, thread)."""
    with sqlite3.connect(captured(*NVPROF)) as database:
        markers = """SELECT substr(hex(s.objectId), 9, 8), s.timestamp, e.timestamp, value
            FROM CUPTI_ACTIVITY_KIND_MARKER s JOIN CUPTI_ACTIVITY_KIND_MARKER e ON s.id = e.id AND e.flags = 4
            JOIN StringTable t ON t._id_ = s.name WHERE s.flags = 2 ORDER BY s.timestamp"""
        ranges = database.execute(markers).fetchall()
        launched = """SELECT k.start, k.end, r.start, printf('%08X', r.threadId & 0xffffffff)
            FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k
            JOIN (SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION ALL SELECT * FROM CUPTI_ACTIVITY_KIND_DRIVER) r
            ON r.correlationId = k.correlationId"""
        kernels = database.execute(launched).fetchall()
    swapped = ["".join(reversed([text[i : i + 2] for i in range(0, 8, 2)])) for text, *_ in ranges]  # little-endian
    return [(thread, *rest) for thread, (_, *rest) in zip(swapped, ranges, strict=True)], kernels


def test_nvprof_counts_time_and_threads_in_its_own_way(language_model, captured, write_run, tmp_path):
    ranges, kernels = language_model
    threads = {thread: number for number, thread in enumerate(sorted({thread for thread, *_ in ranges}), start=500)}
    first, last = min(start for _, start, *_ in ranges), max(end for _, _, end, _ in ranges)
    ours = [(threads[thread], start + 300, end - 300, "layer", name, name, "forward") for thread, start, end, name in ranges]
    # the wall clock that our anchors tell is 40 ms wrong: ranges are the better tie
    folder = write_run(
        tmp_path / "run", [(first - 1000, last + 1000, False, 500)], ours, OFFSET - first, first + 40_000_000, collector="nvprof"
    )
    shutil.copy(captured(*NVPROF), folder / "nvprof.sqlite")
    expected = collections.Counter()
    for start, end, launch, thread in kernels:
        around = [(begin, -stop, name) for where, begin, stop, name in ranges if where == thread and begin <= launch < stop]
        if start < last + 1000 and end > first - 1000:
            expected[max(around)[2] if around else None] += end - start
    trace = ks.read(tmp_path / "run")
    layers = trace.kernels["layer"].astype("object").where(trace.kernels["layer"].notna(), None)
    found = collections.Counter()
    for layer, duration in zip(layers, trace.kernels["duration_ns"], strict=True):
        found[layer] += duration
    assert found == expected
    assert len(expected) > 10
    assert trace.diagnostics["nvprof: ranges that tie its clock to ours"] > 600
    assert set(trace.kernels["launch_thread"].dropna()) <= set(threads.values())


# --- CUPTI --------------------------------------------------------------------------------------------------------------------


def test_the_records_of_cupti_are_on_our_clock_already(write_run, tmp_path):
    ranges = [(77, 5_000_000_500, 5_000_004_000, "layer", "conv1", "conv1", "forward")]
    folder = write_run(tmp_path / "run", [(5_000_000_000, 5_000_030_000, False, 77)], ranges, 0, 10**18, collector="cupti")
    shutil.copy(DATA / "cupti" / "cupti.records", folder)
    trace = ks.read(tmp_path / "run")
    # launched at 5 000 000 999 inside of the range, and by a graph at 5 000 009 990 outside of it
    assert trace.kernels["layer"].astype("object").where(trace.kernels["layer"].notna(), None).tolist() == ["conv1", None]
    assert trace.kernels["duration_ns"].tolist() == [4000, 1000]
    assert trace.calls["layer"].tolist()[0] == "conv1"
    assert sorted(trace.copies["operation"]) == ["host to device", "peer to peer", "set"]
    assert trace.info["devices"][0]["name"] == "NVIDIA H100"
    assert trace.diagnostics["cupti: records dropped by CUPTI"] == 3
    table = ks.breakdown(trace, "layer").table.set_index("layer")
    # the kernel's 4000 ns, of its launch the 2000 ns before, and of the range what is left of it before and between: 499 + 1001
    assert table.loc["conv1", "time_ns"].sum() == 4000 + 2000 + 499 + 1001


# --- TensorFlow ---------------------------------------------------------------------------------------------------------------


def _varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _message(*fields):
    """A protobuf message of (number, value): integers, texts or messages."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(content)) + content
    return out


def _xspace(kernels, began):
    """An XSpace of one GPU's stream: kernels are (start in ns, duration in ns, tf_op)."""
    known = [(4, _message((1, 1), (2, _message((1, 1), (2, "a_kernel")))))]
    stat = [
        (5, _message((1, 1), (2, _message((1, 1), (2, "tf_op"))))),
        (5, _message((1, 2), (2, _message((1, 2), (2, "kernel_details"))))),
    ]
    events = [
        (4, _message((1, 1), (2, (start - began) * 1000), (3, duration * 1000), (4, _message((1, 1), (5, name))),
                     (4, _message((1, 2), (5, "regs:32 grid:1,1,1 block:64,1,1")))))
        for start, duration, name in kernels
    ]  # fmt: skip
    line = _message((1, 13), (2, "Stream #13(Compute)"), (3, began), *events)
    started = _message(
        (2, "Task Environment"),
        (5, _message((1, 1), (2, _message((1, 1), (2, "profile_start_time"))))),
        (6, _message((1, 1), (3, began))),
    )
    return _message((1, _message((2, "/device:GPU:0"), (3, line), *known, *stat)), (1, started))


def test_the_names_in_an_xspace_tell_the_networks_layers(write_run, tmp_path):
    began = 1_790_000_000_000_000_000
    names = {
        "lenet_1/conv1_1/convolution:Conv2D": ("conv1", "forward"),
        "gradient_tape/lenet_1/conv1_1/convolution/Conv2DBackpropFilter:Conv2DBackpropFilter": ("conv1", "backward"),
        "lenet_1/fc1_1/MatMul:MatMul": ("fc1", "forward"),
        "sgd/AssignSubVariableOp:AssignSubVariableOp": (None, "optimizer"),
        "elsewhere/Tanh:Tanh": (None, "other"),
    }
    kernels = [(began + 1000 * number, 10 * number, name) for number, name in enumerate(names, start=1)]
    folder = write_run(tmp_path / "run", [(0, 100_000, False, 77)], [], OFFSET, began, collector="framework")
    (folder / "operators.pt.trace.json.gz").rename(folder / "host.json.gz")
    report = json.loads((folder / "child.json").read_text())
    (folder / "child.json").write_text(json.dumps({**report, "operator_files": ["host.json.gz"]}))
    (folder / "operators.xplane.pb").write_bytes(_xspace(kernels, began))
    found = ks.read(tmp_path / "run").kernels
    assert found["start_ns"].tolist() == [1000 * number + OFFSET for number in range(1, 6)]
    layers = found["layer"].astype("object").where(found["layer"].notna(), None)
    assert list(zip(layers, found["phase"], strict=True)) == list(names.values())
    assert found["attribution"].tolist() == ["operator name"] * 4 + ["none"]
    assert found["kind"].tolist()[:3] == ["convolution forward", "convolution weight gradient", "gemm"]


# --- nothing ------------------------------------------------------------------------------------------------------------------


def test_on_a_device_that_nothing_recorded_operators_are_no_kernels(write_run, tmp_path):
    folder = write_run(tmp_path / "run", [(0, 1, False, 1)], [], 0, 0)
    for path in (DATA / "pytorch" / "lenet-train").iterdir():
        if "operators" not in path.name:
            shutil.copy(path, folder)
    shutil.copy(DATA / "pytorch" / "lenet-train" / "operators.pt.trace.json.gz", folder / "host.json.gz")
    (folder / "operators.pt.trace.json.gz").unlink()
    report = json.loads((folder / "child.json").read_text())
    (folder / "child.json").write_text(json.dumps({**report, "operator_files": ["host.json.gz"]}))
    trace = ks.read(tmp_path / "run")
    assert set(trace.kernels["library"]) == {"onednn", "mkl"}
    assert "the device's work is unknown" in trace.info["unavailable"]["kernels"]
    found = ks.breakdown(trace, "idle")
    assert found.table["time_ns"].sum() == found.step_ns


def test_calls_without_kernels_are_no_run_on_the_host(captured, write_run, tmp_path):
    """CUPTI's range profiler leaves the calls of a device in Kineto's trace, and no kernels."""
    source = captured(*RANGE_PROFILER)
    with gzip.open(source) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "cuda_runtime"]
    start, end = min(event["ts"] for event in events) * 1000, max(event["ts"] + event["dur"] for event in events) * 1000
    folder = write_run(tmp_path / "run", [(start, end, False, events[0]["tid"])], [], 0, 0, collector="framework")
    shutil.copy(source, folder / "operators.pt.trace.json.gz")
    trace = ks.read(tmp_path / "run")
    assert trace.kernels.empty
    assert "range profiler" in trace.info["unavailable"]["kernels"]
    assert len(trace.calls) == sum(event["ts"] * 1000 < end and event["dur"] >= 0 for event in events)
    assert ks.breakdown(trace, "idle").step_ns == end - start


@pytest.mark.parametrize(
    ("name", "content"), [("nvprof.sqlite", b"no database"), ("cupti.records", b"no records"), ("nsys.sqlite", b"")]
)
def test_a_collectors_file_that_cannot_be_read_is_named(write_run, tmp_path, name, content):
    folder = write_run(tmp_path / "run", [(0, 10**9, False, 1)], [(1, 0, 10**8, "layer", "conv1", "conv1", "forward")], OFFSET, 0)
    (folder / name).write_bytes(content)
    trace = ks.read(tmp_path / "run")
    assert name in trace.info["unavailable"]["kernels"]
    assert "\n" not in trace.info["unavailable"]["kernels"]
    assert ks.breakdown(trace, "layer").step_ns == 10**9
