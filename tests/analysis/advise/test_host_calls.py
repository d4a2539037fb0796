"""Advice on captures of totals: what calls and numbers of copies tell where no timeline does."""

import pytest

import kernelscope as ks
from tests.analysis.printed_totals import text_of

KERNELS = [("step(float*)", 1000, 100.0)]


@pytest.fixture
def advised(tmp_path):
    def run(work, calls=()):
        path = tmp_path / "log.txt"
        path.write_text(text_of(work, calls))
        return {one["title"]: one for one in ks.advise(path)["advice"]}

    return run


def test_allocation_in_the_loop(advised):
    calls = [("cudaMalloc", 500, 250.0), ("cudaFree", 500, 50.0), ("cudaLaunchKernel", 1000, 5.0)]
    found = advised(KERNELS, calls)["device memory is allocated again and again"]
    # without the longest call of each: as the text has it, one of 0.5 and one of 0.1 ms
    assert found["saves_ns"] == 299_400_000
    assert found["evidence"] == ["500 x cudaMalloc (250 ms), 500 x cudaFree (50.0 ms)."]


SET_UP = """\
==1== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  step(float*)
      API calls:   97.00%  {total}         7  {each}  7.0000us  {longest}  {name}
                    3.00%  2.1000ms         1  2.1000ms  2.1000ms  2.1000ms  cudaDeviceSynchronize
"""


@pytest.mark.parametrize(
    ("name", "longest", "told"),
    [("cudaMalloc", "69.000ms", True), ("cudaMalloc", "10.000ms", False), ("cudaMemcpy", "69.000ms", False)],
)
def test_a_call_that_sets_up_the_device_is_told(tmp_path, name, longest, told):
    path = tmp_path / "log.txt"
    path.write_text(SET_UP.format(total="70.000ms", each="10.000ms", longest=longest, name=name))
    notes = ks.advise(path)["notes"]
    said = (
        "the longest cudaMalloc took 69.0 ms, all kernels and copies 2.00 ms: the first such call of a program sets up the "
        "device (its context), once"
    )
    assert (said in notes) is told
    assert any("sets up the device" in note for note in notes) is told


def test_launches_that_take_longer_than_kernels(advised):
    found = advised([("tiny(int)", 1000, 2.0)], [("cudaLaunchKernel", 1000, 5.0)])
    one = found["kernels are shorter than the calls that launch them"]
    assert one["evidence"] == ["1,000 x cudaLaunchKernel (5.00 ms): 5.00 µs each on average, and a kernel takes 2.00 µs."]
    assert one["saves_ns"] == 2_995_000


def test_streams_that_are_created_in_the_loop(advised):
    calls = [("hipStreamCreate", 100, 70.0), ("hipStreamDestroy", 100, 30.0)]
    found = advised([("rms_norm_kernel(float*)", 100, 0.6)], calls)["streams or events are created again and again"]
    assert found["evidence"] == ["100 x hipStreamCreate (70.0 ms), 100 x hipStreamDestroy (30.0 ms)."]
    assert found["saves_ns"] == 99_000_000


def test_many_small_copies(advised):
    found = advised([*KERNELS, ("[CUDA memcpy DtoH]", 20_000, 30.0)])["many small copies between host and device"]
    assert found["evidence"][0] == "20,000 copies take 1.50 µs each on average, about as long as the smallest copy."
    assert found["saves_ns"] == 29_700_000


@pytest.mark.parametrize(
    ("work", "calls"),
    [
        (KERNELS, [("cudaMalloc", 3, 250.0), ("cudaFree", 3, 50.0)]),  # the first use of the device
        (KERNELS, [("cudaMalloc", 500, 5.0)]),  # little of the device's time
        (KERNELS, [("cudaLaunchKernel", 1000, 5.0)]),  # kernels are longer
        ([("once(int)", 3, 0.006)], [("cudaLaunchKernel", 3, 40.0)]),  # a program that launches three kernels
    ],
)
def test_what_is_as_it_should_be_gets_no_advice(advised, work, calls):
    assert not advised(work, calls)


def test_weights_that_are_unpacked_are_no_casts(advised):
    found = advised([("ampere_h16816gemm_128x128_nn", 100, 60.0), ("dequant_q4_k_f16(half*)", 100, 40.0)])
    assert found["quantised weights are unpacked before they are multiplied"]["saves_ns"] == 40_000_000
    assert not any("type" in title for title in found)


@pytest.mark.parametrize(("count", "ms", "noted"), [(1336, 5.0, True), (1336, 50.0, False), (30, 0.1, False)])
def test_many_kernels_as_short_as_a_launch_are_noted(tmp_path, count, ms, noted):
    path = tmp_path / "log.txt"
    path.write_text(text_of([("pass_of_one_row(float*)", count, ms)]))
    assert any("about as long as a launch" in note for note in ks.advise(path)["notes"]) is noted


MANY_SMALL = "the device copies its own memory in many small pieces"


def test_many_small_copies_within_the_device(advised):
    found = advised([*KERNELS, ("[CUDA memcpy DtoD]", 50_000, 100.0)])[MANY_SMALL]
    assert found["evidence"][1] == "They take 2.00 µs each on average."
    assert found["saves_ns"] == 100_000_000
    assert found["remedy"].startswith("copy many of these pieces at once")


@pytest.mark.parametrize(("count", "ms"), [(999, 1.998), (5000, 20.0)])
def test_few_or_large_copies_within_the_device_are_not_small(advised, count, ms):
    found = advised([("step(float*)", 1000, 1.0), ("[CUDA memcpy DtoD]", count, ms)])
    assert MANY_SMALL not in found
    assert "the device copies its own memory" in found


COMPILED = "a call at the start takes far longer than setting up the device"


@pytest.mark.parametrize(
    ("name", "longest", "told"),
    [
        ("cudaMalloc", "9.5000s", True),
        ("cudaLaunchKernel", "2.1000s", True),
        ("cudaMalloc", "1.9000s", False),  # as long as many devices, or an idle driver, take
        ("cudaFree", "9.5000s", False),  # it waits for the device
        ("cudaDeviceSynchronize", "9.5000s", False),
    ],
)
def test_a_first_call_that_takes_seconds_compiles_kernels(tmp_path, name, longest, told):
    path = tmp_path / "log.txt"
    path.write_text(SET_UP.format(total="9.6000s", each="1.3700s", longest=longest, name=name))
    result = ks.advise(path)
    found = {one["title"]: one for one in result["advice"]}
    assert (COMPILED in found) is told
    if told:
        assert result["advice"][0]["title"] == COMPILED
        assert "-arch=sm_XX" in found[COMPILED]["remedy"]
        assert "once for each start" in found[COMPILED]["estimate"]
        assert not any("sets up the" in note for note in result["notes"])


def test_a_long_launch_beside_as_long_a_kernel_is_a_wait(tmp_path):
    path = tmp_path / "log.txt"
    text = SET_UP.format(total="9.6000s", each="1.3700s", longest="9.5000s", name="cudaLaunchKernel")
    path.write_text(text.replace("2.0000ms", "9.0000s"))
    assert COMPILED not in {one["title"] for one in ks.advise(path)["advice"]}
