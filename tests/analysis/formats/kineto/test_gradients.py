"""What autograd noted, by the sequence numbers of operators: one that makes no node leaves the number to the next."""

import pandas as pd

from kernelscope.analysis.formats.kineto import autograd


def noted(*rows):
    """rows: sequence number (None without), forward thread, parent; on one thread, in the order of their starts."""
    table = pd.DataFrame(rows, columns=["sequence", "forward_thread", "parent"])
    table = table.astype({"sequence": "Int64", "forward_thread": "Int64", "parent": "int64"}).assign(
        thread=pd.array([7] * len(rows), dtype="Int64")
    )
    return [None if value is pd.NA else bool(value) for value in autograd.noted(table)]


def test_an_operator_whose_number_the_next_one_bears_made_no_node():
    assert noted((5, 0, -1), (5, 0, -1), (6, 0, -1)) == [False, True, True], "of the last one nothing tells"


def test_what_calls_it_and_what_it_calls_are_as_it_is():
    linear, t, addmm, copy = (5, 0, -1), (5, 0, 0), (6, 0, 0), (None, None, 2)
    assert noted(linear, t, addmm, copy, (7, 0, -1)) == [True, True, True, True, True]
    matmul, mm, resolve = (5, 0, -1), (5, 0, 0), (None, None, 1)
    assert noted(matmul, mm, resolve, (5, 0, -1), (6, 0, -1)) == [False, False, False, True, True]


def test_without_a_number_autograd_was_off():
    assert noted((None, None, -1), (None, None, 0)) == [None, None]
    assert noted() == []


def test_the_backward_pass_is_no_forward_operator():
    assert noted((5, 0, -1), (5, 1, -1), (None, None, 1), (6, 0, -1)) == [True, None, None, True]


def test_threads_count_for_themselves():
    table = pd.DataFrame({"sequence": [5, 9, 5, 9, 6], "forward_thread": 0, "parent": -1, "thread": [1, 2, 1, 2, 1]})
    assert autograd.noted(table.astype({"sequence": "Int64"})).tolist() == [False, False, True, True, True]
