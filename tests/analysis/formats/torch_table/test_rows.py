"""Which rows of a table are work: with what was not printed, it adds up to the sum below the table."""

import pytest

from kernelscope.analysis.formats.torch_table.trace import NOT_COUNTED
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.analysis.formats.torch_table.made import NEW, printed, read, row

ZERO = "0.000us"
PROCESSOR = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
STEP = [row("ProfilerStep*", "1.000ms", "9.000ms", ZERO, "2"), row("ProfilerStep*", ZERO, ZERO, "30.000ms", "2")]


def operator(name, own, inside, calls="2"):
    """Return the row of an operator with device time of its own and inside of it."""
    made = list(row(name, "1.000ms", "2.000ms", own, calls))
    made[NEW.index("CUDA total")] = inside
    return tuple(made)


def kernel(name, own, calls="2"):
    return row(name, ZERO, ZERO, own, calls)


def on_device(tmp_path, rows, total):
    return read(tmp_path, printed(NEW, rows, ("Self CPU time total: 9.000ms", f"Self CUDA time total: {total}")))


def on_processor(tmp_path, rows, total):
    cells = [(name, "1%", own, "1%", own, "1.000us", "1") for name, own in rows]
    return read(tmp_path, printed(PROCESSOR, cells, (f"Self CPU time total: {total}",)))


def work(trace):
    """Return kernels' names and ms."""
    return {name: ns / 1e6 for name, ns in zip(trace.kernels["name"], trace.kernels["duration_ns"], strict=True)}


def notes(trace):
    return "\n".join(trace.info["notes"])


def test_kernels_count_where_they_tell_half_of_the_sum(tmp_path):
    rows = [operator("aten::mm", "9.000ms", "9.000ms"), kernel("void gemm()", "5.000ms")]
    trace = on_device(tmp_path, rows, "10.000ms")
    assert work(trace) == {"void gemm()": 5, UNLISTED: 5}
    assert "the table of line 2 counts by its rows of kernels" in notes(trace)


def test_operators_count_where_kernels_tell_less_than_half_and_than_operators(tmp_path):
    rows = [operator("aten::mm", "6.000ms", "6.000ms"), kernel("void gemm()", "4.000ms")]
    trace = on_device(tmp_path, rows, "10.000ms")
    assert work(trace) == {"aten::mm": 6, UNLISTED: 4}
    assert "counts by operators' own time on the device" in notes(trace)
    rows = [operator("aten::mm", "4.000ms", "4.000ms"), kernel("void gemm()", "4.000ms")]
    assert work(on_device(tmp_path, rows, "10.000ms")) == {"void gemm()": 4, UNLISTED: 6}


def test_what_was_not_printed_is_one_kernel_and_a_note(tmp_path):
    rows = [kernel("void gemm()", "6.000ms"), kernel("Memcpy DtoD (Device -> Device)", "1.000ms")]
    trace = on_device(tmp_path, rows, "9.000ms")
    rest = trace.kernels.set_index("name").loc[UNLISTED]
    assert rest[["kind", "count", "duration_ns", "device"]].tolist() == ["unknown", 0, 2_000_000, "cuda"]
    assert trace.kernels["duration_ns"].sum() + trace.copies["duration_ns"].sum() == 9_000_000
    assert captures.lost(trace) == {}
    assert "2.000 ms of the 9.000 ms in the sum below the table of line 2 are in no row that counts" in notes(trace)


@pytest.mark.parametrize(("total", "more"), [("10.001ms", {}), ("10.002ms", {UNLISTED: 0.002}), ("10.050ms", {UNLISTED: 0.05})])
def test_half_of_each_last_digit_is_rounding(tmp_path, total, more):
    assert work(on_device(tmp_path, [kernel("void gemm()", "10.000ms")], total)) == {"void gemm()": 10, **more}


def test_operators_that_make_views_or_wrap_others_are_in_the_rest_of_the_sum(tmp_path):
    """941 + 15 us are work; 4 us of a view's and 2 of a wrapper's are in rows, but in none that counts: 962 in all."""
    rows = [
        operator("aten::square", "15.000us", "962.000us"), operator("aten::pow", "941.000us", "947.000us"),
        operator("aten::result_type", "4.000us", "4.000us"), operator("aten::to", "2.000us", "943.000us"),
    ]  # fmt: skip
    trace = on_device(tmp_path, rows, "962.000us")
    assert work(trace) == {"aten::square": 0.015, "aten::pow": 0.941, NOT_COUNTED: 0.006}
    assert "0.006 ms of it are the own time of operators that wrap others or make views" in notes(trace)


