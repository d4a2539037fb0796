"""Eager against graph, and other settings of how operators are executed."""

import pandas as pd
import pytest

from kernelscope.analysis.explain.causes import execution
from kernelscope.analysis.trace import Trace, conform

ROWS = [
    ("conv1", "forward", "convolution forward", 1000, 1100),
    ("conv1", "forward", "(host: in operators)", 200, 900),
    ("(in the framework)", "other", "(host: in the framework)", 300, 400),
    ("(unattributed)", "other", "(host: outside of ranges)", 10, 20),
]


@pytest.mark.parametrize(
    ("framework", "setting", "a", "b", "cause", "remedy"),
    [
        ("tensorflow", "execution", "graph (tf.function)", "eager", "eager against graph", "@tf.function"),
        ("mxnet", "execution", "hybridized", "imperative", "eager against graph", "net.hybridize("),
        ("mxnet", "bulk_execution_train", True, False, "execution settings", "MXNET_EXEC_BULK_EXEC_TRAIN"),
        ("cntk", "trace_level", 0, 1000, "execution settings", "set_computation_network_trace_level(0)"),
        ("cntk", "node_timing", False, True, "execution settings", "set_node_timing"),
    ],
)
def test_a_recorded_setting_owns_everything(make_case, make_side, suspected, swapped, framework, setting, a, b, cause, remedy):
    sides = [make_side(name, framework, settings={setting: value}) for name, value in (("plain", a), ("changed", b))]
    made = make_case(ROWS, *sides, instrumentation_ns=5000)
    (found,) = suspected(execution, made)
    assert (found.cause, found.precedence, found.confidence) == (cause, 0, "high")
    assert found.claims == {"r1": 100, "r2": 700, "r3": 100, "r4": 10, "(profiling overhead)": 5000}
    assert f"{setting}: {a} for plain, {b} for changed" in found.evidence[0]
    assert remedy in found.remedy
    (mirrored,) = suspected(execution, swapped(made))
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}
    assert mirrored.title.index("changed") < mirrored.title.index("plain")


def test_a_variable_and_the_setting_that_it_makes_are_one_difference(make_case, make_side, suspected):
    sides = [make_side(str(on), "mxnet", settings={"bulk_execution_train": on}, variables=variables)
             for on, variables in ((True, {}), (False, {"MXNET_EXEC_BULK_EXEC_TRAIN": "0"}))]  # fmt: skip
    (found,) = suspected(execution, make_case(ROWS, *sides))
    assert found.evidence[1] == "Nothing else that is recorded differs."
    assert "bulk execution" in found.title


def _trace(make_steps, **tables):
    return Trace(steps=make_steps(2, 1000), **{name: conform(name, pd.DataFrame(rows)) for name, rows in tables.items()})


def test_compiled_calls_on_one_side_only_are_seen_in_the_traces(make_case, make_side, make_steps, suspected):
    ranges = [{"thread": 1, "start_ns": start, "end_ns": start + 900, "category": "phase", "name": name, "nested": True}
              for start in (0, 1000) for name in ("data", "call")]  # fmt: skip
    compiled = make_side("plain", "tensorflow", trace=_trace(make_steps, ranges=ranges))
    eager = make_side("changed", "tensorflow", trace=_trace(make_steps, ranges=[ranges[0], ranges[2]]))
    (found,) = suspected(execution, make_case(ROWS, compiled, eager))
    assert "1 for plain, 0 for changed" in found.evidence[0]
    assert sum(found.claims.values()) == 910
    assert suspected(execution, make_case(ROWS, compiled, compiled)) == []
    assert suspected(execution, make_case(ROWS, compiled, make_side("unknown", "tensorflow"))) == []


def test_across_frameworks_the_eager_one_owns_what_surrounds_its_operators(make_case, make_side, suspected, swapped):
    graph = make_side("graph", "cntk", settings={"execution": "graph"})
    eager = make_side("eager", "pytorch", settings={"execution": "eager"})
    (found,) = suspected(execution, make_case(ROWS, graph, eager))
    assert found.claims == {"r2": 700, "r3": 100}
    assert found.title.startswith("eager starts every operator")
    (mirrored,) = suspected(execution, swapped(make_case(ROWS, graph, eager)))
    assert mirrored.claims == {"r2": -700, "r3": -100}
    assert mirrored.title == found.title
    assert suspected(execution, make_case(ROWS, eager, graph)) == [], "the graph's side spends more there"
    assert suspected(execution, make_case(ROWS, make_side("?", "cntk"), eager)) == []


