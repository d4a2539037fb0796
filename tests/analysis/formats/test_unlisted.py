"""What the percentages of a cut list tell of its rest."""

import pandas as pd
import pytest

from kernelscope.analysis.formats import unlisted


def rest(times, shares):
    found = unlisted.of(pd.Series(times, dtype="Int64"), pd.Series(shares), 1)
    return list(found.kernels.get("duration_ns", [])), found.note or ""


def test_a_time_that_cannot_be_read_is_a_part_of_the_rest():
    durations, note = rest([6_000_000, None, 2_000_000], ["30.00", "50.00", "10.00"])
    assert durations == [12_000_000]
    assert "rows that were not printed, and 1 without a usable time, took 12.00 ms of 20.00 ms" in note
    assert rest([6_000_000, 2_000_000], ["30.00", "10.00"])[0] == durations


@pytest.mark.parametrize("times", [[], [None, None]])
def test_without_any_time_nothing_is_known(times):
    assert rest(times, ["30.00"] * len(times)) == ([], "")
