"""Functions of the host's program, where captures hold them, say what the device waits for."""

import pandas as pd

from kernelscope.analysis.trace import conform
from tests.analysis.explain.device.synthetic import LOOP, Host, Kernel, Wait, explained, recording


def preparing(us, function="preprocess", file="app/video.py"):
    """A loop that prepares each step's data for so long in a function, while the device has nothing to do."""
    trace = recording([Host(us), Kernel("k", 4000), Wait()])
    steps = trace.steps
    lines = {"thread": LOOP, "start_ns": steps["start_ns"], "end_ns": steps["start_ns"] + us * 1000, "file": file}
    trace.host_lines = conform("host_lines", pd.DataFrame({**lines, "function": function, "line": 12}))
    return trace


def said(result):
    return [sentence for finding in result["findings"] for sentence in finding["evidence"]]


def test_the_function_that_takes_longer_is_named_with_its_times():
    result = explained(preparing(2000), preparing(9000))
    assert result["findings"][0]["cause"] == "host-bound"
    assert "Meanwhile the host is in video.py preprocess (2.00 ms in A, 9.00 ms in B)." in said(result)
    assert "make these functions quicker" in result["findings"][0]["remedy"]


def test_where_one_side_has_none_nothing_is_said():
    a, b = preparing(2000), preparing(9000)
    a.host_lines = conform("host_lines", pd.DataFrame())
    assert not any("Meanwhile" in sentence for sentence in said(explained(a, b)))
