"""Which collectives are one, and what clocks they allow: made by hand."""

import warnings

import numpy as np
import pandas as pd

from kernelscope.analysis.ranks.clocks import clocks
from kernelscope.analysis.ranks.matching import matched, matched_in_groups

OPERATIONS = ["all-reduce", "all-gather", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "all-reduce"]


def table(operations, offset=0, first=0):
    start = 1000 * (np.arange(len(operations)) + first) + offset
    return pd.DataFrame({"operation": operations, "start_ns": start, "end_ns": start + 500})


def test_equal_recordings_match_row_by_row():
    assert matched([table(OPERATIONS), table(OPERATIONS, 7)]).tolist() == [[n, n] for n in range(7)]


def test_a_recording_that_begins_later_is_shifted():
    found = matched([table(OPERATIONS), table(OPERATIONS[2:], 90_000, 2), table(OPERATIONS[:6], -400)])
    assert found.tolist() == [[n, n - 2, n] for n in range(2, 6)]


def test_of_shifts_that_agree_the_one_whose_ends_lie_alike_counts():
    same = ["all-reduce"] * 6
    times = np.array([0, 1000, 2500, 2600, 7000, 9000])
    whole = pd.DataFrame({"operation": same, "start_ns": times, "end_ns": times + 100})
    assert matched([whole, whole.iloc[1:].reset_index(drop=True)]).tolist() == [[n, n - 1] for n in range(1, 6)]


def test_nothing_in_common():
    assert len(matched([table(OPERATIONS), table([])])) == 0
    assert len(matched([table(["broadcast"]), table(["all-gather"])])) == 0


def test_messages_are_matched_in_the_order_in_which_they_are_handed_over():
    """The receiver hands over both, and asks for the second one first."""
    sent = pd.DataFrame({"start_ns": [100, 200], "end_ns": [110, 210], "posted_ns": [100, 200]})
    received = pd.DataFrame({"start_ns": [300, 400], "end_ns": [310, 410], "posted_ns": [60, 50]})
    both = [one.astype("Int64").assign(operation="send and receive", group="0>1") for one in (sent, received)]
    assert matched_in_groups(both).tolist() == [[0, 1], [1, 0]]


def test_clocks_are_corrected_by_ends():
    start = np.array([[0, 10], [1000, 1700], [3000, 2900]])
    end = np.array([[500, 500], [2000, 2000], [3600, 3600]])
    ahead = np.array([0, 4_000_000])
    found = clocks(start + ahead, end + ahead, np.array([True, True, True]))
    assert (found.offsets_ns[1] - found.offsets_ns[0], found.uncertainty_ns, found.impossible) == (4_000_000, 0, 0)
    assert found.apart_ns == 4_000_000


def test_a_rank_that_is_in_no_collective_keeps_its_clock():
    start = np.ma.masked_array([[0, 4, 0], [10, 14, 0]], mask=[[False, False, True]] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clocks(start, start + 5, np.array([True, True]))
    assert (found.offsets_ns[1] - found.offsets_ns[0], found.offsets_ns[2]) == (4, 0)


def test_a_collective_that_ends_before_all_began_is_impossible():
    start, end = np.array([[0, 0], [1000, 1000], [3000, 9000]]), np.array([[500, 500], [2000, 2000], [3600, 9600]])
    assert clocks(start, end, np.array([True, True, True])).impossible == 1
    assert clocks(start, end, np.array([True, True, False])).impossible == 0, "the root of a broadcast waits for nobody"
