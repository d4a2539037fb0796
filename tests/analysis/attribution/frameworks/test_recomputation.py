"""Ranges that are what those around them say: forward work during a backward pass, modules of a data set; casting copies."""

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import CLIPPING, input_ranges, placed_ranges, recomputed_ranges
from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.trace import conform


def ranges(*rows):
    columns = ["start_ns", "end_ns", "category", "layer", "phase"]
    return conform("ranges", pd.DataFrame([{"thread": 1, "name": "x", **dict(zip(columns, row, strict=True))} for row in rows]))


STEP = (
    (0, 40, "phase", None, "forward"),
    (10, 30, "layer", "conv1", "forward"),
    (50, 99, "phase", None, "backward"),
    (60, 80, "layer", "conv1", "backward"),
)


def test_a_layer_called_during_backward_is_of_that_phase():
    found = recomputed_ranges(ranges(*STEP, (62, 70, "layer", "tanh1", "forward"), (100, 120, "layer", "conv1", "forward")))
    assert found["phase"].tolist() == ["forward", "forward", "backward", "backward", "backward", "forward"]
    assert found["layer"].tolist()[4] == "tanh1"


def test_ranges_without_such_calls_stay_as_they_are():
    for table in (ranges(*STEP), ranges(*STEP[:2]), ranges()):
        pd.testing.assert_frame_equal(recomputed_ranges(table), table)


def test_what_is_called_while_a_batch_is_made_is_input():
    data = (100, 200, "data", None, "data"), (110, 150, "layer", "Resize", "forward"), (120, 130, "sync", None, "other")
    found = input_ranges(ranges(*STEP, *data, (210, 220, "layer", "conv1", "forward")))
    assert found["phase"].tolist() == ["forward", "forward", "backward", "backward", "data", "data", "data", "forward"]
    assert found["layer"].astype("string").fillna("").tolist() == ["", "conv1", "", "conv1", "", "", "", "conv1"]
    assert found["category"].tolist()[4:] == ["data", "data", "data", "layer"]
    elsewhere = ranges(*STEP, data[0])
    pd.testing.assert_frame_equal(placed_ranges(elsewhere), elsewhere)
    other_thread = ranges(*STEP, *data[:2]).assign(thread=[1] * 5 + [2])
    pd.testing.assert_frame_equal(input_ranges(other_thread), other_thread)


def named(*rows):
    return ranges(*[row[:5] for row in rows]).assign(name=pd.Series([row[5] for row in rows], dtype="category"))


def test_clipping_by_the_library_updates_no_parameter():
    """Runs that were recorded before say so; it is no layer either."""
    found = placed_ranges(
        named(
            (100, 120, "phase", None, "optimizer", "clip gradients"),
            (130, 190, "phase", None, "optimizer", "optimizer step"),
            (200, 210, "user", None, None, "clip gradients"),
        )
    )
    assert found["phase"].astype("string").fillna("").tolist() == ["other", "optimizer", ""]
    assert found["layer"].astype("string").fillna("").tolist() == [CLIPPING, "", ""]


def test_values_that_the_optimizer_reads_are_its_own():
    """Not those of a closure that it calls, of the program's own code, or of another thread; other ranges stay as they are."""
    found = placed_ranges(
        named(
            (100, 190, "phase", None, "optimizer", "optimizer step"),
            (110, 120, "phase", None, "other", "item"),
            (130, 180, "phase", None, "other", "closure"),
            (140, 150, "phase", None, "other", "item"),
            (200, 210, "phase", None, "other", "item"),
        )
    )
    assert found["phase"].tolist() == ["optimizer", "optimizer", "other", "other", "other"]
    elsewhere = named(
        (100, 190, "phase", None, "optimizer", "optimizer step"), (110, 120, "phase", None, "other", "item")
    ).assign(thread=[1, 2])
    pd.testing.assert_frame_equal(placed_ranges(elsewhere), elsewhere)
    alone = named((110, 120, "phase", None, "other", "item"))
    pd.testing.assert_frame_equal(placed_ranges(alone), alone)


def test_copies_between_types_are_casts_but_those_of_numbers_are_not():
    assert aten.converts('["double", "float", "Scalar"]')
    assert not aten.converts('["float", "float", "Scalar"]')
    assert not aten.converts('["float"]')
    table = pd.DataFrame(
        {
            "name": ["aten::copy_"] * 3,
            "start_ns": [0, 10, 20],
            "end_ns": [5, 15, 25],
            "shapes": ["[[4, 4], [4, 4], []]", "[[4, 4], [4, 4], []]", "[[], [], []]"],
            "types": ['["double", "float", "Scalar"]', '["float", "float", "Scalar"]', '["float", "double", "Scalar"]'],
            "parent": [-1, -1, -1],
        }
    )
    found = autograd.computing_operators(table, np.zeros(0, dtype=np.int64))
    assert found["kind"].tolist() == ["cast", "copy", "copy"]
    assert found["dtype"].tolist() == ["f64", "f32", "f32"]
