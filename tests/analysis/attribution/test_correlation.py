"""Calls found by process and correlation id, ranges found around them: against a search through every row."""

import random

import numpy as np
import pytest

from kernelscope.analysis.attribution.correlation import CROSSING, REPEATED, Enclosing, Numbered, enclosed, launched

WILD = (0, 1, -(2**63), 2**63 - 1, 2**62, 7)


def numbered(rows, known=None):
    process, number = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    return Numbered(process, number, known)


def rows(rng, count, processes, numbers):
    return [(rng.choice(processes), rng.choice(numbers)) for _ in range(count)]


@pytest.mark.parametrize("numbers", [range(12), range(0, 10**6, 9001), WILD, [5]])
@pytest.mark.parametrize("processes", [[7], [7, 8], WILD])
def test_calls_are_found_as_by_a_search_through_all(processes, numbers):
    rng = random.Random(str((processes, numbers)))
    for _ in range(60):
        calls, work = (rows(rng, rng.randint(0, 14), processes, [*numbers]) for _ in range(2))
        work += [(99, 5), (7, 12345)]  # of which there are no calls
        carrying, tied = ([rng.random() < 0.7 for _ in part] for part in (calls, work))
        found, odd = launched(
            {"kernels": numbered(work, np.array(tied)), "copies": numbered([])},
            numbered(calls, np.array(carrying, dtype=bool)),
        )
        first = {}
        for place, (call, carries) in enumerate(zip(calls, carrying, strict=True)):
            if carries:
                first.setdefault(call, place)
        expected = [first.get(one, -1) if known else -1 for one, known in zip(work, tied, strict=True)]
        assert found["kernels"].tolist() == expected
        assert found["copies"].tolist() == []
        repeated = sum(carrying) - len(first)
        assert odd == ({REPEATED: repeated} if repeated and any(tied) else {})


def test_all_rows_are_known_where_nothing_else_is_told():
    calls, work = numbered([(1, 3), (1, 4), (1, 3)]), numbered([(1, 4), (1, 3), (2, 3), (1, 5)])
    assert launched({"kernels": work}, calls)[0]["kernels"].tolist() == [1, 0, -1, -1]


def test_ranges_around_calls():
    nested = np.array([True, False, True, True])
    thread, start, end = (np.array(values) for values in ([1, 1, 1, 2], [0, 1, 4, 0], [10, 9, 12, 10]))
    enclosing = Enclosing(nested, thread, start, end)
    calls_thread, calls_start = np.array([1, 1, 2, 3]), np.array([2, 5, 11, 5])
    inside, odd = enclosed(enclosing, {"kernels": np.array([0, 1, 2, 3, -1]), "copies": np.array([1])}, calls_thread, calls_start)
    assert {name: found.tolist() for name, found in inside.items()} == {"kernels": [0, 2, -1, -1, -1], "copies": [2]}
    assert odd == {CROSSING: 1}
    assert enclosed(None, {"kernels": np.array([0])}, calls_thread, calls_start) == ({}, {})
