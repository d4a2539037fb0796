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
        "Of their peaks sums uses in A: arithmetic 2%, device memory 18%, L2 cache 17%, L1 cache 100%.",
        "Of their peaks sums uses in B: arithmetic 4%, device memory 26%, L2 cache 21%, L1 cache 9%.",
        "Resident warps in A: on average 25%, at most 100%.",
        "Resident warps in B: on average 50%, at most 100%.",
    ]
    assert "kernelscope advise" in finding["remedy"]


def test_other_clocks_are_told_first(tmp_path):
    a = launch("sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84, clock="0.70"))
    b = launch("sums(float *)", speed("1.92", 2.08, 17.98, 17.06, 99.84, clock="1.41"))
    (finding,) = explained(tmp_path, a, b)["findings"]
    said = [sentence for sentence in finding["evidence"] if "clocks" in sentence]
    assert said == ["The clocks differ: 700 MHz in A, 1,410 MHz in B."]
