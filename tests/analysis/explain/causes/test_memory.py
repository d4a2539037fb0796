"""Page faults and allocator traffic."""

import pandas as pd
import pytest

from kernelscope.analysis.explain.causes import memory
from kernelscope.analysis.trace import Trace, conform

ROWS = [
    ("conv1", "forward", "convolution forward", 10000, 16000),
    ("fc1", "forward", "gemm", 5000, 8000),
    ("fc1", "forward", "cast", 10, 5),
]


def test_faults_cost_their_system_time_shared_by_busy_threads(make_case, make_side, make_steps, suspected, swapped):
    a = make_side("kept", clean=[make_steps(10, 15000, minor_faults=10, user_ns=20000, system_ns=0)])
    b = make_side("given back", clean=[make_steps(10, 24000, minor_faults=5010, user_ns=24000, system_ns=12000)])
    made = make_case(ROWS, a, b)
    (found,) = suspected(memory, made)
    assert (found.cause, found.precedence) == ("page faults", 2)
    assert {row: round(ns) for row, ns in found.claims.items()} == {"r1": 5333, "r2": 2667}, "12000 ns by 1.5 busy cores"
    assert "10 for kept, 5,010 for given back" in found.evidence[0]
    (mirrored,) = suspected(memory, swapped(made))
    assert round(sum(mirrored.claims.values())) == -8000
    assert mirrored.title == found.title


@pytest.mark.parametrize(
    "columns",
    [{"minor_faults": 10, "system_ns": 0}, {"minor_faults": 60, "system_ns": 8000}, {"minor_faults": 5000, "system_ns": 200}, {}],
)
def test_few_cheap_or_unknown_faults_are_no_cause(make_case, make_side, make_steps, suspected, columns):
    a = make_side("a", clean=[make_steps(10, 15000, minor_faults=10, user_ns=20000, system_ns=0)])
    b = make_side("b", clean=[make_steps(10, 15000, user_ns=20000, **columns)])
    assert suspected(memory, make_case(ROWS, a, b)) == []


def test_recorded_settings_of_the_heap_own_everything(make_case, make_side, suspected):
    a, b = make_side("a", variables={}), make_side("b", variables={"MALLOC_TRIM_THRESHOLD_": "0"})
    (found,) = suspected(memory, make_case(ROWS, a, b, instrumentation_ns=9))
    assert found.precedence == 0
    assert found.claims == {"r1": 6000, "r2": 3000, "r3": -5, "(profiling overhead)": 9}
    b.facts["settings"], a.facts["settings"] = {"x": 1}, {"x": 2}
    assert suspected(memory, make_case(ROWS, a, b)) == [], "something else differs too"


def test_calls_of_the_device_allocator(make_case, make_side, make_steps, suspected, swapped):
    names = ["cudaMalloc", "cudaFree", "cudaLaunchKernel", "cudaLaunchKernel"]
    calls = [
        {"start_ns": n, "end_ns": n + 1, "process": 1, "thread": 1, "api": "runtime", "name": name}
        for n, name in enumerate(names * 5)
    ]
    traces = [Trace(steps=make_steps(5, 1000), calls=conform("calls", pd.DataFrame(rows))) for rows in (calls[2:4], calls)]
    rows = [("fc1", "forward", "(host: allocating)", 0, 800), ("fc1", "forward", "gemm", 1000, 1000)]
    made = make_case(rows, make_side("a", trace=traces[0]), make_side("b", trace=traces[1]))
    (found,) = suspected(memory, made)
    assert (found.cause, found.claims) == ("allocator traffic", {"r1": 800})
    assert "0 for a, 2 for b" in found.evidence[0]
    assert suspected(memory, swapped(made))[0].claims == {"r1": -800}
    assert suspected(memory, make_case([(*rows[0][:5], False), rows[1]], made.a, made.b)) == []
