"""Rows that were asked for: they and the others still add up."""

import pytest

from kernelscope.reports.chosen_rows import NotInTable, chosen, finest

ROWS = [
    {"layer": "conv1", "phase": "forward", "count": 2, "duration_ns": 60, "time_ns": 50, "share": 0.5},
    {"layer": "conv2", "phase": "forward", "count": 1, "duration_ns": 30, "time_ns": 30, "share": 0.3},
    {"layer": "head", "phase": None, "count": 9, "duration_ns": 20, "time_ns": 20, "share": 0.2},
]
RESULT = {"by": "layer", "step_ns": 100, "rows": ROWS}


def test_what_a_filter_leaves_out_is_one_row():
    rows = chosen(RESULT, ["layer=conv*"])["rows"]
    assert [row["layer"] for row in rows] == ["conv1", "conv2", "(1 other)"]
    assert sum(row["time_ns"] for row in rows) == 100
    assert sum(row["count"] for row in rows) == 12


def test_of_rows_that_match_those_that_are_not_shown_are_a_row_of_their_own():
    rows = chosen(RESULT, ["layer=conv*"], most=1)["rows"]
    assert [row["layer"] for row in rows] == ["conv1", "(1 other of these)", "(1 other)"]
    assert sum(row["time_ns"] for row in rows) == 100


def test_the_order_and_the_number_of_rows():
    rows = chosen(RESULT, sort="count", most=1)["rows"]
    assert [row["layer"] for row in rows] == ["head", "(2 others)"]
    assert [row["layer"] for row in chosen(RESULT, sort="layer")["rows"]] == ["conv1", "conv2", "head"]
    assert chosen(RESULT, sort="calls")["rows"] == chosen(RESULT, sort="count")["rows"], "as the table heads it"
    assert chosen(RESULT, sort="duration")["rows"] == chosen(RESULT, sort="duration_ns")["rows"]
    with pytest.raises(NotInTable, match="no column 'speed'"):
        chosen(RESULT, sort="speed")


def test_rows_in_the_order_of_the_source_keep_it_and_the_largest_are_shown():
    turned = {**RESULT, "rows": ROWS[::-1]}
    assert [row["layer"] for row in chosen(turned, most=2)["rows"]] == ["conv2", "conv1", "(1 other)"]
    assert [row["layer"] for row in chosen(turned, sort="time", most=1)["rows"]] == ["conv1", "(2 others)"]


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(NotInTable, match="no column 'kernel' to filter by; --by kernel has it"):
        chosen(RESULT, ["kernel=x"])
    with pytest.raises(NotInTable, match="no column 'colour' to filter by; there are layer, phase"):
        chosen(RESULT, ["colour=x"])


def test_a_filter_that_leaves_nothing_names_what_there_is():
    with pytest.raises(NotInTable, match=r"no row matches; values of layer include conv., conv., head"):
        chosen(RESULT, ["phase=forward", "layer=convolution*"])
    with pytest.raises(NotInTable, match="no row matches; values of phase include forward"):
        chosen(RESULT, ["layer=conv1", "phase=back*"])
    assert chosen({**RESULT, "rows": []}, ["layer=x"])["rows"] == []


