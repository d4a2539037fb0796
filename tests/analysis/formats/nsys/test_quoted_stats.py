"""Tables of nsys stats as people quote them: with the titles of 2020, without some columns, and as bare Markdown."""

import pandas as pd
import pytest

from kernelscope.analysis.formats import detect
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED


def read(tmp_path, text):
    path = tmp_path / "quoted.txt"
    path.write_text(text)
    assert detect(path).name == "nsys-stats"
    return captures.read(path)


def listed(table, *columns):
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[list(columns)].astype(object).to_numpy()]


# as nsys 2020.4 prints it: seconds of starts have six decimals, durations are whole ns
OF_2020 = """\
Exporting [/opt/nsight-systems-2020.4.3/target-linux-x64/reports/gputrace.py report1.sqlite] to console...

 Start(sec)  Duration(nsec)  CorrId  GrdX  GrdY  GrdZ  BlkX  BlkY  BlkZ  Bytes  SrcMemKd  DstMemKd     Device      Strm         Name
 ----------  --------------  ------  ----  ----  ----  ----  ----  ----  -----  --------  --------  -------------  ----  ------------------
   1.250000           5,000      12                                         64  Pageable  Device    A100-PCIE (0)     7  [CUDA memcpy HtoD]
   1.500020       1,900,000     134    20     1     1    64     4     1                             A100-PCIE (0)    13  inflate<8>(int)
"""  # noqa: E501


def test_titles_in_seconds_and_nanoseconds(tmp_path):
    trace = read(tmp_path, OF_2020)
    columns = ("start_ns", "duration_ns", "thread", "device")
    assert listed(trace.kernels, "name", *columns, "grid") == [
        ("inflate<8>(int)", 1_500_020_000, 1_900_000, 13, "cuda:0", "20,1,1")
    ]
    assert listed(trace.copies, "operation", *columns, "bytes", "memory") == [
        ("host to device", 1_250_000_000, 5_000, 7, "cuda:0", 64, "pageable to device")
    ]


CUT = """\
 Start (ns)   Duration (ns)  GrdX   BlkX  Bytes (MB)  SrcMemKd  DstMemKd  Name
 -----------  -------------  -----  ----  ----------  --------  --------  ----------------------------
 500,000,000        300,000                    3.000  Pageable  Device    [CUDA memcpy Host-to-Device]
 500,400,000          7,000  1,907   256                                  scale(float *, int)
"""


def test_a_trace_of_which_people_cut_columns(tmp_path):
    trace = read(tmp_path, CUT)
    columns = ("start_ns", "duration_ns")
    assert listed(trace.kernels, "name", *columns, "grid", "thread") == [("scale(float *, int)", 500_400_000, 7_000, None, None)]
    assert listed(trace.copies, "operation", *columns, "bytes") == [("host to device", 500_000_000, 300_000, 3_000_000)]


@pytest.mark.parametrize("title", ["GrdX", "Strm", "Reg/Trd", "SrcMemKd"])
def test_one_column_of_gpu_work_is_enough(tmp_path, title):
    assert len(read(tmp_path, f"Start (ns),Duration (ns),{title},Name\n1000,500,7,add(int)\n").kernels) == 1


BARE = """\
Time (%) | Total Time (ns) | Instances | Avg (ns) | Min (ns) | Max (ns) | Name
--- | --- | :-: | ---: | --- | --- | ---
60.0 | **6000000** | 3 | 2000000.0 | 1000000 | 3000000 | gemm(int)
20.0 | 2000000 | 2 | 1000000.0 | 1000000 | 1000000 | `add(int*)`
"""


def test_titles_without_units_are_not_those_of_nvprof(tmp_path):
    text = "Start,Duration,CorrId,GrdX,Bytes,Throughput,Device,Ctx,Strm,Name\n1000,500,3,7,,,A100 (0),1,7,add(int)\n"
    assert read(tmp_path, text).kernels["duration_ns"].tolist() == [500]


def test_markdown_without_bars_around_it_and_with_bold_times(tmp_path):
    trace = read(tmp_path, BARE)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [
        ("gemm(int)", 3, 6_000_000),
        ("add(int*)", 2, 2_000_000),
        (UNLISTED, 0, 2_000_000),
    ]


def test_a_row_without_a_usable_time_is_a_part_of_the_rest(tmp_path):
    text = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n30.0,3000000,3,1,1,2,a\n50.0,5000000,0,1,1,1,b\n"
    trace = read(tmp_path, text)
    assert listed(trace.kernels, "name", "duration_ns") == [("a", 3_000_000), (UNLISTED, 7_000_000)]
