"""Advice on tables of torch.profiler whose sums below tell that the host takes longer than the device."""

import pytest

import kernelscope as ks
from tests.analysis.formats.torch_table.made import NEW, printed, row

KERNEL = "ampere_sgemm_128x64_tn"
ROWS = [row("aten::mm", "2.000ms", "9.000ms", "0.000us", "100"), row(KERNEL, "0.000us", "0.000us", "2.000ms", "100")]


@pytest.fixture
def advised(tmp_path):
    def run(host, *more):
        path = tmp_path / "table.txt"
        path.write_text(printed(NEW, [*ROWS, *more], (f"Self CPU time total: {host}", "Self CUDA time total: 2.000ms")))
        return {one["title"]: one for one in ks.advise(path)["advice"]}

    return run


def test_a_host_that_takes_longer_comes_with_both_times(advised):
    one = advised("9.000ms")["the device waits for the host"]
    assert (one["saves_ns"], one["at_most"]) == (7_000_000, True)
    text = "The host's own time adds up to 9.00 ms, 4.5 times as long as the device's work, 2.00 ms"
    assert one["evidence"][0].startswith(text)
    assert "torch.compile" in one["remedy"]


def test_compiled_programs_are_not_told_to_compile(advised):
    region = row("Torch-Compiled Region: 0/0", "1.000ms", "9.000ms", "0.000us", "10")
    assert "each compiled part as a CUDA graph" in advised("9.000ms", region)["the device waits for the host"]["remedy"]


def test_a_host_that_mostly_waits_for_the_device_is_no_advice(advised):
    assert "the device waits for the host" not in advised("2.500ms")


@pytest.mark.parametrize(
    ("host", "launches", "found"), [("3.500ms", "1000", True), ("3.500ms", "999", False), ("2.900ms", "1000", False)]
)
def test_a_host_that_launches_many_short_kernels_is_told_earlier(advised, host, launches, found):
    """A thousand kernels in 2 ms: a host of 1.75 times as long launches them more slowly than they run."""
    more = row("cudaLaunchKernel", "1.500ms", "1.500ms", "0.000us", launches)
    assert ("the device waits for the host" in advised(host, more)) is found


RANDOM = [
    row("aten::pow", "0.100ms", "0.200ms", "2.000ms", "2"),
    row("aten::normal_", "762.000ms", "762.000ms", "0.000us", "2"),
    row("aten::empty", "200.000ms", "200.000ms", "0.000us", "2"),
    row("aten::select", "100.000ms", "100.000ms", "0.000us", "2"),
]


def test_operators_that_compute_on_the_host_alone(advised):
    """With time on the device for others, an operator without any is no launch; one that only makes memory does not count."""
    found = advised("1100.000ms", *RANDOM)
    one = found["aten::normal_ runs on the host alone"]
    assert (one["saves_ns"], one["at_most"]) == (762_000_000, True)
    assert one["evidence"] == ["None of its work on the device was recorded; on the host: aten::normal_ 762 ms."]
    assert "torch.randn(..., device='cuda')" in one["remedy"]
    rest = found["the device waits for the host"]
    assert rest["saves_ns"] == (1100 - 762 - 2) * 1_000_000
    assert "first run" not in rest["evidence"][1]


def test_an_operator_with_time_on_the_device_is_not_alone_on_the_host(advised):
    """Even where its row does not count, as one that seems to wrap another."""
    wraps = row("aten::addmm", "147.000ms", "223.000ms", "0.100ms", "1")
    assert not any("aten::addmm" in title for title in advised("900.000ms", *RANDOM, wraps))


def test_operators_without_any_time_on_the_device_may_be_launches(advised):
    """Older tables give kernels' time to no operator at all."""
    assert not any("on the host alone" in title for title in advised("900.000ms", *RANDOM[1:]))


def spent(advised, *rows):
    return advised("900.000ms", *rows)["the device waits for the host"]


