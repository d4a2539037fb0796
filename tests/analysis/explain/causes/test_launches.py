"""Launch overhead explains where more is launched, and not where the host takes longer for as much."""

from kernelscope.analysis.explain.causes import launches
from kernelscope.analysis.trace import Trace, conform

ROWS = [("conv", "forward", "(host: in operators)", 1000, 2000), ("fc", "forward", "(host: in operators)", 1000, 4000)]


def starting(make_side, make_steps, name, **counts):
    """A side that starts so many operators in each layer, in one step."""
    rows = [
        {"thread": 1, "start_ns": at, "end_ns": at + 1, "name": "add", "layer": layer, "phase": "forward"}
        for layer, count in counts.items()
        for at in range(count)
    ]
    trace = Trace(steps=make_steps(1, 10_000), operators=conform("operators", rows))
    return make_side(name, clean=[make_steps(10, 10_000)], trace=trace)


def test_only_layers_that_start_more(make_case, make_side, make_steps, suspected):
    a, b = (starting(make_side, make_steps, name, conv=10, fc=count) for name, count in (("A", 10), ("B", 40)))
    (found,) = suspected(launches, make_case(ROWS, a, b))
    assert found.claims == {"r2": 3000}


def test_as_many_operators_everywhere_are_no_cause(make_case, make_side, make_steps, suspected):
    a, b = (starting(make_side, make_steps, name, conv=10, fc=10) for name in "AB")
    assert suspected(launches, make_case(ROWS, a, b)) == []
