"""nvprof's tables: those of the corpus recomputed with csv and plain splitting, and the forms that tables come in."""

import csv
import re
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.formats.nvprof import printed as nvprof_table
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED, page_faults
from tests.places import CORPUS

SUMMARIES = ("cfd_print-gpu-summary", "cfd_profile-api-trace", "cfd_track-memory-allocations", "cfd_unified-memory-profiling")
CSV = tuple(f"nanzifan__nvprof-result__{name}.csv" for name in SUMMARIES)
SAMPLES = "nanzifan__nvprof-result__cfd_cpu-profiling.csv"
TEXT = "nanzifan__nvprof-result__BabelStream_track-memory-allocations.txt"
TRACES = ("hclhkbu__dlbench__tfcnn-new-980.log", "nanzifan__nvprof-result__BabelStream_print-gpu-trace.txt")
POWERS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
SIZES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
DIRECTIONS = {"HtoD": "host to device", "DtoH": "device to host", "DtoD": "device to device"}


def of_corpus(name: str) -> Path:
    path = CORPUS / "nvprof" / name
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    return path


def ns(text: str, unit: str | None = None) -> int:
    number, own = re.fullmatch(r"([\d.]+)(ns|us|ms|s)?", text).groups()
    return int((Decimal(number).scaleb(POWERS[own or unit])).to_integral_value(ROUND_HALF_UP))


def size(text: str) -> int:
    number, unit = re.fullmatch(r"([\d.]+)([KMG]?B)", text).groups()
    return int((Decimal(number) * SIZES[unit]).to_integral_value(ROUND_HALF_UP))


def listed(table, *columns):
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[list(columns)].astype(object).to_numpy()]


def faults(trace):
    return listed(trace.totals[trace.totals["table"] == "page faults"], "name", "count", "duration_ns")


def operation(name: str) -> str:
    return "set" if name == "[CUDA memset]" else DIRECTIONS[name.removeprefix("[CUDA memcpy ").removesuffix("]")]


def read_text(tmp_path: Path, text: str):
    path = tmp_path / "capture"
    path.write_text(text)
    assert nvprof_table.matches(read_head(path))
    trace = nvprof_table.read(path)
    trace.check()
    return trace


def compare_summary(trace, rows):
    """rows: type, count, total, min, max (ns) and name of each row of the file."""
    kernels = [row for row in rows if row[0] == "GPU activities" and not row[5].startswith("[CUDA")]
    copies = [row for row in rows if row[5].startswith("[CUDA")]
    calls = [row for row in rows if row[0] == "API calls"]
    assert len(kernels) + len(copies) + len(calls) == len(rows)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [(row[5], row[1], row[2]) for row in kernels]
    assert listed(trace.copies, "operation", "count", "duration_ns") == [(operation(row[5]), row[1], row[2]) for row in copies]
    columns = ("table", "name", "count", "duration_ns", "min_ns", "max_ns")
    totals = trace.totals[trace.totals["table"] != "page faults"]
    assert listed(totals, *columns) == [("calls", row[5], *row[1:5]) for row in calls]
    assert trace.kernels["start_ns"].isna().all()
    assert trace.info["clock"] == "none"


@pytest.mark.parametrize("name", CSV)
def test_csv_summaries_of_the_corpus(name):
    path = of_corpus(name)
    lines = path.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith('"Type"'))
    table = list(csv.reader(lines[start : lines.index("", start)]))
    units = dict(zip(table[0], table[1], strict=True))
    rows = []
    for cells in table[2:]:
        row = dict(zip(table[0], cells, strict=True))
        times = [ns(row[title], units[title]) for title in ("Time", "Min", "Max")]
        rows.append((row["Type"], int(row["Calls"]), *times, row["Name"]))
    trace = nvprof_table.read(path)
    trace.check()
    compare_summary(trace, rows)
    moved = next(row for row in csv.reader(lines) if row and row[-1] == "Host To Device")
    assert trace.diagnostics == {"transfers of unified memory without a time": int(moved[1])}
    groups = next(row for row in csv.reader(lines) if row and row[-1] == "Gpu page fault groups")[5].removesuffix("B")
    of_cpu = next(line for line in lines if line.startswith("Total CPU Page faults")).split()[-1]
    assert faults(trace) == [("GPU page fault groups", int(groups), None), ("CPU page faults", int(of_cpu), None)]
    assert trace.info["devices"] == [{"device": "cuda:0", "name": "TITAN Xp"}]
    assert "euler3d" not in str(trace.info)
    assert trace.kernels["process"].nunique() == 1


def test_the_text_summary_of_the_corpus():
    path = of_corpus(TEXT)
    rows, kind = [], ""
    for line in path.read_text().splitlines():
        match = re.match(r" *(?:(GPU activities|API calls):)? +[\d.]+% +(\S+) +(\d+) +\S+ +(\S+) +(\S+)  (.*)", line)
        if match:
            kind = match[1] or kind
            rows.append((kind, int(match[3]), ns(match[2]), ns(match[4]), ns(match[5]), match[6]))
    assert len(rows) == 24
    trace = nvprof_table.read(path)
    compare_summary(trace, rows)
    assert not trace.diagnostics


