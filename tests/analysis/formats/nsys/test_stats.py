"""nsys stats: tables of the corpus recomputed with plain splitting, and the forms that tables come in."""

import csv
import re
from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.formats.nsys import stats as nsys_stats
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.places import CORPUS

SHORT = {
    "forward": "ShibukiZero__assignment2-systems__2.7b_ctx512_forward_cuda_gpu_kern_sum.txt",
    "forward by range": "ShibukiZero__assignment2-systems__2.7b_ctx512_forward_cuda_gpu_kern_sum_nvtx.txt",
    "train by range": "ShibukiZero__assignment2-systems__2.7b_ctx512_train_step_cuda_gpu_kern_sum_nvtx.txt",
    "default": "zx3xyy__assignment2-systems__nsys_stats.txt",
    "graphs": "zx3xyy__assignment2-systems__nsys_stats_compile_ro.txt",
    "ranges": "hpcgroup__pipit__nbody-nvtx_trace.csv",
}


def of_corpus(name: str) -> Path:
    path = CORPUS / "nsys" / SHORT[name]
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    return path


def printed(path: Path, report: str) -> list[list[str]]:
    """The rows of a table in columns, cut at runs of spaces: no cell of these files has two in a row."""
    lines = path.read_text(encoding="utf8").splitlines()
    start = next(number for number, line in enumerate(lines) if f"({report}):" in line) + 4
    rows = []
    for line in lines[start:]:
        if not line.strip():
            break
        rows.append(re.split(r"\s{2,}", line.strip()))
    return rows


def read_text(tmp_path: Path, text: str | bytes):
    path = tmp_path / "capture"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert nsys_stats.matches(read_head(path))
    trace = nsys_stats.read(path)
    trace.check()
    return trace


def listed(table, *columns):
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[list(columns)].astype(object).to_numpy()]


@pytest.mark.parametrize("name", ["forward", "forward by range", "train by range", "default", "graphs"])
def test_kernels_of_the_corpus(name):
    path = of_corpus(name)
    rows = printed(path, "cuda_gpu_kern_sum")
    trace = nsys_stats.read(path)
    trace.check()
    assert listed(trace.kernels, "name", "count", "duration_ns") == [(row[8], int(row[2]), int(row[1])) for row in rows]
    of_one = [tuple(int(float(row[column]) + 0.5) for column in (4, 5, 6, 7)) for row in rows]  # median, extremes, deviation
    assert listed(trace.kernels, "median_ns", "min_ns", "max_ns", "std_ns") == of_one
    cut = sum(row[8].endswith("\u2026") for row in rows)
    assert trace.diagnostics == {"kernel names cut short by the tool": cut}
    assert trace.kernels[["start_ns", "end_ns", "device", "thread"]].isna().all(axis=None)
    assert trace.info["clock"] == "none"


@pytest.mark.parametrize("name", ["default", "graphs"])
def test_calls_of_the_corpus(name):
    path = of_corpus(name)
    totals = nsys_stats.read(path).totals
    columns = ("name", "count", "duration_ns", "min_ns", "max_ns")
    for table, report in (("calls", "cuda_api_sum"), ("os", "osrt_sum")):
        rows = [(row[8], *(int(row[number]) for number in (2, 1, 5, 6))) for row in printed(path, report)]
        assert listed(totals[totals["table"] == table], *columns) == rows


def test_copies_of_the_corpus():
    path = of_corpus("default")
    (timed,) = printed(path, "cuda_gpu_mem_time_sum")
    (sized,) = printed(path, "cuda_gpu_mem_size_sum")
    assert timed[8] == sized[7] == "[CUDA memcpy Host-to-Device]"
    trace = nsys_stats.read(path)
    expected = [("host to device", int(timed[2]), int(timed[1]), int(sized[0].replace(".", "")) * 1000)]
    assert listed(trace.copies, "operation", "count", "duration_ns", "bytes") == expected
    assert any("sizes are rounded to three decimals of MB" in note for note in trace.info["notes"])


def test_ranges_of_the_corpus():
    path = of_corpus("ranges")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    trace = nsys_stats.read(path)
    trace.check()
    expected = [(int(row["TID"]), int(row["Start (ns)"]), int(row["End (ns)"]), row["Name"], True) for row in rows]
    assert listed(trace.ranges, "thread", "start_ns", "end_ns", "name", "nested") == expected
    assert trace.info["clock"] == "relative"
    assert not trace.diagnostics


