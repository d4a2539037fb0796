"""What holds for every cause: turned round, an explanation has the other sign; and steps need not be marked."""

from dataclasses import replace

import pytest

from kernelscope.analysis.explain import pair
from tests.analysis.explain.device.synthetic import (
    COPIES,
    Copy,
    Host,
    Kernel,
    Noise,
    Wait,
    assert_named,
    causes,
    changed,
    explained,
    recording,
    scaled,
    training,
)

LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def halved(item):
    if isinstance(item, Kernel) and item.kind in ("gemm", "convolution forward", "convolution data gradient"):
        return replace(item, name=f"h16816_{item.name}", dtype="f16", us=item.us * 0.4)
    return None


CHANGES = {
    "half precision": changed(training(), halved),
    "lower clocks": scaled(training(), 1.2),
    "waiting for input": [Host(4000, operator=LOADING), *training()],
    "copies of their own": [Copy(2500, bytes=30_000_000), *training()],
    "hidden copies": [Copy(2500, stream=COPIES), *training()],
    "more work": [*(Kernel("clamp_kernel", 100) for _ in range(30)), *training()],
    "two at once": [Host(4000, operator=LOADING), *changed(training(), halved)],
}


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_turned_round_all_has_the_other_sign(change):
    a, b = recording(training()), recording(CHANGES[change])
    there, back = explained(a, b), explained(b, a)
    assert there["wall_delta_ns"] == -back["wall_delta_ns"]
    assert causes(there) == pytest.approx({cause: -ms for cause, ms in causes(back).items()})
    assert bool(causes(there)) == (change != "hidden copies")


def test_one_recording_against_itself_under_another_name():
    said = explained(recording(training()), recording(training()))
    assert said["wall_delta_ns"] == 0
    assert causes(said) == {}
    assert all(row["delta_ns"] == 0 for row in said["rows"])
    assert said["abstained"]


@pytest.mark.parametrize("marked", [(False, False), (True, False), (False, True)])
def test_steps_that_are_found_do_as_well_as_marked_ones(marked):
    a = recording(training(), 8, marked=marked[0], noise=Noise(0.01, 0.05, 1))
    b = recording(CHANGES["half precision"], 20, marked=marked[1], noise=Noise(0.01, 0.05, 2))
    said = explained(a, b)
    wanted = -0.6 * (8 * 0.9 + 3 * 0.6)
    assert_named(said, "precision", wanted)
    assert said["wall_delta_ns"] / 1e6 == pytest.approx(wanted, rel=0.1)


def test_more_steps_of_the_same_are_no_difference():
    a, b = recording(training(), 8, marked=False), recording(training(), 25, marked=False)
    said = explained(a, b)
    assert causes(said) == {}
    assert abs(said["wall_delta_ns"]) < 0.01 * said["a"]["step_ns"]


def test_a_device_behind_the_host_is_compared_by_its_own_steps():
    """Nothing waits: the host has launched all long before the device is through."""
    a, b = (recording([item for item in items if not isinstance(item, (Wait, Host))], 10, marked=False)
            for items in (training(), CHANGES["half precision"]))  # fmt: skip
    said = explained(a, b)
    assert_named(said, "precision", -0.6 * (8 * 0.9 + 3 * 0.6))
    assert said["a"]["step_ns"] == pytest.approx(15_440_000, rel=0.01)


def test_recordings_of_one_step():
    said = explained(recording(training(), 1), recording(CHANGES["waiting for input"], 1))
    assert_named(said, "input pipeline", 4.0)


def test_other_work_is_said_and_lowers_what_is_sure():
    layers = [Kernel(f"gemm_{number}", 500, "gemm", operator="aten::mm") for number in range(4)]
    said = explained(recording([*layers, Wait()]), recording([*layers, *layers, Wait()]))
    assert said["differs"] == ["4 products, convolutions and attentions a step in A, 8 in B"]
    assert {one["confidence"] for one in said["findings"]} <= {"medium", "low"}
    assert explained(recording([*layers, Wait()]), recording([*layers, layers[0], Wait()]))["differs"] == []


def printed(path, starts_ms):
    """Write a trace that nsys stats printed, of kernels of 2 ms that begin at these times."""
    rows = [f"{1_000_000 * start},2000000,{number},GPU (0),7,work{number}(int)" for number, start in enumerate(starts_ms, 1)]
    path.write_text("\n".join(["Start (ns),Duration (ns),CorrId,Device,Strm,Name", *rows, ""]))
    return path


def test_a_capture_that_is_mostly_idle_is_not_compared_by_its_kernels_with_another_ones_window(tmp_path):
    """The same two kernels, 9 s apart or behind one another: windows of 9,002 and 5 ms, although 4 ms are busy in each."""
    apart, close = printed(tmp_path / "apart.csv", (1, 9001)), printed(tmp_path / "close.csv", (1, 4))
    result = pair.read(apart, close).explain()
    assert result["wall_delta_ns"] == -8_997_000_000
    (finding,) = result["findings"]
    assert finding["cause"] == "host-bound"
    assert "what the program does between launches" in finding["remedy"] or not finding["remedy"]
    both = pair.read(apart, printed(tmp_path / "other.csv", (1, 8001))).explain()
    assert both["wall_delta_ns"] == 0, "only the kernels of two idle captures are compared"
