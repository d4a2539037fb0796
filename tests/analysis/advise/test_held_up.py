"""Advice on tables of torch.profiler in which an operator keeps the host far longer than its work keeps the device."""

import pytest

import kernelscope as ks
from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from tests.analysis.formats.torch_table.made import NEW, printed, row

TITLE = "the host is in aten::copy_ far longer than the device works on it"
SUMS = ("Self CPU time total: 60.000s", "Self CUDA time total: 80.000s")
MM = row("aten::mm", "1.000s", "1.000s", "78.000s", "100")


def advised(tmp_path, *rows, sums=SUMS, place=None, device="XPU"):
    path = tmp_path / "table.txt"
    path.write_text(printed(NEW, [MM, *rows], sums).replace("CUDA", device))
    trace = ks.read(path)
    trace.info["host_own"]["aten::copy_"]["place"] = place
    return {one["title"]: one for one in advice.of_subject(of_trace(trace, str(path)))["advice"]}


def copying(total="50.000s", device="2.000s", own="45.000s"):
    return row("aten::copy_", own, total, device, "1000")


def test_a_host_that_is_in_copies_is_told_what_to_look_for(tmp_path):
    one = advised(tmp_path, copying())[TITLE]
    assert one["saves_ns"] == 43_000_000_000
    assert one["at_most"]
    assert one["evidence"][0].startswith(
        "The host is in aten::copy_ for 45.0 s of 60.0 s, without what it calls, in 1,000 calls of 45.0 ms on average"
    )
    assert "float64" in one["remedy"]


def test_a_table_without_sums_tells_too(tmp_path):
    assert TITLE in advised(tmp_path, copying(), sums=())


def test_the_line_is_named(tmp_path):
    one = advised(tmp_path, copying(), place="wan.py(168): embedding")[TITLE]
    assert one["evidence"][1] == "It is called at wan.py(168): embedding."


@pytest.mark.parametrize(
    "rows",
    [
        [copying(device="6.000s")],  # mostly the device's own work
        [copying(total="9.000s", own="9.000s")],  # a small part of the host's time
        [row("aten::copy_", "45.000s", "50.000s", "2.000s", "100000")],  # short calls
        [copying(own="5.000s"), row("urQueueFinishMemcpy", "40.000s", "40.000s", "0.000us", "9")],  # it waits in a call
    ],
)
def test_what_other_causes_may_explain_is_no_advice(tmp_path, rows):
    assert TITLE not in advised(tmp_path, *rows)


def test_waits_in_calls_are_not_the_operators_own_time(tmp_path):
    waits = row("cudaStreamSynchronize", "44.000s", "44.000s", "0.000us", "1000")
    assert TITLE not in advised(tmp_path, copying(own="1.000s"), waits, device="CUDA")


def test_kernels_that_count_leave_the_operators_own_time(tmp_path):
    """A table of kernels, as on Intel's GPUs: the operator's row does not count, but tells the host's and the device's time."""
    kernel = row("gemm_kernel", "0.000us", "0.000us", "78.000s", "100")
    assert advised(tmp_path, kernel, copying())[TITLE]["saves_ns"] == 43_000_000_000


def test_an_operator_without_work_on_the_device_is_another_topic(tmp_path):
    assert TITLE not in advised(tmp_path, row("gemm_kernel", "0.000us", "0.000us", "78.000s", "100"), copying(device="0.000us"))
