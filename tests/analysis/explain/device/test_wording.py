"""Sentences that say plainly what they mean."""

import pytest

from tests.analysis.explain.device.synthetic import Host, Kernel, Wait, recording
from tests.analysis.explain.device.synthetic import explained as of_recordings

SAXPY = ("saxpy(float*)", 10, 20.0)


def test_totals_have_no_steps_that_could_differ(explained):
    assert explained([SAXPY], [("saxpy(float*)", 10, 20.02)])["abstained"].startswith("the two differ by less than two runs")


def test_steps_that_differ_little_are_called_steps():
    step = [Kernel("gemm", 10_000, "gemm", operator="aten::mm"), Wait(), Host(100)]
    other = [Kernel("gemm", 10_010, "gemm", operator="aten::mm"), Wait(), Host(100)]
    said = of_recordings(recording(step, 1), recording(other, 1))["abstained"]
    assert said.startswith("the steps differ by less than two runs")


@pytest.mark.parametrize(("number", "said"), [(1, "1 product, convolution or attention in all in A, 9 in B"), (9, None)])
def test_one_product_is_singular(explained, number, said):
    sides = [[SAXPY, ("volta_sgemm_128x64_nn(float*)", count, 10.0)] for count in (number, 9)]
    assert explained(*sides)["differs"] == ([said] if said else [])
