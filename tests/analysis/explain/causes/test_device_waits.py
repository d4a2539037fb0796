"""What a device's host does: copies, waits and launches."""

import pandas as pd
import pytest

from kernelscope.analysis.explain.causes import launches, synchronisation, transfers
from kernelscope.analysis.trace import Trace, conform

ROWS = [
    ("(unattributed)", "other", "(device: copy host to device)", 100, 900),
    ("(unattributed)", "other", "(host: copying)", 50, 350),
    ("(unattributed)", "other", "(host: synchronisation)", 100, 1100),
    ("(unattributed)", "other", "(host: launching)", 200, 1200),
    ("fc1", "forward", "gemm", 5000, 5000),
]


def _trace(make_steps, names, copies=()):
    calls = [
        {"start_ns": n, "end_ns": n + 1, "process": 1, "thread": 1, "api": "runtime", "name": name}
        for n, name in enumerate(names)
    ]
    kernels = [{"start_ns": n, "end_ns": n + 8, "duration_ns": 8, "count": 1, "device": "cuda:0", "name": "k"} for n in range(4)]
    tables = {"calls": calls, "kernels": kernels, "copies": list(copies)}
    return Trace(steps=make_steps(2, 10000), **{name: conform(name, pd.DataFrame(rows)) for name, rows in tables.items()})


def _copy(size, memory):
    return {
        "start_ns": 5,
        "end_ns": 6,
        "duration_ns": 1,
        "count": 1,
        "operation": "host to device",
        "bytes": size,
        "memory": memory,
    }


def test_copies_between_host_and_device(make_case, make_side, make_steps, suspected, swapped):
    a = make_side("pinned", trace=_trace(make_steps, [], [_copy(4_000_000, "pinned to device")]))
    b = make_side("pageable", trace=_trace(make_steps, [], [_copy(6_000_000, "Pageable to device"), _copy(2_000_000, None)]))
    made = make_case(ROWS, a, b)
    (found,) = suspected(transfers, made)
    assert found.claims == {"r1": 800, "r2": 300}
    assert "0.5 for pinned, 1 for pageable; they move 2.00 MB for pinned, 4.00 MB for pageable" in found.evidence[0]
    assert found.evidence[2].startswith("In pageable, 3.00 MB a step come from or go to pageable memory")
    (mirrored,) = suspected(transfers, swapped(made))
    assert mirrored.claims == {"r1": -800, "r2": -300}
    assert mirrored.title == found.title
    assert suspected(transfers, make_case(ROWS[2:], a, b)) == []


LAUNCHES = ["cudaLaunchKernel"] * 10


def test_waits_own_the_gaps_behind_them_where_as_much_is_launched(make_case, make_side, make_steps, suspected, swapped):
    a = make_side("a", trace=_trace(make_steps, [*LAUNCHES, "cudaDeviceSynchronize"]))
    b = make_side("b", trace=_trace(make_steps, [*LAUNCHES, *["cudaStreamSynchronize"] * 9]))
    made = make_case(ROWS, a, b)
    (found,) = suspected(synchronisation, made)
    assert found.claims == {"r3": 1000, "r4": 1000}
    assert "Waits per step: 0.5 for a, 4.5 for b." in found.evidence
    (mirrored,) = suspected(synchronisation, swapped(made))
    assert mirrored.claims == {"r3": -1000, "r4": -1000}
    assert mirrored.title == found.title
    more = make_side("b", trace=_trace(make_steps, [*LAUNCHES * 2, *["cudaStreamSynchronize"] * 9]))
    assert suspected(synchronisation, make_case(ROWS, a, more))[0].claims == {"r3": 1000}, "it launches more as well"


def test_more_launches_own_the_gaps_in_which_the_host_launches(make_case, make_side, make_steps, suspected, swapped):
    a = make_side("a", trace=_trace(make_steps, LAUNCHES))
    b = make_side("b", trace=_trace(make_steps, LAUNCHES * 3))
    made = make_case(ROWS, a, b)
    (found,) = suspected(launches, made)
    assert found.claims == {"r4": 1000}
    assert found.precedence == 2
    assert "Launches per step: 5 for a, 15 for b." in found.evidence
    (mirrored,) = suspected(launches, swapped(made))
    assert mirrored.claims == {"r4": -1000}
    assert mirrored.title == found.title


@pytest.mark.parametrize("family", [launches, synchronisation])
def test_nothing_is_said_of_as_many_waits_and_launches_or_of_unknown_ones(make_case, make_side, make_steps, suspected, family):
    a = make_side("a", trace=_trace(make_steps, [*LAUNCHES, "cudaDeviceSynchronize"]))
    assert suspected(family, make_case(ROWS, a, a)) == []
    assert suspected(family, make_case(ROWS, a, make_side("b"))) == []


def test_a_graph_launch_counts_as_one(make_case, make_side, make_steps, suspected):
    a = make_side("graph", "pytorch", trace=_trace(make_steps, ["cudaGraphLaunch"] * 2))
    b = make_side("plain", "pytorch", trace=_trace(make_steps, LAUNCHES))
    (found,) = suspected(launches, make_case(ROWS, a, b))
    assert "Launches per step: 1 for graph, 5 for plain." in found.evidence
