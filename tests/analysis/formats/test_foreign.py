"""What files of tools are refused with that no format reads, and formats that are named by their tool."""

import json

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import all_formats, chosen, detect, families, formats_named
from kernelscope.analysis.recordings import captures

TRTEXEC = """\
[01/02/2024-10:11:12] [I] === Performance summary ===
[01/02/2024-10:11:12] [I] Throughput: 640.5 qps
[01/02/2024-10:11:12] [I] GPU Compute Time: min = 1.5 ms, max = 1.75 ms, mean = 1.56 ms, median = 1.55 ms
"""
TIMES = [{"startEnqMs": 1.5, "endEnqMs": 1.75, "latencyMs": 2.5}]
ENGINE = {"Layers": ["Conv_0", "Reformatting CopyNode for Output Tensor 0 to Conv_0"], "Bindings": ["x"]}
IPROF = """\
BACKEND_ZE | 1 Hostnames | 1 Processes | 1 Threads |

                     Name |     Time | Time(%) | Calls |  Average |     Min |      Max |
 zeEventHostSynchronize |  12.00ms |  75.00% |     3 |   4.00ms |  3.00ms |   5.00ms |
"""
SUMMARY = """\
|  NAME  |  DOMAIN  |  CALLS  | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | MAX (nsec) | STDDEV |
|--------|----------|---------|-----------------|----------------|---------------|------------|------------|--------|
| k(int) | KERNEL_DISPATCH |  2 |              30 |      1.500e+01 |    100.000000 |         10 |         20 |  7.071 |
"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TRTEXEC, "TensorRT's trtexec without times of layers.*--dumpProfile --separateProfileRun"),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec\n" + TRTEXEC, "TensorRT's trtexec"),
        (TRTEXEC.replace("[01/02/2024-10:11:12] ", ""), "TensorRT's trtexec"),
        (json.dumps(TIMES, indent=2), "trtexec exports.*--exportProfile=FILE"),
        (json.dumps(ENGINE), "trtexec exports.*--exportProfile=FILE"),
        (IPROF, "THAPI's iprof.*torch.profiler"),
        ('[{"a": 1}, {"b', "JSON that is cut short or damaged"),
        ('{\n  "a": [1, 2', "JSON that is cut short or damaged"),
        ("[1, 2.5, 3", "JSON that is cut short or damaged"),
    ],
)
def test_a_file_that_no_format_reads_is_told_in_a_line(tmp_path, text, what):
    path = tmp_path / "capture"
    path.write_text(text)
    with pytest.raises(EvidenceError, match=f"no capture of a known format: it seems to be .*{what}") as error:
        detect(path)
    assert "\n" not in str(error.value)


RULE = "=" * 30
FOREIGN = {
    f"{RULE} Top by Computation Time {RULE}\n  [node type]  [start]\n": "benchmark_model.*tf.profiler",
    f"{RULE} Run Order {RULE}\r\n [node type]\r\n": "benchmark_model",
    "Number of nodes executed: 31\n": "benchmark_model",
    "Operator-wise Profiling Info for Regular Benchmark Runs:\n": "benchmark_model.*enable_profiling",
    f"2017-12-06: I tensorflow/core/util/stat_summarizer.cc:468] {RULE} Summary by node type {RULE}\n": "StatSummarizer",
    "conv1  EXECUTED       layerType: Convolution  realTime: 189  cpu: 189  execType: jit_avx512_FP32\n": "OpenVINO.*ONNX",
    "a Status.EXECUTEDlayerType: Convolution  realTime: 0:00:00.001189cpu: 0:00:00.001189 execType: x\n": "OpenVINO",
    "FIT Profiler Report\n\n---\n|  Action  |  Mean duration (s)  |\n": "Lightning's profiler.*profiler='pytorch'",
    "Action          |  Mean duration (s)    |Num calls    |\n": "Lightning's profiler",
    "------- DeepSpeed Flops Profiler -------\nProfile Summary at step 5:\n": "DeepSpeed.*torch.profiler",
    "rank=0 time (ms) | forward: 207.71 | backward: 3509.10\n": "DeepSpeed",
    "[2024-04-19 13:30:54] [INFO] [Rank 0] time (ms) | fwd_microstep: 9340.38 | bwd_microstep: -2.5 |\n": "DeepSpeed",
    "------->     Profiling Report     <-------\n\nPlace: CPU\n": "Paddle's profiler.*nsys profile",
    "-------Operator Summary-------\nTime unit: ms\n": "Paddle's profiler",
    "RAM 1685/7854MB (lfb 1044x4MB) CPU [0%@1303,0%@345] EMC_FREQ 0%@1866 GR3D_FREQ 0%@140\n": "tegrastats.*nsys profile",
    "06-01-2023 10:00:00 RAM 1685/7854MB (lfb 4x4MB) GR3D_FREQ 99%@1300\n": "tegrastats",
    "prim_kind    shapes      ncalls  time(ms)  overall%  agg_ncalls(avg)\n": "verbose_converter.*name that log itself",
    " 42.12%  42.12%  42.12% Gemm                    39582.22ms\n": "CTranslate2.*MKL_VERBOSE",
    "MIOpenDriver: conv -n 1 -c 3 -H 224\n": "MIOpenDriver.*rocprofv3 --kernel-trace",
    "    Section: GPU Speed Of Light Throughput\n    DRAM Frequency  cycle/nsecond  6.47\n": "above the sections.*keep that",
}


@pytest.mark.parametrize(("text", "what"), FOREIGN.items())
def test_texts_of_tools_are_told_with_what_to_record_instead(tmp_path, text, what):
    path = tmp_path / "log.txt"
    path.write_text(f"starting\n{text}done\n")
    with pytest.raises(EvidenceError, match=f"it seems to be .*{what}") as error:
        detect(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "Profiler Report\n", "Action | Reward\n", "the layerType: x, execType: y were EXECUTED\n", "RAM 16/32GB free\n",
        "time (ms) of a step: 20\n", "Number of nodes executed was large\n", "loss  42.12%  42.12% Gemm 3ms\n",
        "MIOpenDriver was not found\n", "Run Order\n", "see the Operator Summary -----\n",
    ],
)  # fmt: skip
def test_other_texts_with_the_same_words_are_of_no_tool(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_text(text)
    with pytest.raises(EvidenceError, match="no capture of a known format; if"):
        detect(path)


@pytest.mark.parametrize(
    "text", ["node name | address | requested port\na | b | 1\n", "the node name | requested bytes\n", "node name: x\n"]
)
def test_other_tables_of_nodes_are_not_of_tfprof(tmp_path, text):
    path = tmp_path / "capture"
    path.write_text(text)
    with pytest.raises(EvidenceError) as error:
        detect(path)
    assert "tfprof" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["[2024-01-02 10:11:12] step 1\n", "[07/31/2023-10:11:12] [W] x\n", "[INFO] step\n", "{step} 1\n"]
)
def test_lines_of_a_log_are_no_json(tmp_path, text):
    path = tmp_path / "capture"
    path.write_text(text)
    with pytest.raises(EvidenceError) as error:
        detect(path)
    assert "JSON" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("nsys", {"nsys-sqlite", "nsys-folder", "nsys-report", "nsys-stats"}),
        ("rocprof", {"rocpd", "rocprof-json", "rocprof-csv", "rocprof-stats", "rocprof-summary"}),
        ("torch", {"kineto", "torch-table"}),
        ("pytorch", {"kineto", "torch-table"}),
        ("mxnet", {"mxnet"}),
        ("nsys-stats", {"nsys-stats"}),
    ],
)
def test_a_tool_stands_for_its_formats(name, members):
    assert {form.name for form in formats_named(name)} == members


def test_names_of_tools_lead_to_formats():
    assert all(formats_named(name) for name in families())
    with pytest.raises(EvidenceError, match="unknown format 'nsight'"):
        formats_named("nsight")
    names = [*families(), *(form.name for form in all_formats())]
    assert {form for name in names for form in formats_named(name)} == set(all_formats())


def test_the_content_tells_which_format_of_a_tool(tmp_path):
    path = tmp_path / "capture"
    path.write_text(SUMMARY)
    assert chosen(path, "rocprof").name == chosen(path, None).name == "rocprof-summary"
    assert captures.read(path, "rocprof").kernels["duration_ns"].tolist() == [30]
    with pytest.raises(EvidenceError, match="of none of torch's formats; --from one of kineto, torch-table says what is wrong"):
        captures.read(path, "torch")
    path.write_text(SUMMARY.replace(" 30 |", " thirty |"))
    with pytest.raises(EvidenceError, match=f"{path}: no row with a name"):
        captures.read(path, "rocprof")
