"""Advice on texts that are filled up, on made-up counts."""

from dataclasses import replace

import pytest

from kernelscope.analysis.advise.rules.padding import of_texts
from tests.analysis.advise.test_host import KERNEL, MS, subject


def counted(positions, padded, beyond):
    made = subject(KERNEL, framework="pytorch")
    return replace(made, facts={**made.facts, "padding": {"positions": positions, "padded": padded, "beyond_longest": beyond}})


def test_texts_that_are_filled_up_to_a_fixed_length():
    (one,) = of_texts(counted(1000, 700, 600))
    assert one.title == "70% of the positions that the model is called with are padding"
    assert one.saves_ns == pytest.approx(0.6 * 4 * MS)
    assert (
        "60% of all positions are beyond the longest text of their call, and 10% beyond the end of a shorter one."
        in one.evidence[0]
    )
    assert one.remedy.startswith("pad each batch to its own longest text")


def test_texts_of_many_lengths_in_one_batch():
    (one,) = of_texts(counted(1000, 500, 0))
    assert one.saves_ns == pytest.approx(0.5 * 4 * MS)
    assert one.remedy.startswith("put texts of similar length into one batch")


def test_a_little_padding_is_no_topic():
    assert of_texts(counted(1000, 150, 150)) == []
    assert of_texts(subject(KERNEL)) == []