def test_what_the_corpus_says_of_itself():
    info = nsys_stats.read(of_corpus("default")).info
    assert info["source"] == {"format": "nsys-stats", "tool": "nsys", "version": "2024.6.2", "schema": None}
    assert info["unavailable"]["ranges"] == "the capture does not contain NV Tools Extension (NVTX) data."
    assert "times" in info["unavailable"]
    assert "result_2_7B" not in str(info)
    assert any("graphs" in note for note in nsys_stats.read(of_corpus("graphs")).info["notes"])
    assert any("range/kernel" in note for note in nsys_stats.read(of_corpus("forward by range")).info["notes"])


def test_only_tables_of_nsys_are_taken_for_such():
    if not CORPUS.exists():
        pytest.skip("needs ../shared/corpus")
    mine = {path.name for path in CORPUS.rglob("*") if path.is_file() and nsys_stats.matches(read_head(path))}
    assert mine == set(SHORT.values())


TRACE_CSV = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (B),DymSMem (B),Bytes (B),Throughput (MB/s),\
SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
1000,500,11,2,1,1,64,1,1,24,16,48,,,,,NVIDIA A100-SXM4-80GB (1),1,,7,"void f<(int)4, float>(T1)"
2000,30,12,,,,,,,,,,4096,130.0,Pageable,Device,NVIDIA A100-SXM4-80GB (1),1,,7,[CUDA memcpy Host-to-Device]
3000,10,13,,,,,,,,,,1024,,Device,,NVIDIA A100-SXM4-80GB (1),1,,13,[CUDA memset]
4000,20,14,,,,,,,,,,65536,,,,NVIDIA A100-SXM4-80GB (1),,,,[CUDA Unified Memory memcpy HtoD]
"""
API_CSV = """\
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
900,50,cudaLaunchKernel_v7000,0,11,100,101,20,python
1900,60,cuMemcpyHtoDAsync_v2,0,12,100,100,20,python
"""


def test_a_gpu_trace(tmp_path):
    trace = read_text(tmp_path, TRACE_CSV)
    kernel = trace.kernels.iloc[0]
    assert (kernel["start_ns"], kernel["end_ns"], kernel["duration_ns"], kernel["count"]) == (1000, 1500, 500, 1)
    assert (kernel["name"], kernel["device"]) == ("void f<(int)4, float>(T1)", "cuda:1")
    assert (kernel["thread"], kernel["correlation"]) == (7, 11)
    assert (kernel["grid"], kernel["block"], kernel["registers"], kernel["shared_memory"]) == ("2,1,1", "64,1,1", 24, 64)
    assert listed(trace.copies, "start_ns", "duration_ns", "operation", "bytes", "memory", "thread") == [
        (2000, 30, "host to device", 4096, "pageable to device", 7),
        (3000, 10, "set", 1024, None, 13),
        (4000, 20, "unified memory", 65536, "host to device", None),
    ]
    assert trace.info["devices"] == [{"device": "cuda:1", "name": "NVIDIA A100-SXM4-80GB"}]
    assert not trace.diagnostics


def test_without_its_column_the_device_is_a_gpu(tmp_path):
    """A column that somebody cut out: kernels and copies are no work of the host."""
    lines = [line.split(",") for line in TRACE_CSV.replace("(int)4, float", "(int)4").splitlines()]
    place = lines[0].index("Device")
    trace = read_text(tmp_path, "\n".join(",".join(line[:place] + line[place + 1 :]) for line in lines) + "\n")
    assert set(trace.kernels["device"]) == set(trace.copies["device"]) == {"cuda:0"}


def test_a_gpu_trace_and_an_api_trace_of_one_process(tmp_path):
    banner = "Processing [a.sqlite] with [/opt/2023.4.4/reports/{}.py]... \n"
    text = banner.format("cuda_gpu_trace") + TRACE_CSV + "\n" + banner.format("cuda_api_trace") + API_CSV + "\n"
    trace = read_text(tmp_path, text)
    assert listed(trace.calls, "start_ns", "end_ns", "process", "thread", "api", "name", "correlation") == [
        (900, 950, 100, 101, "runtime", "cudaLaunchKernel", 11),
        (1900, 1960, 100, 100, "driver", "cuMemcpyHtoDAsync", 12),
    ]
    assert trace.kernels["process"].tolist() == [100]
    assert trace.info["source"]["version"] == "2023.4.4"


def test_nobody_guesses_the_process_among_several(tmp_path):
    text = TRACE_CSV + "\n" + API_CSV + "2000,5,cudaFree,0,1,200,100,20,python\n"
    trace = read_text(tmp_path, text)
    assert trace.kernels["process"].isna().all()
    threads = trace.calls["thread"].tolist()
    assert len(set(threads)) == 3  # thread 100 of process 200 is another than that of 100


def test_a_trace_and_its_summary_count_once(tmp_path):
    summary = 'Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,500,1,500.0,"void f<(int)4, float>(T1)"\n'
    trace = read_text(tmp_path, TRACE_CSV + "\n" + summary)
    assert trace.kernels["duration_ns"].tolist() == [500]
    assert any(note.startswith("cuda_gpu_kern_sum: the same work again") for note in trace.info["notes"])


@pytest.mark.parametrize(
    ("unit", "start", "duration", "expected", "rounded"),
    [
        ("us", "32523211.272", "29654.798", (32_523_211_272, 29_654_798), False),
        ("ms", "32523.2113", "29.6548", (32_523_211_300, 29_654_800), True),
        ("sec", "32.5232", "0.0297", (32_523_200_000, 29_700_000), True),
    ],
)
def test_time_units_are_converted_exactly(tmp_path, unit, start, duration, expected, rounded):
    text = f"Start ({unit}),Duration ({unit}),CorrId,Device,Strm,Name\n{start},{duration},1,GPU (0),7,k\n"
    trace = read_text(tmp_path, text)
    assert (trace.kernels["start_ns"][0], trace.kernels["duration_ns"][0]) == expected
    assert any("times are rounded" in note for note in trace.info["notes"]) is rounded


def test_thousands_and_columns_out_of_line(tmp_path):
    text = """
CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances  Average    Minimum   Maximum      Name
 -------  ---------------  ---------  ---------  -------  ---------  ----------
    99.0    2,307,581,036      1,536    1,502.3       10  2,307,581  add, them
     1.0            5,000          2      2,500    2,000      3,000  a rather long name that was not cut
  0.0  1,000  1  1,000  1,000  1,000  moved by hand

"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [
        ("add, them", 1536, 2_307_581_036),
        ("a rather long name that was not cut", 2, 5000),
        ("moved by hand", 1, 1000),
    ]


def test_titles_of_2019_bear_the_unit(tmp_path):
    text = """\
Generating CUDA API Statistics...
CUDA API Statistics (nanoseconds)

Time(%)  Total Time  Calls      Average   Minimum    Maximum  Name
-------  ----------  -----  -----------  --------  ---------  ----------------
   72.3   294859478      2  147429739.0    675112  294184366  cudaMalloc

Generating CUDA Memory Operation Statistics...
CUDA Kernel Statistics (nanoseconds)

Time(%)  Total Time   Instances  Average  Minimum    Maximum  Name
-------  ----------  ----------  -------  -------  ---------  --------------------
  100.0        3360           2   1680.0     1664       1696  conv_forward_kernel


CUDA Memory Operation Statistics (nanoseconds)

Time(%)  Total Time  Operations     Average   Minimum   Maximum  Name
-------  ----------  ----------  ----------  --------  --------  ------------------
  100.0    89602913           2  44801456.5  41565528  48037385  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (KiB)

   Total  Operations   Average     Minimum   Maximum  Name
--------  ----------  --------  ----------  --------  ------------------
538906.5           2  269453.0  250000.000  288906.0  [CUDA memcpy HtoD]
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [("conv_forward_kernel", 2, 3360)]
    assert listed(trace.copies, "operation", "count", "duration_ns", "bytes") == [("host to device", 2, 89_602_913, 551_840_256)]
    assert listed(trace.totals, "table", "name", "duration_ns", "min_ns") == [("calls", "cudaMalloc", 294_859_478, 675_112)]


def test_statistics_at_the_end_of_a_run(tmp_path):
    text = """\
loss 0.1
Generating '/tmp/nsys-report-1a2b.qdstrm'
[1/3] [========================100%] report1.nsys-rep
[2/3] Executing 'nvtxsum' stats report
SKIPPED: /home/somebody/report1.sqlite does not contain NV Tools Extension (NVTX) data.
[3/3] Executing 'gpukernsum' stats report

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----
    100.0           12,345          2   6,172.5   6,172.5     6,000     6,345        244.0  k<1>

Generated:
    /home/somebody/report1.nsys-rep
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [("k<1>", 2, 12345)]
    assert trace.info["unavailable"]["ranges"] == "the capture does not contain NV Tools Extension (NVTX) data."
    assert "somebody" not in str(trace.info)
    assert not trace.diagnostics


