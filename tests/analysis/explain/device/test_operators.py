"""Tables of operators on a processor: wrappers are no work, ranges no operators, and unprinted rows no difference."""

import pytest

import kernelscope as ks
from kernelscope.reports import explanation
from tests.analysis.formats.torch_table.made import printed
from tests.analysis.printed_totals import text_of

HEADING = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]


def table(rows, total_ms):
    """Return a printed table. rows: name, own time and time with all that it calls (ms), calls."""
    cells = [(what, "1%", f"{own}ms", "1%", f"{ms}ms", "1.000us", str(calls)) for what, own, ms, calls in rows]
    return printed(HEADING, cells, [f"Self CPU time total: {total_ms}ms"])


@pytest.fixture
def explained(tmp_path):
    def run(*sides):
        paths = []
        for name, (rows, total_ms) in zip(("a.txt", "b.txt"), sides, strict=True):
            paths.append(tmp_path / name)
            paths[-1].write_text(table([(what, ms, ms, calls) for what, ms, calls in rows], total_ms))
        return ks.explain(*paths)

    return run


def test_operators_that_only_call_others_are_no_work(explained):
    """20 convolutions each, which one side lists under four names."""
    listed = [("aten::mkldnn_convolution", 400.0, 20), ("aten::_convolution", 0.2, 20), ("aten::convolution", 0.1, 20),
              ("aten::conv2d", 0.1, 20)]  # fmt: skip
    result = explained((listed, 400.4), ([("aten::mkldnn_convolution", 800.0, 20), ("aten::relu_", 1.0, 20)], 801.0))
    assert result["differs"] == []
    assert "20 executions each" in result["findings"][0]["title"]
    assert explanation.answer(result).startswith("Operators of B add up to 400.6 ms more than those of A")


def test_other_work_is_still_told(explained):
    result = explained(([("aten::addmm", 100.0, 10)], 100.0), ([("aten::addmm", 400.0, 40)], 400.0))
    assert result["differs"] == ["10 products, convolutions and attentions in all in A, 40 in B"]


def test_a_table_that_is_not_sorted_by_time_hides_more_than_its_shortest_row(explained):
    """What B did not print takes longer than what A has alone, and B's rows of microseconds are no bound."""
    a = [("aten::mkldnn_convolution", 480.0, 20), ("aten::relu_", 11.0, 17)]
    b = [("aten::empty", 0.7, 200), ("aten::addmm", 0.007, 1)]
    result = explained((a, 491.0), (b, 1476.0))
    assert result["findings"] == []
    assert result["abstained"].startswith("the largest difference is in rows that were not printed (+1.4")
    assert "row_limit=-1" in result["to_find_out"]


def test_what_was_not_printed_inside_an_operator_is_that_operators(tmp_path):
    """conv2d takes 1,275 ms with all that it calls; the printed rows have 31 ms by themselves: it has at least 1,244 ms more."""
    wrappers = [("aten::conv2d", 0.5, 1275.0, 20), ("aten::_convolution", 0.5, 1275.0, 20)]
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text(table([("aten::mkldnn_convolution", 480.0, 480.0, 20), ("aten::max_pool2d", 30.0, 30.0, 1)], 510.0))
    b.write_text(table([("aten::max_pool2d", 30.0, 30.0, 1), *wrappers], 1476.0))
    trace = ks.read(b)
    inside = trace.kernels.set_index("name").loc["(inside aten::_convolution, not printed)"]
    assert (inside["duration_ns"], inside["count"], inside["kind"]) == (1_244_000_000, 20, "convolution forward")
    assert trace.kernels["duration_ns"].sum() == 1_476_000_000
    (finding,) = ks.explain(a, b)["findings"]
    assert finding["explains_ns"] == 765_000_000
    assert "oneDNN" in finding["remedy"]


