"""Advice on small logs of other people's programs: links that are guessed, mapped memory, first uses, idle profiles."""

import json

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.breakdowns import breakdowns
from kernelscope.analysis.kernels.names import describe
from kernelscope.reports import breakdown_words

HEADING = (
    "==1== NVPROF is profiling process 1, command: ./a.out\n==1== Profiling result:\n"
    "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  "
    "DstMemType           Device   Context    Stream  Name\n"
)
COPY = (
    "{}ms  10.000ms                    -               -         -         -         -  16.000MB  1.5625GB/s    Pageable      "
    "Device  GeForce GT 650M          1         7  [CUDA memcpy HtoD]\n"
)
KERNEL = (
    "{}ms  {}ms           ({} 1 1)       (512 1 1)         8        0B        0B         -           -           -           "
    "-  GeForce GT 650M          1         7  {}(int*, int*, int) [114]\n"
)


def write(tmp_path, text, name="log.txt"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_headline_is_the_sum_of_its_estimate_and_a_named_device_is_named(tmp_path):
    (one,) = ks.advise(write(tmp_path, HEADING + COPY.format(100) + KERNEL.format(110, "3.000", 64, "add")))["advice"]
    assert one["saves_ns"] == pytest.approx(8.652e6, rel=0.01)  # 10 ms * (1 - 1 / 2.3) and 3 ms of computation
    assert one["estimate"].startswith("5.65 ms by pinned memory")
    assert one["estimate"].count("3.00 ms") == 2
    assert "(the link of GeForce GT 650M is not known" in one["estimate"]


@pytest.mark.parametrize(
    ("grid", "took", "name", "said"),
    [
        (64, "20.000", "addZeroCopy", 1),
        (32, "20.000", "addZeroCopy", 0),  # another size
        (64, "2.000", "addZeroCopy", 0),  # as fast
        (64, "20.000", "addTwice", 0),  # another program
    ],
)
def test_kernels_on_mapped_memory_are_compared_with_their_twins(tmp_path, grid, took, name, said):
    text = HEADING + KERNEL.format(100, "1.000", 64, "add") + KERNEL.format(110, took, grid, name)
    notes = [note for note in ks.advise(write(tmp_path, text))["notes"] if "the host's memory" in note]
    assert len(notes) == said


def test_idle_time_is_told_of_a_trace_by_kernel(tmp_path):
    text = HEADING + KERNEL.format(100, "1.000", 64, "add") + KERNEL.format(109, "1.000", 64, "add")
    part = breakdowns(ks.read(write(tmp_path, text)), ("kernel",))["kernel"].as_dict()
    assert breakdown_words.known(part) == "the device is idle for 80.0% of it"


@pytest.mark.parametrize("calls", [["cudaGetDeviceCount", "cudaDeviceSynchronize"], ["cudaLaunchKernel"]])
def test_a_profile_in_which_nothing_ran_points_to_its_schedule(tmp_path, calls):
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": 10 * at, "dur": 5, "args": {}}
        for at, name in enumerate(calls)
    ]
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA GeForce RTX 3090"}], "traceEvents": events}
    said = ks.advise(write(tmp_path, json.dumps(document), "trace.json"))["unrecorded"]
    assert ("check its schedule" in said) == ("cudaLaunchKernel" not in calls)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("quantized_gemv_q6_k", "gemm"), ("dequant_q4_k_f16", "cast"), ("quantize_kernel(float*)", "cast")],
)
def test_products_of_quantised_weights_are_no_casts(name, kind):
    assert describe(name).kind == kind


def test_float64_products_are_bound_by_arithmetic(tmp_path):
    text = (
        "MKL_VERBOSE Intel(R) MKL 2019.0 Update 3 Product build 20190125 for Intel(R) 64 architecture, Lnx 2.33GHz ilp64\n"
        "MKL_VERBOSE DGEMM(N,N,4000,4000,4000,0x7ffe727c07d8,0x7f8e450f2080,4000,0x7f8e3d6df080,4000,0x7ffe727c07e0,"
        "0x7f8e35ccc080,4000) 2.33s CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:8\n"
    )
    (one,) = ks.advise(write(tmp_path, text))["advice"]
    assert "computed at least twice as fast" in one["estimate"]
    assert "memory-bound" not in one["estimate"]


SUMMARY = """==1== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  97.39%  225.83ms         1  225.83ms  225.83ms  225.83ms  [CUDA memcpy HtoD]
                   2.60%  6.0310ms         1  6.0310ms  6.0310ms  6.0310ms  row_sums(float const *, float*)
      API calls:  62.19%  232.14ms         3  77.382ms  2.6272ms  226.00ms  cudaMemcpy
                  37.54%  140.15ms         2  70.073ms  123.07us  140.02ms  {}
"""


@pytest.mark.parametrize(
    ("call", "pinned"),
    [("cudaMalloc", True), ("cudaHostAlloc", False), ("cudaLaunchKernel", True), ("cudaStreamIsCapturing", False)],
)
def test_long_copies_whose_bytes_are_unknown_are_told_to_pin(tmp_path, call, pinned):
    (one,) = ks.advise(write(tmp_path, SUMMARY.format(call)))["advice"]
    assert ("cudaMallocHost" in one["remedy"]) == pinned
    assert "fewer bytes" in one["remedy"]
