"""Advice on kernels whose hardware counters show that they use little of the device. Numbers are worked out by hand."""

import pytest

import kernelscope as ks
from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from tests.analysis.formats.ncu.pages import launch, launched, occupancy, rule, section, speed


def advised(tmp_path, *launches):
    path = tmp_path / "page.txt"
    path.write_text("".join(launches))
    return advice.of_subject(of_trace(ks.read(path), "made-up"))


def test_only_the_first_cache_is_busy(tmp_path):
    """Uncoalesced reads: 99.84% of the L1 cache, 17.98% of memory. Saving: 3.84 ms * (1 - 17.98 / 99.84)."""
    (one,) = advised(tmp_path, launch("row_sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84)))["advice"]
    assert one["title"] == "row_sums keeps the L1 cache busy, 100% of its peak, and little else"
    assert one["saves_ns"] == pytest.approx(3_148_462, abs=1)
    assert one["at_most"]
    assert one["evidence"][1] == "Of their peaks it uses: arithmetic 2%, device memory 18%, L2 cache 17%, L1 cache 100%."
    assert "coalescing" in one["remedy"]


def test_registers_limit_the_warps(tmp_path):
    """255 registers for 256 threads: one block of the 8 that 2,048 threads would allow, 12.5%. Saving: 30 ms * (1 - 32 / 90)."""
    page = launch("stencil(float *)", speed("30", 32, 5, 7, 3), launched(255), occupancy(12.5, 12.4), grid="(216, 1, 1)")
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "stencil keeps no unit busy: registers limit its warps to 12%"
    assert one["saves_ns"] == pytest.approx(30e6 * (1 - 32 / 90), rel=1e-6)
    assert one["evidence"][2:] == [
        "On average a multiprocessor holds 12% of the warps that it can hold; its registers, shared memory and blocks allow 12%, "
        "limited by registers."
    ]
    assert one["remedy"].startswith("use fewer registers")


def test_the_grid_is_too_small(tmp_path):
    page = launch("tiny(float *)", speed("30", 5, 5, 7, 3), launched(32, waves=0.07), occupancy(100, 12))
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "tiny keeps no unit busy: its grid is too small"
    assert one["evidence"][2:4] == [
        "It is launched in 216 blocks of 256 threads on 108 multiprocessors.",
        "Its blocks fill 7% of what the device can hold at once.",
    ]  # fmt: skip


def test_one_thread_needs_no_other_counter(tmp_path):
    page = launch("add(float *)", speed("575", 0.02, 1.7, 0.9, 0.8), grid="(1, 1, 1)", block="(1, 1, 1)")
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "add keeps no unit busy: its grid and its blocks are too small"
    assert "It is launched in 1 block of 1 thread." in one["evidence"]
    assert one["remedy"].startswith("launch blocks of 128 to 256 threads")


def test_the_pipe_of_loads_and_stores_is_no_arithmetic(tmp_path):
    """A naive product: the busiest pipe is as busy as the first-level cache, to the digit."""
    result = advised(tmp_path, launch("matmul(float *)", speed("27", 97.5, 25, 21, 97.55, memory=97.5)))
    (one,) = result["advice"]
    assert one["title"] == "matmul keeps the L1 cache busy, 98% of its peak"
    assert one["evidence"][1] == "Of their peaks it uses: loads and stores 98%, device memory 25%, L2 cache 21%, L1 cache 98%."
    assert one["saves_ns"] == 13_500_000
    assert not any("arithmetic" in note for note in result["notes"])


def test_atomic_operations(tmp_path):
    page = launch("atomic_red(float *)", speed("20.4", 0.3, 0.2, 1, 1), launched(16), occupancy(100, 87))
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "atomic_red keeps no unit busy: its atomic operations wait for one another"
    assert "add up within a warp" in one["remedy"]


def test_a_librarys_kernel_is_as_it_was_built(tmp_path):
    page = launch("ampere_sgemm_128x64_nn", speed("30", 50, 5, 7, 3), launched(255), occupancy(12.5, 12.4))
    assert [one for one in advised(tmp_path, page)["advice"] if one["topic"] == "kernel efficiency"] == []


@pytest.mark.parametrize(
    ("threads", "achieved", "why"),
    [(9.5, 90, "threads of a warp take different paths"), (32, 40, "its blocks end at different times"),
     (32, 90, "its warps wait, for memory or for one another")],
)  # fmt: skip
def test_what_else_keeps_units_idle(tmp_path, threads, achieved, why):
    state = section("Warp State Statistics", {"Avg. Active Threads Per Warp": ("", str(threads))})
    page = launch("walk(int *)", speed("30", 20, 20, 20, 20), launched(32), occupancy(100, achieved), state)
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == f"walk keeps no unit busy: {why}"


def test_without_occupancy_no_reason_is_named(tmp_path):
    (one,) = advised(tmp_path, launch("walk(int *)", speed("30", 20, 20, 20, 20)))["advice"]
    assert one["title"] == "walk keeps no unit busy: what it waits for was not recorded"
    assert "--set full" in one["remedy"]


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        ((7, 86, 28, 8), "adamw keeps the device memory busy, 86% of its peak: only fewer bytes make it faster"),
        ((88, 20, 28, 40), "adamw keeps arithmetic busy, 88% of its peak: only fewer or cheaper instructions make it faster"),
    ],
)
def test_kernels_that_use_the_device_well_get_a_note_and_no_advice(tmp_path, busy, said):
    result = advised(tmp_path, launch("adamw(float *)", speed("0.6", *busy), launched(255), occupancy(12.5, 12)))
    assert result["advice"] == []
    assert said in result["notes"]


