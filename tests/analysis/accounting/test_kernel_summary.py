"""The summary of kernels: all columns of `nsys stats` on every export of the corpus that it can read."""

import csv
import shutil
import subprocess

import pytest

from kernelscope.analysis import read
from kernelscope.analysis.accounting.kernel_summary import summary
from kernelscope.analysis.trace import Trace, conform
from tests.places import ROOT

EXPORTS = sorted((ROOT.parent / "shared" / "corpus" / "nsys").glob("*.sqlite"))


def of_nsys(path, folder):
    """Return what nsys says: (name, grid, block) -> (count, total, mean, median, least, most, deviation)."""
    copy = shutil.copy(path, folder)  # nsys writes beside its input
    command = ["nsys", "stats", "--report", "gpukernsum", "--format", "csv", "--quiet", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    rows = list(csv.DictReader(done.stdout[done.stdout.find("Time") :].splitlines()))
    return {
        (row["Name"], *(",".join(row[size].split()) for size in ("GridXYZ", "BlockXYZ"))): (
            int(row["Instances"]), int(row["Total Time (ns)"]), float(row["Avg (ns)"]), float(row["Med (ns)"]),
            int(row["Min (ns)"]), int(row["Max (ns)"]), float(row["StdDev (ns)"]),
        )
        for row in rows
        if row.get("Name")
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("nsys") is None, reason="Nsight Systems is not installed")
@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_all_columns_are_those_of_nsys_stats(path, tmp_path):
    expected = of_nsys(path, tmp_path)
    if not expected:
        pytest.skip("nsys reads no kernels from it")
    table = summary(read(path), ("name", "grid", "block")).set_index(["name", "grid", "block"])
    assert set(table.index) == set(expected)
    for name, (count, total, mean, median, least, most, deviation) in expected.items():
        row = table.loc[name]
        assert (row["count"], row["duration_ns"], row["min_ns"], row["max_ns"]) == (count, total, least, most), name
        assert row["mean_ns"] == pytest.approx(mean, abs=0.06)
        assert row["median_ns"] == pytest.approx(median, abs=0.06)
        assert (0.0 if count == 1 else row["std_ns"]) == pytest.approx(deviation, abs=0.06)


def test_of_totals_only_the_mean_is_known():
    rows = [{"name": "gemm", "duration_ns": 900, "count": 3}, {"name": "relu", "duration_ns": 50, "count": 1}]
    kernels = conform("kernels", rows)
    table = summary(Trace(kernels=kernels)).set_index("name")
    assert table.loc["gemm", "mean_ns"] == 300
    assert table.loc["gemm", ["median_ns", "min_ns", "max_ns", "std_ns"]].isna().all()
    assert table.loc["relu", "median_ns"] == 50
