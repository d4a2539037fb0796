"""Tables of operators: equally many steps, the first use of a device, a range's own time, and tables that lack the work."""

import kernelscope as ks
from tests.analysis.formats.torch_table.made import printed

HEAD = ["Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls"]
NAMES = ("aten::cudnn_convolution", "aten::mul_", "aten::copy_", "aten::add_", "aten::native_batch_norm", "aten::relu")


def row(name, host_ms, device_ms, calls, whole_ms=None):
    host, device, whole = (f"{ms:.3f}ms" for ms in (host_ms, device_ms, whole_ms or host_ms))
    return (name, host, whole, device, device, str(calls))


def explained(tmp_path, *sides):
    """Explain two tables: (rows, the host's sum, the device's sum) each, ms."""
    paths = []
    for name, (rows, host, device) in zip("ab", sides, strict=True):
        paths.append(tmp_path / f"{name}.txt")
        sums = [f"Self CPU time total: {host:.3f}ms", f"Self CUDA time total: {device:.3f}ms"]
        paths[-1].write_text(printed(HEAD, rows, sums))
    return ks.explain(*paths)


def operators(times, optimizer_ms=0.0):
    fused = [row("aten::_foreach_div_", 1, optimizer_ms, 50)] if optimizer_ms else []
    return [row(name, 1, 10 * times, 100 * times) for name in NAMES] + fused


def test_more_calls_within_equally_many_steps_are_no_more_steps(tmp_path):
    steps = [row("train_step", 1, 0, 25, 40)]
    said = explained(tmp_path, (steps + operators(1), 50, 75), (steps + operators(3), 50, 200))
    assert "within equally many steps (train_step, 25 times each)" in said["differs"][0]
    assert "more steps" not in said["differs"][0]
    assert any("find the loop within a step that calls it" in one["remedy"] for one in said["findings"])


def test_more_calls_with_more_steps_or_none_known_may_be_more_steps(tmp_path):
    said = explained(
        tmp_path,
        ([row("train_step", 1, 0, 25, 40), *operators(1)], 50, 75),
        ([row("train_step", 1, 0, 75, 40), *operators(3)], 50, 200),
    )
    assert said["differs"][0].endswith("as with more steps or other batches")
    said = explained(tmp_path, (operators(1), 50, 75), (operators(3), 50, 200))
    assert said["differs"][0].endswith("as with more steps or other batches")


def test_a_short_foreach_that_the_other_table_may_have_cut_is_no_fused_optimizer(tmp_path):
    said = explained(tmp_path, (operators(1, 0.3), 50, 75), (operators(3), 50, 200))
    assert not any(one["cause"] == "fusion" for one in said["findings"])


def test_the_first_use_of_a_device_is_told_from_its_rows(tmp_path):
    """0.5 of 0.8 ms: the rows hold all of the host's time."""
    kernel, launch = "add_kernel(float const*, int)", "cudaLaunchKernel"
    warm = [row(kernel, 0, 0.04, 4), row("aten::empty", 0.2, 0, 4), row(launch, 0.2, 0, 4)]
    once = [row("Unrecognized", 0.4, 0, 1), row("Runtime Triggered Module Loading", 0.2, 0, 2)]
    cold = [row(kernel, 0, 0.02, 1), row("aten::empty", 0.1, 0, 1), row(launch, 0.1, 0, 1), *once]
    said = explained(tmp_path, (warm, 0.4, 0.04), (cold, 0.8, 0.02))["calls"]
    assert "600 µs of it in B are its first use of the device (Unrecognized 400 µs, Runtime Triggered Module Loading" in said
    assert "per execution of add_kernel (4 and 1) the host takes 100 µs in A, 800 µs in B" in said
    assert "warm up B" in said
    assert "less than half" not in said
    plain = [*cold[:3], row("aten::sort", 0.6, 0, 1)]
    assert "first use of the device (" not in (explained(tmp_path, (warm, 0.4, 0.04), (plain, 0.8, 0.02))["calls"] or "")


