"""Steps that wait for their batch."""

from kernelscope.analysis.explain.causes import input_pipeline

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
    assert "0.0001 ms in plain, 0.0035 ms in slow" in found.evidence[0]
    assert "ResizeBicubic (0.0029 ms)" in found.evidence[1]
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


def test_what_ran_beside_the_preparation_is_taken_off(make_case, make_side, suspected):
    rows = [*ROWS[:2], ("conv1", "forward", "convolution forward", 10000, 9000, False), ("fc1", "forward", "gemm", 10, 20)]
    cells = [{"row": "r2", "side": "b", "kind": "elementwise", "time_ns": 2900}]
    (found,) = suspected(input_pipeline, make_case(rows, make_side("a"), make_side("b"), cells=cells))
    assert found.claims == {"r1": 500, "r2": 2900, "r3": -1000}