def test_what_was_printed_and_what_was_not_are_two_rows(tmp_path):
    """Of 970 us, 941 are work, 4 a view's, and 25 in no row."""
    rows = [operator("aten::pow", "941.000us", "941.000us"), operator("aten::result_type", "4.000us", "4.000us")]
    assert work(on_device(tmp_path, rows, "970.000us")) == {"aten::pow": 0.941, UNLISTED: 0.025, NOT_COUNTED: 0.004}
    assert work(on_device(tmp_path, rows[:1], "970.000us")) == {"aten::pow": 0.941, UNLISTED: 0.029}


def test_operators_without_a_printed_kernel_count_beside_kernels_that_others_launch(tmp_path):
    """The kernel takes 19 ms in 85 calls, as allreduce_ does: it is no part of mm, whose 0.2 of 21 ms count."""
    reduce = [operator("c10d::allreduce_", "19.000ms", "19.000ms", "85"), kernel("ncclDevKernel_AllReduce()", "19.000ms", "85")]
    rows = [*reduce, operator("aten::mm", "0.200ms", "0.200ms", "165")]
    trace = on_device(tmp_path, rows, "21.000ms")
    assert work(trace) == {"ncclDevKernel_AllReduce()": 19, "aten::mm": 0.2, UNLISTED: 1.8}
    assert "counts by its rows of kernels, and by the operators of which no kernel is printed" in notes(trace)
    shared = [*rows, kernel("void gemm()", "0.300ms", "170")]  # of mm and of others
    assert work(on_device(tmp_path, shared, "21.000ms")) == {"ncclDevKernel_AllReduce()": 19, "void gemm()": 0.3, UNLISTED: 1.7}
    beyond = on_device(tmp_path, rows, "19.100ms")  # mm's are not in the sum
    assert work(beyond) == {"ncclDevKernel_AllReduce()": 19, UNLISTED: 0.1}


def test_a_rest_that_is_all_inside_one_operator_leaves_no_row_of_nothing(tmp_path):
    trace = on_device(tmp_path, [operator("aten::conv", "40.000ms", "100.000ms")], "100.000ms")
    assert work(trace) == {"aten::conv": 40, "(inside aten::conv, not printed)": 60}


def test_an_operator_without_time_on_the_cpu_is_no_kernel_unless_beside_its_own_row(tmp_path):
    short = on_device(tmp_path, [operator("aten::pow", "941.000us", "947.000us"), kernel("aten::to", "2.000us")], "943.000us")
    assert work(short) == {"aten::pow": 0.941, "aten::to": 0.002}
    assert short.kernels["operator"].tolist() == ["aten::pow", "aten::to"]
    both = [operator("aten::pow", "941.000us", "941.000us"), kernel("aten::pow", "941.000us")]
    assert work(on_device(tmp_path, both, "941.000us")) == {"aten::pow": 0.941}


def test_without_a_sum_kernels_that_tell_notably_less_than_operators_do_not_count(tmp_path):
    rows = [
        operator("aten::mm", "6.000ms", "6.000ms"),
        operator("aten::add", "4.000ms", "4.000ms"),
        kernel("void gemm()", "6.000ms"),
    ]
    assert work(read(tmp_path, printed(NEW, rows))) == {"aten::mm": 6, "aten::add": 4}
    rows[2] = kernel("void gemm()", "9.000ms")
    assert work(read(tmp_path, printed(NEW, rows))) == {"void gemm()": 9}


def test_operators_own_time_on_the_device_is_told_where_kernels_count(tmp_path):
    rows = [
        operator("aten::mm", "6.000ms", "6.000ms", "3"),
        operator("aten::linear", ZERO, "6.000ms"),
        kernel("gemm()", "6.000ms"),
    ]
    trace = on_device(tmp_path, rows, "6.000ms")
    assert trace.info["counted"] == "kernels"
    assert trace.info["device_own"] == {"aten::mm": {"ns": 6_000_000, "calls": 3}}


def test_a_compiled_kernel_and_what_launches_it_count_once(tmp_path):
    rows = [
        row("triton_red_fused__softmax_14", "3.053ms", "7.021ms", "6.000ms", "250"),
        kernel("triton_red_fused__softmax_14", "6.000ms", "250"),
        *STEP,
    ]
    trace = on_device(tmp_path, rows, "8.000ms")
    assert work(trace) == {"triton_red_fused__softmax_14": 6, UNLISTED: 2}
    assert trace.diagnostics["annotations projected on the device, no kernels"] == 1


def test_annotations_are_known_without_their_row_of_the_host(tmp_path):
    rows = [kernel("## graph.replay ##", "6.000ms"), kernel("void gemm()", "4.000ms")]
    assert work(on_device(tmp_path, rows, "12.000ms")) == {"void gemm()": 4, UNLISTED: 8}


