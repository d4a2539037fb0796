"""What a capture holds twice counts once: sums by SQL or by hand, of the capture and of one in which all stands twice."""

import re
import shutil
import sqlite3

import pytest

from kernelscope.analysis.recordings import captures
from tests.places import corpus

TABLES = ("KERNEL", "MEMCPY")


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
    assert f"twice.sqlite: what stands there twice counts once: {told}" in trace.info["warnings"]


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