def test_a_boxed_table_and_grids(tmp_path):
    text = """
 ** CUDA GPU Kernel/Grid/Block Summary (cuda_gpu_kern_gb_sum):

+----------+-----------------+-----------+------------------+----------------+--------+
| Time (%) | Total Time (ns) | Instances |     GridXYZ      |    BlockXYZ    |  Name  |
+----------+-----------------+-----------+------------------+----------------+--------+
|     99.0 |             900 |         3 |   20   32    1   |  128    1    1 | sgemm  |
|      1.0 |             100 |         1 | 131072    1    1 |  128    1    1 | copy \u2026 |
+----------+-----------------+-----------+------------------+----------------+--------+

"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns", "grid", "block") == [
        ("sgemm", 3, 900, "20,32,1", "128,1,1"),
        ("copy \u2026", 1, 100, "131072,1,1", "128,1,1"),
    ]
    assert trace.diagnostics == {"kernel names cut short by the tool": 1}


def test_kernels_copies_and_calls_in_one_summary(tmp_path):
    text = """\
Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Category,Operation
50.0,500,2,250.0,200,300,CUDA_API,cudaLaunchKernel
30.0,300,2,150.0,100,200,CUDA_KERNEL,k
20.0,200,1,200.0,200,200,MEMORY_OPER,[CUDA memset]
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [("k", 2, 300)]
    assert listed(trace.copies, "operation", "count", "duration_ns") == [("set", 1, 200)]
    assert listed(trace.totals, "table", "name", "count", "duration_ns") == [("calls", "cudaLaunchKernel", 2, 500)]


def test_launches_that_a_trace_tells_itself(tmp_path):
    text = """\
API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,\
API Function,GridXYZ,BlockXYZ,Kernel Name
100,10,110,5,115,30,45,7,8,0,cudaLaunchKernel_v7000,  20   32    1, 128    1    1,sgemm
"""
    trace = read_text(tmp_path, text)
    columns = ("start_ns", "duration_ns", "process", "launch_ns", "launch_end_ns", "launch_thread", "device", "grid")
    assert listed(trace.kernels, *columns) == [(115, 30, 7, 100, 110, 8, "cuda:0", "20,32,1")]
    assert listed(trace.calls, "start_ns", "end_ns", "thread", "name") == [(100, 110, 8, "cudaLaunchKernel")]


def test_domains_and_styles_of_ranges(tmp_path):
    text = """\
Time (%),Total Time (ns),Instances,Min (ns),Max (ns),Style,Range
60.0,600,1,600,600,PushPop,:step
30.0,300,3,50,200,StartEnd,NCCL:ncclAllReduce
10.0,100,1,100,100,PushPop,:a:b
"""
    totals = read_text(tmp_path, text).totals
    assert listed(totals, "table", "name", "count", "duration_ns") == [
        ("ranges", "step", 1, 600),
        ("ranges", "a:b", 1, 100),
        ("ranges", "NCCL:ncclAllReduce", 3, 300),
    ]


def test_projected_ranges_are_where_the_host_had_them(tmp_path):
    text = """\
Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl
:step,500,10,100,50,PushPop,7,7,2,0
:comm,500,10,120,90,StartEnd,7,7,1,0
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.ranges, "start_ns", "end_ns", "name", "nested", "domain") == [
        (100, 150, "step", True, None),
        (120, 210, "comm", False, None),
    ]


def test_odd_rows_are_counted(tmp_path):
    text = """\
Start (ns),Duration (ns),CorrId,Device,Strm,Name
1000,10,1,GPU (0),7,k
1\u2026,10,2,GPU (0),7,cut start
2000,,3,GPU (0),7,no duration
warning: something else
3000,10,4,GPU (0),7,"named "so", badly"

