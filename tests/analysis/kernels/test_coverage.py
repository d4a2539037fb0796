"""How much GPU time of captures as people have them gets a kind: names and times are read here with plain SQL, JSON and text."""

import csv
import gzip
import json
import re
import sqlite3
from collections import Counter
from decimal import Decimal

import pytest

from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.kernels import names as kernel_names
from tests.analysis.accounting.corpus import marks_of
from tests.places import CORPUS

UNITS = {"s": Decimal(10**9), "ms": Decimal(10**6), "us": Decimal(10**3), "ns": Decimal(1)}


def sqlite_kernels(path):
    """Return time by (name, None) of a SQLite capture of nsys or nvprof."""
    found = Counter()
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in tables & {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"}:
        nsys = "StringIds" in tables
        join = "JOIN StringIds s ON s.id = k.demangledName" if nsys else "JOIN StringTable s ON s._id_ = k.name"
        for name, time in database.execute(f"SELECT s.value, sum(k.end - k.start) FROM {table} k {join} GROUP BY 1"):
            found[name, None] += time
    database.close()
    return found


def kineto_kernels(path):
    """Return time by (name, operator) of a chrome trace; operators by the External id."""
    content = path.read_bytes()
    data = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    events = data if isinstance(data, list) else data.get("traceEvents", [])
    events = [event for event in events if isinstance(event, dict) and isinstance(event.get("args"), dict)]

    def external(event):
        return event["args"].get("External id", event["args"].get("external id"))

    operators = {}
    for event in events:
        if str(event.get("cat")).lower() in ("cpu_op", "operator") and external(event) is not None:
            operators.setdefault(external(event), event["name"])
    found = Counter()
    for event in events:
        if str(event.get("cat")).lower() == "kernel":
            found[event["name"], operators.get(external(event))] += event["dur"]
    return found


def text_kernels(path):
    """Return time by (name, None) of what nsys stats or nvprof printed: traces, summaries and summaries as CSV."""
    text = path.read_text(encoding="utf8")
    if '"GPU activities"' in text:
        rows = list(csv.reader(text.splitlines()))
        units = next(row for row in rows if row[:2] == ["", "%"])
        return Counter({(row[7], None): int(Decimal(row[2]) * UNITS[units[2]]) for row in rows if row[:1] == ["GPU activities"]})
    found = Counter()
    section = None
    for line in text.splitlines():
        if heading := re.match(r" \*\* .*\((\w+)", line):
            section = heading[1]
        trace = re.match(r" *[\d.]+[mun]?s +([\d.]+)([mun]?s) +\([^)]*\) +\([^)]*\) .*? {2}(\w.*?)(?: \[\d+\])?$", line)
        summary = re.match(r"(?: GPU activities:)? +[\d.]+% +([\d.]+)([mun]?s) +\d+(?: +[\d.]+[mun]?s){3} {2}(.+)$", line)
        stats = re.match(r" +[\d.]+ +(\d+)() +\d+(?: +[\d.]+){5} +(\S.*?) *$", line) if section == "cuda_gpu_kern_sum" else None
        if match := trace or summary or stats:
            name = re.sub(r"^.*\d +\d+ {2}", "", match[3]) if trace else match[3].rpartition("/")[2] if stats else match[3]
            found[name, None] += int(Decimal(match[1]) * UNITS[match[2] or "ns"])
        if "API calls:" in line:
            break
    return found


def timeline_kernels(path):
    """Return time by (operator, operator) of TensorFlow's timeline: each operation once, from the stream of all."""
    events = json.loads(path.read_text())["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    found = Counter()
    for event in events:
        if event.get("ph") == "X" and "stream:all Compute" in processes.get(event["pid"], ""):
            found[event["name"] + " kernel", event["args"]["op"]] += event["dur"]
    return found


def xplane_kernels(path):
    """Return time by (name, None) of the GPU's streams in an XSpace file."""
    events = xplane.read(path)
    rows = events[events["plane"].str.startswith("/device:GPU") & events["line"].str.startswith("Stream")]
    return Counter({(name, None): int(time) for name, time in rows.groupby("name")["duration_ns"].sum().items()})


FILES = (
    [(sqlite_kernels, path) for path in sorted(CORPUS.glob("n*/*.*")) if path.suffix in (".sqlite", ".nvvp", ".nvprof", ".sql")]
    + [(kineto_kernels, path) for path in sorted(CORPUS.glob("kineto/*.json*"))]
    + [(text_kernels, path) for path in sorted(CORPUS.glob("n*/*.*")) if path.suffix in (".txt", ".csv", ".log")]
    + [(timeline_kernels, path) for path in sorted(CORPUS.glob("tf/*.json"))]
    + [(xplane_kernels, path) for path in sorted(CORPUS.glob("tf/*GPU*.xplane.pb")) + sorted(CORPUS.glob("tf/*mi300*.xplane.pb"))]
)


def marked(read, path):
    return pytest.param(read, path, id=path.name, marks=marks_of(path) if read is kineto_kernels else [])


@pytest.mark.skipif(not FILES, reason="needs ../shared/corpus")
@pytest.mark.parametrize(("read", "path"), [marked(*file) for file in FILES])
def test_gpu_time_with_a_kind(read, path):
    times = Counter(read(path))
    for name, _ in list(times):
        if name.startswith("[CUDA mem"):
            del times[name, None]
    total = sum(times.values())
    unknown = Counter({key: time for key, time in times.items() if kernel_names.describe(*key).kind == "unknown"})
    assert unknown.total() <= 0.05 * total, unknown.most_common(9)


@pytest.mark.skipif(not FILES, reason="needs ../shared/corpus")
@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("hclhkbu__dlbench__tfcnn-new-980.log", 60),
        ("nanzifan__nvprof-result__BabelStream_print-gpu-trace.txt", 6),
        ("nanzifan__nvprof-result__BabelStream_track-memory-allocations.txt", 6),
        ("nanzifan__nvprof-result__cfd_print-gpu-summary.csv", 4),
        ("ShibukiZero__assignment2-systems__2.7b_ctx512_train_step_cuda_gpu_kern_sum_nvtx.txt", 20),
        ("zx3xyy__assignment2-systems__nsys_stats.txt", 10),
        ("hpcgroup__pipit__perlmutter-cloverleaf-cuda.sqlite", 100),
        ("aistein__dlprof__feeddict_timeline_01.json", 20),
    ],
)
def test_kernels_were_found(name, kernels):
    """The test above passes for a file of which nothing was read: these must have kernels."""
    read, path = next(file for file in FILES if file[1].name == name)
    assert len(read(path)) >= kernels
