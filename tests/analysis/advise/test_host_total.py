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
