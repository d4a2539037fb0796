"""The account of a step on processors: what operators compute beside a library's calls, and what is dispatch."""

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE
from kernelscope.analysis.advise import host_account
from kernelscope.analysis.advise.rules import host, precision
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import Trace, conform

US, MS = 1_000, 1_000_000
SLOW = "aten::slow_conv_transpose2d"


def account(*operators, step_ms=10):
    """A step of operators one after another. operators: name, us, and of a library's call within it: us, dtype; 0: none."""
    tables = {"operators": [], "kernels": []}
    now = 0
    for name, us, inside, dtype in operators:
        about = {"thread": 1, "phase": "forward", "layer": "decoder.t1"}
        tables["operators"].append({**about, "name": name, "start_ns": now, "end_ns": now + us * US})
        if inside:
            start = now + 50 * US
            call = {**about, "name": "DGEMM", "operator": name, "kind": "gemm", "dtype": dtype, "library": "mkl", "device": "cpu"}
            times = {"start_ns": start, "end_ns": start + inside * US, "duration_ns": inside * US, "count": 1}
            tables["kernels"].append({**call, **times})
        now += us * US
    step = {"step": 0, "warmup": False, "thread": 1, "start_ns": 0, "end_ns": step_ms * MS}
    trace = Trace(
        steps=conform("steps", pd.DataFrame([step])), **{name: conform(name, pd.DataFrame(rows)) for name, rows in tables.items()}
    )
    rows, step_ns = host_account.of_trace(trace)
    assert rows["time_ns"].sum() == step_ns == step_ms * MS
    return Subject("run", trace, rows, step_ns, "cpu", None, STEPS, None, 1, {"framework": "pytorch"})


def own(made, name=SLOW):
    """The rows of what an operator does beside the library's call in it."""
    rows = made.rows[((made.rows["operator"] == name) & ~made.rows["name"].isin(["DGEMM"])).fillna(False).to_numpy(bool)]
    return rows[["part", "kind", "dtype"]].fillna("").values.tolist(), int(rows["time_ns"].sum())


def test_what_an_operator_computes_around_a_librarys_call_is_no_dispatch():
    """Images are copied into matrices for 6 ms, of the type of the products."""
    made = account((SLOW, 8000, 2000, "f64"))
    assert own(made) == ([[COMPUTE, "convolution forward", "f64"]], 6 * MS)
    assert host.dispatch(made) == []
    (one,) = precision.double(made)
    assert one.saves_ns == 4 * MS, "half of all 8 ms"


@pytest.mark.parametrize(
    ("operator", "ns"),
    [((SLOW, 2800, 2000, "f64"), 800 * US), ((SLOW, 6000, 0, None), 6 * MS)],
    ids=["as long as dispatch may take", "without a call of a library"],
)
def test_other_time_in_operators_stays_the_hosts(operator, ns):
    rows, time_ns = own(account(operator))
    assert [row[0] for row in rows] == [IDLE]
    assert time_ns == ns


def test_a_type_that_is_not_one_is_unknown():
    made = account((SLOW, 5000, 2000, "f64"), (SLOW, 5000, 2000, "f32"))
    assert own(made) == ([[COMPUTE, "convolution forward", ""]], 6 * MS)
