"""Tables of key_averages(): each ns of a device counts once, whichever version printed them, and however often."""

import re
from decimal import Decimal

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests import places
from tests.analysis.formats.torch_table.made import NEW, printed, read, row

CORPUS = places.CORPUS / "more"
UNITS = {"us": 1000, "ms": 1_000_000, "s": 1_000_000_000}


def ns(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return int(Decimal(number) * UNITS[unit])


ROWS = [
    row("aten::mm", "1.500ms", "2.000ms", "3.000ms", "2", "[[2, 3], []]", "5.0"),
    row("void gemm<float, 2>(int)", "0.000us", "0.000us", "3.000ms", "2"),
    row("ProfilerStep*", "1.000ms", "9.000ms", "0.000us", "1"),
    row("ProfilerStep*", "0.000us", "0.000us", "6.000ms", "1"),
    row("my block", "1.000ms", "9.000ms", "0.000us", "1"),
    row("my block", "0.000us", "0.000us", "6.000ms", "1"),
    row("Memcpy HtoD (Pageable -> Device)", "0.000us", "0.000us", "2.000ms", "2"),
    row("cudaLaunchKernel", "10.000us", "10.000us", "0.000us", "2"),
]
TOTALS = ("Self CPU time total: 4.510ms", "Self CUDA time total: 5.000ms")


def test_kernels_count_once_and_annotations_never(tmp_path):
    trace = read(tmp_path, "epoch 1\n" + printed(NEW, ROWS, TOTALS) + "done\n")
    assert trace.kernels[["name", "duration_ns", "count", "device"]].values.tolist() == [
        ["void gemm<float, 2>(int)", 3_000_000, 2, "cuda"]
    ]
    assert trace.copies[["operation", "duration_ns", "count"]].values.tolist() == [["host to device", 2_000_000, 2]]
    assert trace.kernels["start_ns"].isna().all()
    totals = trace.totals.set_index("name")
    assert totals.loc["aten::mm", ["table", "duration_ns"]].tolist() == ["operators", 2_000_000]
    assert totals.loc["cudaLaunchKernel", "table"] == "calls"
    assert totals.loc["my block", "table"] == "ranges"
    assert trace.diagnostics["annotations projected on the device, no kernels"] == 2


def test_one_profile_printed_in_several_ways_counts_once(tmp_path):
    once = printed(NEW, ROWS, TOTALS)
    cut = printed(NEW, ROWS[2:4], TOTALS, width=20)
    other = printed(NEW, ROWS[:2], ("Self CPU time total: 1.500ms", "Self CUDA time total: 3.000ms"))
    trace = read(tmp_path, once + "text\n" + cut + other)
    assert trace.kernels["duration_ns"].tolist() == [3_000_000, 3_000_000]
    assert any("the same profile" in note for note in trace.info["notes"])


def test_without_kernels_operators_stand_for_theirs(tmp_path):
    trace = read(tmp_path, printed(NEW, [ROWS[0], ROWS[2], ROWS[7]], TOTALS))
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["aten::mm", 3_000_000], [UNLISTED, 2_000_000]]
    assert trace.kernels["operator"].tolist()[0] == "aten::mm"


def test_a_table_cut_to_rows_with_few_kernels(tmp_path):
    rows = [row("aten::mm", "1.000ms", "1.000ms", "9.000ms", "2"), row("void add()", "0.000us", "0.000us", "1.000ms", "7")]
    trace = read(tmp_path, printed(NEW, rows, ("Self CPU time total: 1.000ms", "Self CUDA time total: 10.000ms")))
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["aten::mm", 9_000_000], [UNLISTED, 1_000_000]]


def test_a_table_of_the_cpu(tmp_path):
    heading = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
    rows = [
        ("aten::conv2d", "1.0%", "10.000us", "100%", "1.200s", "1.200s", "1"),
        ("aten::mkldnn_convolution", "99.0%", "1.199s", "99%", "1.199s", "1.199s", "1"),
        ("forward", "0.0%", "5.000us", "100%", "1.200s", "1.200s", "1"),
    ]
    trace = read(tmp_path, printed(heading, rows, ("Self CPU time total: 1.200s",), width=12))
    assert trace.kernels["duration_ns"].tolist() == [10_000, 1_199_000_000]
    assert set(trace.kernels["device"]) == {"cpu"}


