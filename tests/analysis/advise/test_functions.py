"""Advice names the program's functions, where a trace of torch.profiler tells them."""

import json

import pytest

from kernelscope.analysis.advise import advise


def event(name, category, start, duration, tid=1, pid=1, **arguments):
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": arguments}


def step(number, start, waits):
    """1000 us, of which a kernel takes 100, from 20 on; the host launches it, reports from 40 to 240, writes from 260 to 960."""
    wait = event("cudaStreamSynchronize", "cuda_runtime", start + 50, 120, correlation=100 + number)
    return [
        event(f"ProfilerStep#{number}", "user_annotation", start, 1000),
        event("train.py(9): main", "python_function", start, 1000),
        event("train.py(31): report", "python_function", start + 40, 200),
        event("metrics.py(4): write", "python_function", start + 260, 700),
        event("cudaLaunchKernel", "cuda_runtime", start + 10, 5, correlation=number),
        event("gemm", "kernel", start + 20, 100, tid=7, pid=0, correlation=number, device=0, stream=7),
        *([wait] if waits else []),
    ]


@pytest.mark.parametrize(
    ("waits", "topic", "sentence"),
    [
        (True, "synchronisation", "Called in train.py:31 report (120 µs)."),
        # the device idles for 900 us: in main for 20 + 20 + 40 of them, less than what is worth a word
        (
            False,
            "host-bound",
            "While the device is idle, for any reason, the host is in metrics.py:4 write (700 µs); train.py:31 report (120 µs).",
        ),
    ],
)
def test_evidence_names_the_programs_functions(tmp_path, waits, topic, sentence):
    events = [one for number in range(1, 5) for one in step(number, 1000 * number, waits)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    found = {one["topic"]: one for one in advise(path)["advice"]}
    assert sentence in found[topic]["evidence"]
    assert "with_stack" not in found[topic]["remedy"]
