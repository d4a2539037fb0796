"""Steps that wait for their batch."""

import pandas as pd
import pytest

from kernelscope.analysis.explain import causes
from kernelscope.analysis.explain.causes import elementwise, input_pipeline, work
from kernelscope.analysis.trace import Trace, conform

ROWS = [
    ("(data)", "data", "(host: data)", 100, 600),
    ("(data)", "data", "resize", 0, 2900),
    ("(data)", "data", "(device: copy host to device)", 100, 900),
    ("conv1", "forward", "convolution forward", 10000, 10100, False),
]
CELLS = [{"row": "r2", "side": "b", "operator": "ResizeBicubic", "time_ns": 2900}, {"row": "r1", "side": "b", "time_ns": 600}]


def test_time_for_the_batch_is_claimed_but_copies_to_the_device_are_not(make_case, make_side, suspected, swapped):
    made = make_case(ROWS, make_side("plain"), make_side("slow"), cells=CELLS)
    (found,) = suspected(input_pipeline, made)
    assert found.claims == {"r1": 500, "r2": 2900}
    assert found.title == "slow waits longer for its batches"
    assert "100 ns in plain, 3.50 µs in slow" in found.evidence[0]
    assert "ResizeBicubic (2.90 µs)" in found.evidence[1]
    assert "DataLoader(num_workers" in found.remedy
    (mirrored,) = suspected(input_pipeline, swapped(made))
    assert mirrored.claims == {"r1": -500, "r2": -2900}
    assert mirrored.title == found.title


def test_nothing_is_said_of_insignificant_or_small_differences(make_case, make_side, suspected):
    a, b = make_side("a"), make_side("b")
    same = [(*row[:4], row[3]) for row in ROWS]
    unsure = [(*row[:5], False) for row in ROWS]
    small = [("(data)", "data", "(host: data)", 100, 200), ROWS[3]]
    for rows in (same, unsure, small):
        assert suspected(input_pipeline, make_case(rows, a, b)) == []


def test_what_takes_the_steps_cores_counts_beside_a_wait_that_is_small(monkeypatch, make_kernel, make_kernels_case, suspected):
    monkeypatch.setattr(input_pipeline, "_crowding_ns", lambda case: 5000.0)
    gemm = {"problem": "m8 n8 k8", "operator": "mm"}
    groups = [
        ("fc1", "forward", [make_kernel("gemm", "gemm", 10_000, **gemm)], [make_kernel("gemm", "gemm", 16_000, **gemm)]),
        ("(data)", "data", [make_kernel("copy", "copy", 10)], [make_kernel("copy", "copy", 200)]),
    ]
    (found,) = suspected(input_pipeline, make_kernels_case(groups))
    assert found.title == "B prepares its batches on cores that the step needs"
    assert sum(found.claims.values()) == pytest.approx(5190), "what the step lost, and the wait"
    assert found.claims["r1"] > 4800


def test_cores_that_the_step_had_all_the_same_are_not_what_it_waits_for(monkeypatch, make_kernel, make_kernels_case, suspected):
    monkeypatch.setattr(input_pipeline, "_crowding_ns", lambda case: 5000.0)
    gemm = {"problem": "m8 n8 k8", "operator": "mm"}
    groups = [
        ("fc1", "forward", [make_kernel("gemm", "gemm", 10_000, **gemm)], [make_kernel("gemm", "gemm", 9_000, **gemm)]),
        ("(data)", "data", [make_kernel("copy", "copy", 10)], [make_kernel("copy", "copy", 3_000)]),
    ]
    (found,) = suspected(input_pipeline, make_kernels_case(groups))
    assert found.title == "B waits longer for its batches"
    assert sum(found.claims.values()) == 1990, "the kernel that lost by sharing instants is taken off"


def test_what_ran_beside_the_preparation_is_taken_off(make_case, make_side, suspected):
    rows = [*ROWS[:2], ("conv1", "forward", "convolution forward", 10000, 9000, False), ("fc1", "forward", "gemm", 10, 20)]
    cells = [{"row": "r2", "side": "b", "kind": "elementwise", "time_ns": 2900}]
    (found,) = suspected(input_pipeline, make_case(rows, make_side("a"), make_side("b"), cells=cells))
    assert found.claims == {"r1": 500, "r2": 2900, "r3": -990}, "all others together"


def test_what_a_batch_is_computed_with_is_for_no_other_rule(make_kernel, make_kernels_case, suspected):
    """A chain of small kernels, or operators that the other side lacks, in a data set's transformation."""
    chain = [make_kernel(f"aten::{name}", "elementwise", 2000, count=32.0, operator=f"aten::{name}") for name in ("mul", "add")]
    stacked = [make_kernel("aten::cat", "copy", 300, operator="aten::cat")]
    forward = ("conv1", "forward", [make_kernel("conv", "convolution forward", 5000)] * 2, [], 0, 0)
    forward = (*forward[:3], forward[2], 0, 0)
    made = make_kernels_case([("(data)", "data", stacked, [*stacked, *chain], 100, 900), forward])
    (found,) = suspected(input_pipeline, made)
    assert sum(found.claims.values()) == 4800
    assert suspected(elementwise, made) == suspected(work, made) == []
    others = [one for rule in causes.rules() for one in rule(made) if one.claims.keys() & found.claims.keys()]
    assert [one.cause for one in others] == [found.cause]
    model = make_kernels_case([("relu1", "forward", stacked, [*stacked, *chain], 100, 900)])
    assert [one.cause for one in suspected(elementwise, model)] == ["unfused elementwise chain"]  # in the model it is one


@pytest.mark.parametrize("workers", [True, False, None])
def test_workers_and_python_functions_are_in_the_evidence(workers, make_case, make_side, make_steps, suspected):
    operators = [{"thread": 9, "start_ns": start, "end_ns": start + 400, "name": name, "phase": "data", "attribution": "none"}
                 for start in (100, 600, 1100, 1600) for name in ("EagerPyFunc", "Mul")]  # fmt: skip
    trace = Trace(steps=make_steps(2, 1000), operators=conform("operators", pd.DataFrame(operators)))
    sides = make_side("a", "tensorflow"), make_side("b", "tensorflow", trace=trace, batches_by_workers=workers)
    (found,) = suspected(input_pipeline, make_case(ROWS, *sides, cells=CELLS))
    assert "b's pipeline calls Python 2 times a step (tf.py_function, tf.numpy_function), 800 ns" in found.evidence[2]
    assert [one for one in found.evidence if one.startswith("Workers make the batches of b")] == found.evidence[3:]
    assert len(found.evidence) == 3 + bool(workers)
