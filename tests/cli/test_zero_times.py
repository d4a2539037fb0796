"""Captures in which something, or all, takes no time: tools round to whole microseconds, and files are edited. No traceback."""

import json

import pytest

from kernelscope.cli.main import main

ROCPROF = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n"gemm",3,0,0,0,0,0,0\n'
LINES = """\
Timer unit: 0 s

Total time: 0 s
File: train.py
Function: step at line 1

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
     1                                           def step():
     2        10          0.0      0.0      0.0      work()
"""


def kineto(kernel_us, copy_us):
    """Return a trace of a kernel and a copy of so long."""
    device = {"ph": "X", "pid": 0, "tid": 7}
    about = {"device": 0, "stream": 7}
    copy = {**device, "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "ts": 30, "dur": copy_us}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 60},
        {**device, "cat": "kernel", "name": "gemm", "ts": 10, "dur": kernel_us, "args": {**about, "correlation": 1}},
        {**copy, "args": {**about, "correlation": 2, "bytes": 4096}},
    ]
    return json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events})


@pytest.mark.parametrize(
    "content", [ROCPROF, LINES, kineto(0, 0), kineto(5, 0)], ids=["rocprof", "line_profiler", "all of Kineto", "copies of Kineto"]
)
def test_nothing_is_divided_by_no_time(content, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "capture.txt"
    path.write_text(content)
    done = [
        main(line)
        for line in (
            ["breakdown", "capture.txt"], ["advise", "capture.txt"], ["report", "capture.txt", "-o", "page.html"],
            ["import", "capture.txt", "-o", "imported"],
        )
    ]  # fmt: skip
    assert set(done) <= {0, 3}
    if content == ROCPROF:
        assert "All times in the recording are zero" in capsys.readouterr().out
    if content == LINES:
        assert "all their times are zero" in capsys.readouterr().err