OLD = [
    "Name", "Self CPU total %", "Self CPU total", "CPU total %", "CPU total", "CPU time avg", "CUDA total %", "CUDA total",
    "CUDA time avg", "Number of Calls",
]  # fmt: skip
OLD_ROWS = [
    ("conv2d", "5%", "2.000us", "50%", "20.000us", "10.000us", "90%", "90.000us", "45.000us", "2"),
    ("_convolution", "45%", "18.000us", "45%", "18.000us", "9.000us", "85%", "85.000us", "42.500us", "2"),
    ("to", "25%", "10.000us", "25%", "10.000us", "10.000us", "5%", "5.000us", "5.000us", "1"),
    ("to", "20%", "8.000us", "20%", "8.000us", "8.000us", "5%", "5.000us", "5.000us", "1"),
]
OLD_SUMS = ("Self CPU time total: 40.000us", "CUDA time total: 100.000us")


@pytest.mark.parametrize("shapes", [False, True])
def test_older_tables_count_by_what_is_surely_not_nested(tmp_path, shapes):
    """The 18 us that conv2d spends in what it calls are those of _convolution: so 85 of its 90 us on the device are nested."""
    heading, rows = ([*OLD, "Input Shapes"], [(*row, "[]") for row in OLD_ROWS]) if shapes else (OLD, OLD_ROWS)
    trace = read(tmp_path, printed(heading, rows, OLD_SUMS, width=16))
    expected = [("conv2d", 5000, 2), ("_convolution", 85000, 2), ("to", 5000, 1), ("to", 5000, 1)]
    assert list(trace.kernels[["name", "duration_ns", "count"]].itertuples(index=False, name=None)) == expected
    assert set(trace.kernels["device"]) == {"cuda"}
    assert trace.totals["duration_ns"].tolist() == [20000, 18000, 10000, 8000]
    assert trace.info["host_ns"] == 40000
    note = "CUDA total in the table of line 2 includes the time of nested operators, and is not added up: operators count by"
    assert any(line.startswith(note) for line in trace.info["notes"])


def test_older_tables_of_the_processor_count_by_its_own_time(tmp_path):
    rows = [(*row[:6], "0%", "0.000us", "0.000us", row[-1]) for row in OLD_ROWS]
    trace = read(tmp_path, printed(OLD, rows, ("Self CPU time total: 40.000us", "CUDA time total: 0.000us"), width=16))
    assert trace.kernels["duration_ns"].tolist() == [2000, 18000, 10000, 8000, 2000]
    assert set(trace.kernels["device"]) == {"cpu"}


def test_two_runs_of_a_program_count_once(tmp_path):
    kept = [place for place, title in enumerate(OLD) if "CUDA" not in title]
    rows = [tuple(row[place] for place in kept) for row in OLD_ROWS[2:]]
    first = printed([OLD[place] for place in kept], rows, ("Self CPU time total: 18.000us",), width=16)
    trace = read(tmp_path, first + "\n\n" + printed(OLD, OLD_ROWS, OLD_SUMS, width=16))
    assert trace.kernels["duration_ns"].tolist() == [5000, 85000, 5000, 5000]
    assert any("line 2 has the processor's time as that of line 11" in line for line in trace.info["notes"])
    unused = [(*row[:6], "0%", "0.000us", "0.000us", row[-1]) for row in OLD_ROWS]
    trace = read(tmp_path, first + "\n\n" + printed(OLD, unused, ("Self CPU time total: 40.000us",), width=16))
    assert trace.kernels["duration_ns"].tolist() == [10000, 8000]
    assert any("line 11 has the processor's time as that of line 2" in line for line in trace.info["notes"])


def test_tables_without_own_times_hold_no_kernels(tmp_path):
    heading = ["Name", "CPU time", "CUDA time", "Calls", "CPU total", "CUDA total"]
    trace = read(tmp_path, printed(heading, [("conv2d", "5.000us", "9.000us", "1", "5.000us", "9.000us")], width=16))
    assert trace.kernels.empty
    assert len(trace.totals) == 1
    assert "kernels" in trace.info["unavailable"]