@pytest.mark.parametrize("name", TRACES)
def test_text_traces_of_the_corpus(name):
    path = of_corpus(name)
    kernels, copies = [], []
    for line in path.read_text().splitlines():
        cells = re.split(r"\s{2,}", line.strip(), maxsplit=7)
        if not re.match(r"[\d.]+(?:ns|us|ms|s)  ", line):
            continue
        start, duration = ns(cells[0]), ns(cells[1])
        rest = re.split(r"\s{2,}", cells[7])
        if cells[2] == "-":
            stream, kind = (rest[4], rest[5]) if len(rest) == 6 else (rest[-2], rest[-1])
            copies.append((start, start + duration, duration, operation(kind), size(cells[7].split()[0]), int(stream)))
            continue
        context = re.search(r"\s{2,}(\d+)\s{2,}(\d+)  (\S.*?)(?: \[(\d+)\])?$", cells[7])
        grid, block = (cell.strip("()").replace(" ", ",") for cell in cells[2:4])
        shared = size(cells[5]) + size(cells[6])
        kernels.append((
            start, start + duration, duration, context[3], int(context[2]), int(context[4]), grid, block, int(cells[4]), shared,
        ))  # fmt: skip
    trace = nvprof_table.read(path)
    trace.check()
    columns = (
        "start_ns",
        "end_ns",
        "duration_ns",
        "name",
        "thread",
        "correlation",
        "grid",
        "block",
        "registers",
        "shared_memory",
    )
    assert listed(trace.kernels, *columns) == kernels
    assert listed(trace.copies, "start_ns", "end_ns", "duration_ns", "operation", "bytes", "thread") == copies
    assert Counter(trace.kernels["name"]) == Counter(kernel[3] for kernel in kernels)
    assert set(trace.kernels["device"]) == {"cuda:0"}
    assert not trace.diagnostics


def test_samples_of_cpu_functions_are_refused():
    path = of_corpus(SAMPLES)
    assert nvprof_table.matches(read_head(path))
    with pytest.raises(EvidenceError, match=r"only samples of CPU functions \(--cpu-profiling\)"):
        nvprof_table.read(path)


def test_only_tables_of_nvprof_are_taken_for_such():
    if not CORPUS.exists():
        pytest.skip("needs ../shared/corpus")
    files = [path for path in CORPUS.glob("*/*") if path.is_file() and path.parent.name != "broken"]
    mine = {path.name for path in files if nvprof_table.matches(read_head(path))}
    assert mine == {*CSV, SAMPLES, TEXT, *TRACES}


TRACE_TITLES = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
    '"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name",'
    '"Correlation_ID"\n'
)


def test_a_csv_trace_of_gpu_and_api(tmp_path):
    text = (
        "training...\n==7== NVPROF is profiling process 7, command: secret --token x\n==7== Profiling result:\n"
        + TRACE_TITLES
        + "us,us,,,,,,,,KB,KB,MB,GB/s,,,,,,,\n"
        + '0.000000,2.314000,,,,,,,,,,,,,,,,,"cudaLaunchKernel",2743\n'
        + '1.500000,6.624000,640,1,1,128,1,1,32,1.003906,0.015625,,,,,"Tesla K80 (3)","1","7","void f<float, int>(float*)",2743\n'
        + '9.000000,1.568000,,,,,,,,,,0.125000,0.610586,"Pinned","Device","Tesla K80 (3)","1","22","[CUDA memcpy HtoD]",2744\n'
        + '11.00000,1.000000,,,,,,,,,,0.000004,,"Device",,"Tesla K80 (3)","1","7","[CUDA memset]",2745\n'
        + "\nepoch 1 done\n"
    )
    trace = read_text(tmp_path, text)
    columns = ("start_ns", "duration_ns", "name", "device", "thread", "process", "correlation", "grid", "shared_memory")
    assert listed(trace.kernels, *columns) == [
        (1500, 6624, "void f<float, int>(float*)", "cuda:3", 7, 7, 2743, "640,1,1", 1028 + 16)
    ]
    assert listed(trace.copies, "start_ns", "operation", "bytes", "memory", "thread") == [
        (9000, "host to device", 131072, "pinned to device", 22),
        (11000, "set", 4, None, 7),
    ]
    assert listed(trace.calls, "start_ns", "end_ns", "process", "name", "api", "correlation") == [
        (0, 2314, 7, "cudaLaunchKernel", "runtime", 2743)
    ]
    assert trace.info["devices"] == [{"device": "cuda:3", "name": "Tesla K80"}]
    assert "secret" not in str(trace.info)
    assert not trace.diagnostics


