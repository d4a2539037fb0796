"""Advice on tensors that are filled with zeros beside a kernel of the program's own."""

import pytest

import kernelscope as ks
from tests.analysis.formats.torch_table.made import NEW, printed, row

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)"
TOTALS = ("Self CPU time total: 11.000ms", "Self CUDA time total: 10.000ms")


def found(tmp_path, *more, calls="2", fills="2", own="2", fill="4.000ms", kernel="6.000ms"):
    path = tmp_path / "table.txt"
    rows = [
        row("scale_kernel(float const*, float*, int)", "0.000us", "0.000us", kernel, own),
        row("aten::fill_", "0.010ms", "0.020ms", fill, fills),
        row(FILL, "0.000us", "0.000us", fill, fills),
        row("aten::zeros_like", "0.010ms", "0.030ms", "0.000us", calls),
        *more,
    ]
    path.write_text(printed(NEW, rows, TOTALS))
    return [one for one in ks.advise(path)["advice"] if one["topic"] == "fill"]


def test_zeros_that_a_kernel_may_overwrite(tmp_path):
    """4 of 10 ms."""
    (one,) = found(tmp_path)
    assert one["title"] == "tensors are filled with zeros that scale_kernel may overwrite"
    assert (one["saves_ns"], one["at_most"]) == (4_000_000, True)
    assert "2 tensors by aten::zeros_like" in one["evidence"][0]
    assert "torch.empty_like" in one["remedy"]


@pytest.mark.parametrize(
    ("more", "numbers"),
    [
        ([], {"own": "3"}),
        ([], {"fills": "5"}),
        ([], {"fill": "0.500ms", "kernel": "9.500ms"}),
        ([row("AddBackward0", "0.010ms", "0.020ms", "0.000us", "2")], {}),
        ([], {"calls": "1", "fills": "1"}),
    ],
    ids=["another number of kernels", "filled elsewhere", "a small part", "training", "another number of tensors"],
)
def test_other_fills_may_be_needed(tmp_path, more, numbers):
    assert not found(tmp_path, *more, **numbers)
