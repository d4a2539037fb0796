"""Device work tied to calls and ranges: hand-made timelines, and random ones against a search through every pair."""

import random

import pandas as pd
import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.attribution import launches
from kernelscope.analysis.trace import Trace, conform

KERNEL = {"duration_ns": 10, "count": 1, "device": "cuda:0", "thread": 7, "name": "k", "process": 1}
CALL = {"process": 1, "thread": 100, "api": "runtime", "name": "cudaLaunchKernel"}
RANGE = {"thread": 100, "category": "user"}


def _trace(kernels=(), calls=(), ranges=(), operators=(), graphs=()):
    return Trace(
        kernels=conform("kernels", [{**KERNEL, **row} for row in kernels]),
        calls=conform("calls", [{**CALL, **row} for row in calls]),
        ranges=conform("ranges", [{**RANGE, **row} for row in ranges]),
        operators=conform("operators", list(operators)),
        graphs=conform("graphs", list(graphs)),
    )


def _related(**tables):
    trace = _trace(**tables)
    launches.relate(trace)
    return trace


def test_a_kernel_belongs_to_the_range_open_when_it_was_launched_not_when_it_ran():
    trace = _related(
        kernels=[{"start_ns": 500, "end_ns": 510, "correlation": 1}],
        calls=[{"start_ns": 110, "end_ns": 120, "correlation": 1}],
        ranges=[
            {"name": "outer", "start_ns": 100, "end_ns": 200},
            {"name": "inner", "start_ns": 105, "end_ns": 150},
            {"name": "later", "start_ns": 490, "end_ns": 600},
        ],
    )
    row = trace.kernels.iloc[0]
    assert (row["launch_ns"], row["launch_end_ns"], row["launch_thread"]) == (110, 120, 100)
    assert trace.ranges["name"].iloc[row["range_id"]] == "inner"
    assert trace.diagnostics == {}


def test_processes_and_threads_are_never_mixed_up():
    trace = _related(
        kernels=[{"start_ns": 50, "end_ns": 60, "correlation": 9, "process": process} for process in (1, 2)],
        calls=[
            {"start_ns": 10, "end_ns": 20, "correlation": 9, "process": 2, "thread": 200},
            {"start_ns": 11, "end_ns": 21, "correlation": 9, "process": 1, "thread": 100},
        ],
        ranges=[
            {"name": "of one", "start_ns": 0, "end_ns": 40, "thread": 100},
            {"name": "of two", "start_ns": 0, "end_ns": 40, "thread": 200},
        ],
    )
    names = trace.ranges["name"].iloc[trace.kernels["range_id"]].tolist()
    assert names == ["of one", "of two"]
    assert trace.kernels["launch_ns"].tolist() == [11, 10]


def test_of_calls_with_one_correlation_id_the_first_and_outermost_counts():
    trace = _related(
        kernels=[{"start_ns": 50, "end_ns": 60, "correlation": 5}],
        calls=[
            {"start_ns": 12, "end_ns": 15, "correlation": 5, "name": "cuLaunchKernel", "api": "driver"},
            {"start_ns": 10, "end_ns": 11, "correlation": 5, "name": "cudaStreamIsCapturing"},
            {"start_ns": 10, "end_ns": 20, "correlation": 5},
        ],
    )
    assert trace.kernels["launch_end_ns"].tolist() == [20]
    assert trace.diagnostics["API calls that repeat a correlation id"] == 2


def test_what_does_not_fit_is_counted_and_stays():
    trace = _related(
        kernels=[
            {"start_ns": 50, "end_ns": 60, "correlation": 1},  # no call
            {"start_ns": 5, "end_ns": 6, "correlation": 2},  # begins before its launch
            {"start_ns": 70, "end_ns": 80, "correlation": 3},
            {"start_ns": 81, "end_ns": 90, "correlation": 3},  # second kernel of a call that launches one
            {"start_ns": 91, "end_ns": 99},  # no correlation id
        ],
        calls=[
            {"start_ns": 10, "end_ns": 20, "correlation": 2},
            {"start_ns": 30, "end_ns": 40, "correlation": 3},
            {"start_ns": 41, "end_ns": 45, "correlation": 4},  # launched, but its kernel is not in the capture
            {"start_ns": 46, "end_ns": 47, "correlation": 6, "name": "cudaEventRecord"},
        ],
    )
    assert trace.diagnostics == {
        "kernels without their API call": 2,
        "kernels that begin before their launch": 1,
        "calls with several kernels, graphs aside": 1,
        "launches without a kernel": 1,
    }
    assert len(trace.kernels) == 5
    assert trace.kernels["launch_ns"].isna().tolist() == [True, False, False, False, True]


def test_a_graph_launch_fans_out_to_its_kernels_and_is_opaque_where_they_are_missing():
    call = {"start_ns": 10, "end_ns": 20, "correlation": 8, "name": "cudaGraphLaunch"}
    fan_out = _related(
        kernels=[{"start_ns": 30 + i, "end_ns": 31 + i, "correlation": 8, "graph": 4} for i in range(3)], calls=[call]
    )
    assert fan_out.kernels["launch_ns"].tolist() == [10, 10, 10]
    assert fan_out.diagnostics == {}
    opaque = _related(
        calls=[call],
        graphs=[{"start_ns": 30, "end_ns": 80, "device": "cuda:0", "process": 1, "correlation": 8, "graph": 4}],
    )
    assert opaque.diagnostics == {}
    table = breakdown(opaque, "idle").table.set_index("cause")["time_ns"]
    assert table.to_dict() == {"device: graph whose kernels were not recorded": 50, "launching": 10, "unknown": 10}