def test_ranges_and_markers_in_an_api_trace(tmp_path):
    text = """\
======== Profiling result:
"Start","Duration","Name","Correlation_ID"
ns,ns,,
0,,"[Range start] step (Domain: <unnamed>)",
10,,"[Range start] layer "conv", 1",
20,5,"cudaLaunchKernel_v7000",5
30,,"[Range start] layer "conv", 1",
40,,"[Range end] layer "conv", 1",
50,,"[Marker] now (Domain: mine)",
60,,"[Range end] layer "conv", 1",
70,,"[Range end] never began",
80,,"[Range start] of two
lines (Domain: mine)",
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.ranges, "start_ns", "end_ns", "name", "domain", "category", "nested") == [
        (0, 80, "step", None, "user", False),
        (10, 60, 'layer "conv", 1', None, "user", False),
        (30, 40, 'layer "conv", 1', None, "user", False),
        (50, 50, "now", "mine", "mark", False),
        (80, 80, "of two\nlines", "mine", "user", False),
    ]
    assert trace.diagnostics == {"open ranges": 2, "ends of ranges without a start": 1}
    assert trace.calls["name"].tolist() == ["cudaLaunchKernel"]


def test_calls_in_text_name_what_they_launched(tmp_path):
    text = """\
==9== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream  Name
178.01us  3.0180us                    -               -         -         -         -                -         -         -  cudaGetDevice
222.05us  2.31437s                    -               -         -         -         -                -         -         -  cudaLaunch (k(int) [274])
1.00000s  6.6240us            (640 1 1)       (128 1 1)        32        0B  8.0000KB  Tesla V100-SXM2         1         7  k(int) [274]

Regs: Number of registers used per CUDA thread. This number includes registers used internally.
"""  # noqa: E501 lines as nvprof writes them
    trace = read_text(tmp_path, text)
    assert listed(trace.calls, "name", "correlation") == [("cudaGetDevice", None), ("cudaLaunch", 274)]
    assert listed(trace.kernels, "name", "correlation", "start_ns", "shared_memory", "device") == [
        ("k(int)", 274, 10**9, 8192, "cuda:0")
    ]
    assert trace.diagnostics == {}


def test_contexts_stand_for_devices_whose_numbers_are_cut_off(tmp_path):
    text = """\
==9== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream  Name
1.00000s  1.0000us              (1 1 1)         (1 1 1)         8        0B        0B  Tesla V100-SXM2        10        31  b [2]
1.10000s  1.0000us              (1 1 1)         (1 1 1)         8        0B        0B  Tesla V100-SXM2         2        31  a [1]
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "device") == [("b", "cuda:1"), ("a", "cuda:0")]
    assert any("cut off" in note for note in trace.info["notes"])


def test_units_under_the_header_of_text(tmp_path):
    text = """\
======== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
                        %        ms                  ms        us         s
 GPU activities:    98.91  2.317170       160  1.45e-02  7.272000  2.31e+00  k
                     1.09  2.00e-05         2  1.00e-05  0.010000  1.00e-08  [CUDA memcpy DtoD]
      API calls:   100.00  3.000000         1  3.000000  3.000000  3.00e-03  cudaFree
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [("k", 160, 2_317_170)]
    assert listed(trace.copies, "operation", "count", "duration_ns") == [("device to device", 2, 20)]
    assert listed(trace.totals, "name", "duration_ns", "min_ns", "max_ns") == [("cudaFree", 3_000_000, 3000, 3_000_000)]


BY_HAND = """\
    Type   Time(%)   Time   Calls   Avg   Min   Max   Name
        %   s   ms   ms   ms
    GPU activities   60.00   1.500000   3   500.0000   0.001279     7.28755   k<One, 2>
    GPU activities   40.00   1.000000   2   500.0000   0.001056   113.633177  [CUDA memcpy HtoD]
    API calls       100.00   0.004000   2   2.000000   0.001000     3.00000   cudaFree
