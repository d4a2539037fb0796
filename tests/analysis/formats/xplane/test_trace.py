"""XPlane captures of made-up planes: what no recorded one has."""

import contextlib
import gzip
from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.xplane import columns, tables
from kernelscope.analysis.formats.xplane import trace as xplane
from kernelscope.analysis.recordings import captures
from tests.analysis.formats.xplane.made import plane, read
from tests.places import ROOT

OURS = sorted((ROOT / "tests/data/tensorflow").glob("*/operators.xplane.pb"))


KERNEL = {"kernel_details": "regs:32 static_shared:1024 dynamic_shared:512 grid:4,2,1 block:128,1,1 occ_pct:50"}


def test_an_nvidia_gpu_with_copies_sets_graphs_and_derived_lines(tmp_path):
    tf_op = "gradients/conv1/Conv2D_grad/Conv2DBackpropFilter:Conv2DBackpropFilter"
    gpu = plane(
        "/device:GPU:1",
        {
            "Stream #14(Kernel,MemcpyH2D)": [
                ("cudnn::wgrad", 10, 5, {"correlation_id": 7, "tf_op": tf_op, **KERNEL}),
                (
                    "MemcpyH2D",
                    20,
                    3,
                    {"correlation_id": 8, "memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"},
                ),
                ("Memset", 24, 1, {"Memset_details": "kind:device num_bytes:64 async:1"}),
                ("CudaGraph", 30, 9, {"correlation_id": 9, "cuda_graph_exec_id": 3}),
                ("MemoryAlloc", 1, 0, {"memalloc_details": "kind:device num_bytes:512"}),
                ("MemoryFree", 50, 0, {"MemFree_details": "kind:device num_bytes:512"}),
            ],
            "Framework Ops": [("conv1/Conv2D", 10, 5, {})],
            "XLA Modules": [("jit_step", 10, 30, {})],
            "Steps": [("0", 5, 20, {}), ("1", 25, 30, {})],
        },
        {"device_vendor": "=Nvidia", "compute_cap_major": 9},
    )
    host = plane(
        "/host:CPU",
        {"python": [
            ("cuLaunchKernel", 2, 3, {"correlation_id": 7}), ("cudaMemcpyAsync", 6, 1, {"correlation_id": 8}),
            ("cuGraphLaunch (CudaGraph:3)", 8, 1, {"correlation_id": 9}), ("conv1/Conv2D:Conv2D", 1, 8, {}),
        ]},
    )  # fmt: skip
    trace = read(tmp_path, gpu, host)
    kernel = trace.kernels.iloc[0]
    assert len(trace.kernels) == 1
    assert kernel[["name", "device", "grid", "block", "operator", "layer", "phase", "attribution"]].tolist() == [
        "cudnn::wgrad", "cuda:1", "4,2,1", "128,1,1", "Conv2DBackpropFilter", "conv1", "backward", "operator name",
    ]  # fmt: skip
    assert kernel[["registers", "shared_memory", "correlation", "thread"]].tolist() == [32, 1536, 7, 10]
    assert trace.copies[["operation", "bytes", "duration_ns"]].values.tolist() == [["host to device", 4096, 3], ["set", 64, 1]]
    assert trace.copies["memory"].iloc[0] == "pinned to device"
    assert trace.graphs[["graph", "correlation", "start_ns"]].values.tolist() == [[3, 9, 30]]
    assert trace.memory["bytes"].tolist() == [512, -512]
    # the profiler's steps are the device's; their work was launched from 2 and from 8 on
    assert trace.steps[["start_ns", "end_ns"]].values.tolist() == [[2, 8], [8, 55]]
    assert trace.calls[["api", "name"]].values.tolist() == [
        ["driver", "cuLaunchKernel"], ["runtime", "cudaMemcpyAsync"], ["driver", "cuGraphLaunch"],
    ]  # fmt: skip
    assert trace.operators[["name", "scope"]].values.tolist() == [["Conv2D", "conv1/Conv2D"]]
    assert trace.diagnostics == {"derived events not read": 2}
    assert trace.info["clock"] == "relative"
    assert trace.info["devices"] == [{"device": "cuda:1", "name": None, "compute_capability": "9.0"}]


def test_loops_of_a_tpu_hold_operations_and_are_no_kernels(tmp_path):
    tpu = plane("/device:TPU:0", {"XLA Ops": [
        ("%while", 0, 100, {"hlo_category": "while"}),
        ("%fusion.1", 10, 20, {"hlo_category": "fusion", "tf_op": "jit(f)/jit(main)/transpose(jvp(Net))/Dense_0/dot_general:"}),
        ("%all-reduce", 40, 20, {"hlo_category": "all-reduce"}),
        ("%while.2", 200, 10, {"hlo_category": "while"}),
    ]})  # fmt: skip
    trace = read(tmp_path, tpu)
    assert trace.kernels["name"].tolist() == ["%fusion.1", "%all-reduce", "%while.2"]
    assert trace.kernels["layer"].iloc[0] == "Net/Dense_0"
    assert trace.kernels["phase"].iloc[0] == "backward"
    assert trace.kernels["operator"].iloc[0] == "dot_general"
    assert trace.ranges[["name", "nested"]].values.tolist() == [["%while", True]]