def test_a_range_with_much_of_the_hosts_extra_time_is_named(tmp_path):
    a = [row("train_step", 10, 0, 25, 40), *operators(1)]
    b = [row("train_step", 60, 0, 25, 90), *operators(1)]
    said = explained(tmp_path, (a, 200, 75), (b, 400, 75))["calls"]
    assert "50.0 ms of that are the own time of train_step, outside of its operators: 10.0 ms in A, 60.0 ms in B" in said
    said = explained(tmp_path, (a, 200, 75), (a, 400, 75))["calls"]
    assert "own time of train_step" not in said


def test_a_table_that_lists_only_what_sets_memory_lacks_the_work(tmp_path):
    sets = [row("aten::fill_", 1, 3, 2)]
    work = [row("aten::bmm", 1, 40, 2), row("aten::_softmax", 1, 16, 1)]
    said = explained(tmp_path, (sets, 5, 3), (work, 60, 56))
    assert said["cut"].startswith("A's table prints no operator but those that set memory (aten::fill_)")
    assert {one["confidence"] for one in said["findings"]} == {"low"}
    said = explained(tmp_path, ([*sets, row("aten::mm", 1, 30, 2)], 5, 33), (work, 60, 56))
    assert said["cut"] is None


def on_processor(tmp_path, *sides):
    """Explain two tables of processors: (name, ms, calls) each."""
    paths, head = [], ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
    for name, rows in zip("ab", sides, strict=True):
        cells = [(one, "1%", f"{ms:.3f}ms", "1%", f"{ms:.3f}ms", "1.000us", str(calls)) for one, ms, calls in rows]
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(printed(head, cells, [f"Self CPU time total: {sum(ms for _, ms, _ in rows):.3f}ms"]))
    return ks.explain(*paths)["findings"]


def test_copies_that_conversions_call_are_told(tmp_path):
    work = [("aten::sub", 500, 10)]
    casts = [("aten::to", 0.1, 10), ("aten::_to_copy", 0.3, 10), ("aten::copy_", 400, 10)]
    (one,) = on_processor(tmp_path, work, work + casts)
    assert one["evidence"][0].startswith("aten::to calls it, by aten::_to_copy, as often")
    assert one["remedy"].startswith("convert the data once")
    (one,) = on_processor(tmp_path, work, [*work, ("aten::copy_", 400, 10)])
    assert "convert" not in one["remedy"]


def test_products_alone_that_take_longer_may_compute_in_another_type(tmp_path):
    a, b = [("aten::addmm", 1000, 30), ("aten::relu", 60, 30)], [("aten::addmm", 1900, 30), ("aten::relu", 62, 30)]
    (one,) = on_processor(tmp_path, a, b)
    assert one["remedy"].startswith("the other operators take about as long on both sides (60.0 ms in A, 62.0 ms in B)")
    slower = [("aten::addmm", 1900, 30), ("aten::relu", 110, 30)]
    assert "DNNL_DEFAULT_FPMATH_MODE" not in on_processor(tmp_path, a, slower)[0]["remedy"]


def test_an_operator_with_work_that_its_table_does_not_print_is_named(tmp_path):
    """aten::convolution holds 30 ms, of which no row is printed."""
    outer = ("aten::convolution", "1.000ms", "1.000ms", "0.000ms", "30.000ms", "100")
    a, b = [row("aten::mm", 1, 100, 100), outer], [row("aten::mm", 1, 100, 100), row("aten::cudnn_convolution", 1, 300, 100)]
    told = "A does some, too: 30.0 ms within aten::convolution, in rows that it does not print"
    assert any(one["title"].endswith(told) for one in explained(tmp_path, (a, 5, 150), (b, 5, 400))["findings"])
    found = explained(tmp_path, (a[:1], 5, 150), (b, 5, 400))["findings"]
    assert not any("does some, too" in one["title"] for one in found)
