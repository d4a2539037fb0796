"""rocprofv3's JSON: a real file is recomputed from its text; a small one of two processes is written here."""

import gzip
import json
from collections import Counter

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.recordings import captures
from tests.places import CORPUS

CAPTURES = sorted(CORPUS.glob("*/*rocprof*_results.json.gz"))

KINDS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipFree", "hipLaunchKernel"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA", "roctxProcessRangeA"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {
        "kind": "MEMORY_ALLOCATION",
        "operations": ["MEMORY_ALLOCATION_NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE"],
    },
    {"kind": "KERNEL_DISPATCH", "operations": []},
]


def dispatch(kernel: int, start: int, end: int, correlation: int, stream: int = 0, queue: int = 9) -> dict:
    return {
        "size": 184,
        "kind": 5,
        "operation": 2,
        "thread_id": 70,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        "dispatch_info": {
            "size": 72,
            "agent_id": {"handle": 1001},
            "queue_id": {"handle": queue},
            "kernel_id": kernel,
            "dispatch_id": kernel,
            "private_segment_size": 0,
            "group_segment_size": 1024,
            "workgroup_size": {"x": 64, "y": 2, "z": 1},
            "grid_size": {"x": 640, "y": 5, "z": 1},
        },
        "stream_id": {"handle": stream},
    }


def call(kind: int, operation: int, start: int, end: int, correlation: int) -> dict:
    record = {"kind": kind, "operation": operation, "thread_id": 71, "start_timestamp": start, "end_timestamp": end}
    return record | {"correlation_id": {"internal": correlation, "external": 0, "ancestor": 0}}


def process(pid: int = 70) -> dict:
    memory = {"kind": 4, "thread_id": 71, "agent_id": {"handle": 1001}, "allocation_size": 4096}
    return {
        "metadata": {"pid": pid, "command": ["a"], "config": {}},
        "agents": [
            {"id": {"handle": 1000}, "node_id": 0, "type": 1, "name": "EPYC"},
            {"id": {"handle": 1001}, "node_id": 1, "type": 2, "name": "gfx942", "product_name": "MI300X", "cu_count": 304},
        ],
        "strings": {"buffer_records": KINDS, "marker_api": [{"key": 20, "value": "forward"}, {"key": 21, "value": "here"}]},
        "kernel_symbols": [
            {"kernel_id": 0, "kernel_name": "", "formatted_kernel_name": "0", "arch_vgpr_count": 0, "accum_vgpr_count": 0},
            {
                "kernel_id": 3,
                "kernel_name": "_Z4axpyPf.kd",
                "formatted_kernel_name": "axpy(float*)",
                "arch_vgpr_count": 12,
                "accum_vgpr_count": 4,
            },
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": [dispatch(3, 130, 150, 10), dispatch(8, 160, 165, 0, queue=11)],
            "hip_api": [call(1, 1, 100, 120, 10), call(1, 0, 200, 210, 11)],
            "hsa_api": [],
            "marker_api": [call(2, 1, 90, 170, 20), call(2, 0, 95, 95, 21)],
            "memory_copy": [
                call(3, 2, 121, 125, 12) | {"src_agent_id": {"handle": 1000}, "dst_agent_id": {"handle": 1001}, "bytes": 512}
            ],
            "memory_allocation": [
                memory | {"operation": 1, "start_timestamp": 10, "end_timestamp": 11, "address": {"handle": 4096}},
                memory | {"operation": 2, "start_timestamp": 20, "end_timestamp": 21, "address": "0x1000", "allocation_size": 0},
            ],
            "scratch_memory": [{"anything": 1}],
        },
    }


def written(folder, *processes: dict):
    path = folder / "1_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}, indent=1))
    return path