def test_a_busy_cache_beside_busy_memory_is_no_finding(tmp_path):
    assert advised(tmp_path, launch("copy(float *)", speed("0.6", 10, 50, 62, 70)))["advice"] == []


def test_short_kernels_are_passed_over(tmp_path):
    long = launch("adamw(float *)", speed("10", 7, 86, 28, 8))
    assert advised(tmp_path, long, launch("tiny(float *)", speed("0.1", 1, 1, 1, 1)))["advice"] == []


def test_a_cache_that_few_multiprocessors_keep_busy(tmp_path):
    """One of 46 is active: 46.5% of its L1 cache are 1% of the device's. Saving: 6.91 ms * (1 - 3.24 / 90)."""
    page = launch("align(int *)", speed("6.91", 0.34, 1.66, 3.24, 46.49, 3.24, active=0.0217), grid="(1, 1, 1)")
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "align keeps no unit busy: its grid is too small (multiprocessors are active in 2% of the cycles)"
    assert one["saves_ns"] == pytest.approx(6.91e6 * (1 - 3.24 / 90), rel=1e-3)
    assert one["evidence"][1].endswith("L2 cache 3%, L1 cache 1% (46% while multiprocessors are active).")


def test_blocks_that_leave_multiprocessors_idle_are_named_before_their_busy_cache(tmp_path):
    """32 blocks on 40: the L1 cache is busy in 61% of all cycles. Saving without it: 0.96 ms * (1 - 13.2 / 90)."""
    page = launch("gather(float *)", speed("0.96", 13.2, 2.6, 1.1, 91, memory=60.97, active=0.67), launched(32, 40, 0.1),
                  occupancy(100, 11), grid="(32, 1, 1)", block="(128, 1, 1)")  # fmt: skip
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == (
        "gather keeps its units only partly busy: its grid is too small (32 blocks, 8 of 40 multiprocessors idle)"
    )
    assert one["saves_ns"] == pytest.approx(0.96e6 * (1 - 13.2 / 90), rel=1e-3)
    assert one["estimate"] == "if the busiest of its units other than the L1 cache reached 90% of its peak"
    assert one["evidence"][2:] == [
        "It is launched in 32 blocks of 128 threads on 40 multiprocessors.",
        "Its blocks fill 10% of what the device can hold at once.",
        "Multiprocessors are active in 67% of the cycles, the mean of all.",
        "On average a multiprocessor holds 11% of the warps that it can hold; its registers, shared memory and blocks allow "
        "100%.",
    ]
    assert "launch more blocks" in one["remedy"]
    assert "coalescing" in one["remedy"]


