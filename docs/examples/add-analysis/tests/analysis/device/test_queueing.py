"""Waits of launched kernels, against a loop over them."""

import statistics

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.device.queueing import queueing
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, conform


@pytest.fixture
def kernels():
    random = np.random.default_rng(0)
    launch_end = np.sort(random.integers(0, 50_000, 200))
    start = launch_end + random.integers(-300, 2_000, 200)
    rows = pd.DataFrame({"start_ns": start, "end_ns": start + 100, "duration_ns": 100, "count": 1, "name": "k"})
    rows["launch_end_ns"] = pd.array([None if number % 10 == 0 else int(ns) for number, ns in enumerate(launch_end)], "Int64")
    rows["device"] = ["cuda:0", "cuda:1"] * 100
    return rows


def test_waits_are_those_of_a_loop(kernels):
    table = queueing(Trace(kernels=conform("kernels", kernels))).set_index("device")
    for device in ("cuda:0", "cuda:1"):
        mine = [row for row in kernels.itertuples() if row.device == device]
        waits = [max(row.start_ns - row.launch_end_ns, 0) for row in mine if not pd.isna(row.launch_end_ns)]
        assert table.loc[device].tolist() == [
            len(mine), len(mine) - len(waits), sum(waits), statistics.median(waits), waits.count(0),
        ]  # fmt: skip


def test_without_launches_the_reason_is_given(kernels):
    trace = Trace(kernels=conform("kernels", kernels.drop(columns="launch_end_ns")))
    with pytest.raises(EvidenceError, match="no kernel has a launch"):
        queueing(trace)
    with pytest.raises(EvidenceError, match="no kernel has a launch"):
        queueing(Trace())
