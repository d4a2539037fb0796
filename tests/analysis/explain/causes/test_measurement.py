"""Warm-up inside of the window, throttled clocks, other load."""

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.causes import measurement
from kernelscope.analysis.trace import Trace, conform

ROWS = [
    ("fc1", "forward", "gemm", 1000, 1500),
    ("fc1", "forward", "(host: in operators)", 100, 50),
    ("fc1", "backward", "gemm", 0, 200),
]


def _falling(make_steps, times):
    table = make_steps(len(times), 1)
    ends = np.cumsum(times)
    table["start_ns"], table["end_ns"] = ends - np.asarray(times), ends
    return table


def test_steps_that_still_fall_are_warm_up(make_case, make_side, make_steps, suspected, swapped):
    # medians of thirds 2000, 1200, 1000; the median step is 1200: 200 above the end
    falling = _falling(make_steps, [2000, 2000, 2000, 1200, 1200, 1200, 1000, 1000, 1000])
    a = make_side("steady", clean=[make_steps(9, 1000)])
    b = make_side("cold", clean=[falling, falling])
    made = make_case(ROWS, a, b)
    (found,) = suspected(measurement, made)
    assert found.cause == "warm-up in the measured steps"
    assert sum(found.claims.values()) == 200
    assert set(found.claims) == {"r1", "r3"}
    assert round(found.claims["r1"]) == 143, "rows give in proportion to their differences, 500 and 200"
    (mirrored,) = suspected(measurement, swapped(made))
    assert round(sum(mirrored.claims.values())) == -200
    assert mirrored.title == found.title


def test_a_capture_without_clean_pass_by_its_mean(make_case, make_side, make_steps, suspected):
    falling = _falling(make_steps, [3000, 1300, 1000, 1000, 1000, 1000])
    b = make_side("cold", trace=Trace(steps=falling, diagnostics={"steps with other kernels than most": 1}))
    (found,) = suspected(measurement, make_case(ROWS, make_side("steady", trace=Trace(steps=make_steps(6, 1000))), b))
    assert round(sum(found.claims.values())) == 383, "the mean is 8300/6 ns and the end 1000"
    assert "1 of its recorded steps ran other kernels" in found.evidence[1]


def test_drift_of_one_restart_or_of_both_sides_is_no_warm_up(make_case, make_side, make_steps, suspected):
    falling = _falling(make_steps, [2000, 2000, 2000, 1200, 1200, 1200, 1000, 1000, 1000])
    a = make_side("a", clean=[make_steps(9, 1000), make_steps(9, 1000)])
    assert suspected(measurement, make_case(ROWS, a, make_side("b", clean=[falling, make_steps(9, 1000)]))) == []
    assert suspected(measurement, make_case(ROWS, make_side("a", clean=[falling]), make_side("b", clean=[falling]))) == []
    assert suspected(measurement, make_case(ROWS, make_side("a"), make_side("b"))) == []


def _sampled(make_steps, metric, value, core=None, **columns):
    rows = [{"time_ns": n * 100, "metric": metric, "value": value, "core": core} for n in range(20)]
    return Trace(steps=make_steps(5, 1000, **columns), samples=conform("samples", pd.DataFrame(rows)))


def test_lower_clocks_lengthen_kernels_in_proportion(make_case, make_side, make_steps, suspected, swapped):
    a = make_side("cool", trace=_sampled(make_steps, "gpu_sm_clock_hz", 2e9))
    b = make_side("hot", trace=_sampled(make_steps, "gpu_sm_clock_hz", 1.5e9))
    made = make_case(ROWS, a, b)
    (found,) = suspected(measurement, made)
    assert found.cause == "throttled clocks"
    assert round(sum(found.claims.values())) == 425, "a quarter of 1700 ns of kernels"
    assert "2,000 MHz for cool, 1,500 MHz for hot" in found.evidence[0]
    (mirrored,) = suspected(measurement, swapped(made))
    assert round(sum(mirrored.claims.values())) == -425
    like = make_side("like", trace=_sampled(make_steps, "gpu_sm_clock_hz", 1.98e9))
    assert suspected(measurement, make_case(ROWS, a, like)) == []


def test_other_processes_matter_unless_the_sides_took_turns(make_case, make_side, make_steps, suspected):
    machine = {"allowed_threads": 2, "processor": "X"}
    a = make_side("a", trace=_sampled(make_steps, "core_busy", 0.5, 0, user_ns=500, system_ns=0), machine=machine)
    b = make_side("b", trace=_sampled(make_steps, "core_busy", 0.9, 0, user_ns=500, system_ns=0), machine=machine)
    (found,) = suspected(measurement, make_case(ROWS, a, b))
    assert (found.cause, found.precedence, found.confidence) == ("load of the machine", 2, "low")
    assert round(sum(found.claims.values())) == 350, "0.4 of 2 cores during 1750 ns"
    a.clean, b.clean = [make_steps(10, 1000)], [make_steps(10, 1000, start_ns=500)]
    assert suspected(measurement, make_case(ROWS, a, b)) == []
