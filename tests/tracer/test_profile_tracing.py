"""Functions that TensorFlow traces anew: how often, and why, by a stand-in of what makes graphs."""

import sys
import types

import pytest

from kernelscope.tracer.inside.frameworks.tensorflow.tracing import Tracings
from kernelscope.tracer.inside.profiling.patches import Patches

MODULE = "tensorflow.python.eager.polymorphic_function.tracing_compilation"


class Parameter:
    def __init__(self, constraint):
        self.type_constraint = constraint


class FunctionType:
    def __init__(self, **types_):
        self.parameters = {name: Parameter(text) for name, text in types_.items()}


@pytest.fixture
def tracing(monkeypatch):
    """Tracings that watch a module's making of graphs, and a function that makes one."""
    module = types.SimpleNamespace(_create_concrete_function=lambda *arguments: "graph")
    monkeypatch.setitem(sys.modules, MODULE, module)
    made = Tracings(types.SimpleNamespace(executing_eagerly=lambda: made.outermost))
    made.outermost = True
    assert made.watch(Patches())

    def trace(function, **types_):
        options = types.SimpleNamespace(python_function=function, name=function.__name__)
        return module._create_concrete_function(FunctionType(**types_), None, None, options)

    return made, trace


def step(x):
    return x


@pytest.mark.parametrize(
    ("before", "after", "kind", "why"),
    [
        ("Literal[1]", "Literal[2]", "static value", "the static value of x changes"),
        ("TensorSpec(shape=(3,))", "TensorSpec(shape=(4,))", "shape", "the shape of x changes"),
        ("TensorSpec(shape=(3,))", "TensorSpec(shape=(3,))", "unknown", "nothing visible in its arguments changes"),
    ],
)
def test_the_argument_that_changes_is_named(tracing, before, after, kind, why):
    made, trace = tracing
    assert trace(step, x=before) == "graph"
    mark = made.mark()
    trace(step, x=after)
    since = made.since(mark)
    assert since["count"] == 1
    assert [(one["name"], one["kind"], one["why"], one["count"]) for one in since["functions"]] == [("step", kind, why, 1)]


def test_a_function_that_is_made_in_each_step(tracing):
    made, trace = tracing

    def function():
        return lambda x: x

    kept = [function(), function()]
    mark = made.mark()
    for one in kept:
        trace(one, x="TensorSpec(shape=(3,))")
    assert [one["kind"] for one in made.since(mark)["functions"]] == ["first", "new"]


def test_what_is_traced_as_a_part_of_another_function_is_not_counted(tracing):
    made, trace = tracing
    made.outermost = False
    trace(step, x="Literal[1]")
    assert made.count == 0


def test_only_calls_that_trace_take_time(tracing):
    made, trace = tracing
    made.timed(made.count, 0)
    assert made.ns == 0
    before = made.count
    trace(step, x="Literal[1]")
    made.timed(before, 0)
    assert made.ns > 0


def test_a_tensorflow_that_makes_graphs_elsewhere_tells_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, MODULE, types.SimpleNamespace())
    assert not Tracings(types.SimpleNamespace(executing_eagerly=bool)).watch(Patches())