def test_jax_on_a_cpu_names_xlas_operations(tmp_path):
    host = plane("/host:CPU", {"tf_XLAEigen/1": [
        ("dot.3", 10, 20, {"hlo_op": "dot.3", "hlo_module": "jit_f"}), ("PjitFunction(f)", 0, 50, {}),
        ("while.1", 40, 9, {"hlo_op": "=while.1"}),
        ("add.1", 41, 2, {"hlo_op": "=add.1", "name": "=jit(f)/layer/add"}),
    ]})  # fmt: skip
    trace = read(tmp_path, host)
    assert trace.kernels[["name", "operator"]].values.tolist() == [["dot.3", "dot"], ["add.1", "add"]]
    assert trace.kernels["layer"].iloc[1] == "layer"
    assert trace.info["framework"] == "jax"


def gpu_of(number, first, stream, steps=(), name=None):
    """Build a GPU's plane with a kernel of 50 ns every 1,000 ns, whose correlation ids count from `first`."""
    rows = [(f"gemm{number}", 100 + stream + 1000 * n, 50, {"correlation_id": first + n, **KERNEL}) for n in range(5)]
    lines = {f"Stream #{stream}(Compute)": rows}
    if steps:
        lines["Steps"] = [(str(n), start, 500, {}) for n, start in enumerate(steps)]
    return plane(name or f"/device:GPU:{number}", lines, {"device_vendor": "=Nvidia"})


def launches_of(number, first, at, **more):
    rows = [("cuLaunchKernel", at + 1000 * n, 5, {"correlation_id": first + n, **more}) for n in range(5)]
    return {f"thread{number}": rows}


def test_every_kernel_of_two_gpus_arrives_in_the_step_that_launched_it(tmp_path):
    # the second GPU begins each step when the first has ended it
    planes = [
        gpu_of(0, 1, 0, steps=[100 + 1000 * n for n in range(5)]),
        gpu_of(1, 101, 700, steps=[800 + 1000 * n for n in range(5)]),
        plane("/host:CPU", launches_of(0, 1, 10) | launches_of(1, 101, 60)),
    ]
    trace = read(tmp_path, *planes)
    assert Counter(zip(trace.kernels["device"], trace.kernels["name"], strict=True)) == {
        ("cuda:0", "gemm0"): 5, ("cuda:1", "gemm1"): 5,
    }  # fmt: skip
    assert [row["device"] for row in trace.info["devices"]] == ["cuda:0", "cuda:1"]
    assert trace.steps["start_ns"].tolist() == [10 + 1000 * n for n in range(5)]
    captures.finish(trace)
    assert trace.kernels.groupby("device", observed=True)["step"].agg(list).to_dict() == {
        "cuda:0": [0, 1, 2, 3, 4], "cuda:1": [0, 1, 2, 3, 4],
    }  # fmt: skip
    assert trace.diagnostics == {}


def test_without_launches_a_step_lasts_from_the_first_devices_to_the_last_devices(tmp_path):
    trace = read(tmp_path, gpu_of(0, 1, 0, steps=[100, 1100]), gpu_of(1, 101, 700, steps=[800, 1800]))
    assert trace.steps[["start_ns", "end_ns"]].values.tolist() == [[100, 1100], [1100, 2300]]


def test_a_correlation_id_that_calls_for_two_devices_bear_is_one_of_each_device(tmp_path):
    host = plane("/host:CPU", launches_of(0, 1, 10, device_id=0) | launches_of(1, 1, 60, device_id=1))
    trace = read(tmp_path, gpu_of(0, 1, 0), gpu_of(1, 1, 700), host)
    captures.finish(trace)
    assert trace.kernels["launch_ns"].tolist() == [*range(10, 5000, 1000), *range(60, 5000, 1000)]
    assert not {"calls with several kernels, graphs aside", "launches without a kernel"} & set(trace.diagnostics)


def test_a_graphs_kernels_on_another_device_keep_their_call(tmp_path):
    host = plane("/host:CPU", {"python": [("cuGraphLaunch", 5, 9, {"correlation_id": 1, "device_id": 0})]})
    other = plane("/device:GPU:1", {"Stream #1": [("k", 100, 5, {"correlation_id": 1, **KERNEL})]})
    trace = read(tmp_path, gpu_of(0, 1, 0), other, host)
    captures.finish(trace)
    assert trace.kernels["launch_ns"].dropna().tolist() == [5, 5]


def test_planes_of_the_same_name_are_devices_of_several_processes(tmp_path):
    hosts = [plane("/host:CPU", launches_of(0, 1, at)) for at in (10, 60)]
    trace = read(tmp_path, hosts[0], gpu_of(0, 1, 0), hosts[1], gpu_of(0, 1, 700))
    captures.finish(trace)
    assert trace.kernels.groupby("device", observed=True).size().to_dict() == {"cuda:0": 5, "cuda:0 of process 1": 5}
    assert trace.kernels["launch_ns"].tolist() == [*range(10, 5000, 1000), *range(60, 5000, 1000)]