def test_what_the_host_is_in_is_named(advised):
    rows = [row("model", "1.000ms", "880.000ms", "0.000us", "1"), row("aten::conv2d", "1.000ms", "700.000ms", "0.000us", "100")]
    one = spent(advised, *rows)
    assert "The host is mostly in aten::conv2d (700 ms, 78% of its time, 7.00 ms a call in 100 calls)" in one["evidence"][1]
    assert one["remedy"].startswith("warm up before you record")


@pytest.mark.parametrize(
    ("name", "total", "calls"),
    [
        ("train_step", "880.000ms", "1"),  # a range around all
        ("aten::add", "800.000ms", "1000"),  # short calls
    ],
)
def test_what_need_not_be_a_first_run_is_only_named(advised, name, total, calls):
    one = spent(advised, row(name, total, total, "0.000us", calls))
    assert f"The host is mostly in {name}" in one["evidence"][1]
    assert "warm up" not in one["remedy"]


def test_loading_of_code_is_a_first_run(advised):
    one = spent(advised, row("Runtime Triggered Module Loading", "400.000ms", "400.000ms", "2.000ms", "1"))
    assert "The host loads the code of kernels, as in a first run" in one["evidence"][1]
    assert one["remedy"].startswith("warm up before you record")


@pytest.mark.parametrize("name", ["cudaDeviceSynchronize", "ProfilerStep*"])
def test_waits_and_whole_steps_name_nothing(advised, name):
    one = spent(advised, row(name, "800.000ms", "800.000ms", "0.000us", "5"))
    assert one["evidence"][1].startswith("Totals do not show what the host does meanwhile")


def test_calls_that_explain_the_host_come_alone(advised):
    rows = [row("hipStreamCreate", "600.000ms", "600.000ms", "0.000us", "100"),
            row("hipStreamDestroy", "297.000ms", "297.000ms", "0.000us", "100")]  # fmt: skip
    found = advised("900.000ms", *rows)
    assert "streams or events are created again and again" in found
    assert "the device waits for the host" not in found


def test_calls_that_explain_a_part_of_the_host_come_first_and_count_once(advised):
    found = advised("900.000ms", row("hipStreamCreate", "600.000ms", "600.000ms", "0.000us", "100"))
    assert list(found)[:2] == ["streams or events are created again and again", "the device waits for the host"]
    one = found["the device waits for the host"]
    assert one["saves_ns"] == 298_000_000
    assert "Other advice covers 600 ms of it" in one["evidence"][0]
    assert "HIP graphs" in one["remedy"]
    assert "CUDA" not in one["remedy"]


@pytest.mark.parametrize(("call", "device"), [("hipStreamSynchronize", "rocm"), ("cudaStreamSynchronize", "cuda")])
def test_a_device_is_called_as_its_calls_are(tmp_path, call, device):
    path = tmp_path / "table.txt"
    rows = [*ROWS, row(call, "1.000ms", "1.000ms", "0.000us", "9")]
    path.write_text(printed(NEW, rows, ("Self CPU time total: 3.000ms", "Self CUDA time total: 2.000ms")))
    assert ks.advise(path)["device"] == device


def test_steps_on_the_device_bound_its_waits(advised):
    """They span 7 ms, of which its work is 2 ms, though the host takes 9 ms."""
    one = advised("9.000ms", row("ProfilerStep*", "0.000us", "0.000us", "7.000ms", "10"))["the device waits for the host"]
    assert (one["saves_ns"], one["at_most"]) == (5_000_000, True)
    assert "span 7.00 ms" in one["evidence"][1]


def test_steps_longer_than_the_hosts_time_bound_nothing(advised):
    one = advised("9.000ms", row("ProfilerStep*", "0.000us", "0.000us", "12.000ms", "10"))["the device waits for the host"]
    assert one["saves_ns"] == 7_000_000
    assert not any("span" in sentence for sentence in one["evidence"])