4000,10,5,GPU (0),7,after an empty line
done
"""
    trace = read_text(tmp_path, text)
    assert trace.kernels["name"].tolist() == ["k", "cut start", 'named "so", badly', "after an empty line"]
    assert trace.kernels["start_ns"].isna().tolist() == [False, True, False, False]
    assert trace.diagnostics == {"lines of tables that cannot be read": 1, "rows without usable time": 1}


TOTALS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"


def totals_row(total, instances="3", name="k"):
    return f'100.0,{total},{instances},20.0,20.0,10,30,1.0,"{name}"\n'


@pytest.mark.parametrize(
    ("total", "instances", "lost", "why"),
    [
        (
            "57.630",
            "3",
            "rows without usable time",
            "none of the table's 2 rows has a usable duration and count; the first: 100.0, 57",
        ),
        (
            "60",
            "0",
            "rows without usable time",
            "none of the table's 2 rows has a usable duration and count; the first: 100.0, 60, 0",
        ),
        ("60", "-1", "rows without usable time", "none of the table's 2 rows has a usable duration and count"),
        ("-60", "3", "lines of tables that cannot be read", "none of 2 lines below the table's titles is a row"),
        ("", "3", "lines of tables that cannot be read", "none of 2 lines below the table's titles is a row"),
        ("1'060", "3", "lines of tables that cannot be read", "none of 2 lines below the table's titles is a row"),
    ],
)
def test_a_summary_without_a_usable_time_or_count_is_left_out_and_told(tmp_path, total, instances, lost, why):
    bad = totals_row(total, instances, "bad")
    trace = read_text(tmp_path, TOTALS + totals_row("60") + bad)
    assert listed(trace.kernels, "name", "duration_ns", "count") == [("k", 60, 3)]
    assert captures.lost(trace) == {lost: 1}
    path = tmp_path / "bad.csv"
    path.write_text(TOTALS + bad + bad)
    with pytest.raises(EvidenceError, match=rf"bad\.csv, line 1: {why}.*; print it again$"):
        nsys_stats.read(path)


def test_rows_of_a_trace_that_end_before_they_start_are_left_out_and_told(tmp_path):
    text = "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n1000,10,1,GPU (0),7,k\n2000,-10,2,GPU (0),7,k\n"
    trace = read_text(tmp_path, text)
    assert trace.kernels["duration_ns"].tolist() == [10]
    assert captures.lost(trace) == {"rows without usable time": 1}


def test_utf16_and_windows_line_ends(tmp_path):
    trace = read_text(tmp_path, TRACE_CSV.replace("\n", "\r\n").encode("utf-16"))
    assert trace.kernels["duration_ns"].tolist() == [500]
    assert len(trace.copies) == 3


REPORT = "Processing [{}.sqlite] with [/r/{}.py]... \n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no nsys stats table"),
        (REPORT.format("a", "nvtx_sum") + "SKIPPED: a.sqlite does not contain NVTX data.\n", "1 reports skipped"),
        (REPORT.format("a", "nvtx_sum") + "[\n  {\n", "line 2: nsys stats printed JSON"),
        ("Start,Duration,CorrId,Name\n1.5,2,3,k\n", "names no unit"),
        (TRACE_CSV + "\n" + TRACE_CSV, "cuda_gpu_trace of two captures"),
        (
            REPORT.format("a", "cuda_gpu_trace") + TRACE_CSV + "\n" + REPORT.format("b", "cuda_api_trace") + API_CSV,
            "line 9: tables of another capture",
        ),
        ("Start (ns),Duration (ns),CorrId,Name\n" * 600, "tables; split"),
    ],
)
def test_bad_input_is_one_line(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(EvidenceError) as raised:
        nsys_stats.read(path)
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


FOREIGN = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"* * ** (",
    b"a,b,c\n1,2,3\n",
    b'"Kernel","Sil(ns)","Total"\n',
    b"=" * 60000,
    b"\n" * 60000,
)


@pytest.mark.parametrize("content", FOREIGN)
def test_foreign_content_is_left_alone(content):
    assert not nsys_stats.matches(Head(Path("x"), content))


def test_tables_that_stand_indented_in_a_document_are_read(tmp_path):
    text = """.. code-block:: console

  $ nsys nvprof ./bin/special
  CUDA Kernel Statistics:

  Time(%)  Total Time (ns)  Instances  Average (ns)  Minimum (ns)  Maximum (ns)  StdDev (ns)            Name
  -------  ---------------  ---------  ------------  ------------  ------------  -----------  --------------------------
     32.3      346,133,763      8,000      43,266.7        42,175        50,080      1,435.3  nvkernel_solve_F1L653_4
  ...
