"""Compiled regions: on one side only, or more of them on one side; and copies that compiled code makes."""

from dataclasses import replace

import pytest

from tests.analysis.explain.device.synthetic import Copy, Host, Kernel, Wait, assert_named, explained, recording

WORK = [Kernel(f"gemm_{number}", 1000, "gemm", operator="aten::mm") for number in range(10)]


def regions(number, us=500, name="_XlaLaunch"):
    return [Host(us, operator=name) for _ in range(number)]


@pytest.mark.parametrize("name", ["_XlaLaunch", "CompiledFunction", "Torch-Compiled Region: 0/0"])
def test_no_remedy_switches_on_what_both_sides_run(name):
    a, b = (recording([*WORK, Wait(), *regions(number, name=name)]) for number in (8, 3))
    found = assert_named(explained(a, b), "host-bound", -2.5)
    assert f"Compiled regions a step: 8 x {name} in A, 3 x {name} in B." in found["evidence"]
    assert "jit_compile" not in found["remedy"]
    assert "torch.compile(" not in found["remedy"]


def test_what_is_not_compiled_may_be():
    small = [item for _ in range(200) for item in (Kernel("tiny", 5, operator="aten::add"), Host(20, operator="aten::add"))]
    said = explained(recording([*small[:200], Wait()]), recording([*small, Wait()]))
    found = assert_named(said, "host-bound", 1.5, within=0.3)
    assert "torch.compile(" in found["remedy"]
    assert not any("compiled" in text for text in (*found["evidence"], *said["notes"]))


def test_one_side_is_compiled():
    said = explained(recording([*WORK, Wait()]), recording([*WORK, Wait(), *regions(2, name="CompiledFunction")]))
    assert said["notes"][0] == "B is compiled (2 x CompiledFunction a step), A is not"


def test_a_capture_without_operators_does_not_tell_whether_it_is_compiled():
    plain = [replace(kernel, operator=None) for kernel in WORK]
    said = explained(recording([*plain, Wait()]), recording([*WORK, Wait(), *regions(2, name="CompiledFunction")]))
    assert not any("compiled" in note for note in said["notes"])


@pytest.mark.parametrize("name", ["CompiledFunctionBackward", "aten::clone"])
def test_copies_on_the_device_name_the_operator_that_launches_them(name):
    a = recording([*WORK, Wait()])
    copies = [Copy(20, "device to device", None, operator=name) for _ in range(100)]
    b = recording([*WORK, *copies, Wait()])
    found = assert_named(explained(a, b), "copies on the device", 2.0)
    assert f"Launched in {name} (100 more a step)." in found["evidence"]
    assert ("compiled" in found["remedy"]) == (name == "CompiledFunctionBackward")
