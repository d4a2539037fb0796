"""Captures of one step: what they differ by a little is no cause; and sides within noise are not told as slower or faster."""

from dataclasses import replace

import pytest

from kernelscope.reports import explanation
from tests.analysis.explain.device.synthetic import Copy, Host, Kernel, Wait, causes, explained, recording

WORK = [Kernel(f"gemm_{number}", 1000, "gemm", operator="aten::mm") for number in range(10)]


def own(us):
    return [Copy(3000), *WORK[:5], Wait(), Host(us, operator="aten::index"), *WORK[5:], Wait()]


@pytest.mark.parametrize(("us", "named"), [(900, False), (4000, True)])
def test_the_hosts_pace_of_one_step(us, named):
    assert ("host-bound" in causes(explained(recording(own(300), 1), recording(own(300 + us), 1)))) == named


@pytest.mark.parametrize(("more", "named"), [(400, False), (1500, True)])
def test_a_small_part_of_one_steps_difference_is_no_cause(more, named):
    others = [*WORK, Kernel("softmax_warp", 400 + more, "softmax"), Wait()]
    a = recording([*own(300)[:-1], Kernel("softmax_warp", 400, "softmax"), Wait()], 1)
    b = recording([replace(own(300)[0], us=15_000, bytes=9_000_000), *others], 1)
    assert ("slower softmax kernels" in causes(explained(a, b))) == named


def test_sides_within_noise_are_not_told_as_slower():
    for steps in (1, 8):
        said = explained(recording(own(300), steps), recording(own(330), steps))
        assert said["significant"] is False
        assert "cannot be told apart" in explanation.answer(said)
    said = explained(recording(own(300), 8), recording(own(4300), 8))
    assert "slower" in explanation.answer(said)


def test_the_answer_rounds_as_the_total_does():
    said = {**explained(recording(own(300), 1), recording(own(4300), 1))}
    said["a"], said["b"] = ({**said[key], "step_ns": ns} for key, ns in (("a", 2_649_927), ("b", 2_651_077)))
    said["wall_delta_ns"] = 1150
    much = explanation.scale(said).number(explanation.total(said))
    assert f"+{much} ms" in explanation.answer(said)
    assert "are close" in explanation.answer(said), "two steps may differ so by chance"