@pytest.mark.parametrize("setting", [None, "eager"])
def test_nothing_is_said_of_equal_or_unknown_settings(make_case, make_side, suspected, setting):
    a = make_side("a", settings={"execution": setting})
    assert suspected(execution, make_case(ROWS, a, make_side("b", settings={"execution": "eager"}))) == []


JAX_ROWS = [
    ("step", "forward", "gemm", 1000, 0),
    ("(optimizer)", "optimizer", "optimizer", 300, 0),
    ("(eager)", "other", "elementwise", 0, 900),
    ("(in the framework)", "other", "(host: in the framework)", 300, 7000),
    ("(in the program)", "other", "(host: in the program)", 100, 900),
]


def _jax(make_side, make_steps, side, calls, eager):
    """A side of JAX: how many compiled functions and how many operations one by one each of its two steps calls."""
    ranges = [{"thread": 1, "start_ns": start + n, "end_ns": start + n + 1, "category": "phase", "name": name,
               "nested": True} for start in (0, 1000) for n, name in enumerate(["step", *["call"] * calls])]  # fmt: skip
    operators = [{"thread": 2, "start_ns": start + n, "end_ns": start + n + 1, "name": "add", "layer": layer,
                  "phase": "other", "attribution": "operator name"}
                 for start in (0, 1000) for n, layer in enumerate(["(eager)"] * eager + ["step"])]  # fmt: skip
    return make_side(side, "jax", trace=_trace(make_steps, ranges=ranges, operators=operators))


def test_operations_one_by_one_against_one_compiled_function(make_case, make_side, make_steps, suspected, swapped):
    jitted, eager = (_jax(make_side, make_steps, *values) for values in (("jitted", 1, 0), ("eager", 0, 120)))
    made = make_case(JAX_ROWS, jitted, eager)
    (found,) = suspected(execution, made)
    assert (found.cause, found.precedence) == ("eager against graph", 0)
    assert found.title == "eager runs 120 operations one by one, jitted as one compiled function"
    assert sum(found.claims.values()) == made.account.wall.delta_ns
    assert "jax.jit" in found.remedy
    (mirrored,) = suspected(execution, swapped(made))
    assert mirrored.title == found.title
    assert sum(mirrored.claims.values()) == -made.account.wall.delta_ns


def test_a_part_of_the_step_outside_of_its_compiled_function(make_case, make_side, make_steps, suspected):
    rows = [("step", "forward", "gemm", 1000, 1100), *JAX_ROWS[1:]]
    jitted, partly = (_jax(make_side, make_steps, *values) for values in (("jitted", 1, 0), ("partly", 1, 47)))
    (found,) = suspected(execution, make_case(rows, jitted, partly))
    assert found.title == "partly runs 47 operations one by one, jitted as one compiled function"
    assert found.evidence[1] == "Compiled in jitted only: (optimizer) optimizer."
    assert sum(found.claims.values()) == -300 + 900 + 6700 + 800  # of the layer that both compile nothing


@pytest.mark.parametrize(("a", "b"), [((1, 0), (1, 0)), ((1, 47), (1, 47)), ((0, 120), (0, 120)), ((1, 0), (1, 5))])
def test_as_many_operations_one_by_one_are_no_cause(a, b, make_case, make_side, make_steps, suspected):
    sides = [_jax(make_side, make_steps, name, *counts) for name, counts in (("a", a), ("b", b))]
    assert suspected(execution, make_case(JAX_ROWS, *sides)) == []


def test_operations_that_were_only_added_are_not_what_the_other_side_compiles(make_case, make_side, make_steps, suspected):
    rows = [("step", "forward", "gemm", 1000, 1000), ("(optimizer)", "optimizer", "optimizer", 300, 300), *JAX_ROWS[2:]]
    sides = [_jax(make_side, make_steps, *values) for values in (("a", 1, 0), ("b", 1, 47))]
    assert suspected(execution, make_case(rows, *sides)) == []
