"""What Keras does in a call of predict is that call's: its pipeline is no input of the step that calls it."""

import pandas as pd

from kernelscope.analysis.attribution.frameworks import input_ranges, keras_loops, placed_ranges
from kernelscope.analysis.trace import conform


def table(name, *rows):
    """Rows of thread, start_ns, end_ns, name, layer, phase; ranges also of a category."""
    columns = ["thread", "start_ns", "end_ns", "name", "layer", "phase", "category"]
    return conform(name, pd.DataFrame([dict(zip(columns, row, strict=False)) for row in rows], columns=columns))


PREDICTS = table(
    "ranges",
    (1, 0, 100, "step 1", None, None, "step"),
    (1, 10, 50, "predict", None, "other", "phase"),
    (1, 20, 25, "data", None, "data", "data"),
    (1, 26, 40, "call", None, "other", "phase"),
    (1, 60, 65, "data", None, "data", "data"),
    (1, 80, 90, "end of fit", None, "other", "phase"),
)


def texts(rows, column):
    return rows[column].astype("string").fillna("").tolist()


def test_ranges_of_batches_within_a_call_are_the_calls():
    found = placed_ranges(PREDICTS)
    assert texts(found, "layer") == ["", "(predict)", "(predict)", "", "", "(fit)"]
    assert texts(found, "phase") == ["", "other", "other", "other", "data", "other"]
    assert texts(found, "category") == ["step", "phase", "phase", "phase", "data", "phase"]
    assert keras_loops.among(found)["name"].tolist() == ["predict", "end of fit"]


def test_other_ranges_stay_as_they_are():
    named = table("ranges", (1, 0, 9, "predict", "predict", "forward", "layer"), (1, 1, 2, "data", None, "data", "data"))
    pd.testing.assert_frame_equal(keras_loops.placed(named), named)
    assert texts(input_ranges(named), "layer") == ["predict", ""], "a layer may have that name"


def test_operators_of_a_call_on_any_thread():
    operators = table(
        "operators",
        (1, 12, 14, "MakeIterator", None, "data"),
        (7, 15, 19, "PrefetchDataset", None, "data"),
        (8, 30, 35, "ExecutorState::Process", None, "other"),
        (8, 31, 34, "MatMul", "dense", "forward"),
        (1, 61, 62, "IteratorGetNext", None, "data"),
        (8, 55, 56, "ExecutorState::Process", None, "other"),
    )
    found = keras_loops.owned(operators, placed_ranges(PREDICTS))
    assert texts(found, "layer") == ["(predict)", "(predict)", "(predict)", "dense", "", ""]
    assert texts(found, "phase") == ["other", "other", "other", "forward", "data", "other"]
    pd.testing.assert_frame_equal(keras_loops.owned(operators, PREDICTS.head(1)), operators)