def test_a_total_that_may_be_of_printed_rows_tells_nothing(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text(table([("aten::mm", 900.0, 900.0, 5), ("aten::linear", 1.0, 901.0, 5)], 1000.0))
    assert list(ks.read(path).kernels["name"]) == ["aten::mm", "aten::linear", "(in rows that were not printed)"]


def test_time_in_a_range_outside_of_operators(explained):
    a, b = [("aten::addmm", 1.0, 4), ("LABEL2: masking", 1.0, 1)], [("aten::addmm", 1.0, 4), ("LABEL2: masking", 1293.0, 1)]
    result = explained((a, 2.0), (b, 1294.0))
    (finding,) = result["findings"]
    assert finding["title"].startswith("`LABEL2: masking` takes 1,293 times as long in B as in A: 1.00 ms in A, 1.29 s in B")
    assert finding["evidence"][0].startswith("It is a range or function of the program's own. This is its time outside")
    said = explanation.answer(result)
    assert "2.00 ms \u2192 1.29 s; largest cause: `LABEL2: masking` takes 1,293 times as long in B as in A" in said
    assert "(647 times as long)" in said


def test_operators_in_place(explained):
    a, b = [("aten::div_", 110.0, 10), ("aten::sub", 500.0, 10)], [("aten::div", 565.0, 10), ("aten::sub", 500.0, 10)]
    (finding,) = explained((a, 610.0), (b, 1065.0))["findings"]
    assert finding["evidence"][0] == "aten::div_ writes its result in place in A; aten::div in B does not."
    assert finding["remedy"].startswith("write results in place")
    (finding,) = explained((b, 1065.0), (a, 610.0))["findings"]
    assert finding["remedy"].startswith("write results in place"), "A is the slower one now, and is told what B does"


def test_a_cut_table_without_products_is_no_smaller_program(explained):
    a = [("aten::fill_", 3.0, 10)]
    result = explained((a, 3.3), ([("aten::bmm", 40.0, 2), ("aten::_softmax", 20.0, 1)], 60.0))
    assert result["differs"] == []
    assert result["cut"] == "A's table was cut: it prints no gemm (40.0 ms in B); print all rows"
    assert explanation.premises(result) == [result["cut"]]
    softmax = next(one for one in result["findings"] if "softmax" in one["title"])
    assert "scaled_dot_product_attention" in softmax["remedy"]


def test_an_operator_that_another_one_replaces_is_compared_with_that_one(explained):
    eager = [("aten::addmm", 46.5, 73), ("aten::bmm", 2.8, 24), ("aten::add", 4.0, 100)]
    compiled = [("mkldnn::_linear_pointwise", 15.5, 73), ("aten::add", 4.0, 100)]
    first, *others = explained((eager, 53.3), (compiled, 19.5))["findings"]
    assert first["title"].startswith("aten::addmm in A takes 3 times as long as mkldnn::_linear_pointwise in B: 46.5 ms")
    assert first["remedy"].startswith("let A use mkldnn::_linear_pointwise, as B does")
    assert any("aten::bmm" in one["title"] for one in others)
    fewer = [("mkldnn::_linear_pointwise", 15.5, 40), ("aten::add", 4.0, 100)]
    assert "takes 3 times" not in explained((eager, 53.3), (fewer, 19.5))["findings"][0]["title"]


ON_DEVICE = ["Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls"]


def of_copies(launches, copies=10, other=10):
    """Return a table in which `aten::copy_` takes 267 ms, beside two operators of 10 ms that launch a kernel each time."""
    rows = [("aten::copy_", "1.000ms", "285.000ms", "267.000ms", "267.000ms", str(copies))]
    rows += [(name, "1.000ms", "1.000ms", "10.000ms", "10.000ms", str(other)) for name in ("aten::sub", "aten::div")]
    rows += [(name, "1.000ms", "1.000ms", "0.000us", "0.000us", str(calls)) for name, calls in
             (("cudaMemcpyAsync", 10), ("cudaLaunchKernel", launches))]  # fmt: skip
    return printed(ON_DEVICE, rows, ["Self CPU time total: 290.000ms", "Self CUDA time total: 287.000ms"])


@pytest.mark.parametrize(("launches", "transfers"), [(20, True), (30, False)], ids=["no launch left", "as many launches"])
def test_operators_that_launch_no_kernel_are_copies(tmp_path, launches, transfers):
    path = tmp_path / "table.txt"
    path.write_text(of_copies(launches))
    trace = ks.read(path)
    assert trace.copies["duration_ns"].sum() == (267_000_000 if transfers else 0)
    assert trace.kernels["duration_ns"].sum() + trace.copies["duration_ns"].sum() == 287_000_000
    assert list(trace.copies["operation"]) == (["other"] if transfers else [])


@pytest.mark.parametrize(("own", "said"), [("62000.000ms", True), ("40.000ms", False)])
def test_the_hosts_extra_time_is_told_with_its_operator(tmp_path, own, said):
    """Its own time exceeds the difference of the device's times by far, though not the device's time."""
    sides = []
    for name, copies, host_ms in (("a", "30.000ms", 3400), ("b", own, 65_000 if said else 3410)):
        rows = [("aten::bmm", "3000.000ms", "3000.000ms", "80000.000ms", "80000.000ms", "10"),
                ("aten::copy_", copies, copies, "1000.000ms", "1000.000ms", "10")]  # fmt: skip
        sides.append(tmp_path / f"{name}.txt")
        sides[-1].write_text(
            printed(ON_DEVICE, rows, [f"Self CPU time total: {host_ms}.000ms", "Self CUDA time total: 81000.000ms"])
        )
    calls = ks.explain(*sides)["calls"]
    assert bool(calls) is said
    assert not said or calls.startswith("the host spends 62.0 s in aten::copy_ in B, 30.0 ms in A: most of the difference")
    assert not said or "; try: find what triggers these copies" in calls


@pytest.mark.parametrize(("launches", "said"), [(1, "take longer in A"), (2, "run more often in A")])
def test_operators_that_launch_no_more_kernels_do_not_run_more_often(tmp_path, launches, said):
    """`aten::square` calls `aten::pow`: one launch."""
    sides = []
    for name, rows, calls in (("a", [("aten::pow", 4.49), ("aten::square", 0.95)], launches), ("b", [("aten::mul", 3.35)], 1)):
        cells = [(what, "0.1ms", "0.1ms", f"{ms}ms", f"{ms}ms", "1") for what, ms in rows]
        cells.append(("cudaLaunchKernel", "0.1ms", "0.1ms", "0.000us", "0.000us", str(calls)))
        total = sum(ms for _, ms in rows)
        sides.append(tmp_path / f"{name}.txt")
        sides[-1].write_text(printed(ON_DEVICE, cells, ["Self CPU time total: 1.000ms", f"Self CUDA time total: {total}ms"]))
    assert said in ks.explain(*sides)["findings"][0]["title"]


@pytest.mark.parametrize(
    ("b", "named"),
    [
        ([("aten::conv2d_cpu", 1177, 20), ("aten::norm_cpu", 309, 20)], False),
        ([("aten::conv2d_cpu", 1177, 30), ("aten::norm_cpu", 309, 20)], True),  # more of them
        ([("aten::conv2d_cpu", 1177, 20), ("aten::norm_cpu", 463, 20)], True),  # the whole differs, too
    ],
    ids=["cancels out", "other work", "does not cancel out"],
)
def test_parts_that_cancel_out_on_processors_are_no_causes(explained, b, named):
    a = [("aten::conv2d_cpu", 1022, 20), ("aten::norm_cpu", 463, 20)]
    result = explained((a, 1485), (b, sum(ms for _, ms, _ in b)))
    assert bool(result["findings"]) is named
    if not named:
        assert "and cancel out, as they can from run to run on processors" in result["abstained"]
        assert "cannot be told apart" in explanation.answer(result)


# --- kernels --------------------------------------------------------------------------------------------------------------------


def of_kernels(tmp_path, *sides):
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path, work in zip(paths, sides, strict=True):
        path.write_text(text_of(work))
    return ks.explain(*paths)


def test_one_kernel_under_another_name_is_no_difference(tmp_path):
    result = of_kernels(tmp_path, [("_ZTS5saxpy", 1, 67.5), ("gemm", 3, 100)], [("_ZTSlambda42", 1, 67.9), ("gemm", 3, 100)])
    assert result["findings"] == []


def test_one_kernel_that_another_one_replaces_is_a_difference(tmp_path):
    (finding,) = of_kernels(tmp_path, [("walk_v1", 10, 60)], [("walk_v2", 10, 20)])["findings"]
    assert finding["explains_ns"] == -40_000_000


def test_products_for_other_architectures(tmp_path):
    a, b = [("volta_sgemm_128x64_nn", 1, 1224)], [("maxwell_sgemm_128x128_nn", 1, 3547)]
    (finding,) = of_kernels(tmp_path, a, b)["findings"]
    assert finding["remedy"].startswith("names tell of other architectures (volta, maxwell)")
    (finding,) = of_kernels(tmp_path, a, [("volta_sgemm_32x32_nn", 1, 3547)])["findings"]
    assert "architectures" not in finding["remedy"]


@pytest.mark.parametrize(
    ("title", "head"),
    [
        ("kernels (`a: b` +1 s) take longer: 1 s in A", "kernels (`a: b` +1 s) take longer"),
        ("`a: b` takes longer: 1 s", "`a: b` takes longer"),
        ("other hardware: gemm kernels", "other hardware"),
        ("no colon", "no colon"),
    ],
)
def test_the_first_part_of_a_title(title, head):
    assert explanation.head(title) == head


def test_the_hosts_operator_is_told_where_no_cause_is(tmp_path):
    """Most of the device's work was not printed; what the host does is still known, with what to do about it."""
    sides = []
    for name, own, host_ms, device_ms in (("a", "41000.000ms", 44_000, 60_000), ("b", "20.000ms", 2_900, 57_000)):
        rows = [("aten::copy_", own, own, "900.000ms", "900.000ms", "700"),
                ("aten::pow", "90.000ms", "90.000ms", "300.000ms", "300.000ms", "40")]  # fmt: skip
        totals = [f"Self CPU time total: {host_ms}.000ms", f"Self CUDA time total: {device_ms}.000ms"]
        sides.append(tmp_path / f"{name}.txt")
        sides[-1].write_text(printed(ON_DEVICE, rows, totals))
    result = ks.explain(*sides)
    assert result["findings"] == []
    first, rest, _ = explanation.warnings(result)
    assert first.startswith("the host spends 41.0 s in aten::copy_ in A, 20.0 ms in B")
    assert "types that the device lacks (float64)" in first
    assert rest.startswith("for the rest, no cause is named")
    assert explanation.answer(result).endswith("; the host spends 41.0 s in aten::copy_ in A, 20.0 ms in B")


MASKED = [("aten::bmm", "40.000ms", "2"), ("aten::add_", "9.000ms", "1"), ("aten::_softmax", "3.000ms", "1")]
FUSED = [("aten::_efficient_attention_forward", "30.000ms", "1")]


@pytest.mark.parametrize(("host", "moved"), [("50.000ms", True), ("0.020ms", False)], ids=["host waits", "host launches"])
def test_copies_from_the_host_are_no_part_of_attention(tmp_path, host, moved):
    """A mask is made on the host and copied: 60 ms beside 52 ms for products, mask and softmax."""
    copies = [("aten::copy_", host, host, "60.000ms", "60.000ms", "1")]
    copies += [("aten::to", "0.010ms", "50.000ms", "0.000us", "60.000ms", "1")] if moved else []
    sides = []
    for name, work, first in (("a", MASKED, copies), ("b", FUSED, [])):
        rows = [*first, *((what, "0.050ms", "0.050ms", ms, ms, calls) for what, ms, calls in work)]
        device = 112 if name == "a" else 30
        sides.append(tmp_path / f"{name}.txt")
        sides[-1].write_text(printed(ON_DEVICE, rows, ["Self CPU time total: 60.000ms", f"Self CUDA time total: {device}.000ms"]))
    found = {one["cause"]: one for one in ks.explain(*sides)["findings"]}
    assert found["attention algorithm"]["explains_ns"] == -22_000_000
    assert "52.0 ms in A, 30.0 ms in B" in found["attention algorithm"]["title"]
    assert ("copies between host and device" in found) is moved
    if moved:
        copied = found["copies between host and device"]
        assert (copied["explains_ns"], copied["confidence"]) == (-60_000_000, "medium")
        assert copied["remedy"].startswith("make these tensors on the device")