@pytest.mark.skipif(not CAPTURES, reason="files of other people: needs ../shared/corpus")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:40])
def test_kernels_of_others_by_name(path):
    with gzip.open(path) as file:
        tool = json.load(file)["rocprofiler-sdk-tool"][0]
    names = {row["kernel_id"]: row["formatted_kernel_name"] for row in tool["kernel_symbols"]}
    expected: Counter = Counter()
    for row in tool["buffer_records"]["kernel_dispatch"]:
        expected[names[row["dispatch_info"]["kernel_id"]]] += row["end_timestamp"] - row["start_timestamp"]
    kernels = captures.read(path).kernels
    assert detect(path).name == "rocprof-json"
    assert len(kernels) == len(tool["buffer_records"]["kernel_dispatch"])
    assert kernels.groupby("name", observed=True)["duration_ns"].sum().to_dict() == expected


def test_device_work(tmp_path):
    trace = captures.read(written(tmp_path, process()))
    first, second = trace.kernels.astype(object).to_dict("records")
    assert (first["name"], first["device"], first["thread"], first["process"]) == ("axpy(float*)", "rocm:1", 9, 70)
    assert (first["grid"], first["block"], first["registers"], first["shared_memory"]) == ("10,3,1", "64,2,1", 16, 1024)
    assert first["launch_ns"] == 100
    assert second["thread"] == 11
    assert trace.kernels[["name", "registers", "correlation"]].isna().to_numpy().tolist() == [[False] * 3, [True] * 3]
    assert trace.copies[["operation", "bytes", "device"]].astype(object).to_numpy().tolist() == [
        ["host to device", 512, "rocm:1"]
    ]
    assert trace.memory[["time_ns", "bytes", "device"]].astype(object).to_numpy().tolist() == [
        [11, 4096, "rocm:1"],
        [21, -4096, "rocm:1"],
    ]
    assert trace.diagnostics["records of scratch_memory, which are not read"] == 1
    assert trace.info["devices"] == [{"device": "rocm:1", "name": "MI300X", "architecture": "gfx942", "multiprocessors": 304}]


def test_the_host(tmp_path):
    trace = captures.read(written(tmp_path, process()))
    assert trace.calls[["name", "api", "thread"]].astype(object).to_numpy().tolist() == [
        ["hipLaunchKernel", "runtime", 71],
        ["hipFree", "runtime", 71],
    ]
    assert trace.ranges[["name", "category", "nested"]].astype(object).to_numpy().tolist() == [
        ["forward", "user", True],
        ["here", "mark", False],
    ]
    assert trace.kernels["range_id"].notna().tolist() == [True, False]


def test_several_processes_and_one_without_a_list(tmp_path):
    trace = captures.read(written(tmp_path, process(), process(80)))
    assert sorted(set(trace.kernels["process"])) == [70, 80]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": process()}))
    assert len(captures.read(path).kernels) == 2


def test_dispatches_that_only_counters_tell(tmp_path):
    one = process()
    kernels = one["buffer_records"].pop("kernel_dispatch")
    one["callback_records"]["counter_collection"] = [{"thread_id": 1, "dispatch_data": row, "records": []} for row in kernels]
    trace = captures.read(written(tmp_path, one))
    assert trace.kernels["duration_ns"].tolist() == [20, 5]
    assert trace.diagnostics["dispatches with hardware counters, whose values are not read"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "damaged or cut short"),
        (lambda text: text.replace('"start_timestamp": 130', '"start_timestamp": "noon"'), "kernel_dispatch: not as rocprofv3"),
        (lambda text: text.replace('"grid_size"', '"grids"'), "missing required field `grid_size`"),
        (lambda text: text.replace('"start_timestamp": 130', f'"start_timestamp": {1 << 70}'), "kernel_dispatch"),
    ],
)
def test_damage_is_refused_in_one_line(tmp_path, change, message):
    path = written(tmp_path, process())
    path.write_text(change(path.read_text()))
    with pytest.raises(EvidenceError, match=message) as error:
        captures.read(path)
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)