def test_a_heading_alone_is_refused_in_a_line(tmp_path):
    path = tmp_path / "t"
    path.write_text(printed(NEW, ROWS)[: printed(NEW, ROWS).index("aten::mm")].rsplit("\n", 1)[0] + "\n")
    with pytest.raises(EvidenceError, match="has no rows; needed are columns named Name, Self CPU") as error:
        captures.read(path)
    assert "\n" not in str(error.value)


ADD = row("void add()", "0.000us", "0.000us", "1.000ms", "7")


def with_cell(which, text):
    """Return the row ADD with another text as its own time on the device, or as its calls."""
    return (*ADD[:which], text, *ADD[which + 1 :])


@pytest.mark.parametrize("which", [6, 10], ids=["time", "calls"])
@pytest.mark.parametrize("text", ["-1.000ms", "nanms", "1.000min", ""])
def test_a_row_without_a_usable_time_or_count_is_told_by_every_command(tmp_path, text, which):
    trace = read(tmp_path, printed(NEW, [*ROWS, with_cell(which, text)], TOTALS))
    assert trace.kernels["duration_ns"].tolist() == [3_000_000]
    assert captures.lost(trace) == {"rows without a usable time or count": 1}
    assert "void add()" not in set(trace.totals["name"])


def test_an_operator_whose_time_on_the_cpu_is_unknown_is_no_kernel_beside_its_own(tmp_path):
    rows = [row("aten::mm", "-1.500ms", "-2.000ms", "3.000ms", "2"), *ROWS[1:]]
    trace = read(tmp_path, printed(NEW, rows, TOTALS))
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["void gemm<float, 2>(int)", 3_000_000]]
    assert captures.lost(trace) == {"rows without a usable time or count": 1}


def test_kernels_whose_time_on_the_cpu_is_unknown_do_not_count_beside_their_operators(tmp_path):
    rows = [ROWS[0], *[tuple(cell.replace("0.000us", "-0.000us") for cell in row) for row in ROWS[1:]]]
    trace = read(tmp_path, printed(NEW, rows, ("Self CPU time total: 4.510ms", "Self CUDA time total: 3.000ms")))
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["aten::mm", 3_000_000]]
    assert captures.lost(trace)["rows without a usable time or count"] == 7


def test_decimal_commas_are_points(tmp_path):
    text = printed(NEW, [*ROWS, ADD], ("Self CPU time total: 4.510ms", "Self CUDA time total: 6.000ms"))
    commas = read(tmp_path, re.sub(r"(?<=\d)\.(?=\d+(?:us|ms))", ",", text))
    assert commas.kernels.equals(read(tmp_path, text).kernels)
    assert commas.kernels["duration_ns"].tolist() == [3_000_000, 1_000_000]
    assert commas.diagnostics == {"annotations projected on the device, no kernels": 2}


def test_a_table_of_which_no_row_is_usable_is_refused_with_the_first(tmp_path):
    path = tmp_path / "t"
    path.write_text("text\n" + printed(NEW, [with_cell(6, "nanms"), with_cell(6, "")], TOTALS))
    said = r"line 3: none of the table's 2 rows has a usable time and count; the first, 'void add\(\)', has the time 'nanms'"
    with pytest.raises(EvidenceError, match=said):
        captures.read(path)


def test_the_real_table_adds_up_to_its_own_sum():
    found = sorted(CORPUS.glob("argonne-lcf__*xpu_time_total*.txt"))
    if not found:
        pytest.skip("the captures of others are not here")
    trace = captures.read(found[0])
    text = found[0].read_text()
    no_host_time = r"^ *(\S.*?) +0\.00% +0\.000us +0\.00% +0\.000us +0\.000us +(\S+) .* (\d+) *$"
    rows = [(ns(time), int(count)) for _, time, count in re.findall(no_host_time, text, re.MULTILINE)]
    tables = (trace.kernels, trace.copies)
    work = sorted(pair for table in tables for pair in zip(table["duration_ns"], table["count"], strict=True))
    assert work == sorted(pair for pair in rows if pair[0])
    told = ns(re.search(r"Self XPU time total: (\S+)", text)[1])
    assert abs(sum(duration for duration, _ in work) - told) < 1000 * len(work)