"""
    trace = read_text(tmp_path, text)
    # 346,133,763 by 32.3 % is 1,071,621,557
    assert trace.kernels[["name", "count", "duration_ns"]].values.tolist() == [
        ["nvkernel_solve_F1L653_4", 8000, 346_133_763],
        [UNLISTED, 0, 725_487_794],
    ]
    assert trace.diagnostics == {}


def test_a_whole_list_lacks_nothing_and_dots_in_it_are_a_line_that_cannot_be_read(tmp_path):
    # of 1,000 ns; 13 kernels of 0.4 are 0.04 % each, which is printed as nothing: 0.5 % in all
    rows = "".join(f'{share},{time},1,1.0,1.0,1,1,0.0,"{name}"\n' for share, time, name in [
        ("60.0", 600_000, "a"), ("39.5", 394_800, "b"), *(("0.0", 400, f"c{number}") for number in range(13)),
    ])  # fmt: skip
    trace = read_text(tmp_path, TOTALS + rows + "...\n")
    assert len(trace.kernels) == 15
    assert not [note for note in trace.info["notes"] if "of the time" in note]
    assert captures.lost(trace) == {"lines of tables that cannot be read": 1}


def test_a_table_of_sizes_alone_is_refused(tmp_path):
    path = tmp_path / "sizes.csv"
    path.write_text("Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n1.0,1,1,1,1,1,0,[CUDA memset]\n")
    with pytest.raises(EvidenceError, match="no times in cuda_gpu_mem_size_sum"):
        nsys_stats.read(path)


# nsys stats as others quote it: no line above it says which report it is
QUOTED = """Profiling Half Precision...
----------------------------------------
Half Precision Kernel Statistics:
----------------------------------------

 Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)                  Name
 --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  ------------------------------------
     51.7          807,907          2  403,953.5  403,953.5   402,498   405,409      2,058.4  wave(int, int, __half *, __half *)
     48.3          755,554          2  377,777.0  377,777.0   377,665   377,889        158.4  copy(int, int, __half *, __half *)
"""
QUOTED_KERNELS = [
    ("wave(int, int, __half *, __half *)", 2, 807_907, 402_498, 405_409),
    ("copy(int, int, __half *, __half *)", 2, 755_554, 377_665, 377_889),
]
MARKDOWN = r"""## Half precision, `nsys stats`

| Time (%) | Total Time (ns) | Instances | Avg (ns) | Med (ns) | Min (ns) | Max (ns) | StdDev (ns) | Name |
|---:|---:|---:|---:|---:|---:|---:|---:|:---|
| 51.7 | 807,907 | 2 | 403,953.5 | 403,953.5 | 402,498 | 405,409 | 2,058.4 | `wave(int, int, __half *, __half *)` |
| 48.3 | 755,554 | 2 | 377,777.0 | 377,777.0 | 377,665 | 377,889 | 158.4 | `copy(int, int, __half *, __half *)` |

Half of it is | the copy.
"""


@pytest.mark.parametrize("text", [QUOTED, MARKDOWN, QUOTED.replace("\n", "\r\n"), "```\n" + QUOTED + "```\n"])
def test_a_table_without_what_introduced_it_is_known_by_its_heading(tmp_path, text):
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns", "min_ns", "max_ns") == QUOTED_KERNELS
    assert "lines of tables that cannot be read" not in trace.diagnostics


@pytest.mark.parametrize("mark", ["# ", "> ", "// "])
@pytest.mark.parametrize("empty", ["", "#"])
def test_a_table_behind_marks_of_comments_or_quotations(tmp_path, mark, empty):
    marked = "".join(f"{mark}{line}\n" if line else f"{empty and mark.strip()}\n" for line in QUOTED.splitlines())
    trace = read_text(tmp_path, f"import numpy\n\n{marked}\nprint(numpy.pi)\n")
    assert listed(trace.kernels, "name", "count", "duration_ns", "min_ns", "max_ns") == QUOTED_KERNELS
    assert "lines of tables that cannot be read" not in trace.diagnostics


def test_quoted_tables_of_calls_copies_and_launch_shapes(tmp_path):
    text = """
 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------
     90.0            9,000          3   3,000.0   3,000.0     2,000     4,000      1,000.0  cudaMalloc

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ------------------
    100.0              704      2     352.0     352.0       350       354          2.8  [CUDA memcpy HtoD]

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)     GridXYZ         BlockXYZ     Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  --------------  --------------  ----
    100.0              300          3     100.0     100.0       100       100          0.0     4    1    1    32    1    1  k(int)
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.totals, "table", "name", "count", "duration_ns") == [("calls", "cudaMalloc", 3, 9000)]
    assert listed(trace.copies, "operation", "count", "duration_ns") == [("host to device", 2, 704)]
    assert listed(trace.kernels, "name", "count", "grid", "block") == [("k(int)", 3, "4,1,1", "32,1,1")]


