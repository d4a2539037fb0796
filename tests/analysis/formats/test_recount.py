"""Every kernel of every capture of the corpus arrives: counts and sums of durations against a plain recount of the file.

What counts here shares no code with the readers: chrome traces go through json, databases through sqlite3.
"""

import gzip
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from fractions import Fraction

import pytest

import kernelscope as ks
from tests.analysis.accounting.corpus import marks_of
from tests.places import CORPUS

FOLDERS = ("kineto", "nsys", "nvprof", "tf", "mxnet", "pairs", "ranks")
KERNELS = ("kernel", "Kernel", "mtia_ccp_events", "hpu_op")
NO_KERNELS = ("dma_request", "event_record", "event_wait")  # MTIA's, among its kernels
TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_CDP_KERNEL")
BARE = re.compile(rb"(?<=[:\s])(-?inf|-?nan|N/A)(?=[,\s}])")  # no JSON, as some profilers write numbers
BACKSLASH = re.compile(rb'\\(?!["\\/bfnrtu])')


def is_database(path):
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def is_read(path, container):
    """Return whether a file is a capture by its name and what it is: what is none is other tests' matter."""
    if container == "database":
        return "dldb" not in path.name
    return re.search(r"\.json(\.gz)?$", path.name) is not None and not re.search("rocprof_|_et\\.json|/et/", str(path))


def captures(container):
    """Return the corpus's databases, or its JSON files, as parameters; one that is skipped where there is no corpus."""
    files = [path for folder in FOLDERS for path in sorted((CORPUS / folder).rglob("*")) if path.is_file()]
    found = [path for path in files if is_database(path) == (container == "database") and is_read(path, container)]
    if not found:
        return [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/corpus"))]
    return [pytest.param(path, id=str(path.relative_to(CORPUS))[-70:], marks=marks_of(path)) for path in found]


def events_of(path):
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    found = json.loads(BARE.sub(b"0", BACKSLASH.sub(b"/", raw)), parse_float=Fraction, strict=False)
    events = found.get("traceEvents") if isinstance(found, dict) else found
    return [event for event in events or () if isinstance(event, dict)]


def summed(events):
    """Return how many events there are, and the sum of their durations in ns."""
    return len(events), int(sum(Fraction(event["dur"]) * 1000 for event in events))


def of_pytorch(events):
    complete = [event for event in events if event.get("ph") == "X" and event.get("cat") in KERNELS]
    return summed([event for event in complete if event.get("name") not in NO_KERNELS])


def of_tensorflow(events):
    """Return the work of numbered streams, kernels and copies; stream:all and memcpy repeat it."""
    names = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    complete = [event for event in events if event.get("ph") == "X"]
    return summed([event for event in complete if re.search(r"/device:GPU:\d+/stream:\d+ ", names[event["pid"]])])


def of_mxnet(events):
    """Return the operators of engines by name; they begin and end as asynchronous events too."""
    return Counter(event["name"] for event in events if event.get("ph") == "B" and event.get("cat") == "operator")


@pytest.mark.parametrize("path", captures("json"))
def test_chrome_traces(path):
    if path.parent.name == "bytedance_straggler":
        pytest.skip("a timeline of operations as one project plots them: no profiler's format")
    events = events_of(path)
    trace = ks.read(path)
    form, kernels = trace.info["source"]["format"], trace.kernels
    device = kernels[kernels["device"] != "cpu"]
    if form == "kineto":
        assert (len(device), device["duration_ns"].sum()) == of_pytorch(events)
    elif form == "tensorflow-timeline":
        found = len(device) + len(trace.copies), device["duration_ns"].sum() + trace.copies["duration_ns"].sum()
        assert found == of_tensorflow(events)
    else:
        assert form == "mxnet"
        begun = of_mxnet(events)
        assert len(trace.operators) + len(trace.syncs) == sum(begun.values())
        assert not Counter(kernels["name"].astype(str)) - begun


@pytest.mark.parametrize("path", captures("database"))
def test_databases(path):
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        present = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = [
            database.execute(f'SELECT count(*), coalesce(sum("end" - start), 0) FROM {table}').fetchone()
            for table in TABLES if table in present
        ]  # fmt: skip
    expected = tuple(sum(column) for column in zip((0, 0), *rows, strict=True))
    kernels = ks.read(path).kernels
    assert (len(kernels), kernels["duration_ns"].sum()) == expected
