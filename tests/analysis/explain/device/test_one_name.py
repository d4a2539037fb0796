"""Totals whose kernels of one name differ: attention on both sides, and kernels that are little of the whole."""

import pytest

FORWARD = "my_fmha_fwd_kernel"
PADDING = "fmha_strip_rows_kernel"


def attention(explained, a, b):
    result = explained([("sgemm_nn", 5, 300.0), *a], [("sgemm_nn", 5, 300.0), *b])
    return [one for one in result["findings"] if one["cause"] == "attention algorithm"]


@pytest.mark.parametrize("turned", [False, True])
def test_a_kernel_that_takes_longer_is_told_apart_from_those_that_left(explained, turned):
    """60 ms of further kernels are gone, and the kernel of both sides takes 40 ms longer: not one gain of 20 ms."""
    sides = [(f"{FORWARD}<1>(int)", 10, 90.0), (f"{PADDING}(int)", 20, 60.0)], [(f"{FORWARD}<2>(int)", 10, 130.0)]
    found = attention(explained, *(sides[::-1] if turned else sides))
    sign = -1 if turned else 1
    assert sorted(one["explains_ns"] for one in found) == sorted([sign * 40_000_000, -sign * 60_000_000])
    slower = "A" if turned else "B"
    longer = next(one for one in found if abs(one["explains_ns"]) == 40_000_000)
    assert f"{FORWARD} takes longer in {slower}" in longer["title"]
    assert not any("other kernels" in one["title"] or "selects" in one["remedy"] for one in found)


def test_attention_by_kernels_of_other_names_is_by_other_kernels(explained):
    (found,) = attention(explained, [("my_fmha_fwd_kernel(int)", 10, 90.0)], [("their_flash_fwd_kernel(int)", 10, 130.0)])
    assert found["title"].startswith("attention by other kernels: my_fmha_fwd_kernel in A, their_flash_fwd_kernel in B")


@pytest.mark.parametrize(("us", "told"), [(7.0, True), (5.1, False)])
def test_a_short_kernel_that_takes_longer_is_told_with_its_share(explained, us, told):
    """5 µs became 7 µs, of 2.007 ms: 0.35%."""
    sides = [[("[CUDA memcpy HtoD]", 1, 2.0), ("tally(int*)", 1, one / 1000)] for one in (5.0, us)]
    said = explained(*sides)["abstained"]
    assert ("tally alone takes 1.4 times as long in B" in said and "0.35% of the whole" in said) is told
    assert said.endswith("and so does each part of them") is not told
