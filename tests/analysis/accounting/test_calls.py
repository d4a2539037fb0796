"""Calls of the device's interface: all columns of `nsys stats` on every export of the corpus that it can read."""

import re

import pytest

from kernelscope.analysis.accounting.calls import of_calls
from kernelscope.analysis.recordings.reading import read
from kernelscope.analysis.trace import Trace, conform
from tests.analysis.accounting import nsys_stats
from tests.places import corpus


def of_nsys(path, folder):
    """Return what nsys says: name -> (count, total, mean, median, least, most)."""
    return {
        re.sub(r"_v\d+(_ptsz|_ptds)?$", "", row["Name"]): (
            int(row["Num Calls"]), int(row["Total Time (ns)"]), float(row["Avg (ns)"]), float(row["Med (ns)"]),
            int(row["Min (ns)"]), int(row["Max (ns)"]),
        )
        for row in nsys_stats.rows(path, folder, "cudaapisum")
    }  # fmt: skip


@nsys_stats.NEEDED
@pytest.mark.parametrize("path", nsys_stats.EXPORTS, ids=lambda path: path.stem)
def test_all_columns_are_those_of_nsys_stats(path, tmp_path):
    expected = of_nsys(path, tmp_path)
    if not expected:
        pytest.skip("nsys reads no calls from it")
    rows = {row["call"]: row for row in of_calls(read(path))}
    assert set(rows) == set(expected)
    for name, (count, total, mean, median, least, most) in expected.items():
        row = rows[name]
        assert (row["count"], row["duration_ns"], row["min_ns"], row["max_ns"]) == (count, total, least, most), name
        assert row["mean_ns"] == pytest.approx(mean, abs=0.06)
        assert row["median_ns"] == pytest.approx(median, abs=0.06)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)


def test_of_a_summary_what_it_tells_is_known():
    """The numbers are those that nvprof printed into the file."""
    (first, *_) = of_calls(read(corpus("nvprof/nanzifan__nvprof-result__cfd_profile-api-trace.csv")))
    assert (first["call"], first["count"], first["median_ns"]) == ("cudaMemcpyToSymbol", 5, None)
    assert first["share"] == pytest.approx(0.696, abs=0.001)


def test_calls_of_the_operating_system_are_none_of_a_device():
    place = {"process": 1, "thread": 1, "start_ns": 0, "end_ns": 7}
    rows = [{"name": name, "api": api, **place} for name, api in (("futex", "os"), ("cudaFree", "runtime"))]
    assert [row["call"] for row in of_calls(Trace(calls=conform("calls", rows)))] == ["cudaFree"]
    assert of_calls(Trace()) == []
