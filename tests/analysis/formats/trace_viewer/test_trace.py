"""The trace viewer's JSON gives what the XSpace gives that it is a view of."""

import gzip
import json

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.formats.xplane import columns as xplane_columns
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.recordings import captures
from tests import places

CORPUS = places.CORPUS / "tf"
HEAD = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
INTERNAL = ("kernel_details", "bytes_accessed")  # statistics that the viewer leaves out


def process(pid, name, threads):
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, thread in threads.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": thread}}


def event(pid, tid, start, duration, label, **args):
    return {"ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": duration, "name": label, **({"args": args} if args else {})}


def written(path, events, **more):
    content = json.dumps({**HEAD, **more, "traceEvents": [*events, {}]}).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def gpu():
    """Yield a small trace of JAX on a GPU."""
    streams = {
        13: "Stream #13(Compute)",
        14: "Stream #14(MemcpyH2D)",
        901: "XLA Modules",
        902: "XLA Ops",
        903: "Steps",
        904: "Source code",
    }
    yield from process(1, "/device:GPU:0", streams)
    yield from process(701, "/host:CPU", {77: "python"})
    gemm = {
        "correlation_id": "5",
        "hlo_op": "dot.3",
        "hlo_module": "jit_step",
        "name": "jit(step)/jit(main)/jvp(Net)/Dense_0/dot_general",
    }
    yield event(1, 13, 10.000125, 5.5, "gemm_fusion", **gemm)
    yield event(1, 13, 20, 2.25, "loop_add_fusion", correlation_id="6", hlo_op="add.1", hlo_module="jit_step")
    yield event(
        1, 14, 2, 1, "MemcpyH2D", correlation_id="4", memcpy_details="kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    )
    yield event(1, 901, 10, 13, "jit_step(42)")
    yield event(1, 902, 10, 13, "dot.3", hlo_op="dot.3")
    yield event(1, 904, 10, 13, "train.py:7")
    yield event(1, 903, 9, 20, "0")
    yield event(701, 77, 1, 7, "PjitFunction(step)")
    yield event(701, 77, 5, 1, "cuLaunchKernel", correlation_id="5")
    yield {"ph": "C", "pid": 701, "tid": 77, "ts": 1, "name": "counter", "args": {"value": 1}}


def test_kernels_of_a_gpu_are_its_streams_and_nothing_that_groups_them(tmp_path):
    path = written(tmp_path / "a.trace.json.gz", gpu())
    assert detect(path).name == "trace-viewer"
    trace = captures.read(path)
    assert trace.kernels[["name", "duration_ns", "device", "thread"]].values.tolist() == [
        ["gemm_fusion", 5500, "cuda:0", 13],
        ["loop_add_fusion", 2250, "cuda:0", 13],
    ]
    assert trace.kernels["launch_ns"].tolist()[0] == 5000
    assert trace.kernels["operator"].tolist() == ["dot_general", "add"]
    assert trace.kernels["layer"].tolist()[0] == "Net/Dense_0"
    assert trace.copies[["operation", "bytes", "duration_ns"]].values.tolist() == [["host to device", 4096, 1000]]
    assert len(trace.steps) == 1
    assert trace.info["source"]["format"] == "trace-viewer"
    assert trace.info["not_read"] == {"phase C": 1}
    assert trace.diagnostics["derived events not read"] == 3
    assert "PjitFunction(step)" in set(trace.ranges["name"])


def test_events_that_the_viewer_left_out_are_said(tmp_path, monkeypatch):
    from kernelscope.analysis.formats.trace_viewer import trace as trace_viewer

    monkeypatch.setattr(trace_viewer, "_MOST_EVENTS", 5)
    trace = captures.read(written(tmp_path / "a.json", gpu(), filteredByVisibility=True, returnedEventsSize=100))
    assert any("cuts files at a million" in line for line in trace.info["warnings"])
    assert any("too short to see" in line for line in trace.info["warnings"])
    assert trace.diagnostics["events that the file counts and does not hold"] == 90


def test_two_hosts_are_told_apart(tmp_path):
    events = [
        *process(1, "host-a /device:TPU:0", {1: "XLA Ops"}),
        *process(2, "host-b /device:TPU:0", {1: "XLA Ops"}),
        event(1, 1, 1, 2, "fusion.1", hlo_category="convolution fusion", long_name="%fusion.1 = f32[] fusion(...)"),
        event(2, 1, 1, 3, "fusion.1", hlo_category="convolution fusion", long_name="%fusion.1 = f32[] fusion(...)"),
    ]
    trace = captures.read(written(tmp_path / "a.json", events))
    assert trace.kernels[["name", "device", "duration_ns"]].values.tolist() == [
        ["fusion.1", "tpu:0", 2000],
        ["fusion.1", "tpu:0 of process 1", 3000],
    ]


def test_work_of_unknown_devices_is_refused(tmp_path):
    path = written(tmp_path / "a.json", [*process(1, "/device:NPU:0", {1: "s"}), event(1, 1, 1, 2, "x")])
    with pytest.raises(EvidenceError, match="cannot be read yet"):
        captures.read(path)


def viewed(path):
    """Yield the events that XProf makes of an XSpace."""
    for pid, plane in enumerate(xplane.read_planes(path, xplane_columns.INTEGERS, xplane_columns.TEXTS).planes, 1):
        rows = plane.events
        yield from process(
            pid, plane.name, dict(zip(rows["line_id"].tolist(), rows["line"].tolist(), strict=True)) if len(rows) else {}
        )
        stats = [name for name in rows.columns if name.startswith("stat_") and name.removeprefix("stat_") not in INTERNAL]
        for row in rows.astype(object).where(rows.notna(), None).to_dict("records"):
            args = {name.removeprefix("stat_"): str(row[name]) for name in stats if row[name] is not None}
            if row["display_name"]:
                args["long_name"] = row["name"]
            times = row["start_ns"] % 10**15 / 1000, row["duration_ns"] / 1000
            yield event(pid, row["line_id"], *times, row["display_name"] or row["name"], **args)


@pytest.mark.parametrize("name", ["AMD-AGI__TraceLens__mi300_jax08_attention", "openxla__xprof__tpu_inference_2"])
def test_it_gives_the_kernels_of_the_xspace(tmp_path, name):
    source = CORPUS / f"{name}.xplane.pb"
    if not source.exists():
        pytest.skip("the captures of others are not here")
    planes = xplane.read_planes(source).planes
    if sum(len(plane.events) for plane in planes) > 200_000:
        pytest.skip("too large to be written as JSON here")
    found = captures.read(written(tmp_path / "a.trace.json.gz", viewed(source)))
    wanted = captures.read(source)

    def sums(table):
        return table.astype({"name": "str"}).groupby("name")[["count", "duration_ns"]].sum().sort_index()

    pd.testing.assert_frame_equal(sums(found.kernels), sums(wanted.kernels))
    assert len(found.copies) == len(wanted.copies)
    assert len(found.steps) == len(wanted.steps)
    assert len(found.calls) == len(wanted.calls)