def test_tables_of_which_people_left_columns_out(tmp_path):
    text = """
Total Time (ns)            Name
---------------  -------------------------
        555,393  inc(int *, unsigned long)

 Time (%)  Total Time (ns)  Count      Operation
 --------  ---------------  -----  ------------------
     50.1       18,846,150      2  [CUDA memcpy HtoD]

 Total (MB)      Operation
 ----------  ------------------
      8.000  [CUDA memcpy HtoD]

 Total Time (ns)      Name
 ---------------  ------------
           9,000  cudaMalloc
             100  cuInit

 Total Time (ns)  Num Calls      Name
 ---------------  ---------  ------------
             700          3  poll
             600          1  sem_wait
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns", "max_ns") == [("inc(int *, unsigned long)", 1, 555_393, None)]
    moved = listed(trace.copies, "operation", "count", "duration_ns", "bytes")
    assert moved == [("host to device", 2, 18_846_150, 8_000_000)]
    assert listed(trace.totals, "table", "name", "count", "duration_ns") == [
        ("calls", "cudaMalloc", 1, 9000),
        ("calls", "cuInit", 1, 100),
        ("os", "poll", 3, 700),
        ("os", "sem_wait", 1, 600),
    ]
    said = "cuda_gpu_kern_sum: the table, line 2, does not print the calls: a row counts as one execution"
    assert said in trace.info["notes"]
    assert sum("does not print the calls" in note for note in trace.info["notes"]) == 2


@pytest.mark.parametrize(
    ("name", "table", "row"),
    [
        ("[CUDA memset]", "copies", ("set", 1)),
        ("futex", "totals", ("os", "futex")),
        ("read_all(float*)", "kernels", ("read_all(float*)", 1)),
    ],
)
def test_names_tell_which_table_it_was(tmp_path, name, table, row):
    trace = read_text(tmp_path, f"Total Time (ns)  Name\n---------------  ----------------\n            500  {name}\n")
    columns = {"copies": ("operation", "count"), "totals": ("table", "name"), "kernels": ("name", "count")}[table]
    assert listed(getattr(trace, table), *columns) == [row]
    others = {"kernels", "copies", "totals"} - {table}
    assert not any(len(getattr(trace, one)) for one in others)


def test_a_named_report_of_which_people_left_columns_out_is_what_it_is_called(tmp_path):
    text = " ** CUDA API Summary (cuda_api_sum):\n\n Total Time (ns)  Name\n ---------------  ----------\n             500  {}\n"
    assert listed(read_text(tmp_path, text.format("cuInit")).totals, "table", "name") == [("calls", "cuInit")]
    path = tmp_path / "capture"
    path.write_text(text.format("f(int)"))
    with pytest.raises(EvidenceError, match="no nsys stats table with times"):  # no call's name
        nsys_stats.read(path)


def test_quoted_tables_of_two_captures_are_refused(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text(QUOTED + "\n" + QUOTED)
    with pytest.raises(EvidenceError, match="cuda_gpu_kern_sum of two captures"):
        nsys_stats.read(path)


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("Name      Total Time (ms)    Calls", "f         1.5                2"),
        ("Time (%)  Total Time (s)     Calls     Name", "12.0      1.5                2         f"),
        ("Name      Self CPU           CPU total  # of Calls", "f         1.5us              1.5us      2"),
        ("Total Time (s)  Name", "1.5             f"),
        ("Total Time  Name", "1500        f"),
        ("Name      Total Time (ns)", "f         1500"),
        ("Calls     Total Time (ns)  Name", "2         1500             f"),
        ("Total Time (ns)  Rank      Name", "1500             3         f"),
        ("Time (ns)  Name", "1500       f"),
    ],
)
def test_tables_of_others_are_left_alone(heading, row):
    rule = re.sub(r"\S(?: ?\S)*", lambda title: "-" * len(title[0]), heading)
    assert not nsys_stats.matches(Head(Path("x"), f"{heading}\n{rule}\n{row}\n".encode()))
    cells = re.split(r"\s{2,}", heading)
    markdown = f"|{'|'.join(cells)}|\n|{'---|' * len(cells)}\n"
    assert not nsys_stats.matches(Head(Path("x"), markdown.encode()))


LOCAL_TITLES = """CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances    Average      Minimum      Maximum    Name
 -------  ---------------  ---------  -------------  ---------  -----------  --------------------