def test_of_rows_with_equal_times_one_counts_if_the_sum_below_the_table_counts_one(tmp_path):
    rows = [
        row("sigmoid_kernel(float*)", "0.000us", "0.000us", "18.662ms", "1"),
        row("fill(int)", "0.000us", "0.000us", "9.016ms", "4"),
    ]
    again = row("zeros_kernel(float*)", "0.000us", "0.000us", "18.662ms", "1")
    trace = read(tmp_path, printed(NEW, [*rows, again], ("Self CUDA time total: 27.678ms",)))
    assert trace.kernels["name"].tolist() == ["sigmoid_kernel(float*)", "fill(int)"]
    assert "'zeros_kernel(float*)' in the table of line 2 has the time of another row, 18.662 ms" in trace.info["warnings"][0]
    both = read(tmp_path, printed(NEW, [*rows, again], ("Self CUDA time total: 46.340ms",)))
    assert both.kernels["duration_ns"].sum() == 46_340_000
    assert "warnings" not in both.info
    unlike = read(tmp_path, printed(NEW, [*rows, again], ("Self CUDA time total: 20.000ms",)))
    assert unlike.kernels["duration_ns"].sum() == 46_340_000
    assert "add up to 46.340 ms" in unlike.info["warnings"][0]


def test_a_table_of_copies_alone_says_so_and_tells_the_memory(tmp_path):
    name = "Memcpy HtoD (Pageable -> Device)"
    trace = read(tmp_path, printed(NEW, [row(name, "0.000us", "0.000us", "10.675s", "3")], ("Self CUDA time total: 10.675s",)))
    assert trace.info["unavailable"]["kernels"] == "the rows that count are copies; none is a kernel"
    assert trace.copies[["operation", "memory"]].values.tolist() == [["host to device", "pageable to device"]]


def test_calls_that_copy_are_copies_of_the_host(tmp_path):
    heading = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
    rows = [
        ("masking", "80%", "8.000s", "100%", "10.000s", "10.000s", "1"),
        ("cudaMemcpyAsync", "20%", "2.000s", "20%", "2.000s", "1s", "2"),
        ("aten::mm", "0%", "1.000ms", "0%", "1.000ms", "1.000ms", "1"),
    ]  # fmt: skip
    kernels = read(tmp_path, printed(heading, rows)).kernels.set_index("name")["kind"]
    assert kernels[["masking", "cudaMemcpyAsync", "aten::mm"]].tolist() == ["unknown", "copy", "gemm"]


def test_the_hosts_own_time_and_the_programs_line_of_operators(tmp_path):
    """A stack goes on in rows without a name; its innermost line of the program's own counts."""
    heading = ["Name", "Self CPU", "CPU total", "Self XPU", "XPU total", "# of Calls", "Source Location"]
    rows = [
        ("aten::copy_", "62.000s", "124.000s", "20.000us", "40.000us", "12", "<built-in method to of Tensor object at 0x7>"),
        ("", "", "", "", "", "", "torch/nn/functional.py(9): pad"),
        ("", "", "", "", "", "", "net/wan.py(168): embed"),
        ("", "", "", "", "", "", "net/wan.py(645): forward"),
        ("aten::copy_", "1.000s", "1.000s", "10.000us", "10.000us", "3", "net/other.py(3): load"),
        ("aten::mm", "5.000ms", "5.000ms", "1.000s", "1.000s", "9", "torch/nn/modules/module.py(1777): _call_impl"),
    ]
    path = tmp_path / "table.txt"
    path.write_text(printed(heading, rows, ["Self CPU time total: 63.005s", "Self XPU time total: 1.000s"], width=48))
    own = captures.read(path).info["host_own"]
    assert own["aten::copy_"] == {"ns": 63_000_000_000, "device_ns": 30_000, "place": "net/wan.py(168): embed"}
    assert own["aten::mm"] == {"ns": 5_000_000, "device_ns": 1_000_000_000, "place": None}
