"""nvprof's tables as people quote them: in bold, without titles, behind metrics, or with columns cut out."""

from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.nvprof import printed as nvprof_table
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED


def read(tmp_path, text):
    path = tmp_path / "quoted.txt"
    path.write_text(text)
    return captures.read(path)


def listed(table, *columns):
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[list(columns)].astype(object).to_numpy()]


@pytest.mark.parametrize("mark", ["**", "*", "`", "__"])
def test_marks_of_bold_text_are_no_part_of_times(tmp_path, mark):
    def marked(text):
        return f"{mark}{text}{mark}"

    name = marked("second") if mark != "__" else "second"
    trace = read(
        tmp_path,
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        f" GPU activities:   {marked('75.00%')}  {marked('3.0000ms')}      4  750.00us  1.0000us  {marked('2.0ms')}  f(int**)\n"
        f"                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  {name}\n",
    )
    expected = [("f(int**)", 4, 3_000_000, 2_000_000), ("second", 1, 1_000_000, 1_000_000)]
    if mark == "*":  # a single star may be a pointer's
        expected[1] = ("*second*", *expected[1][1:])
    assert listed(trace.kernels, "name", "count", "duration_ns", "max_ns") == expected
    assert trace.diagnostics == {}


ROW = "    GPU activities:   {share}  {time}       250  {each}  11.000us  13.000us  scale<int=2>(float*, int)\n"


@pytest.mark.parametrize("each", ["12.000us", None])
def test_a_row_without_titles_is_read_with_the_rest_of_its_whole(tmp_path, each):
    row = ROW.format(share="40.00%", time="**3.0000ms**", each=each).replace("None  11.000us  13.000us  ", "")
    trace = read(tmp_path, f"Time of the kernel:\n\n{row}\nand that is all\n")
    assert trace.info["source"]["format"] == "nvprof-table"
    assert listed(trace.kernels, "name", "count", "duration_ns") == [
        ("scale<int=2>(float*, int)", 250, 3_000_000),
        (UNLISTED, 0, 4_500_000),
    ]
    assert listed(trace.kernels, "min_ns", "max_ns")[0] == ((11_000, 13_000) if each else (None, None))


def test_rows_of_gpu_and_calls_without_titles(tmp_path):
    row = "      API calls:   100.00%  2.0000ms         4  500.00us  3.0000us  1.0000ms  cudaFree\n"
    more = "                   60.00%  4.5000ms         3  1.5000ms  1.0000ms  2.0000ms  [CUDA memcpy HtoD]\n"
    trace = read(tmp_path, ROW.format(share="40.00%", time="3.0000ms", each="12.000us") + more + row)
    assert listed(trace.kernels, "count", "duration_ns") == [(250, 3_000_000)]
    assert listed(trace.copies, "operation", "duration_ns") == [("host to device", 4_500_000)]
    assert listed(trace.totals, "name", "duration_ns") == [("cudaFree", 2_000_000)]


@pytest.mark.parametrize(
    "text",
    [
        "GPU activities:  all good, 5 of them",
        "  GPU activities: 40.00% 3.0000ms",
        "API calls: 30.00%  2.0ms  x  1.0ms  1.0ms  1.0ms  cudaFree",
        "GPU activities: " + "9" * 100_000 + "%",
    ],
)
def test_other_lines_with_these_words_are_left_alone(tmp_path, text):
    path = tmp_path / "other.txt"
    path.write_text(text)
    assert not nvprof_table.matches(Head(path, text.encode()))


def test_times_behind_metrics(tmp_path):
    trace = read(
        tmp_path,
        "==9== Profiling result:\n==9== Metric result:\n"
        "Invocations            Metric Name        Metric Description         Min         Max         Avg\n"
        'Device "Tesla K20c (0)"\n    Kernel: forma(float*, int)\n'
        "          3       gld_transactions  Global Load Transactions           0           0           0\n"
        "==9== Trace result:\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:   80.00%  8.0000us         1  8.0000us  8.0000us  8.0000us  forma(float*, int)\n"
        "                   20.00%  2.0000us         1  2.0000us  2.0000us  2.0000us  [CUDA memset]\n"
        "No API activities were profiled.\n",
    )
    assert listed(trace.kernels, "name", "duration_ns", "process") == [("forma(float*, int)", 8_000, 9)]
    assert listed(trace.copies, "operation", "duration_ns") == [("set", 2_000)]
    assert trace.diagnostics == {"rows of hardware metrics and events": 1}


def test_a_trace_without_launch_shapes(tmp_path):
    trace = read(
        tmp_path,
        "   Start  Duration           Device   Context    Stream  Name\n"
        "1.0000ms  20.000us  Tesla P100 (0)         1         7  [CUDA memcpy HtoD]\n"
        "1.5000ms  30.000us  Tesla P100 (0)         1         7  void add<float>(float*, int) [41]\n"
        "1.4900ms  9.0000us               -         -         -  cudaLaunchKernel (void add<float>(float*, int) [41])\n"
        "1.2000ms  1.0000us               -         -         -  cuDeviceGet\n",
    )
    columns = ("name", "start_ns", "duration_ns", "thread", "device")
    assert listed(trace.kernels, *columns) == [("void add<float>(float*, int)", 1_500_000, 30_000, 7, "cuda:0")]
    assert listed(trace.copies, "operation", "duration_ns", "bytes") == [("host to device", 20_000, None)]
    assert listed(trace.calls.sort_values("start_ns"), "name") == [("cuDeviceGet",), ("cudaLaunchKernel",)]