def test_start_end_ranges_and_marks_enclose_nothing():
    trace = _related(
        kernels=[{"start_ns": 50, "end_ns": 60, "correlation": 1}],
        calls=[{"start_ns": 20, "end_ns": 25, "correlation": 1}],
        ranges=[
            {"name": "pushed", "start_ns": 10, "end_ns": 40},
            {"name": "started", "start_ns": 15, "end_ns": 100, "nested": False},
            {"name": "mark", "start_ns": 19, "end_ns": 19, "category": "mark"},
        ],
    )
    assert trace.ranges["name"].iloc[trace.kernels["range_id"].iloc[0]] == "pushed"


def test_ranges_of_pytorch_name_operators_and_usual_names_name_phases():
    trace = _related(
        kernels=[{"start_ns": 50 + i, "end_ns": 51 + i, "correlation": i} for i in range(4)],
        calls=[{"start_ns": 10 + 2 * i, "end_ns": 11 + 2 * i, "correlation": i} for i in range(4)],
        ranges=[
            {"name": "forward", "start_ns": 5, "end_ns": 13},
            {"name": "aten::mm, seq = 3, op_id = 12", "start_ns": 9, "end_ns": 11},
            {"name": "{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': []}", "start_ns": 12, "end_ns": 13},
            {"name": "my own: stage 2", "start_ns": 14, "end_ns": 15},
            {"name": "AddmmBackward0, seq = 3", "start_ns": 16, "end_ns": 17},
        ],
    )
    assert [None if pd.isna(name) else name for name in trace.kernels["operator"]] == [
        "aten::mm",
        "conv2d",
        None,
        "AddmmBackward0",
    ]
    assert [None if pd.isna(name) else name for name in trace.kernels["phase"]] == ["forward", "forward", None, None]


def test_the_operator_open_at_launch_gives_layer_and_phase():
    operators = [
        {"thread": 100, "start_ns": 0, "end_ns": 90, "name": "aten::conv2d", "layer": "conv1", "phase": "forward"},
        {"thread": 100, "start_ns": 20, "end_ns": 60, "name": "aten::cudnn_convolution", "layer": "conv1", "phase": "forward"},
        {"thread": 101, "start_ns": 20, "end_ns": 60, "name": "aten::other", "layer": "fc", "phase": "backward"},
    ]
    trace = _related(
        kernels=[{"start_ns": 200, "end_ns": 210, "correlation": 1}],
        calls=[{"start_ns": 30, "end_ns": 40, "correlation": 1}],
        operators=operators,
    )
    assert trace.kernels[["operator", "layer", "phase"]].iloc[0].tolist() == ["aten::cudnn_convolution", "conv1", "forward"]


@pytest.mark.parametrize("seed", range(25))
def test_random_captures_against_a_search_through_every_pair(seed):
    rng = random.Random(seed)
    calls, ranges = [], []
    for thread in (100, 101, 102):
        clock = rng.randint(0, 50)
        for _ in range(rng.randint(0, 12)):
            start, length = clock, rng.randint(1, 9)
            calls.append(
                {
                    "start_ns": start,
                    "end_ns": start + length,
                    "thread": thread,
                    "process": thread % 2,
                    "correlation": rng.randint(0, 15),
                }
            )
            clock += length + rng.randint(0, 4)
        stack = [(0, 120)]
        while stack:
            low, high = stack.pop()
            if high - low > 3 and rng.random() < 0.8:
                ranges.append({"start_ns": low, "end_ns": high, "thread": thread, "name": f"r{len(ranges)}"})
                middle = rng.randint(low + 1, high - 1)
                stack += [(low + 1, middle), (middle + rng.randint(0, 1), high)]
    rng.shuffle(ranges)
    kernels = [
        {"start_ns": 300 + i, "end_ns": 301 + i, "correlation": rng.randint(0, 18), "process": rng.randint(0, 1)}
        for i in range(20)
    ]
    trace = _related(kernels=kernels, calls=calls, ranges=ranges)
    for given, (_, row) in zip(kernels, trace.kernels.iterrows(), strict=True):
        same = [c for c in calls if c["process"] == given["process"] and c["correlation"] == given["correlation"]]
        expected = min(same, key=lambda c: (c["start_ns"], -c["end_ns"])) if same else None
        assert pd.isna(row["launch_ns"]) == (expected is None)
        if expected is None:
            continue
        assert (row["launch_ns"], row["launch_end_ns"]) == (expected["start_ns"], expected["end_ns"])
        ties = [c for c in same if (c["start_ns"], c["end_ns"]) == (expected["start_ns"], expected["end_ns"])]
        open_now = [
            r for r in ranges if r["thread"] == row["launch_thread"] and r["start_ns"] <= expected["start_ns"] < r["end_ns"]
        ]
        innermost = max(open_now, key=lambda r: (r["start_ns"], -r["end_ns"])) if open_now else None
        assert row["launch_thread"] in [c["thread"] for c in ties]
        found = None if pd.isna(row["range_id"]) else trace.ranges["name"].iloc[row["range_id"]]
        assert found == (innermost["name"] if innermost else None)
