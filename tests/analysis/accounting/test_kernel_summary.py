"""Statistics of single executions: all columns of `nsys stats` on every export of the corpus that it can read."""

import pandas as pd
import pytest

from kernelscope.analysis.accounting.kernel_summary import executions
from kernelscope.analysis.recordings.reading import read
from tests.analysis.accounting import nsys_stats


def of_nsys(path, folder):
    """Return what nsys says: (name, grid, block) -> (count, total, mean, median, least, most, deviation, share in %)."""
    return {
        (row["Name"], *(",".join(row[size].split()) for size in ("GridXYZ", "BlockXYZ"))): (
            int(row["Instances"]), int(row["Total Time (ns)"]), float(row["Avg (ns)"]), float(row["Med (ns)"]),
            int(row["Min (ns)"]), int(row["Max (ns)"]), float(row["StdDev (ns)"]), float(row["Time (%)"]),
        )
        for row in nsys_stats.rows(path, folder, "gpukernsum")
    }  # fmt: skip


@nsys_stats.NEEDED
@pytest.mark.parametrize("path", [*nsys_stats.EXPORTS, *nsys_stats.PAIRED], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_all_columns_are_those_of_nsys_stats(path, tmp_path):
    expected = of_nsys(path, tmp_path)
    if not expected:
        pytest.skip("nsys reads no kernels from it")
    kernels = read(path).kernels
    by = [kernels[name].astype("string") for name in ("name", "grid", "block")]
    sums = kernels[["count", "duration_ns"]].groupby(by, dropna=False).sum()
    table = sums.join(executions(by, kernels["count"], kernels["duration_ns"], ("mean", "median", "min", "max", "std")))
    assert set(table.index) == set(expected)
    whole = table["duration_ns"].sum()
    for name, (count, total, mean, median, least, most, deviation, share) in expected.items():
        row = table.loc[name]
        assert (row["count"], row["duration_ns"], row["min_ns"], row["max_ns"]) == (count, total, least, most), name
        assert 100 * row["duration_ns"] / whole == pytest.approx(share, abs=0.051), name
        assert row["mean_ns"] == pytest.approx(mean, abs=0.06)
        assert row["median_ns"] == pytest.approx(median, abs=0.06)
        assert (0.0 if count == 1 else row["std_ns"]) == pytest.approx(deviation, abs=0.06)


def test_nothing_of_single_executions_is_known_of_what_stands_for_several():
    names, counts, durations = pd.Series(["gemm", "relu"]), pd.Series([3, 1]), pd.Series([900, 50])
    table = executions([names], counts, durations, ("median", "min", "max", "std"))
    assert table.loc["gemm"].isna().all()
    assert table.loc["relu", ["median_ns", "min_ns", "max_ns"]].tolist() == [50, 50, 50]