def test_a_device_that_is_busy_in_all_steps_waits_for_nothing(advised):
    found = advised("9.000ms", row("ProfilerStep*", "0.000us", "0.000us", "2.010ms", "10"))
    assert "the device waits for the host" not in found


@pytest.mark.parametrize(("steps", "saves"), [("100", 7_000_000), ("99", None)])
def test_steps_of_one_kernel_each_tell_nothing_of_waits(advised, steps, saves):
    """A hundred kernels: as many steps span no more than a kernel each; 99 steps would span a gap between two."""
    rows = [
        row("ProfilerStep*", "0.000us", "0.000us", "2.010ms", steps),
        row("ProfilerStep*", "5.000ms", "9.000ms", "0.000us", steps),
    ]
    one = advised("9.000ms", *rows).get("the device waits for the host")
    assert (one and one["saves_ns"]) == saves


ONCE = "the host's time is mostly the first use of the device, which comes once"
LOADING = row("Runtime Triggered Module Loading", "1.000ms", "1.000ms", "0.000us", "2")


def test_the_first_use_of_the_device_is_no_matter_of_launches(advised):
    """6 of the 7 ms that the host takes longer: 5 set up the device, 1 loads code."""
    found = advised("9.000ms", row("Unrecognized", "5.000ms", "5.000ms", "0.000us", "1"), LOADING)
    assert "the device waits for the host" not in found
    assert (found[ONCE]["saves_ns"], found[ONCE]["at_most"]) == (6_000_000, True)
    assert "Unrecognized 5.00 ms, Runtime Triggered Module Loading 1.00 ms" in found[ONCE]["evidence"][0]
    assert "CUDA graphs" not in found[ONCE]["remedy"]


@pytest.mark.parametrize(
    "rows",
    [[row("Unrecognized", "6.000ms", "6.000ms", "0.000us", "900")], [LOADING]],
    ids=["calls that the profiler does not know", "little of the time"],
)
def test_other_time_of_the_host_is_no_first_use(advised, rows):
    found = advised("9.000ms", *rows)
    assert ONCE not in found
    assert "the device waits for the host" in found


FIRST_USE = "the host's time is mostly the first use of the device, which comes once"


def test_few_calls_that_take_far_longer_than_such_calls_are_start_up(advised):
    calls = [
        row("cudaMemsetAsync", "1.200s", "1.200s", "0.000us", "3"),
        row("cudaFree", "600.000ms", "600.000ms", "0.000us", "2"),
        row("cudaEventSynchronize", "400.000ms", "400.000ms", "0.000us", "9"),
    ]
    one = advised("2500.000ms", *calls)[FIRST_USE]
    assert one["saves_ns"] == 1_800_000_000
    assert "cudaMemsetAsync 1.20 s, cudaFree 600 ms" in one["evidence"][0]
    assert "cudaEventSynchronize" not in one["evidence"][0]
    assert "fused" not in one["remedy"]


@pytest.mark.parametrize(
    "calls",
    [
        [row("cudaMemsetAsync", "1.200s", "1.200s", "0.000us", "300")],  # in each step
        [row("cudaEventSynchronize", "1.200s", "1.200s", "0.000us", "3")],  # a wait
        [row("cudaMalloc", "60.000ms", "60.000ms", "0.000us", "2")],  # a small part of the host's time
    ],
)
def test_other_calls_are_no_start_up(advised, calls):
    assert FIRST_USE not in advised("2500.000ms", *calls)


def test_fused_optimizers_are_for_programs_with_an_optimizer(advised):
    title = "the device waits for the host"
    assert "optimizer" not in advised("9.000ms")[title]["remedy"]
    step = row("Optimizer.step#Adam.step", "1.000ms", "1.000ms", "0.000us", "10")
    assert "; fused optimizers;" in advised("9.000ms", step)[title]["remedy"]