def test_a_devices_plane_may_name_its_host_first(tmp_path):
    trace = read(tmp_path, gpu_of(0, 1, 0, name="/host:a/device:GPU:0"), gpu_of(1, 1, 0, name="/job:w/task:0/device:GPU:1"))
    assert trace.kernels.groupby("device", observed=True).size().to_dict() == {"cuda:0": 5, "cuda:1": 5}


def test_work_of_unknown_devices_is_refused_alone_and_said_beside_others(tmp_path):
    odd = gpu_of(0, 1, 0, name="/device:XPU:0")
    host = plane("/host:CPU", {"python": [("conv1/Conv2D:Conv2D", 1, 8, {})]})
    with pytest.raises(EvidenceError, match=r"the work of '/device:XPU:0' \(5 events\) cannot be read yet"):
        read(tmp_path, host, odd)
    trace = read(tmp_path, gpu_of(0, 1, 0), odd)
    assert trace.info["not_read"] == {"/device:XPU:0": 5}
    assert trace.info["warnings"] == ["events of unknown devices are not read: /device:XPU:0 5"]
    custom = gpu_of(0, 1, 0, name="/device:CUSTOM:Megascale Trace 0")
    assert "not_read" not in read(tmp_path, host, custom).info


def test_steps_that_a_program_marked_are_steps(tmp_path):
    rows = [("train", 10 * n, 9, {"step_num": n}) for n in range(3)]
    trace = read(tmp_path, plane("/host:CPU", {"python": [*rows, ("train", 5, 2, {"step_num": 9})]}))
    assert trace.steps[["step", "start_ns", "end_ns"]].values.tolist() == [[0, 0, 9], [1, 10, 19], [2, 20, 29]]
    assert trace.diagnostics["steps inside of others"] == 1


def test_a_compressed_file_reads_the_same(tmp_path):
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(OURS[0].read_bytes()))
    assert xplane.matches(read_head(packed))
    assert xplane.read(packed).kernels.equals(xplane.read(OURS[0]).kernels)


def test_a_plane_without_events_is_a_note_and_no_kernels_are_explained(tmp_path):
    trace = read(tmp_path, plane("/device:GPU:0", {}, {"device_vendor": "=AMD"}))
    assert trace.kernels.empty
    assert "1 devices without events: rocm:0" in trace.info["notes"]
    assert "kernels" in trace.info["unavailable"]


@pytest.mark.parametrize(
    ("name", "lines", "count"),
    [("/host:CPU", {}, 5000), pytest.param("/device:GPU:0", {"Stream #1": [("k", 1, 1, {})]}, 300, marks=pytest.mark.slow)],
)
def test_countless_planes_are_refused(tmp_path, name, lines, count):
    with pytest.raises(EvidenceError, match=r"planes.*no profiler writes so many"):
        read(tmp_path, plane(name, lines) * count)


@settings(deadline=None, max_examples=30, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.data())
def test_whatever_planes_hold_nothing_but_evidence_errors_escape(tmp_path_factory, data):
    text = st.sampled_from(
        ["Stream #1(Kernel)", "XLA Ops", "Steps", "python", "MemcpyH2D", "a/b:Relu", "cuLaunchKernel", "", "NVTX:x"]
    )
    detail = st.sampled_from([*columns.INTEGERS, *columns.TEXTS])
    value = st.one_of(
        st.integers(-(2**63), 2**63 - 1), st.sampled_from(["grid:1,1,1", "=size:99999999999999999999", "while", "=", "a:b"])
    )
    time = st.one_of(st.integers(0, 100), st.integers(-(2**53), 2**53))
    event = st.tuples(text, time, time, st.dictionaries(detail, value, max_size=3))
    lines = st.dictionaries(text, st.lists(event, max_size=4), max_size=3)
    name = st.sampled_from(
        ["/device:GPU:0", "/device:TPU:0", "/host:CPU", "/device:CUSTOM:x", "/host:metadata", "/device:TPU:0 SparseCore 1"]
    )
    content = b"".join(plane(data.draw(name), data.draw(lines)) for _ in range(data.draw(st.integers(1, 3))))
    position = data.draw(st.integers(0, len(content) * 2))
    if position < len(content):
        content = content[:position] + bytes([data.draw(st.integers(0, 255))]) + content[position + 1 :]
    path = tmp_path_factory.mktemp("made") / "made.pb"
    path.write_bytes(content)
    xplane.matches(read_head(path))
    with contextlib.suppress(EvidenceError):
        trace = xplane.read(path)
        trace.check()
        captures.finish(trace)


def test_a_program_from_jaxs_cache_is_known_by_its_name():
    contents = {"jit_step(7)": b"", "jit_multiply(1)": b"", "jit_multiply(2)": b""}
    assert tables.program_key(contents, "jit_step", 7) == "jit_step(7)"
    assert tables.program_key(contents, "jit_step", 8) == "jit_step(7)"
    assert tables.program_key(contents, "jit_multiply", 3) is None
    assert tables.program_key(contents, "jit_other", 7) is None