"""


@pytest.mark.parametrize("colon", ["", ":"])
def test_types_without_colons_and_units_out_of_line(tmp_path, colon):
    """Every row has its type, and the spaces were changed."""
    trace = read_text(tmp_path, BY_HAND.replace("activities", f"activities{colon}").replace("calls", f"calls{colon}"))
    columns = ("count", "duration_ns", "min_ns", "max_ns")
    assert listed(trace.kernels, "name", *columns) == [("k<One, 2>", 3, 1_500_000_000, 1279, 7_287_550)]
    assert listed(trace.copies, "operation", *columns) == [("host to device", 2, 1_000_000_000, 1056, 113_633_177)]
    assert listed(trace.totals, "name", *columns) == [("cudaFree", 2, 4_000_000, 1000, 3_000_000)]
    assert not trace.diagnostics


def test_other_words_without_a_colon_are_no_type(tmp_path):
    loss = "    Training loss   60.00   1.500000   3   500.0000   0.001279     7.28755   epoch\n"
    trace = read_text(tmp_path, BY_HAND + loss)
    assert trace.kernels["name"].tolist() == ["k<One, 2>"]
    assert trace.diagnostics == {"lines of tables that cannot be read": 1}


def test_fewer_units_than_columns_stand_below_their_titles(tmp_path):
    """Only as many units as there are columns to have one may be out of line."""
    header, _, *rows = BY_HAND.splitlines()
    trace = read_text(tmp_path, "\n".join([header, f"{'%':>20}{'s':>7}{'ms':>14}", *rows]) + "\n")
    assert listed(trace.kernels, "name", "duration_ns", "max_ns") == [("k<One, 2>", 1_500_000_000, None)]


def test_times_of_few_digits_are_a_warning(tmp_path):
    row = " GPU activities:  100.00%  {}         1  {}  {}  {}  k\n"
    coarse = read_text(tmp_path, HEADER + row.format(*["2.4e+03s"] * 4))
    assert coarse.kernels["duration_ns"].tolist() == [2_400_000_000_000]
    assert coarse.info["warnings"] == [
        "a time is printed to 100 s only, as in 2.4e+03s, of 2,400 s in all: further digits of sums tell nothing; "
        "--csv -u ns prints times exactly"
    ]
    assert "warnings" not in read_text(tmp_path, HEADER + row.format(*["2400.10s"] * 4)).info


def test_processes_that_are_added_up_are_a_warning(tmp_path):
    row = " GPU activities:  100.00%  125.63us         1  125.63us  125.63us  125.63us  k\n"
    run = "=={0}== NVPROF is profiling process {0}, command: ./a\n=={0}== Profiling result:\n" + HEADER + row
    one, two = run.format(17), run.format(18)
    assert "warnings" not in read_text(tmp_path, one).info
    managed = '\n==17== Unified Memory profiling result:\nDevice "Tesla P100 (0)"\n' + (
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        "       4  64.000KB  4.0000KB  124.00KB  256.0000KB  25.60000us  Host To Device\n"
    )
    assert "warnings" not in read_text(tmp_path, HEADER + row + managed).info, "lines that name no process are of the only one"
    (warning,) = read_text(tmp_path, one + "\n" + two).info["warnings"]
    assert warning == "times of 2 processes are added up; if these are runs of their own, put each into a file"


def test_the_end_of_code_in_markdown_is_no_row(tmp_path):
    row = " GPU activities:  100.00%  125.63us         1  125.63us  125.63us  125.63us  k\n"
    trace = read_text(tmp_path, f"# notes\n```\n{HEADER}{row}```\nand so on\n")
    assert trace.kernels["duration_ns"].tolist() == [125_630]
    assert not trace.diagnostics


def test_rounding_of_long_calls_is_no_rounding_of_short_kernels(tmp_path):
    rows = (
        " GPU activities:  100.00%  125.63us         1  125.63us  125.63us  125.63us  k\n"
        "      API calls:   98.00%  536.54ms         7  76.648ms  7.3030us  534.91ms  cudaMalloc\n"
    )
    assert "warnings" not in read_text(tmp_path, HEADER + rows).info


def test_old_versions_and_several_processes(tmp_path):
    part = """\
==PID== NVPROF is profiling process PID, command: ./a.out
output of the program==PID== Profiling application: ./a.out
==PID== Warning: Some kernel(s) will be replayed.
==PID== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
100.00%  24.559us         3  8.1860us  8.0000us  8.2000us  sobel  (int, [2])

==PID== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
 99.78%  229.51ms         1  229.51ms  229.51ms  229.51ms  cudaMemcpy
"""
    trace = read_text(tmp_path, part.replace("PID", "31") + part.replace("PID", "32"))
    assert listed(trace.kernels, "name", "count", "duration_ns", "process") == [
        ("sobel  (int, [2])", 3, 24_559, 31),
        ("sobel  (int, [2])", 3, 24_559, 32),
    ]
    assert listed(trace.totals, "name", "duration_ns") == [("cudaMemcpy", 229_510_000)] * 2
    assert any(note.startswith("2 processes") for note in trace.info["notes"])
    assert not trace.diagnostics


def test_ranges_repeat_what_they_enclose(tmp_path):
    table = """\
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,ms,
"""
    work = '"GPU activities",100.0,2.000000,4,500.0,400.0,0.600000,"k"\n'
    text = (
        f'======== Profiling result:\n{table}{work}"OpenACC (excl)",100.0,2.0,4,5.0,4.0,0.6,"acc"\n\n'
        f'======== NVTX result:\n========   Thread "main" (id = 5)\n========     Domain "<unnamed>"\n'
        f'========       Range "a"\n{table}"Range:",100.0,3.000000,1,3.0,3.0,3.0,"a"\n{work}\n'
        f'========       Range "b"\n{table}"Range:",100.0,5.000000,2,3.0,3.0,3.0,"b"\nNo kernels were profiled in this range.\n'
    )
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns") == [("k", 4, 2_000_000)]
    assert listed(trace.totals, "table", "name", "count", "duration_ns") == [
        ("ranges", "a", 1, 3_000_000),
        ("ranges", "b", 2, 5_000_000),
    ]
    assert any(note.startswith("OpenACC (excl)") for note in trace.info["notes"])


def test_devices_apart(tmp_path):
    part = """
======== Device "Tesla K80 (NUMBER)"
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  7.5068ms       342  21.949us  18.592us  85.918us  sgemm
"""
    text = "======== Profiling result:\n" + part.replace("NUMBER", "0") + part.replace("NUMBER", "1")
    trace = read_text(tmp_path, text + '\n======== Device "Tesla K80 (2)"\nNo kernels were profiled.\n')
    assert listed(trace.kernels, "device", "count", "duration_ns") == [("cuda:0", 342, 7_506_800), ("cuda:1", 342, 7_506_800)]
    assert trace.info["unavailable"]["times"]


def test_unified_memory(tmp_path):
    text = """\
==3== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.2557ms         1  3.2557ms  3.2557ms  3.2557ms  add(int, float*, float*)