def test_rows_beyond_the_sum_that_are_named_like_no_kernel_are_annotations(tmp_path):
    rows = [kernel("train step", "9.000ms"), kernel("epilogue", "1.500ms"), kernel("void gemm()", "5.000ms")]
    assert work(on_device(tmp_path, rows, "7.000ms")) == {"epilogue": 1.5, "void gemm()": 5, UNLISTED: 0.5}
    rows = [kernel("ampere_sgemm_128x128_nn", "9.000ms"), kernel("void gemm()", "5.000ms")]
    assert len(on_device(tmp_path, rows, "7.000ms").kernels) == 2  # nothing that could be one: all is kept, and told
    assert "device time in rows beyond the sum below the table, ns" in on_device(tmp_path, rows, "7.000ms").diagnostics


def test_rows_beyond_the_sum_are_a_warning_if_by_more_than_rounding(tmp_path):
    rows = [kernel("void gemm()", "18.662ms"), kernel("void add()", "18.661ms"), kernel("void fill()", "9.017ms")]
    warnings = on_device(tmp_path, rows, "27.678ms").info["warnings"]
    assert warnings == [
        "the rows that count in the table of line 2 add up to 46.340 ms, more than the 27.678 ms below it: "
        "some of the time may be counted twice, or the table was changed"
    ]
    assert on_device(tmp_path, rows, "27.678ms").kernels["duration_ns"].sum() == 46_340_000


@pytest.mark.parametrize("total", ["46.340ms", "46.338ms", "46.200ms", "50.000ms"])
def test_rows_within_the_sum_and_its_rounding_are_no_warning(tmp_path, total):
    rows = [kernel("void gemm()", "18.662ms"), kernel("void add()", "18.662ms"), kernel("void fill()", "9.016ms")]
    assert not on_device(tmp_path, rows, total).info.get("warnings")


def test_older_versions_add_annotations_to_the_sum(tmp_path):
    kernels = [kernel("void gemm()", "6.000ms"), kernel("void add()", "2.000ms")]
    trace = on_device(tmp_path, [*STEP, *kernels], "38.000ms")
    assert work(trace) == {"void gemm()": 6, "void add()": 2}
    assert "the sum below the table of line 2 includes 30.000 ms of annotations" in notes(trace)
    cut = [operator("step", ZERO, "9.000ms"), kernel("step", "30.000ms"), operator("aten::mm", "8.000ms", "8.500ms"), kernels[0]]
    assert work(on_device(tmp_path, cut, "38.000ms")) == {"void gemm()": 6, UNLISTED: 2}
    assert work(on_device(tmp_path, cut, "34.000ms")) == {"aten::mm": 8, UNLISTED: 26}  # nothing tells of the range
    within = [operator("ProfilerStep*", ZERO, "8.000ms"), STEP[1], kernels[0]]
    assert work(on_device(tmp_path, within, "38.000ms")) == {"void gemm()": 6, UNLISTED: 2}


def test_operators_that_wrap_others_are_no_work(tmp_path):
    rows = [
        operator("model", "30.000ms", "10.000s"),
        operator("aten::conv2d", ZERO, "8.000s"),
        operator("aten::convolution", "41.000ms", "8.000s"),
        operator("aten::cudnn_convolution", "7.950s", "8.000s", "7"),
        operator("cudaDeviceSynchronize", "1.000s", "1.000s"),
    ]
    trace = on_device(tmp_path, rows, "10.000s")
    assert work(trace) == {"aten::cudnn_convolution": 7950, UNLISTED: 2009, NOT_COUNTED: 41}
    assert trace.kernels["count"].tolist() == [7, 0, 0]


def test_ranges_on_the_processor_count_with_a_percent_of_the_time(tmp_path):
    rows = [
        ("REFERENCE - BLOCKED MATMUL", "60.000ms"),
        ("aten::fill_", "5.000ms"),
        ("small", "0.900ms"),
        ("ProfilerStep*", "20.000ms"),
        ("Optimizer.step#SGD.step", "4.000ms"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "3.000ms"),
    ]
    trace = on_processor(tmp_path, rows, "100.000ms")
    assert work(trace) == {"REFERENCE - BLOCKED MATMUL": 60, "aten::fill_": 5, UNLISTED: 35}
    assert trace.kernels["kind"].tolist()[0] == trace.kernels["kind"].tolist()[2] == "unknown"
    assert set(trace.kernels["device"]) == {"cpu"}


def test_operators_of_old_versions_on_the_processor(tmp_path):
    trace = on_processor(tmp_path, [("conv2d", "0.500ms"), ("mkldnn_convolution", "99.500ms")], "100.000ms")
    assert work(trace) == {"conv2d": 0.5, "mkldnn_convolution": 99.5}
    assert set(trace.kernels["kind"]) == {"convolution forward"}
