"""What the host does while the device waits: the same at another pace, or something before a step's first operator."""

from __future__ import annotations

import json

import pytest

import kernelscope as ks

STEPS, CALLS = 8, 20


def written(path, *, before_us=0, call_us=100, kernels=1, extra_us=None):
    """Write a trace of torch.profiler: steps of CALLS operators that launch `kernels` short kernels each.

    before_us: from a step's mark to its first operator. call_us: how long an operator takes; extra_us: the last one, if another.
    """
    events, at, number = [], 1000, 0

    def event(name, category, start, length, thread, **arguments):
        events.append(
            {"ph": "X", "name": name, "cat": category, "ts": start, "dur": length, "pid": 1, "tid": thread, "args": arguments}
        )

    for step in range(STEPS):
        begin = at
        at += before_us
        for call in range(CALLS):
            lasts = extra_us if extra_us is not None and call == CALLS - 1 else call_us
            event(f"aten::op{call}", "cpu_op", at, lasts, 1, **{"External id": number + 1})
            for launch in range(kernels):
                number += 1
                event("cudaLaunchKernel", "cuda_runtime", at + 5 + 10 * launch, 5, 1, correlation=number)
                event("small", "kernel", at + 20 + 10 * launch, 6, 7, correlation=number, device=0, stream=7, grid=[1, 1, 1])
            at += lasts + 5
        event(f"ProfilerStep#{step}", "user_annotation", begin, at - begin, 1)
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, "deviceProperties": [{"id": 0, "name": "GPU"}]}))
    return path


@pytest.fixture
def explained(tmp_path):
    """Return a function that explains two such traces, given what is told of each."""

    def explain(a, b):
        return ks.explain(written(tmp_path / "a.json", **a), written(tmp_path / "b.json", **b))

    return explain


def test_the_same_calls_at_another_pace_are_no_cause(explained):
    said = explained({"call_us": 100}, {"call_us": 140})
    assert said["wall_delta_ns"] == pytest.approx(CALLS * 40_000, rel=0.05)
    assert said["findings"] == []
    assert "takes 1.38 times as long for them in B" in said["abstained"]  # 145 us of 105, launches included


def test_one_operator_that_takes_longer_is_told(explained):
    said = explained({}, {"extra_us": 1500})
    assert [finding["cause"] for finding in said["findings"]] == ["host-bound"]
    assert f"aten::op{CALLS - 1}" in said["findings"][0]["title"]


def test_a_host_that_takes_twice_as_long_or_more_is_told(explained):
    said = explained({"call_us": 100}, {"call_us": 300})
    assert [finding["cause"] for finding in said["findings"]] == ["host-bound"]


def test_what_stands_before_the_first_operator_is_said_to(explained):
    said = explained({}, {"before_us": 2000})
    assert "before the step's first operator, where input is prepared" in said["findings"][0]["title"]
    assert said["findings"][0]["explains_ns"] == pytest.approx(2_000_000, rel=0.1)
