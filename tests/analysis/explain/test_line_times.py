"""What lines take of a clean step: recording's cost is out of the lines that it was spent in."""

import pandas as pd
import pytest

from kernelscope.analysis.explain import line_times, sides
from kernelscope.analysis.trace import Trace, conform

US, MS = 1_000, 1_000_000
OPERATORS = 600  # of 10 us each in the first line: 6 ms of dispatch
FILE = "train.py"


def side(clean_ns, lines_step_ns=0):
    """A recorded step of 10 ms: 6 of line 3, which calls many small operators, and 4 of line 4, which is one product."""
    names = ["step", "warmup", "thread", "start_ns", "end_ns"]
    steps = pd.DataFrame([(0, False, 1, 0, 10 * MS)], columns=names)
    small = [{"name": "aten::add", "start_ns": i * 10 * US, "end_ns": (i + 1) * 10 * US} for i in range(OPERATORS)]
    product = {"start_ns": 6 * MS, "end_ns": 10 * MS}
    kernel = {"name": "inner_product", "operator": "aten::mm", "kind": "gemm", "library": "onednn", "device": "cpu", "count": 1}
    place = {"file": FILE, "function": "train", "thread": 1}
    lines = [
        {**place, "line": 3, "text": "x = chain(x)", "start_ns": 0, "end_ns": 6 * MS},
        {**place, "line": 4, "text": "y = x @ w", "start_ns": 6 * MS, "end_ns": 10 * MS},
    ]
    timed = {"file": FILE, "function": "train", "hits": 1}
    profiled = [
        {**timed, "line": 3, "last_line": 3, "text": "x = chain(x)", "time_ns": 16 * MS},
        {**timed, "line": 4, "last_line": 4, "text": "y = x @ w", "time_ns": 4 * MS},
    ]
    tables = {
        "steps": steps,
        "operators": pd.DataFrame([*small, {"name": "aten::mm", **product}]).assign(thread=1),
        "kernels": pd.DataFrame([{**kernel, **product, "duration_ns": 4 * MS, "thread": 1}]),
        "host_lines": pd.DataFrame(lines),
        "lines": pd.DataFrame(profiled),
    }
    info = {"framework": "pytorch", "lines_steps": 1, "lines_step_ns": lines_step_ns}
    made = sides.of_trace(Trace(info=info, **{name: conform(name, table) for name, table in tables.items()}), "run", "run")
    made.clean_ns = clean_ns
    return made


def of(made, column):
    return line_times.times(made).set_index("line")[column].dropna().to_dict()


@pytest.mark.parametrize(
    ("clean_ns", "first_ns"), [(None, 6 * MS), (10 * MS, 6 * MS), (8 * MS, 4 * MS), (6 * MS, 2 * MS)], ids=str
)
def test_what_recording_cost_is_out_of_the_line_that_dispatches(clean_ns, first_ns):
    """oneDNN times its product itself, so that what the clean step is shorter was spent on the 600 operators."""
    made = of(side(clean_ns), "time_ns")
    assert made[3] == pytest.approx(first_ns, abs=2)
    assert made[4] == pytest.approx(4 * MS, abs=2)


@pytest.mark.parametrize(("lines_ns", "first_ns"), [(20 * MS, 8 * MS), (10 * MS, 16 * MS)], ids=["slower", "as fast"])
def test_times_with_calls_are_scaled_to_the_clean_step(lines_ns, first_ns):
    """A lines pass of 20 ms a step tells half of what it measured of a clean step of 10."""
    assert of(side(10 * MS, lines_ns), "profiled_ns")[3] == first_ns


def test_lines_that_were_not_timed_are_none():
    made = side(None)
    made.trace = Trace(steps=made.trace.steps, operators=made.trace.operators)
    assert line_times.times(made) is None
    assert line_times.of_lines(None, FILE, 3, 1) is None
    assert line_times.of_lines(None, FILE, 3, 0) == 0