==3== Unified Memory profiling result:
Device "GeForce RTX 2060 with Max-Q Design (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
      48  170.67KB  4.0000KB  0.9961MB  8.000000MB  1.421896ms  Host To Device
      24  170.67KB  4.0000KB  0.9961MB  4.000000MB  656.8220us  Device To Host
      12         -         -         -           -  2.820396ms  Gpu page fault groups
       3         -         -         -           -  20.00000us  Page throttles
       8  2.0000MB  2.0000MB  2.0000MB  16.00000MB           -  Remote mapping from device
Total CPU Page faults: 36
Total remote mappings to CPU: 8
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.copies, "operation", "memory", "count", "duration_ns", "bytes", "device") == [
        ("unified memory", "host to device", 48, 1_421_896, 8 << 20, "cuda:0"),
        ("unified memory", "device to host", 24, 656_822, 4 << 20, "cuda:0"),
    ]
    assert faults(trace) == [
        ("GPU page fault groups", 12, 2_820_396),
        ("mappings of memory that stays on the host", 8, None),
        ("CPU page faults", 36, None),
    ]
    assert trace.kernels["duration_ns"].tolist() == [3_255_700], "page faults are no work of their own"
    assert trace.diagnostics == {"rows of unified memory that are no transfers": 1}


def test_page_faults_of_several_processes_are_added_up(tmp_path):
    part = """\
==PID== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.2557ms         1  3.2557ms  3.2557ms  3.2557ms  add(int, float*, float*)

==PID== Unified Memory profiling result:
Device "GTX 1080 (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
      12         -         -         -           -  2.820396ms  Gpu page fault groups
Total CPU Page faults: 36
"""
    trace = read_text(tmp_path, part.replace("PID", "3") + part.replace("PID", "4"))
    assert page_faults.of(trace) == page_faults.PageFaults(24, 2 * 2_820_396, 72)


def test_unified_memory_in_a_trace(tmp_path):
    text = """\
==3== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream        Unified Memory  Virtual Address  Name
517.56ms         -                    -               -         -         -         -                -         -         -         PC 0x58344172   0x7b552e040000  [Unified Memory CPU page faults]
520.22ms  519.71us             (64 1 1)      (1024 1 1)        16        0B        0B     Tesla T4 (0)         1         7                     -                -  vectorAdd(int const *) [128]
520.23ms  430.56us                    -               -         -         -         -     Tesla T4 (0)         -         -                     2   0x7b552e000000  [Unified Memory GPU page faults]
520.58ms  10.048us                    -               -         -         -         -     Tesla T4 (0)         -         -           64.000000KB   0x7b552e000000  [Unified Memory Memcpy HtoD]
520.66ms  75.743us                    -               -         -         -         -     Tesla T4 (0)         -         -                     1   0x7b552e080000  [Unified Memory GPU page faults]
520.70ms  1.0000us                    -               -         -         -         -     Tesla T4 (0)         -         -                     -   0x7b552e080000  [Unified Memory page throttle]
"""  # noqa: E501 lines as nvprof writes them
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "device") == [("vectorAdd(int const *)", "cuda:0")]
    assert listed(trace.copies, "start_ns", "duration_ns", "operation", "memory", "bytes", "device") == [
        (520_580_000, 10_048, "unified memory", "host to device", 65536, "cuda:0")
    ]
    assert faults(trace) == [("GPU page fault groups", 2, 430_560 + 75_743), ("CPU page faults", 1, None)]
    assert trace.diagnostics == {"rows of unified memory that are no transfers": 1}


@pytest.mark.parametrize("damaged", ["??       1.0000us", "??ms     ??ms    "])
def test_rows_with_a_damaged_start_are_counted(tmp_path, damaged):
    text = f"""\
==3== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream  Name
1.00000s  1.0000us              (1 1 1)         (1 1 1)         8        0B        0B     Tesla T4 (0)         1         7  a [2]
{damaged}              (1 1 1)         (1 1 1)         8        0B        0B     Tesla T4 (0)         1         7  a [3]
"""
    trace = read_text(tmp_path, text)
    assert trace.kernels["name"].tolist() == ["a"]
    assert captures.lost(trace) == {"lines of tables that cannot be read": 1}


SUMMARY = """\
==3== NVPROF is profiling process 3, command: ./a
==3== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",75.000000,0.003000,2,1.500000,1.000000,2.000000,"gemm(int, int)"
"GPU activities",25.000000,0.001000,1,1.000000,1.000000,1.000000,"add(int)"
"""
NONE = "line 3: none of the table's 2 rows has a usable count and duration"
API_CALLS = '"API calls",100.000000,0.500000,1,500.000000,500.000000,500.000000,"cudaMalloc"\n'


