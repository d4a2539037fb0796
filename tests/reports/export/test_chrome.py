"""Chrome JSON: every event by counting, and what our own reader of torch.profiler's traces makes of it."""

import gzip
import json
from collections import Counter
from decimal import Decimal

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.trace import Trace, conform
from kernelscope.reports.export import chrome
from kernelscope.reports.export.events import events, origins


def written(path, *traces):
    found = [events(trace) for trace in traces]
    zero = origins(traces, found)
    sides = [(f"side {n}", part, trace.memory, at) for n, (part, trace, at) in enumerate(zip(found, traces, zero, strict=True))]
    chrome.write(sides, {"kernelscope": "0"}, path)
    return path


def loaded(path):
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(content, parse_float=Decimal)


CATEGORIES = {
    "ProfilerStep": "steps", "cpu_op": "operators", "cuda_runtime": "calls", "cuda_driver": "calls", "kernel": "kernels",
    "cpu_kernel": "kernels", "cuda_graph": "graphs", "gpu_memcpy": "copies", "gpu_memset": "copies", "cuda_sync": "syncs",
    "host_line": "host_lines", "user_annotation": "ranges", "gpu_user_annotation": "ranges",
}  # fmt: skip


@pytest.mark.parametrize("name", ["nvprof", "kineto", "rocm", "mxnet"])
def test_every_event_is_there_to_the_nanosecond(name, trace, tmp_path):
    source = trace(name)
    found = loaded(written(tmp_path / "trace.json", source))
    base = found["baseTimeNanoseconds"]
    mine = {table: Counter() for table in CATEGORIES.values()}
    for event in found["traceEvents"]:
        if event["ph"] == "X":
            start = base + int(event["ts"] * 1000)
            step = event["name"].startswith("ProfilerStep#") and event["cat"] == "user_annotation"
            mine["steps" if step else CATEGORIES[event["cat"]]][start, start + int(event["dur"] * 1000)] += 1
    for table, intervals in mine.items():
        rows = getattr(source, table)
        assert intervals == Counter(zip(rows["start_ns"], rows["end_ns"], strict=True)), table
    ends = Counter(event["ph"] for event in found["traceEvents"])
    assert ends["i"] == len(source.memory)
    assert ends["C"] == sum(len(part.time) for part in events(source).counters)


@pytest.mark.parametrize("name", ["nvprof", "kineto", "rocm"])
def test_our_reader_of_kineto_reads_it(name, trace, tmp_path):
    source = trace(name)
    again = ks.read(written(tmp_path / "trace.json.gz", source))
    same = {
        "kernels": ("start_ns", "end_ns", "device", "thread", "name", "correlation", "grid", "block", "registers", "kind"),
        "copies": ("start_ns", "end_ns", "device", "thread", "operation", "bytes"),
        "syncs": ("start_ns", "end_ns", "device", "thread", "correlation"),
        "calls": ("start_ns", "end_ns", "api", "name", "correlation"),
        "operators": ("start_ns", "end_ns", "name", "shapes"),
        "memory": ("time_ns", "device", "bytes", "allocated_bytes", "reserved_bytes", "address"),
        "steps": ("start_ns", "end_ns", "step"),
    }
    for table, columns in same.items():
        theirs, mine = (rows(getattr(one, table), columns) for one in (source, again))
        assert mine == theirs, table
    assert len(again.ranges) == len(source.ranges)
    assert again.kernels["launch_ns"].notna().sum() == source.kernels["launch_ns"].notna().sum()


def rows(table, columns):
    plain = table[list(columns)].astype("object")
    if "shapes" in plain:  # as JSON, however it is spaced
        plain["shapes"] = plain["shapes"].map(lambda text: json.dumps(json.loads(text)) if isinstance(text, str) else None)
    return Counter(map(tuple, plain.where(plain.notna(), None).to_numpy().tolist()))


def test_sides_have_processes_of_their_own(trace, tmp_path):
    found = loaded(written(tmp_path / "trace.json", trace("nvprof"), trace("rocm")))
    names = {event["pid"]: event["args"]["name"] for event in found["traceEvents"] if event["name"] == "process_name"}
    assert sorted(names.values()) == ["side 0: cuda:0", "side 0: host", "side 1: host", "side 1: rocm:2"]
    counted = Counter(names[event["pid"]][:6] for event in found["traceEvents"] if event.get("cat") == "kernel")
    assert counted == {"side 0": 160, "side 1": 14}
    assert "baseTimeNanoseconds" not in found
    assert min(event["ts"] for event in found["traceEvents"] if "ts" in event) == 0


def test_perfettos_trace_processor_counts_what_went_in(trace, tmp_path, trace_processor):
    source = trace("nvprof")
    path = written(tmp_path / "trace.json", source)
    slices = "select category, count(*), sum(dur) from slice group by 1"
    errors = "select name, value from stats where severity = 'error' and value > 0"
    counted, wrong = trace_processor(path, slices, errors)
    assert wrong == []
    mine = {category: (count, length) for category, count, length in counted}
    for category, table in (("kernel", source.kernels), ("cuda_sync", source.syncs), ("user_annotation", source.ranges)):
        assert mine[category] == (len(table), (table["end_ns"] - table["start_ns"]).sum())
    assert mine["cuda_runtime"][0] + mine.get("cuda_driver", (0,))[0] == len(source.calls)


def test_hostile_names_stay_text(tmp_path):
    names = ['"},{"ph":"X"', "<script>alert(1)</script>", "\x1b[31m\x00\n", "\u202e\u2028", "B" * 10_000]
    table = pd.DataFrame({"start_ns": range(5), "end_ns": range(5, 10), "name": names, "thread": 1, "category": "user"})
    found = loaded(written(tmp_path / "trace.json", Trace(ranges=conform("ranges", table))))
    shown = [event["name"] for event in found["traceEvents"] if event["ph"] == "X"]
    assert shown[:4] == names[:4]
    assert len(shown) == 5
    assert len(shown[4]) < 5000
