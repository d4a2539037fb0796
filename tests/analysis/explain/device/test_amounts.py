"""Totals of unequal amounts of work: a loop of another length is told before any cause."""

import pytest

import kernelscope as ks
from tests.analysis.printed_totals import text_of

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
        "most of the work runs 1.25 times as often in A as in B (sgemm_128x64_nn: 100 times in A, 80 in B), as in a loop of "
        "another length or with other batches; run as often as in A, B's work would take 8.55 s (+50%)"
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


@pytest.mark.parametrize(
    ("attention", "products", "said"), [(17.0, 4.1, True), (4.0, 4.1, False), (2.0, 1.4, False), (1.0, 1.0, False)]
)
def test_attention_that_grows_with_the_square_of_products_has_longer_sequences(tmp_path, attention, products, said):
    paths = []
    for name, factors in (("a.txt", (1, 1)), ("b.txt", (attention, products))):
        work = [("flash_fwd_kernel(float*)", 32, 100.0 * factors[0]), ("ampere_sgemm_64x64_tn", 224, 50.0 * factors[1])]
        paths.append(tmp_path / name)
        paths[-1].write_text(text_of(work))
    sentence = "attention takes 17 times as long in B, products 4.1 times: as with sequences 4.1 times as long"
    assert ks.explain(*paths)["differs"] == ([sentence] if said else [])
    assert ks.explain(*reversed(paths))["differs"] == ([sentence.replace("in B", "in A")] if said else [])


def totals(path, work, calls=()):
    path.write_text(text_of(work, calls))
    return path


SWARM = [("calc_cost(void)", 10, 14.0), ("move_swarm(void)", 10, 9.0), ("find_best(float*)", 22, 6.0), ("seed_all(void)", 1, 0.7)]


def test_programs_with_hardly_a_word_in_common_are_different(tmp_path):
    """Both have a kernel with "move" in its name, which takes hardly any of B's time."""
    other = [("reduce_shared<float>(float*)", 77_000, 128.0), ("pair_force(int)", 11_000, 38.0), ("move_atoms(int)", 10, 0.02)]
    calls = [("cudaLaunch", 88_000, 370.0), ("cudaMalloc", 7, 112.0)]
    result = ks.explain(totals(tmp_path / "a.txt", SWARM), totals(tmp_path / "b.txt", other, calls))
    assert result["differs"] == ["hardly a kernel of A has a name like one of B's: these seem to be different programs"]
    assert {one["confidence"] for one in result["findings"]} == {"low"}
    assert all(one["remedy"].startswith("compare two runs of one program") for one in result["findings"])
    assert result["calls"] is None


def test_a_program_with_other_kernels_for_most_of_its_work_is_not(tmp_path):
    after = [("calc_cost_shared(void)", 10, 8.0), ("move_swarm_fast(void)", 10, 7.0), ("find_best_warp(float*)", 22, 2.0)]
    assert ks.explain(totals(tmp_path / "a.txt", SWARM), totals(tmp_path / "b.txt", after))["differs"] == []


@pytest.mark.parametrize(
    ("kernel", "copy", "copies", "larger"),
    [(700.0, 160.0, 1, True), (700.0, 12.0, 1, False), (105.0, 160.0, 1, False), (700.0, 160.0, 9, False)],
    ids=["both", "copies as before", "kernels as before", "more copies"],
)
def test_kernels_and_copies_that_all_take_far_longer_are_a_larger_problem(tmp_path, kernel, copy, copies, larger):
    small = totals(tmp_path / "a.txt", [("julia(int*)", 1, 100.0), ("[CUDA memcpy DtoH]", 1, 10.0)])
    large = totals(tmp_path / "b.txt", [("julia(int*)", 1, kernel), ("[CUDA memcpy DtoH]", copies, copy)])
    result = ks.explain(small, large)
    copied = "the same number of copies takes 16 times as long there"
    said = f"julia takes 7 times as long in B, and {copied}: as with a larger problem"
    assert result["differs"] == ([said] if larger else [])
    if larger:
        assert {one["confidence"] for one in result["findings"]} == {"low"}
        copied = next(one for one in result["findings"] if one["cause"] == "copies between host and device")
        assert copied["remedy"].startswith("if it is more bytes, which were not recorded, compare equal sizes")
