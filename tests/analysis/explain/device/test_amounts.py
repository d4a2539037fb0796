"""Totals of unequal amounts of work: a loop of another length is told before any cause."""

import pytest

import kernelscope as ks

HEAD = """==7== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
"""
KERNELS = {"sgemm_128x64_nn": 40.0, "softmax_kernel": 10.0, "add_kernel": 5.0, "sum_kernel": 2.0}  # ms an execution


def summary(path, counts, times=1.0):
    """Write totals: counts by kernel."""
    total = sum(KERNELS[name] * times * count for name, count in counts.items())
    rows = []
    for name, count in counts.items():
        each = KERNELS[name] * times
        share = 100 * each * count / total
        cells = f"{share:.2f}%", f"{each * count:.3f}ms", f"{count}", *[f"{each:.3f}ms"] * 3
        rows.append(f"{'' if rows else ' GPU activities:':16}  {'  '.join(f'{cell:>9}' for cell in cells)}  {name}")
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return path


def alike(number):
    return dict.fromkeys(KERNELS, number)


def test_a_shorter_loop_is_told_with_what_equal_work_would_take(tmp_path):
    a, b = summary(tmp_path / "a.txt", alike(100)), summary(tmp_path / "b.txt", alike(80), 1.5)
    result = ks.explain(a, b)
    assert result["differs"] == [
        "most of the work runs 0.8 times as often in B as in A (sgemm_128x64_nn: 100 and 80 times), as in a loop of another "
        "length or with other batches; as often as in A, B's work would take 8.55 s (+50%)"
    ]
    assert all(one["confidence"] != "high" for one in result["findings"])


@pytest.mark.parametrize(
    "counts",
    [
        alike(100),
        alike(101),
        {**alike(100), "sgemm_128x64_nn": 60},  # other work, not another length
        {"sgemm_128x64_nn": 80, "softmax_kernel": 90, "add_kernel": 100, "sum_kernel": 100},
    ],
)
def test_equally_long_loops_are_not(tmp_path, counts):
    result = ks.explain(summary(tmp_path / "a.txt", alike(100)), summary(tmp_path / "b.txt", counts, 1.5))
    assert not any("most of the work" in text for text in result["differs"])