def test_a_trace_with_launch_shapes_only(tmp_path):
    trace = read(
        tmp_path,
        "   Start  Duration            Grid Size      Block Size     Name\n"
        "1.0000ms  20.000us             (10 1 1)       (256 1 1)     add(float*)\n"
        "1.1000ms  40.000us              (5 1 1)       (128 1 1)     mul(float*)\n",
    )
    assert listed(trace.kernels, "name", "duration_ns", "grid", "block") == [
        ("add(float*)", 20_000, "10,1,1", "256,1,1"),
        ("mul(float*)", 40_000, "5,1,1", "128,1,1"),
    ]


def test_a_trace_without_durations_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "cut.txt"
    path.write_text("==3== Profiling result:\n   Start  Grid Size  Stream  Name\n1.0000ms   (10 1 1)       7  add(float*)\n")
    with pytest.raises(EvidenceError, match=r"no table follows|no column Duration"):
        captures.read(path)


TITLES = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
DAMAGED = (
    " GPU activities:   {share}  {time}         4  {each}  1.0000us  2.0000us  first(int)\n"
    "                   30.00%  3.0000ms         2  1.5000ms  1.0000ms  2.0000ms  second(int)\n"
    "                   20.00%  2.0000ms         3  666.67us  1.0000us  1.0000ms  [CUDA memcpy HtoD]\n"
    "      API calls:   100.00%  2.0000ms         4  500.00us  3.0000us  1.0000ms  cudaFree\n"
)


@pytest.mark.parametrize("titles", [TITLES, ""])
@pytest.mark.parametrize(
    ("cells", "count"),
    [
        ({"share": "50.00%", "time": "t.10us", "each": "1.3500ms"}, 0),
        ({"share": "5O.OO%", "time": "5.0000ms", "each": "1.2500ms"}, 0),
        ({"share": "50.00%", "time": "5.0000ms", "each": "l.2500ms"}, 4),
    ],
    ids=["time", "share", "average"],
)
def test_a_damaged_cell_of_the_first_row_costs_no_other_row(tmp_path, titles, cells, count):
    trace = read(tmp_path, titles + DAMAGED.format(**cells))
    first = ("first(int)", 4, 5_000_000) if count else (UNLISTED, 0, 5_000_000)  # 50% of the 10 ms that 20% of 2 ms tell
    assert sorted(listed(trace.kernels, "name", "count", "duration_ns")) == sorted([first, ("second(int)", 2, 3_000_000)])
    assert listed(trace.copies, "operation", "duration_ns") == [("host to device", 2_000_000)]
    assert listed(trace.totals, "name", "duration_ns") == [("cudaFree", 2_000_000)]
    assert bool(trace.diagnostics) == (not count)


@pytest.mark.parametrize("titles", [TITLES, ""])
def test_a_damaged_time_is_the_average_by_the_calls_if_its_share_says_so(tmp_path, titles):
    """4 x 1.25 ms are 5 ms, and so are 50% where 30% and 20% are 3 and 2 ms; 4 x 1.35 ms are 54%."""
    damaged = DAMAGED.format(share="50.00%", time="t.10us", each="1.2500ms")
    trace = read(tmp_path, titles + damaged)
    kernels = [("first(int)", 4, 5_000_000), ("second(int)", 2, 3_000_000)]
    assert listed(trace.kernels, "name", "count", "duration_ns") == kernels
    [warning] = trace.info["warnings"]
    assert "its average by its calls counts, as each share confirms; the first: t.10us of first(int)" in warning
    other = read(tmp_path, titles + damaged.replace("1.2500ms", "1.3500ms"))
    assert listed(other.kernels, "name", "duration_ns") == [("second(int)", 3_000_000), (UNLISTED, 5_000_000)]
    assert not any("average" in warning for warning in other.info.get("warnings", []))
    alone = damaged.splitlines(keepends=True)
    assert read(tmp_path, titles + alone[0] + alone[3]).kernels.empty  # no other row tells the whole


def test_a_row_with_two_damaged_cells_and_no_titles_is_no_row():
    line = " GPU activities:   5O.OO%  t.10us         4  1.2500ms  1.0000us  2.0000us  first(int)\n"
    assert not nvprof_table.matches(Head(Path("x"), line.encode()))


CUT = """\
                    1.00%  50.000us         2  25.000us  20.000us  30.000us  scale(float*)
      API calls:   90.00%  2.0000ms        10  200.00us  10.000us  1.0000ms  cudaMalloc
                   10.00%  200.00us         9  22.222us  10.000us  30.000us  cudaLaunchKernel
"""


def test_rows_whose_first_line_was_cut_off_are_told_to_be_missing(tmp_path):
    path = tmp_path / "quoted.txt"
    path.write_text(CUT)
    trace = captures.read(path)
    assert "the row that begins with 'GPU activities:' was cut off" in trace.info["unavailable"]["kernels"]
    path.write_text(CUT.replace("                    1.00%", " GPU activities:   100.00%", 1))
    assert captures.read(path).kernels["name"].tolist() == ["scale(float*)"]