def test_decimal_commas_are_points(tmp_path):
    commas = re.sub(r"(?<![\w.])(\d+)\.(\d{6})", r'"\1,\2"', SUMMARY)
    expected = [("gemm(int, int)", 2, 3000, 1000, 2000), ("add(int)", 1, 1000, 1000, 1000)]
    for text in (SUMMARY, commas):
        assert listed(read_text(tmp_path, text).kernels, "name", "count", "duration_ns", "min_ns", "max_ns") == expected
    text = SUMMARY.replace("0.003000", '"1,000.003000"')
    assert listed(read_text(tmp_path, text).kernels, "duration_ns") == [(1_000_003_000,), (1000,)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"Calls"', '"Count"', r"line 3: the table has no column Calls"),
        (
            ",%,ms,,us,us,us,\n",
            "",
            rf"{NONE} \(no row of known units is below its header\); the first: GPU activities, 75\.0",
        ),
        (",%,ms,", ",%,min,", rf"{NONE} \(no row of known units is below its header\); the first: GPU activities, 75\.0"),
        (",0.00", ",-0.00", rf"{NONE}; the first: GPU activities, 75\.0"),
    ],
)
def test_a_table_of_which_nothing_is_usable_is_refused_with_its_line_and_why(tmp_path, old, new, said):
    path = tmp_path / "capture"
    path.write_text(SUMMARY.replace(old, new))
    with pytest.raises(EvidenceError, match=rf"capture, {said}.*; print it again$") as error:
        captures.read(path)
    assert "\n" not in str(error.value)


def test_kernels_of_which_none_is_usable_are_told_beside_calls_that_are(tmp_path):
    path = tmp_path / "capture"
    path.write_text(SUMMARY.replace(",0.00", ",-0.00") + API_CALLS)
    trace = captures.read(path)
    assert listed(trace.totals, "name", "duration_ns") == [("cudaMalloc", 500_000)]
    assert captures.lost(trace) == {"rows without usable time": 2}
    assert "none of the table's 2 rows has a usable count and duration" in trace.info["unavailable"]["kernels"]


def test_output_of_the_program_inside_of_a_table(tmp_path):
    text = """\
==3== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream  Name
1.00000s  1.0000us              (1 1 1)         (1 1 1)         8        0B        0B     Tesla T4 (0)         1         7  a [2]
loss 0.5

1.10000s  1.0000us              (1 1 1)         (1 1 1)         8        0B        0B     Tesla T4 (0)         1         7  b [3]
1.20000s         -              (1 1 1)         (1 1 1)         8        0B        0B     Tesla T4 (0)         1         7  c [4]
"""
    trace = read_text(tmp_path, text)
    assert trace.kernels["name"].tolist() == ["a", "b"]
    assert trace.diagnostics == {"lines of tables that cannot be read": 1, "rows without usable time": 1}


def test_rows_that_were_broken_by_hand(tmp_path):
    text = """\
==3== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name

 GPU activities:
       80.18%  1.51228s         4  378.07ms  44.494ms  711.90ms  [CUDA memcpy HtoD]
                   16.49%  311.03ms         3  103.68ms  103.67ms  103.68ms  void probe_kernel<int=128, int=4>(int*, int)

      API calls:
        66.66%  1.51172s         4  377.93ms  43.603ms  712.02ms  cudaMemcpy
                   16.48%  373.74ms        12  31.145ms  5.9380us  103.69ms  cudaEventSynchronize
"""
    trace = read_text(tmp_path, text)
    assert listed(trace.kernels, "name", "count", "duration_ns")[0] == (
        "void probe_kernel<int=128, int=4>(int*, int)",
        3,
        311_030_000,
    )
    assert listed(trace.copies, "operation", "count", "duration_ns") == [("host to device", 4, 1_512_280_000)]
    assert listed(trace.totals, "name", "count") == [("cudaMemcpy", 4), ("cudaEventSynchronize", 12)]
    assert trace.diagnostics == {}


HEADER = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"


def test_rows_without_a_type_are_counted_and_the_reason_why_nothing_is_read(tmp_path):
    row = "                   16.49%  311.03ms         3  103.68ms  103.67ms  103.68ms  cut_off\n"
    path = tmp_path / "capture"
    path.write_text("==3== Profiling result:\n" + HEADER + row)
    with pytest.raises(
        EvidenceError, match=r"line 2: no row of the table is a GPU activity \(types: no known type: 1\); .*cut_off"
    ):
        captures.read(path)
    path.write_text(HEADER + row.replace("                 ", " OpenACC (excl):  ", 1))
    with pytest.raises(EvidenceError, match=r"line 1: no row of the table is a GPU activity \(types: OpenACC \(excl\): 1\)"):
        captures.read(path)
    calls = "      API calls:  100.00%  2.0000ms         4  500.00us  3.0000us  1.0000ms  cudaFree\n"
    trace = read_text(tmp_path, HEADER + row + calls)
    assert trace.diagnostics == {"rows of no known type": 1}
    assert "(types: no known type: 1)" in trace.info["unavailable"]["kernels"]


def test_columns_that_were_cut_by_hand(tmp_path):
    text = """\
            Type  Time(%)      Time     Calls       Avg  Name
 GPU activities:   60.00%  6.00000s       900  6.6667ms  step(int,  float)
                   40.00%  4.00000s      1800  2.2222ms  [CUDA memcpy DtoH]
      API calls:  100.00%  9.50000s      1800  5.2778ms  cudaMemcpy
"""
    trace = read_text(tmp_path, text)
    columns = ("count", "duration_ns", "min_ns", "max_ns")
    assert listed(trace.kernels, "name", *columns) == [("step(int,  float)", 900, 6_000_000_000, None, None)]
    assert listed(trace.copies, "operation", *columns) == [("device to host", 1800, 4_000_000_000, None, None)]
    assert listed(trace.totals, "name", *columns) == [("cudaMemcpy", 1800, 9_500_000_000, None, None)]
    assert not trace.diagnostics


