"""What a capture holds twice counts once: sums by SQL or by hand, of the capture and of one in which all stands twice."""

import gzip
import json
import re
import shutil
import sqlite3

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import account
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import Trace, conform, duplicates
from tests.places import ROOT, corpus

TABLES = ("KERNEL", "MEMCPY")
KINETO = ROOT / "tests" / "data" / "gpu" / "h200" / "mlp.pt.trace.json.gz"


@pytest.fixture(scope="module")
def content():
    return json.loads(gzip.decompress(KINETO.read_bytes()))


def _with(content, more, tmp_path):
    """Return the Trace of a capture with more events behind its own."""
    path = tmp_path / "twice.json"
    path.write_text(json.dumps({**content, "traceEvents": content["traceEvents"] + more}))
    return captures.read(path)


@pytest.mark.parametrize("share", [2, 1])
def test_windows_that_overlap_in_one_list_of_events(share, content, tmp_path):
    """The later half of what happened, or all of it, again: steps, tables and times are those of the capture."""
    events = sorted((event for event in content["traceEvents"] if event["ph"] in "Xi"), key=lambda event: event["ts"])
    again = events[len(events) // share :] if share > 1 else events
    once, both = captures.read(KINETO), _with(content, again, tmp_path)
    for name in ("steps", "ranges", "operators", "kernels", "copies", "syncs", "calls", "memory", "host_lines"):
        mine, theirs = (getattr(trace, name) for trace in (once, both))
        by = [column for column in mine if mine[column].notna().any()]
        same = [table.astype("str").sort_values(by).reset_index(drop=True)[by] for table in (mine, theirs)]
        pd.testing.assert_frame_equal(*same)
    assert account(both).step_ns == account(once).step_ns
    (said,) = [line for line in both.info["warnings"] if "duplicates count once" in line]
    for what, categories in (("operators", ["cpu_op"]), ("calls", ["cuda_runtime", "cuda_driver"]), ("kernels", ["kernel"])):
        assert f"{what} written twice ({sum(event.get('cat') in categories for event in again):,})" in said
    assert "ranges and steps written twice" in said


def test_kernels_again_without_their_correlation(content, tmp_path):
    kernels = [event for event in content["traceEvents"] if event.get("cat") == "kernel"]
    bare = [{**event, "args": {key: value for key, value in event["args"].items() if key != "correlation"}} for event in kernels]
    once, both = captures.read(KINETO), _with(content, bare, tmp_path)
    assert len(both.kernels) == len(once.kernels) == len(kernels)
    assert both.kernels["correlation"].notna().all()
    assert both.diagnostics["kernels written twice"] == len(kernels)
    assert not any("without a usable correlation" in line for line in both.info["warnings"])


def test_kernels_alike_without_a_correlation():
    """Of what lasts no time as many are again as have a number; where a tool writes none, all may be other ones."""
    kernels = [
        ("a", 10, 10, 1), ("a", 10, 10, 2), ("a", 10, 10, None), ("a", 10, 10, None), ("a", 10, 10, None),  # the last is a third
        ("b", 20, 25, 3), ("b", 20, 25, None), ("b", 20, 25, None), ("c", 20, 25, None), ("c", 20, 25, None), ("c", 20, 26, None),
    ]  # fmt: skip
    table = pd.DataFrame(kernels, columns=["name", "start_ns", "end_ns", "correlation"]).assign(
        device="cuda:0", thread=7, duration_ns=0, count=1
    )
    trace = Trace(kernels=conform("kernels", table))
    duplicates.drop(trace)
    assert trace.kernels["name"].tolist() == list("aaabcc")
    assert trace.diagnostics == {"kernels written twice": 5}
    bare = Trace(kernels=conform("kernels", table.assign(correlation=None)))
    duplicates.drop(bare)
    assert len(bare.kernels) == len(kernels)


def test_what_the_host_did_in_a_database(tmp_path):
    """Calls have numbers; of ranges those that last no time may be other ones."""
    path = tmp_path / "twice.sqlite"
    shutil.copyfile(corpus("nsys/MohanadOdema__DLProf__noroot_nsys_profile.sqlite"), path)
    once = captures.read(path)
    with sqlite3.connect(path) as database:
        for name in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            database.execute(f"insert into {name} select * from {name}")
    database.close()
    both = captures.read(path)
    assert len(both.calls) == len(once.calls) == both.diagnostics["calls written twice"] > 0
    lasting = once.ranges[once.ranges["end_ns"] > once.ranges["start_ns"]]
    assert len(both.ranges) - len(once.ranges) == len(once.ranges) - len(lasting)
    assert both.diagnostics["ranges written twice"] == len(lasting) > 0


def test_rows_of_a_database(tmp_path):
    path = tmp_path / "twice.sqlite"
    shutil.copyfile(corpus("nsys/zx3xyy__assignment2-systems__result.sqlite"), path)
    database = sqlite3.connect(path)
    (expected,) = database.execute("select sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    counts = {name: database.execute(f"select count(*) from CUPTI_ACTIVITY_KIND_{name}").fetchone()[0] for name in TABLES}
    for name in TABLES:
        database.execute("insert into {0} select * from {0}".format(f"CUPTI_ACTIVITY_KIND_{name}"))
    database.commit()
    database.close()
    trace = captures.read(path)
    assert (len(trace.kernels), int(trace.kernels["duration_ns"].sum())) == (counts["KERNEL"], expected)
    assert trace.diagnostics["kernels written twice"] == counts["KERNEL"]
    assert trace.diagnostics["copies written twice"] == counts["MEMCPY"]
    told = f"kernels written twice ({counts['KERNEL']:,}); copies written twice ({counts['MEMCPY']:,})"
    assert f"twice.sqlite: duplicates count once: {told}" in trace.info["warnings"]


def test_kernels_that_could_not_be_read_are_not_said_to_be_none(tmp_path):
    """A database of nvprof's whose kernels name no stream."""
    path, table = tmp_path / "unread.nvprof", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
    shutil.copyfile(corpus("nvprof/esarmstrong__ece408__timeline.nvprof"), path)
    database = sqlite3.connect(path)
    names = [row[1] for row in database.execute(f"pragma table_info({table})")]
    columns = ", ".join("null as streamId" if name == "streamId" else name for name in names)
    database.executescript(
        f"create table other as select {columns} from {table}; drop table {table}; alter table other rename to {table}"
    )
    database.close()
    trace = captures.read(path)
    assert any("not all of it could be used" in line and "KERNEL (27)" in line for line in trace.info["warnings"])
    assert trace.info["unavailable"]["kernels"] == "none of its kernels could be read"


@pytest.mark.parametrize(
    "name",
    [
        "nvprof/nanzifan__nvprof-result__BabelStream_print-gpu-trace.txt",
        "nvprof/nanzifan__nvprof-result__cfd_print-gpu-summary.csv",
        "more/excerpt__HPCTrainingExamples__252734_kernel_stats.csv",
    ],
)
def test_tables_that_were_put_together(name, tmp_path):
    path = corpus(name)
    twice = tmp_path / path.name
    twice.write_bytes(path.read_bytes() * 2)
    once, both = captures.read(path), captures.read(twice)
    assert both.kernels["duration_ns"].sum() == once.kernels["duration_ns"].sum() > 0
    told = [*both.info.get("notes", []), *both.diagnostics]
    assert any(re.search("stands above as well|written twice", one) for one in told)
