"""Python's own time, with the line."""

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.causes import python
from kernelscope.analysis.trace import Trace, conform

ROWS = [
    ("(data)", "data", "(host: in ranges)", 100, 9000),
    ("(unattributed)", "other", "(host: outside of ranges)", 100, 2100),
    ("fc1", "forward", "(host: in layers)", 100, 200),
    ("fc1", "forward", "(host: in operators)", 100, 700),
    ("fc1", "forward", "gemm", 5000, 5000),
]


def _trace(lines):
    rows = [{"file": "train.py", "function": "train", "line": number, "last_line": number, "text": text, "hits": 10,
             "time_ns": ns} for number, text, ns in lines]  # fmt: skip
    return Trace(lines=conform("lines", pd.DataFrame(rows)), info={"lines_steps": 10})


def test_time_outside_of_operators_with_its_line(make_case, make_side, suspected, swapped):
    a = make_side("plain", trace=_trace([(3, "loss.backward()", 30000), (4, "log(loss)", 1000)]))
    b = make_side("logging", trace=_trace([(7, "loss.backward()", 90000), (9, "log(loss)", 24000)]))
    made = make_case(ROWS, a, b)
    (found,) = suspected(python, made)
    assert found.claims == {"r2": 2000, "r3": 100}
    assert found.precedence == 2
    assert "Most of it at train.py:9, `log(loss)`: 2.30 µs per step more than on the other side." in found.evidence
    (mirrored,) = suspected(python, swapped(made))
    assert mirrored.claims == {"r2": -2000, "r3": -100}
    assert mirrored.title == found.title
    assert mirrored.evidence[1] == found.evidence[1]


def test_without_lines_nothing_is_quoted_and_without_significance_nothing_said(make_case, make_side, suspected):
    a, b = make_side("a"), make_side("b")
    (found,) = suspected(python, make_case(ROWS, a, b))
    assert len(found.evidence) == 1
    assert suspected(python, make_case([(*row[:5], False) for row in ROWS], a, b)) == []
    assert suspected(python, make_case([(*row[:4], row[3]) for row in ROWS], a, b)) == []


def test_a_sum_may_be_sure_where_no_row_is(make_case, make_side, suspected):
    unsure = [(*row[:5], False) for row in ROWS]
    made = make_case(unsure, make_side("a"), make_side("b"))
    # the rows vary, but against each other
    made.account.samples = np.array([[0, 2000 + noise, 100 - noise, 0, 0] for noise in (-3000.0, 0.0, 3000.0)])
    made.account.by_restart = made.account.samples
    (found,) = suspected(python, made)
    assert found.claims == {"r2": 2000, "r3": 100}
    assert "most of the difference" not in found.evidence[0], "no row may be named"
    made.account.samples = made.account.by_restart = np.array([[0, noise, 100, 0, 0] for noise in (-3000.0, 0.0, 3000.0)])
    assert suspected(python, made) == []
