"""Recurrent layers: cell by cell, or by a fused kernel."""

import pytest

from kernelscope.analysis.explain.causes import other_work, recurrent
from kernelscope.analysis.explain.model import Layer, Match
from kernelscope.analysis.trace import Trace


@pytest.fixture
def unrolled(make_kernel, make_kernels_case):
    k = make_kernel
    cells = [
        k("SGEMM", "gemm", 2800, 56.0),
        k("aten::sigmoid", "activation", 900, 84.0),
        k("aten::mul", "elementwise", 700, 84.0),
    ]
    return make_kernels_case(
        [
            ("lstm1", "forward", [k("rnn jit:avx512", "recurrent", 1500)], cells, 100, 2000),
            ("fc1", "forward", [k("SGEMM", "gemm", 200)], [k("SGEMM", "gemm", 210)], 30, 35),
        ]
    )


def test_a_layer_run_cell_by_cell_owns_its_rows_host_included(unrolled, suspected, swapped):
    (found,) = suspected(recurrent, unrolled)
    assert found.title == "B runs lstm1 cell by cell, A by a fused kernel"
    assert found.claims == {"r1": -1500, "r2": 2800, "r3": 900, "r4": 700, "r5": 1900}
    assert "224 products, activations and elementwise kernels per step" in found.evidence[0]
    assert "torch.nn.LSTM" in found.remedy
    (mirrored,) = suspected(recurrent, swapped(unrolled))
    assert mirrored.title == found.title
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}


def test_between_frameworks_the_kernels_of_it_are_claimed(make_kernel, make_kernels_case, make_side, suspected):
    loop = [make_kernel("Times", "gemm", 2800, 56.0), make_kernel("Sigmoid", "activation", 900, 84.0)]
    made = make_kernels_case([("lstm1", "forward", loop, [make_kernel("RNN", "recurrent", 1500)], 700, 100)],
                             a=make_side("A", "cntk"), b=make_side("B", "mxnet"))  # fmt: skip
    (found,) = suspected(recurrent, made)
    assert found.claims == {"r1": -2800, "r2": -900, "r3": 1500}
    assert "A runs lstm1 cell by cell" in found.title


def test_the_same_way_on_both_sides_is_no_cause(make_kernel, make_kernels_case, suspected):
    loop = [make_kernel("SGEMM", "gemm", 2800, 56.0)]
    slower = [make_kernel("SGEMM", "gemm", 5800, 56.0)]
    assert suspected(recurrent, make_kernels_case([("lstm1", "forward", loop, slower)])) == []
    fused, slow = ([make_kernel("rnn", "recurrent", ns)] for ns in (100, 900))
    assert suspected(recurrent, make_kernels_case([("lstm1", "forward", fused, slow)])) == []


def test_two_frameworks_that_both_loop_are_told_by_their_cells(make_kernel, make_kernels_case, make_side, suspected, swapped):
    quick = [make_kernel("sgemm", "gemm", 3000, 28.0), make_kernel("Mul", "elementwise", 900, 84.0)]
    slow = [make_kernel("Times", "gemm", 4000, 28.0), make_kernel("Slice", "copy", 9000, 112.0)]
    sides = {"a": make_side("A", "tensorflow"), "b": make_side("B", "cntk")}
    made = make_kernels_case([("lstm1", "forward", quick, slow)], **sides)
    made.matches, made.a.layers = [Match(("lstm1",), ("lstm1",), 1.0, "name")], [Layer("lstm1", 0, "lstm")]
    (found,) = suspected(recurrent, made)
    assert found.claims == {"r1": 1000, "r2": -900, "r3": 9000}
    assert found.title == (
        "B takes longer for the cells of lstm1; both run cell by cell, B by 140 kernels per step and A by 112 kernels per step"
    )
    made.a.layers = [Layer("lstm1", 0, "dense")]
    assert suspected(recurrent, made) == []


def modules(*listed):
    return Trace(info={"modules": [{"name": name, "type": kind, "parameters": 9} for name, kind in listed]})


def test_a_layer_that_has_no_fused_kernel_is_not_told_to_use_itself(unrolled, suspected):
    unrolled.a.trace, unrolled.b.trace = modules(("lstm1", "LSTM")), modules(("lstm1", "GRU"))
    (found,) = suspected(recurrent, unrolled)
    assert found.title == "B runs lstm1 (GRU) cell by cell, A (LSTM) by a fused kernel"
    assert "none for GRU" in found.remedy
    assert "LSTMCell" not in found.remedy


def test_a_cell_called_in_a_loop_replaces_the_layer(make_kernel, make_kernels_case, suspected, swapped):
    k = make_kernel
    one = [k("SGEMM", "gemm", 300, 2.0), k("aten::sigmoid", "activation", 100, 3.0)]
    made = make_kernels_case(
        [
            ("lstm = cell (2)", "forward", [k("rnn ref", "recurrent", 500)], one),
            ("cell", "forward", [], one, 0, 90),
            ("fc", "forward", [k("SGEMM", "gemm", 200)], [k("SGEMM", "gemm", 210)]),
        ]
    )
    made.a.trace, made.b.trace = modules(("lstm", "LSTM"), ("fc", "Linear")), modules(("cell", "LSTMCell"), ("fc", "Linear"))
    made.matches[:2] = [Match(("lstm",), ("cell (2)",), 0.6, "alignment"), Match((), ("cell",), 1.0, "missing")]
    made.a.layers[:] = [Layer("lstm", 0), Layer("fc", 1)]
    made.b.layers[:] = [Layer("cell", 0), Layer("cell (2)", 1), Layer("fc", 2)]
    (found,) = [one for one in suspected(recurrent, made) if "calls" in one.title]
    assert found.title == "B calls a recurrent cell for each time step, A runs lstm by a fused kernel"
    assert sum(found.claims.values()) == 2 * 400 + 90 - 500
    assert "LSTMCell in a loop" in found.remedy
    assert suspected(other_work, made) == [], "cells are no layers that the other side lacks"
    made.b.trace = modules(("cell", "Linear"))
    assert not [one for one in suspected(recurrent, made) if "calls" in one.title]
