"""Times that cannot be true are taken off the timeline and counted."""

import pandas as pd

from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.clocks import set_aside_impossible


def trace_of(edges):
    start, end = zip(*edges, strict=True)
    table = pd.DataFrame({"start_ns": start, "end_ns": end, "name": "gemm", "count": 1})
    table["duration_ns"] = [last - first for first, last in edges]
    return Trace(kernels=conform("kernels", table))


USUAL = [(10**12 + 100 * place, 10**12 + 100 * place + 50) for place in range(40)]


def test_what_ends_long_after_all_others_began_has_no_duration_to_count():
    trace = trace_of([*USUAL, (10**12 + 4000, 2**63 - 1)])
    set_aside_impossible(trace)
    assert len(trace.kernels) == 40
    assert trace.diagnostics == {"kernels far outside of the capture's time (a clock jumped)": 1}


def test_what_is_far_away_as_a_whole_keeps_its_duration():
    trace = trace_of([*USUAL, (10**18, 10**18 + 50)])
    set_aside_impossible(trace)
    assert trace.kernels["duration_ns"].tolist() == [50] * 41
    assert trace.kernels["start_ns"].isna().tolist() == [False] * 40 + [True]


def test_usual_times_stay():
    trace = trace_of(USUAL)
    set_aside_impossible(trace)
    assert trace.kernels["start_ns"].tolist() == [start for start, _ in USUAL]
    assert trace.diagnostics == {}
