"""Cores that idle: steps, kernels and processor time of which every number is known."""

import pandas as pd
import pytest

from kernelscope.analysis.explain.idle import cores
from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.trace import Trace, conform


def _side(kernels, device="cpu", **columns):
    steps = [{"step": n, "window": 0, "warmup": n == 0, "thread": 1, "start_ns": n * 1000, "end_ns": n * 1000 + 900, **columns}
             for n in range(3)]  # fmt: skip
    rows = [{"start_ns": start, "end_ns": end, "duration_ns": end - start, "count": 1, "device": device, "thread": thread,
             "name": "k"} for thread, start, end in kernels]  # fmt: skip
    trace = Trace(steps=conform("steps", pd.DataFrame(steps)), kernels=conform("kernels", pd.DataFrame(rows)))
    return Side("a", "a", trace, pd.DataFrame(), pd.DataFrame(), [], None, [], pd.Series(dtype=float), {})


# the measured steps are 1000 to 1900 and 2000 to 2900; the first kernels ran in a warm-up step, one reaches out of its step
KERNELS = [(1, 0, 900), (1, 1100, 1500), (2, 1300, 1700), (1, 2400, 2950)]


def test_time_by_threads_inside_kernels():
    found = cores(_side(KERNELS, user_ns=1000, system_ns=80), 2)
    assert (found.step_ns, found.serial_ns, found.single_ns, found.several_ns) == (900, 350, 450, 100)
    assert found.busy == pytest.approx(1.2)
    assert (found.idle_ns, found.outside_ns, found.inside_ns) == (720, 350, 370), "0.8 of 2 cores for 900 ns"


def test_what_is_not_known_is_none():
    assert cores(_side(KERNELS), 2).busy is None
    assert cores(_side(KERNELS, user_ns=1000, system_ns=80), None).idle_ns is None
    assert cores(_side(KERNELS, device="cuda:0"), 2) is None
    assert cores(_side([]), 2) is None


def test_one_thread_has_nothing_to_idle():
    found = cores(_side(KERNELS, user_ns=900, system_ns=0), 1)
    assert (found.idle_ns, found.outside_ns, found.inside_ns) == (0, 0, 0)
