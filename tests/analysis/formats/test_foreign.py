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