def test_rows_that_agree_are_added_up():
    """One kernel in several layers is one row; the mean of its executions is that of all, and their median is not known."""
    rows = [
        {"kernel": "gemm", "layer": "a", "count": 3, "duration_ns": 30, "time_ns": 25, "share": 0.25, "mean_ns": 10.0,
         "median_ns": 9.0, "min_ns": 8, "max_ns": 12},
        {"kernel": "gemm", "layer": "b", "count": 1, "duration_ns": 50, "time_ns": 45, "share": 0.45, "mean_ns": 50.0,
         "median_ns": 50.0, "min_ns": 50, "max_ns": 50},
        {"kernel": "(idle)", "layer": None, "count": 1, "duration_ns": 30, "time_ns": 30, "share": 0.3, "mean_ns": None,
         "median_ns": None, "min_ns": None, "max_ns": None},
    ]  # fmt: skip
    result = chosen({"by": "kernel", "rows": rows}, group=["kernel"])
    gemm, idle = result["rows"]
    assert gemm == {"kernel": "gemm", "count": 4, "duration_ns": 80, "time_ns": 70, "share": 0.7, "mean_ns": 20.0,
                    "median_ns": None, "min_ns": 8, "max_ns": 50}  # fmt: skip
    assert (idle["kernel"], idle["time_ns"], idle["mean_ns"]) == ("(idle)", 30, None)
    layers = chosen({"by": "kernel", "rows": rows}, ["kernel=gemm"], most=1, group=["layer"])
    assert layers["by"] == "layer"
    others = [("(1 other of these)", 25), ("(1 other)", 30)]
    assert [(row["layer"], row["time_ns"]) for row in layers["rows"]] == [("b", 45), *others]
    outside = [{**row, "phase": "outside of steps" if row["layer"] == "b" else "forward"} for row in rows]
    kept = chosen({"by": "kernel", "rows": outside}, group=["kernel"])["rows"]
    assert [(row["kernel"], row["count"]) for row in kept] == [("(idle)", 1), ("gemm", 3), ("(1 other, outside of steps)", 1)], (
        "no step's own"
    )
    with pytest.raises(NotInTable, match="no column 'kind'"):
        chosen({"by": "kernel", "rows": rows}, group=["kind"])


def test_what_has_no_part_in_a_step_comes_after_what_has():
    """A kernel outside of steps has a duration and no time of a step."""
    rows = [
        {"kernel": name, "count": 1, "duration_ns": duration, "time_ns": time}
        for name, duration, time in (("gemm", 5, 5), ("copy", 3, 3), ("before", 900, 0))
    ]
    kept = chosen({"by": "kernel", "rows": rows}, most=2)["rows"]
    assert [(row["kernel"], row["time_ns"]) for row in kept] == [("gemm", 5), ("copy", 3), ("(1 other)", 0)]


def test_what_tells_most_of_a_recording():
    named, unnamed = {"rows": ROWS, "coverage": 1.0}, {"rows": [{"layer": "(unattributed)", "range": None}], "coverage": 0.0}
    ranges = {"rows": [{"range": "step"}], "coverage": 0.9, "window": "steps"}
    totals = {**ranges, "window": "totals", "totals": {"kernel_sum_ns": 5}}
    assert finest({"layer": named, "range": ranges}) == "layer"
    assert finest({"layer": unnamed, "range": ranges}) == "range"
    assert finest({"layer": unnamed, "range": {**ranges, "coverage": 0.2}}) == "kernel"
    assert finest({"layer": "no timeline", "range": "no ranges"}) == "kernel"
    assert finest({"layer": unnamed, "range": totals}) == "kernel", "ranges of totals may be nested"
    assert finest({"layer": unnamed, "range": {**totals, "totals": {"kernel_sum_ns": 0}}}) == "range"


_TIMES = (10, 30, 12, 28)
STEPS = {
    "by": "step", "step_ns": 20, "steps": 4,
    "rows": [{"step": one, "duration_ns": ns, "time_ns": ns, "share": ns / 20} for one, ns in enumerate(_TIMES)],
}  # fmt: skip


def test_steps_that_are_left_out_are_told_by_their_mean():
    rows = chosen(STEPS, most=2)["rows"]
    assert [row["step"] for row in rows] == [1, 3, "(2 others, mean)"]
    assert rows[-1]["time_ns"] == rows[-1]["duration_ns"] == 11
    assert rows[-1]["share"] == (10 + 12) / 2 / 20


def test_lines_and_steps_are_sorted_as_they_follow_each_other():
    assert [row["step"] for row in chosen(STEPS, sort="step")["rows"]] == [0, 1, 2, 3]
    assert [row["step"] for row in chosen(STEPS, sort="ms")["rows"]] == [1, 3, 2, 0]
