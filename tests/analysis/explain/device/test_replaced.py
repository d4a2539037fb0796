"""Kernels under other names in totals: joined in one, renamed, and those that only happen to take as long."""

import pytest

APART = [("scale_rows(float*)", 40, 30.0), ("shift_rows(float*)", 40, 20.0), ("setup(int)", 1, 8.0)]
JOINED = [("scale_shift_rows(float*)", 40, 36.0), ("setup(int)", 1, 8.0)]


@pytest.mark.parametrize("turned", [False, True])
def test_a_kernel_whose_name_joins_two_is_their_fusion(explained, turned):
    result = explained(JOINED, APART) if turned else explained(APART, JOINED)
    (found,) = result["findings"]
    assert (found["cause"], found["explains_ns"]) == ("fusion", 14_000_000 if turned else -14_000_000)
    fused, apart = ("A", "B") if turned else ("B", "A")
    assert found["title"].startswith(f"fusion: scale_shift_rows of {fused} does what scale_rows and shift_rows do in {apart}")
    assert found["remedy"].startswith(f"in {apart}: one kernel for both")
    assert result["parts"][0]["part"] == "scale_shift_rows"


def test_a_fusion_that_takes_longer_is_to_be_undone(explained):
    (found,) = explained(APART, [("scale_shift_rows(float*)", 40, 75.0), ("setup(int)", 1, 8.0)])["findings"]
    assert found["remedy"].startswith("in B: two kernels, as in A")


@pytest.mark.parametrize(
    "after",
    [
        [("scale_shift_rows(float*)", 20, 36.0), ("setup(int)", 1, 8.0)],  # not as often
        [("scale_shift_columns(float*)", 40, 36.0), ("setup(int)", 1, 8.0)],  # other words
    ],
)
def test_other_kernels_are_no_fusion(explained, after):
    assert "fusion" not in [one["cause"] for one in explained(APART, after)["findings"]]


def test_a_kernel_that_takes_as_long_under_another_name_is_no_cause(explained):
    before = [("trace_rays(float*)", 1, 9000.0), ("make_scene(int)", 1, 1500.0)]
    after = [("trace_rays(float*)", 1, 300.0), ("fill_objects(int)", 1, 1440.0), ("grow_tree(int)", 1, 2.0)]
    result = explained(before, after)
    assert [one["explains_ns"] for one in result["findings"]] == [-8_700_000_000]
    assert "trace_rays" in result["findings"][0]["title"]


@pytest.mark.parametrize(
    "other", [("fill_objects(int)", 1, 900.0), ("fill_objects(int)", 3, 1440.0)], ids=["shorter", "more often"]
)
def test_a_kernel_that_does_not_take_as_long_is_one(explained, other):
    before = [("trace_rays(float*)", 1, 9000.0), ("make_scene(int)", 1, 1500.0)]
    after = [("trace_rays(float*)", 1, 9000.0), other, ("add_light(int)", 1, 2.0)]
    assert explained(before, after)["findings"] or explained(before, after)["abstained"]
    if other[2] < 1000:
        assert sum(one["explains_ns"] for one in explained(before, after)["findings"]) == pytest.approx(-600e6, rel=0.01)
