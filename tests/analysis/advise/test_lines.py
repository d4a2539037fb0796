"""The program's lines in which the time of a finding lies, and remedies that say what to compile."""

import itertools

import pandas as pd
import pytest

from kernelscope.analysis.advise import host_account, words
from kernelscope.analysis.advise.rules import fusion, host, memory
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import Trace, conform

MS = 1_000_000
TIMES = {"warmup": False, "thread": 1}


def recorded(clean_ms=20, framework="pytorch", steps=2):
    """Steps of 20 ms each: a product of 8 ms, of which line 3 has 6 and line 4 has 2; line 4 takes 8 more; 4 are in no line."""
    tables = {"steps": [], "kernels": [], "operators": [], "host_lines": []}
    for step in range(steps):
        began = step * 20 * MS
        tables["steps"].append({"step": step, "start_ns": began, "end_ns": began + 20 * MS, **TIMES})
        product = {"start_ns": began, "end_ns": began + 8 * MS, "thread": 1}
        tables["operators"].append({**product, "name": "aten::mm", "phase": "other"})
        tables["kernels"].append(
            {
                **product,
                "duration_ns": 8 * MS,
                "count": 1,
                "name": "SGEMM",
                "kind": "gemm",
                "operator": "aten::mm",
                "device": "cpu",
            }
        )
        for line, first, last, text in ((3, 0, 6, "y = a @ b"), (4, 6, 16, "total += sum(map(int, names))")):
            place = {"file": "train.py", "function": "main", "line": line, "text": text, "thread": 1}
            tables["host_lines"].append({**place, "start_ns": began + first * MS, "end_ns": began + last * MS})
    trace = Trace(
        **{name: conform(name, pd.DataFrame(rows)) for name, rows in tables.items()}, info={"framework": framework}
    )  # fmt: skip
    rows, step_ns = host_account.of_trace(trace)
    assert step_ns == 20 * MS
    kept = clean_ms / 20
    rows["time_ns"] = (rows["time_ns"] * kept).astype("int64")
    return Subject("run", trace, rows, clean_ms * MS, "cpu", None, STEPS, None, steps, {"framework": framework})


@pytest.mark.parametrize("clean_ms", [20, 10])
def test_the_time_of_each_row_is_shared_by_lines(clean_ms):
    """By hand; and without what recording cost, where the clean step is half as long."""
    made = recorded(clean_ms)
    of = made.lines_of_rows.assign(name=made.rows["name"].reindex(made.lines_of_rows["row"]).to_numpy())
    found = {
        (row["name"] if isinstance(row["name"], str) else None, row["line"]): row["time_ns"] for row in of.to_dict("records")
    }
    part = clean_ms / 20
    assert found == {("SGEMM", 3): 6 * MS * part, ("SGEMM", 4): 2 * MS * part, (None, 4): 8 * MS * part}


def test_lines_that_are_named_have_the_findings_time():
    made = recorded()
    (own,) = host.own_code(made)
    assert own.saves_ns == 12 * MS, "of which line 4 has 8"
    assert "train.py:4 `total += sum(map(int, names))` (8.00 ms)." in own.evidence[1]
    assert ":3" not in own.evidence[1], "it computes"
    assert words.lines_of(made, made.rows[made.rows["name"].eq("SGEMM").fillna(False).to_numpy(bool)]) == [
        "Lines that take most of it: train.py:3 `y = a @ b` (6.00 ms); train.py:4 `total += sum(map(int, names))` (2.00 ms)."
    ]


def test_where_a_framework_computes_behind_the_host_no_line_is_blamed():
    assert words.lines_of(recorded(framework="jax"), recorded().rows) == []


def test_memory_that_is_given_back_and_taken_anew():
    made = recorded()
    made.used_ns = 40.0 * MS
    made.facts["clean"] = {"minor_faults": 20_000.0, "system_ns": 10.0 * MS}
    (one,) = memory.heap(made)
    assert one.saves_ns == 5 * MS, "on two cores"
    assert "20,000 pages" in one.evidence[0]
    made.facts["clean"]["minor_faults"] = 200.0
    assert memory.heap(made) == [], "few faults: the system does something else"
    made.facts["clean"] = {"minor_faults": 20_000.0, "system_ns": 0.5 * MS}
    assert memory.heap(made) == [], "they take next to nothing"


@pytest.mark.parametrize(
    ("layer", "compiled"),
    [
        ("BatchHard", "torch.compile of BatchHard fuses"), ("encoder.0", "torch.compile(model) fuses"),
        (None, "torch.compile of a function that does this fuses"),
    ],
)  # fmt: skip
def test_what_is_to_be_compiled_is_named(layer, compiled):
    rows = pd.DataFrame({"layer": pd.Series([layer, "stem"], dtype="string"), "time_ns": [8 * MS, 2 * MS]})
    made = recorded()
    made.rows = rows
    assert words.compiling(made, fusion.FUSE["pytorch"], rows).startswith(compiled)
    assert words.compiling(made, "jax.jit around it", rows) == "jax.jit around it"


def test_without_layers_the_model_is_to_be_compiled():
    made = recorded()
    assert words.compiling(made, fusion.FUSE["pytorch"], made.rows) == fusion.FUSE["pytorch"]


def of_layer(operator):
    """A step whose layer `rnn` is dispatched for 12 ms."""
    place = {"layer": "rnn", "phase": "forward", "thread": 1}
    operators = [{"name": operator, "start_ns": 0, "end_ns": 12 * MS, **place}]
    times = [row * MS // 10 for row in range(121)]
    operators += [{"name": "aten::mul", "start_ns": start, "end_ns": end, **place} for start, end in itertools.pairwise(times)]
    steps = conform("steps", pd.DataFrame([{"step": 0, "start_ns": 0, "end_ns": 20 * MS, **TIMES}]))
    trace = Trace(steps=steps, operators=conform("operators", pd.DataFrame(operators)))
    rows, step_ns = host_account.of_trace(trace)
    return Subject("run", trace, rows, step_ns, "cpu", None, STEPS, None, 1, {"framework": "pytorch"})


@pytest.mark.parametrize(("operator", "advised"), [("aten::gru", False), ("aten::gru_cell", True)])
def test_a_recurrence_that_compilers_leave_alone_is_not_told_to_be_compiled(operator, advised):
    assert bool(host.dispatch(of_layer(operator))) == advised


def test_an_operator_that_takes_long_by_itself_is_not_dispatched_for_so_long():
    """It gives large tensors back to the system, for one."""
    made = of_layer("aten::gru_cell")
    made.rows["count"] = 1.0
    assert host.dispatch(made) == []
