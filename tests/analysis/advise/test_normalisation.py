"""Advice on layer normalisation in several kernels."""

import pytest

from tests.analysis.advise.test_totals import pieces, summary

TITLE = "layer normalisation reads its input again for each of its parts"
SPACE = "void at::native::(anonymous namespace)::"
MOMENTS, SCALES = f"{SPACE}RowwiseMomen...", f"{SPACE}LayerNormFor..."
GAMMA, INNER = f"{SPACE}GammaBetaBac...", f"{SPACE}ComputeInter..."


def normalising(*kernels, rest=100.0):
    rows = [(name, "normalisation", "f32", count, ms) for name, count, ms in kernels]
    return pieces(summary([*rows, ("add(float*)", "elementwise", "f32", 1, rest)])).get(TITLE)


def test_parts_that_read_the_input_again():
    """Forward 80 + 10 ms in 100, backward 40 + 10 ms in 50: at least 10 ms, and 1.5 x 50 x 0.1 ms = 7.5 ms remain of 140 ms."""
    one = normalising((MOMENTS, 100, 80.0), (SCALES, 100, 10.0), (GAMMA, 50, 40.0), (INNER, 50, 10.0))
    assert (one["saves_ns"], one["at_most"]) == (122_500_000, True)
    assert one["evidence"][0].startswith("It takes 140 ms (58%)")
    assert normalising((MOMENTS, 100, 80.0), (SCALES, 100, 10.0))["saves_ns"] == 80_000_000


@pytest.mark.parametrize(
    "kernels",
    [
        [(f"{SPACE}vectorized_layer_norm_kernel", 100, 90.0)],  # one kernel already
        [(MOMENTS, 100, 80.0)],  # of groups
        [(MOMENTS, 90, 80.0), (SCALES, 100, 10.0)],  # not of the same calls
        [(MOMENTS, 100, 80.0), (SCALES, 100, 10.0), (GAMMA, 50, 40.0)],  # how often gradients run is unknown
        [(MOMENTS, 100, 8.0), (SCALES, 100, 1.0)],  # a small part
    ],
)
def test_other_normalisation_is_left_alone(kernels):
    assert normalising(*kernels) is None