CUT = """\
==3== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   50.00%  5.0000ms         5  1.0000ms  1.0000ms  1.0000ms  a
                   30.00%  3.0000ms         3  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy DtoH]
(...)
"""


@pytest.mark.parametrize("dots", ["(...)", "...", "[\u2026]", "    ....", ""])
def test_percentages_tell_what_rows_that_were_cut_out_took(tmp_path, dots):
    trace = read_text(tmp_path, CUT.replace("(...)", dots))
    columns = ("name", "kind", "count", "duration_ns", "min_ns", "device", "process")
    assert listed(trace.kernels, *columns) == [
        ("a", None, 5, 5_000_000, 1_000_000, None, 3),
        (UNLISTED, "unknown", 0, 2_000_000, None, None, 3),
    ]
    assert listed(trace.copies, "operation", "duration_ns") == [("device to host", 3_000_000)]
    # 5 ms and 50 ns, to which it is printed, by 49.995 % are 10.0011 ms
    assert [note for note in trace.info["notes"] if "percentages" in note] == [
        "line 2, GPU activities: the rows are 80.0% of the time: by their percentages, rows that were not printed took "
        "2.00 ms of 10.00 ms (\u00b11.10 us, because percentages are rounded)"
    ]
    assert trace.diagnostics == {}


def gpu(*rows):
    lines = [
        f"{share:>8}  {time}         1  1.0000ms  1.0000ms  1.0000ms  k{number}\n" for number, (share, time) in enumerate(rows)
    ]
    return HEADER + " GPU activities: " + (" " * 17).join(lines)


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        # 0.9 ms by 0.085 % and by 0.095 % are 1,059 and 947 ms
        ([("0.09%", "900.00us")], "0.1% of the time by their percentages; the rest is in no table"),
        # 4 ms by 4.5 % and by 3.5 % are 89 and 114 ms
        ([("4%", "4.0000ms")] * 10, "the rows are 40.0% of the time by their percentages"),
        # 10 ms and 20 ms cannot both be the whole
        ([("40.00%", "4.0000ms"), ("20.00%", "4.0000ms")], "the rows are 60.0% of the time by their percentages"),
    ],
)
def test_rows_that_say_too_little_of_their_total_stand_alone(tmp_path, rows, note):
    trace = read_text(tmp_path, gpu(*rows) + "...\n")
    assert UNLISTED not in list(trace.kernels["name"])
    assert [text for text in trace.info["notes"] if note in text]
    assert trace.diagnostics == {}


@pytest.mark.parametrize(
    "rows", [[("14.55%", "14.550ms")], [("20.00%", "20.000ms"), ("7.00%", "7.0000ms")], [("2.04%", "2.0400ms")]]
)
def test_few_rows_tell_their_total_as_well_as_many(tmp_path, rows):
    trace = read_text(tmp_path, gpu(*rows))
    assert list(trace.kernels["name"])[-1] == UNLISTED
    assert trace.kernels["duration_ns"].sum() == pytest.approx(100_000_000, rel=0.003)


@pytest.mark.parametrize(
    "rows",
    [
        [("60.00%", "6.0000ms"), ("40.00%", "4.0000ms")],
        [("60.00%", "6.0000ms"), ("39.10%", "3.9100ms")],
        # 300 rows that are rounded to nothing are 1.2 % together
        [("98.80%", "98.800ms")] + [("0.00%", "4.0000us")] * 300,
    ],
)
def test_rows_that_are_all_of_their_total_lack_nothing(tmp_path, rows):
    rows = [(share, f"{float(time[:-2]) + number * 1e-3:.3f}{time[-2:]}") for number, (share, time) in enumerate(rows)]
    trace = read_text(tmp_path, gpu(*rows))
    assert UNLISTED not in list(trace.kernels["name"])
    assert not [text for text in trace.info["notes"] if "of the time" in text]


def test_dots_in_a_whole_list_and_in_calls_are_lines_that_cannot_be_read(tmp_path):
    row = "      API calls:   50.00%  2.0000ms         4  500.00us  3.0000us  1.0000ms  cudaFree\n"
    trace = read_text(tmp_path, gpu(("100.00%", "2.0000ms")) + row + "(...)\n")
    assert trace.diagnostics == {"lines of tables that cannot be read": 1}
    assert "line 4: not a row of its table; its content is not counted" in trace.info["notes"]


def test_devices_among_several_tell_no_total(tmp_path):
    text = "======== Profiling result:\n"
    text += "".join(f'======== Device "Tesla K80 ({number})"\n{gpu(("50.00%", "2.0000ms"))}\n' for number in (0, 1))
    assert UNLISTED not in list(read_text(tmp_path, text).kernels["name"])