def test_a_small_grid_that_saturates_every_l1_cache_is_limited_by_it(tmp_path):
    """Half of a wave, but multiprocessors are active throughout: more blocks would wait for the same cache."""
    page = launch("rows(float *)", speed("3.84", 2, 18, 17, 99, active=0.99), launched(32, waves=0.5))
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "rows keeps the L1 cache busy, 99% of its peak, and little else"


def test_a_small_grid_that_saturates_memory_is_no_finding(tmp_path):
    result = advised(tmp_path, launch("columns(float *)", speed("5.7", 10, 97, 26, 20, active=1), launched(32, waves=0.5)))
    assert result["advice"] == []
    assert any("keeps the device memory busy" in note for note in result["notes"])


def test_many_blocks_that_leave_multiprocessors_idle_are_uneven(tmp_path):
    page = launch("walk(int *)", speed("30", 20, 20, 20, 30, active=0.5), launched(32, waves=20), grid="(17280, 1, 1)")
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "walk keeps no unit busy: its blocks end at different times"
    assert "Multiprocessors are active in 50% of the cycles, the mean of all." in one["evidence"]


def test_a_short_kernel_is_not_said_to_be_uneven(tmp_path):
    page = launch("walk(int *)", speed("0.005", 20, 20, 20, 30, active=0.5), launched(32, waves=20), grid="(17280, 1, 1)")
    (one,) = advised(tmp_path, page)["advice"]
    assert one["title"] == "walk keeps no unit busy: what it waits for was not recorded"


def test_a_rule_of_nsight_compute_is_quoted_where_counters_do_not_tell(tmp_path):
    text = rule("OPT", "Est. Speedup: 35.5%", "This kernel exhibits low throughput. Look at", "Scheduler Statistics.")
    small = rule("WRN", "Another one.")
    (one,) = advised(tmp_path, launch("walk(int *)", speed("30", 20, 20, 20, 20), small, text))["advice"]
    assert one["evidence"][-1] == (
        'Nsight Compute: "This kernel exhibits low throughput. Look at Scheduler Statistics." (its estimate: 36% less time)'
    )
    assert not any("Another" in sentence for sentence in one["evidence"])


def test_a_page_without_names_speaks_of_the_kernel(tmp_path):
    (one,) = advised(tmp_path, speed("3.28", 3.12, 29, 43, 99.6))["advice"]
    assert one["title"] == "the kernel keeps the L1 cache busy, 100% of its peak, and little else"


TILED = launch("gemm_tiled(float *)", speed("0.969", 51, 1, 34, 93, active=0.98), block="(8, 8, 1)")


def test_small_tiles_are_told_to_a_kernel_that_is_tiled(tmp_path):
    (one,) = advised(tmp_path, TILED)["advice"]
    assert one["title"] == "gemm_tiled keeps the L1 cache busy, 93% of its peak, while the next unit reaches 51%"
    assert one["remedy"].startswith("its blocks of 64 threads are small")


@pytest.mark.parametrize(
    ("name", "block", "remedy"),
    [("gemm_tiled", "(16, 16, 1)", "let each thread compute several results"), ("gemm", "(8, 8, 1)", "let neighbouring threads")],
)
def test_larger_tiles_and_kernels_without_tiles_have_other_remedies(tmp_path, name, block, remedy):
    page = TILED.replace("gemm_tiled", name).replace("(8, 8, 1)", block)
    assert advised(tmp_path, page)["advice"][0]["remedy"].startswith(remedy)
