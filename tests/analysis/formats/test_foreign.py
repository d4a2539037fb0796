"""What files of tools are refused with that no format reads, and formats that are named by their tool."""

import json

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import all_formats, chosen, detect, families, formats_named
from kernelscope.analysis.recordings import captures

TRTEXEC = """\
[01/02/2024-10:11:12] [I] === Profile (50 iterations ) ===
[01/02/2024-10:11:12] [I]     Layer   Time (ms)   Avg. Time (ms)   Time %
[01/02/2024-10:11:12] [I]    Conv_0       12.50           0.2500     60.0
"""
EXPORTED = [{"count": 50}, {"name": "Conv_0", "timeMs": 12.5, "averageMs": 0.25, "medianMs": 0.25, "percentage": 60.0}]
NODE = {
    "cat": "Node", "pid": 7, "tid": 7, "dur": 11, "ts": 40, "ph": "X", "name": "gemm_kernel_time",
    "args": {"op_name": "Gemm", "provider": "CPUExecutionProvider", "node_index": "1"},
}  # fmt: skip
TFPROF = """\
==================Model Analysis Report======================
node name | requested bytes | total execution time | accelerator execution time | cpu execution time
MatMul           10.00MB (100.00%, 50.00%),       4.00ms (100.00%, 80.00%),        3.00ms (100.00%, 90.00%)
"""
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
        (TRTEXEC, "TensorRT's trtexec.*nsys profile trtexec"),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec\n" + TRTEXEC, "TensorRT's trtexec"),
        (TRTEXEC.replace("[01/02/2024-10:11:12] ", ""), "TensorRT's trtexec"),
        (json.dumps(EXPORTED, indent=2), "layers that TensorRT's trtexec exported.*nsys profile"),
        (json.dumps([NODE]), "ONNX Runtime's own profile.*nsys"),
        (json.dumps([NODE, {**NODE, "cat": "Session", "name": "model_loading_uri"}]).replace("}, {", "},\n{"), "ONNX Runtime"),
        (TFPROF, r"tfprof.*\.xplane\.pb"),
        (TFPROF.partition("\n")[2], r"tfprof.*\.xplane\.pb"),
        ("Profile:\n" + TFPROF.partition("\n")[2], r"tfprof.*\.xplane\.pb"),
        ("node name | # parameters\n_TFProfRoot (--/1.64m params)\n", "tfprof"),
        ("node name                      | requested bytes               | total execution time\n...\n", "tfprof"),
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
