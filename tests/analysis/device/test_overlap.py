"""Streams, activities, copies, precision and memory: by hand, and sums of real captures."""

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis import EvidenceError
from kernelscope.analysis.device import memory, overlap, precision, tables
from kernelscope.analysis.trace import Trace, conform
from tests.places import CORPUS


def trace():
    """0..100: compute 10-30 (and 12-18) on stream 1, 20-40 on stream 2; communication 35-60 on 3; a copy 50-70 on 4."""
    kernels = pd.DataFrame({
        "start_ns": [10, 20, 35, 12], "end_ns": [30, 40, 60, 18], "duration_ns": [20, 20, 25, 6], "count": 1, "device": "cuda:0",
        "thread": [1, 2, 3, 1], "kind": ["gemm", "gemm", "communication", "elementwise"], "dtype": ["tf32", "f32", None, "f32"],
        "tensor_core": [True, None, None, False], "name": ["sm80_tf32", "x", "ncclAllReduce", "add"],
    })  # fmt: skip
    copies = pd.DataFrame({
        "start_ns": [50, None], "end_ns": [70, None], "duration_ns": [20, 7], "count": [1, 3], "device": "cuda:0", "thread": 4,
        "operation": ["host to device", "set"], "bytes": [4000, None], "memory": ["pinned to device", None],
    })  # fmt: skip
    ranges = pd.DataFrame({"thread": [9], "start_ns": [0], "end_ns": [100], "name": ["all"], "category": ["user"]})
    tables = {"kernels": kernels, "copies": copies, "ranges": ranges}
    return Trace(**{name: conform(name, rows) for name, rows in tables.items()})


def test_streams():
    found = overlap.streams(trace())
    # none 0-10, 70-100; two 20-30, 35-40, 50-60; the rest one
    assert dict(zip(found["streams"], found["time_ns"], strict=True)) == {0: 40, 1: 35, 2: 25}


def test_activities():
    found = overlap.activities(trace()).set_index("activity")["time_ns"].to_dict()
    assert found == {
        "idle": 40, "compute": 25, "compute + communication": 5, "communication": 10, "communication + copy": 10, "copy": 10,
    }  # fmt: skip


def test_windows_are_measured_steps():
    made = trace()
    made.steps = conform("steps", pd.DataFrame({
        "step": [0, 1], "warmup": [True, False], "thread": 1, "start_ns": [0, 25], "end_ns": [25, 55],
    }))  # fmt: skip
    assert overlap.activities(made)["time_ns"].sum() == 30
    found = overlap.streams(made)
    # two: 25-30, 35-40, 50-55
    assert dict(zip(found["streams"], found["time_ns"], strict=True)) == {0: 0, 1: 15, 2: 15}


def test_copies():
    found = overlap.copies(trace())
    assert found["duration_ns"].sum() == 27
    assert found.iloc[0][["operation", "memory", "size", "bytes"]].tolist() == [
        "host to device", "pinned to device", "up to 4 KiB", 4000,
    ]  # fmt: skip
    assert found["gbytes_per_s"].iloc[0] == pytest.approx(200.0)  # 4000 bytes in 20 ns
    assert found.iloc[1][["bytes", "gbytes_per_s", "size"]].isna().all()


def test_precision():
    found = precision.table(trace())
    assert found["duration_ns"].sum() == 71
    assert {(row.dtype, row.tensor_cores): row.duration_ns for row in found.fillna({"dtype": "?"}).itertuples()} == {
        ("tf32", "yes"): 20, ("f32", "unknown"): 20, ("?", "unknown"): 25, ("f32", "no"): 6,
    }  # fmt: skip
    states = {row["of"]: row["state"] for row in precision.tf32(trace(), {"tf32_cudnn": False})}
    assert states == {"matrix products": "on", "convolutions": "off"}
    assert {row["state"] for row in precision.tf32(Trace())} == {"unknown"}


def test_nothing_and_totals():
    with pytest.raises(EvidenceError, match="no timeline"):
        overlap.streams(Trace())
    found = tables.tables(Trace(), tables.NAMES)
    assert all(isinstance(rows, str) for name, rows in found.items() if name != "tf32")


def with_memory():
    """A step of one thread: forward 0-100, backward 100-200, optimizer 200-300, and what each took."""
    operators = conform("operators", pd.DataFrame({
        "thread": 1, "start_ns": [0, 100, 200], "end_ns": [90, 190, 290], "name": ["aten::mm", "aten::mm", "aten::add"],
        "phase": ["forward", "backward", "optimizer"],
    }))  # fmt: skip
    #         time, bytes, address: 1 workspace; 2 activation kept until 150; 3 gradient; 4 its own gradient, back in the backward
    events = [(5, 64, 1), (10, 1000, 2), (20, -64, 1), (110, 300, 3), (120, 50, 4), (130, 8, 6), (140, -8, 6), (150, -1000, 2)]
    events += [(195, -50, 4), (210, 700, 5), (400, 9, 7)]
    rows = pd.DataFrame(events, columns=["time_ns", "bytes", "address"])
    rows = rows.assign(device="cuda:0", thread=1, allocated_bytes=5000 + rows["bytes"].cumsum(), reserved_bytes=8000)
    return Trace(operators=operators, memory=conform("memory", rows))


def test_peak_and_kinds():
    made = with_memory()
    peak = memory.peaks(made).iloc[0]
    # at 130: 1000 + 300 + 50 + 8, on top of 5000
    assert (peak["allocated_bytes"], peak["reserved_bytes"], peak["time_ns"], peak["phase"]) == (6358, 8000, 125, "backward")
    found = memory.kinds(made).set_index("kind")["bytes"].to_dict()
    # 4 is given back after the last backward operator ended, at 190: a gradient like 3
    assert found == {"before the recording": 5000, "activations": 1000, "gradients": 350, "workspace": 8}
    assert sum(found.values()) == peak["allocated_bytes"]


def test_stated_memory():
    network = {"parameters": 100, "optimizer": {"name": "adam"}, "layers": [{"output_shape": [2, 3]}, {"output_shape": []}]}
    found = memory.stated(network, "train", 10).set_index("kind")["bytes"].to_dict()
    assert found == {"weights": 400, "gradients": 400, "optimizer state": 800, "activations": 4 * 10 * (6 + 1)}
    assert set(memory.stated(network, "infer", 10)["kind"]) == {"weights", "activations"}


@pytest.mark.parametrize(
    "name", ["kineto/*h100_timesformer*", "nsys/*h100_2gpu_1s_v1*", "nvprof/*basic_nvprof*", "kineto/*Qwen*"]
)
def test_captures_keep_their_sums(name):
    files = sorted(CORPUS.glob(name))
    if not files:
        pytest.skip("the corpus is not here")
    made = ks.read(files[0])
    assert overlap.copies(made)["duration_ns"].sum() == made.copies["duration_ns"].sum()
    assert precision.table(made)["duration_ns"].sum() == made.kernels["duration_ns"].sum()
    streams, activities = overlap.streams(made), overlap.activities(made)
    assert streams.groupby("device")["time_ns"].sum().equals(activities.groupby("device")["time_ns"].sum())
    assert streams.groupby("device")["time_ns"].sum().nunique() == 1
    kinds, peaks = memory.kinds(made), memory.peaks(made)
    for device, rows in kinds.groupby("device"):
        assert rows["bytes"].sum() == peaks.set_index("device").loc[device, "allocated_bytes"]
