"""Hardware counters as evidence: which unit of the device the slower kernel keeps busy, and whether clocks differ."""

from kernelscope.analysis.explain import pair
from tests.analysis.formats.ncu.pages import launch, occupancy, speed


def explained(tmp_path, a, b):
    paths = [tmp_path / "before.txt", tmp_path / "after.txt"]
    for path, text in zip(paths, (a, b), strict=True):
        path.write_text(text)
    result = pair.read(*paths).explain()
    assert sum(row["delta_ns"] for row in result["rows"]) == result["wall_delta_ns"]
    return result


def test_the_units_that_a_kernel_keeps_busy_on_each_side(tmp_path):
    a = launch("sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84), occupancy(100, 25))
    b = launch("sums(float *)", speed("2.71", 3.94, 25.56, 21.48, 9.17), occupancy(100, 50))
    (finding,) = explained(tmp_path, a, b)["findings"]
    assert finding["explains_ns"] == -1_130_000
    assert finding["evidence"][-4:] == [
        "In A, sums keeps the L1 cache busy, 100% of its peak, and little else.",
        "In B, sums keeps no unit busy: its blocks end at different times.",
        "Of their peaks sums uses in A: arithmetic 2%, device memory 18%, L2 cache 17%, L1 cache 100%.",
        "Of their peaks sums uses in B: arithmetic 4%, device memory 26%, L2 cache 21%, L1 cache 9%.",
    ]
    assert finding["remedy"].startswith("in A: let neighbouring threads read neighbouring addresses")


def test_the_same_work_in_fewer_blocks_is_no_larger_problem(tmp_path):
    """4,096 blocks take 0.5 ms, one block takes 3.9 ms: the side with more blocks is the faster one."""
    a = launch("add(float *)", speed("0.50", 2, 1, 49, 1), grid="(4096, 1, 1)")
    (finding,) = explained(tmp_path, a, launch("add(float *)", speed("3.93", 0.1, 2, 1, 5), grid="(1, 1, 1)"))["findings"]
    assert finding["cause"] == "slower kernels"
    assert finding["remedy"].startswith("in B: launch more blocks")


def test_two_kernels_alone_are_compared_whatever_their_kind(tmp_path):
    a, b = launch("reduce_a(float *)", speed("0.05", 17, 75, 27, 23)), launch("atomic_red(float *)", speed("20.4", 0, 0, 1, 1))
    (finding,) = explained(tmp_path, a, b)["findings"]
    assert finding["explains_ns"] == 20_350_000
    assert "use one atomic operation for each block" in finding["remedy"]


def test_other_clocks_are_told_first(tmp_path):
    a = launch("sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84, clock="0.70"))
    b = launch("sums(float *)", speed("1.92", 2.08, 17.98, 17.06, 99.84, clock="1.41"))
    (finding,) = explained(tmp_path, a, b)["findings"]
    said = [sentence for sentence in finding["evidence"] if "clocks" in sentence]
    assert said == ["The clocks differ: 700 MHz in A, 1,410 MHz in B."]