"""
LOCAL_ROWS = (
    ("60,0", "1 285 118 634", "1 355", "948 427,8", "171 872", "2 669 212", "gemm<1,5, 2 000>…"),
    ("30,0", "642 559 317", "80", "8 031 991,5", "960", "9 000 000", "b 1 000"),
    ("10,0", "214 186 439", "1", "214 186 439,0", "7", "214 186 439", "c"),
)


def local_table(rows=LOCAL_ROWS, marks=(" ", ","), pipes=False):
    changes = str.maketrans({" ": marks[0], ",": marks[1]})
    cells = [[*(cell.translate(changes) for cell in row[:-1]), row[-1]] for row in rows]
    if pipes:
        titles = "| Time (%) | Total Time (ns) | Instances | Avg (ns) | Min (ns) | Max (ns) | Name |\n|" + " --- |" * 7
        return titles + "".join("\n| " + " | ".join(row) + " |" for row in cells) + "\n"
    widths = (8, 17, 11, 15, 11, 13)
    lines = ["".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False)) + f"  {row[-1]}" for row in cells]
    return LOCAL_TITLES + "\n".join(lines) + "\n"


@pytest.mark.parametrize("pipes", [False, True])
@pytest.mark.parametrize(
    "marks", [(" ", ","), ("\u00a0", ","), ("\u202f", ","), (".", ","), ("'", "."), ("\u2019", "."), (" ", "."), ("", ",")]
)
def test_numbers_of_locales_are_those_of_plain_ones(tmp_path, marks, pipes):
    plain = read_text(tmp_path, local_table(marks=("", "."), pipes=pipes))
    columns = ("name", "count", "duration_ns", "min_ns", "max_ns")
    assert listed(plain.kernels, *columns)[0] == ("gemm<1,5, 2 000>…", 1355, 1_285_118_634, 171_872, 2_669_212)
    local = read_text(tmp_path, local_table(marks=marks, pipes=pipes))
    assert listed(local.kernels, *columns) == listed(plain.kernels, *columns)
    assert local.diagnostics == plain.diagnostics


def test_narrow_spaces_and_common_ones_may_be_mixed_and_other_lines_are_left_alone(tmp_path):
    text = local_table().replace("642 559", "642\u202f559") + "(...)\nloss 0,5\n"
    trace = read_text(tmp_path, text)
    assert trace.kernels["duration_ns"].tolist() == [1_285_118_634, 642_559_317, 214_186_439]
    assert trace.diagnostics == {"kernel names cut short by the tool": 1, "lines of tables that cannot be read": 2}


def test_commas_between_thousands_stay_such(tmp_path):
    rows = [("60.0", "1,285", "1,355", "1,000", "171", "2,669", "a"), ("40.0", "1,000", "80", "8,031.5", "960", "9,000", "b")]
    for kept in (rows, [("60", "1,285", "1,355", "1,000", "1,171", "2,669", "a")]):
        trace = read_text(tmp_path, local_table(kept, marks=(" ", ",")))
        assert trace.kernels["duration_ns"].tolist()[0] == 1285
        assert trace.kernels["count"].tolist()[0] == 1355


@pytest.mark.parametrize(
    "row",
    [
        # two marks between thousands, a decimal point among decimal commas, thousands of another length, two decimal marks
        ("40,0", "1.000 000", "80", "8", "960", "9 000", "b"),
        ("40,0", "1 000 000", "80", "8.5", "960", "9 000", "b"),
        ("40,0", "1 00 000", "80", "8", "960", "9 000", "b"),
        ("40,0", "1 000 000", "80", "8,5,0", "960", "9 000", "b"),
        ("40.0", "1 000'000", "80", "8.5", "960", "9 000", "b"),
    ],
)
def test_numbers_of_no_one_locale_are_refused_with_the_remedy(tmp_path, row):
    path = tmp_path / "mixed.txt"
    path.write_text(local_table([row]))
    said = r"line 3: none of 1 lines .* in a locale's format; LC_ALL=C gives plain ones\); print"
    with pytest.raises(EvidenceError, match=said):
        nsys_stats.read(path)


def test_percentages_that_were_rounded_to_whole_ones_tell_the_total(tmp_path):
    # of 1,540,000,000: 18.5, 11.1 and 8.4 %
    rows = [("19,0", "285 118 634", "3", "1,0", "1", "2", "a"), ("11,0", "170 736 919", "3", "1,0", "1", "2", "b")]
    rows += [("8,0", "129 422 611", "3", "1,0", "1", "2", "c")]
    trace = read_text(tmp_path, local_table(rows))
    assert trace.kernels["name"].tolist() == ["a", "b", "c", UNLISTED]
    assert trace.kernels["duration_ns"].sum() == pytest.approx(1_540_000_000, rel=0.02)
    # of no total at all: 285 by 19.5 % is 1,462 at least, 40 by 7.5 % 533 at most
    trace = read_text(tmp_path, local_table([rows[0], ("8,0", "40 000 000", "3", "1,0", "1", "2", "c")]))
    assert trace.kernels["name"].tolist() == ["a", "c"]
