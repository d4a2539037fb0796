"""In tables of kernels for reading, the time without kernels is one row, the last; tables for programs keep each cause."""

import kernelscope as ks
from kernelscope.analysis.accounting.host_rows import ONE, apart, summed_up
from tests.places import corpus

CAPTURE = "kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz"


def test_the_one_row_is_what_the_causes_add_up_to():
    rows = ks.breakdown(ks.read(corpus(CAPTURE)), "kernel").as_dict()["rows"]
    causes = [row for row in rows if row["kernel"].startswith("(host: ")]
    device, host = summed_up("kernel", rows)
    assert len(causes) > 3
    assert [row["kernel"] for row in host] == [ONE]
    assert (host[0]["time_ns"], host[0]["share"]) == (sum(row["time_ns"] for row in causes), sum(row["share"] for row in causes))
    longest = [row["kernel"][len("(host: ") : -1] for row in sorted(causes, key=lambda row: -row["time_ns"])]
    assert host[0]["kind"] == f"{', '.join(longest[:3])} and {len(causes) - 3} more"
    assert sum(row["time_ns"] for row in [*device, *host]) == sum(row["time_ns"] for row in rows)
    assert [*device, *causes] == sorted(rows, key=lambda row: row["kernel"].startswith("(host: "))


def test_what_the_device_does_is_no_row_of_the_host():
    rows = [
        {"kernel": name, "time_ns": 1, "share": 0.2, "duration_ns": 1}
        for name in ("gemm", "(device: copy)", "(host: outside of ranges)")
    ]
    assert summed_up("kernel", rows) == (rows[:2], rows[2:])  # one cause keeps its name
    assert apart("operator", [{"operator": "(host: x)"}]) == ([], [{"operator": "(host: x)"}])
    assert apart("line", [{"line": "(host: x)"}]) == ([{"line": "(host: x)"}], [])


def test_kinds_and_layers_have_one_row_of_the_host_too():
    trace = ks.read(corpus(CAPTURE))
    for by, name in (("kind", ONE), ("layer", "(host: in no layer)")):
        rows = ks.breakdown(trace, by).as_dict()["rows"]
        causes = [row for row in rows if row[by].startswith("(host: ")]
        device, host = summed_up(by, rows)
        assert ([row[by] for row in host], len(causes) > 1) == ([name], True)
        assert host[0]["time_ns"] == sum(row["time_ns"] for row in causes)
        assert sum(row["time_ns"] for row in [*device, *host]) == sum(row["time_ns"] for row in rows)


def test_ranges_have_one_row_of_the_host_that_names_what_it_did():
    rows = ks.breakdown(ks.read(corpus("nsys/GindaChen__nsys-ai__h100_2gpu_1s_v1.sqlite")), "range").as_dict()["rows"]
    causes = [row for row in rows if row["activity"].startswith("(host: ")]
    device, host = summed_up("range", rows)
    assert len(causes) > 3
    assert [(row["range"], row["time_ns"]) for row in host] == [(ONE, sum(row["time_ns"] for row in causes))]
    assert host[0]["activity"].startswith("(host: ")
    assert apart("range", [*device, *host]) == (device, host), "a table for reading puts it last"


def test_a_long_range_without_kernels_keeps_its_row():
    row = {"activity": "(host: in ranges)", "phase": None, "duration_ns": 0, "count": 1}
    kernels = {**row, "range": "train", "activity": "kernels", "time_ns": 100, "share": 0.1}
    augment = {**row, "range": "augment", "time_ns": 800, "share": 0.8}
    beside = {**row, "range": "train", "time_ns": 95, "share": 0.095}
    short = {**row, "range": "log", "time_ns": 5, "share": 0.005}
    assert apart("range", [augment, kernels, beside, short]) == ([augment, kernels], [beside, short])