def test_rows_without_a_usable_time_are_a_part_of_what_is_missing(tmp_path):
    trace = read_text(tmp_path, gpu(("50.00%", "2.0000ms"), ("20.00%", "2.000min")))
    assert listed(trace.kernels, "name", "count", "duration_ns") == [("k0", 1, 2_000_000), (UNLISTED, 0, 2_000_000)]
    assert [
        note for note in trace.info["notes"] if "rows that were not printed, and 1 without a usable time, took 2.00 ms" in note
    ]
    assert trace.diagnostics == {"rows without usable time": 1}


def test_warnings(tmp_path):
    text = """\
==3== Warning: 5 records have invalid timestamps due to insufficient device buffer space. You can configure the buffer space.
==4== Warning: 2 records have invalid timestamps due to insufficient device buffer space. You can configure the buffer space.
==3== Warning: Unified Memory Profiling is not supported on the current configuration. See /home/somebody/log
==3== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
 59.40%  7.71177s      5719  1.3484ms  359.26us  3.9149ms  sgemm
"""
    trace = read_text(tmp_path, text)
    assert trace.diagnostics == {"nvprof: records have invalid timestamps due to insufficient device buffer space": 7}
    assert "nvprof warns: Unified Memory Profiling is not supported on the current configuration" in trace.info["notes"]
    assert "somebody" not in str(trace.info)


# size by duration is the throughput in powers of 1000 in the first, of 1024 in the second and of either in the third
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("135.78us  409.60KB  3.0167GB/s", 409_600), ("72.703us  768.00KB  10.074GB/s", 786_432),
        ("1.0000ms  4.0000KB  4000.0KB/s", 4096),
    ],
)  # fmt: skip
def test_the_first_versions_wrote_sizes_in_powers_of_1000(tmp_path, row, expected):
    duration, size, throughput = row.split()
    text = f"""\
==3== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput           Device   Context    Stream  Name
133.81ms  {duration}                    -               -         -         -         -  {size}  {throughput}  Tesla M2050 (0)         1         2  [CUDA memcpy HtoD]
"""  # noqa: E501
    assert read_text(tmp_path, text).copies["bytes"].tolist() == [expected]


def test_unified_memory_alone_is_told_from_its_banner():
    assert nvprof_table.matches(Head(Path("x"), b'==68675== Unified Memory profiling result:\nDevice "GTX 1060 (0)"\n'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table of nvprof"),
        ("==1== NVPROF is profiling process 1, command: x\n", "no table of nvprof"),
        ("=" * 300_000, "no table of nvprof"),
        ("# ==1== Profiling result:\n# Time(%)      Time     Calls       Avg       Min       Max  Name\n", "remove prefixes"),
        ("======== Profiling result:\nNo kernels were profiled.\n", "no kernels were profiled"),
        (
            '==1== Event result:\n"Device","Kernel","Invocations","Event Name","Min","Max","Avg"\n"T (0)","k",1,"e",1,1,1\n',
            "only hardware metrics and events",
        ),
        ("".join(f"=={i}== Profiling result:\n{TRACE_TITLES}" for i in range(600)), "different tables"),
    ],
)
def test_bad_input_is_one_line(tmp_path, text, message):
    path = tmp_path / "bad.log"
    path.write_text(text)
    with pytest.raises(EvidenceError) as raised:
        nvprof_table.read(path)
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


FOREIGN = (b"", b"\x00", b"\xff\xfe", b"====", b"=" * 60000, b"==1" * 20000, b'"Start","Duration","Name"\n', b"\n" * 60000)


@pytest.mark.parametrize("content", FOREIGN)
def test_foreign_content_is_left_alone(content):
    assert not nvprof_table.matches(Head(Path("x"), content))


def test_hardware_metrics_beside_a_summary_are_told_as_not_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        "==7== Profiling result:\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:  100.00%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  mul(float*)\n"
        "==7== Metric result:\n"
        "Invocations                Metric Name            Metric Description         Min         Max         Avg\n"
        'Device "NVIDIA GeForce GTX 1080 (0)"\n'
        "    Kernel: mul(float*)\n"
        "          1       global_load_requests   Total number of requests  2148007936  2148007936  2148007936\n"
        "          1           gld_transactions   Global Load Transactions  8592031746  8592031746  8592031746\n"
    )
    trace = captures.read(path)
    assert trace.kernels["duration_ns"].tolist() == [2_000_000]
    assert trace.diagnostics == {"rows of hardware metrics and events": 2}


@pytest.mark.parametrize(
    "lines",
    [
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"Tesla K20c (0)","forma(float*, int)",3,"gld_transactions","Global Load Transactions",0,0,0\n',
        "Invocations            Metric Name        Metric Description         Min         Max         Avg\n"
        'Device "Tesla K20c (0)"\n    Kernel: forma(float*, int)\n'
        "          3       gld_transactions  Global Load Transactions           0           0           0\n",
    ],
)
def test_hardware_metrics_alone_are_refused_as_what_they_are(tmp_path, lines):
    path = tmp_path / "metrics.txt"
    path.write_text("==7== Profiling result:\n==7== Metric result:\n" + lines)
    with pytest.raises(EvidenceError, match=r"hardware metrics and events, which have no times; record .* without --metrics"):
        captures.read(path)
    path.write_text(lines)  # as cut out by its user
    with pytest.raises(EvidenceError, match=r"metrics and events of nvprof, which have no times; record .* without --metrics"):
        captures.read(path)
