"""Python's functions of XLA's profiles, against what an independent walker finds open at each instant."""

import pytest

from kernelscope.analysis.formats.python_functions import FRAMEWORK, PROGRAM
from kernelscope.analysis.formats.xplane import functions
from kernelscope.analysis.formats.xplane import trace as xplane
from tests.analysis.formats.xplane.walker import planes_of
from tests.places import corpus

GPU = "tf/AMD-AGI__TraceLens__mi300_jax08_attention.xplane.pb"
FILE = "generate_attention_trace.py"


def spans_of(path):
    """Return the spans of the program's functions, of its one thread that has any."""
    _, planes = planes_of(path)
    return [
        (name, start, start + duration)
        for plane, _, lines in planes if plane == "/host:CPU"
        for _, _, events in lines
        for name, _, start, duration, _ in events if name.startswith("$" + FILE)
    ]  # fmt: skip


def test_an_instant_is_of_the_programs_innermost_function():
    path = corpus(GPU)
    trace = xplane.read(path)
    trace.check()
    lines = trace.host_lines
    spent = (lines["end_ns"] - lines["start_ns"]).groupby([lines["file"], lines["line"], lines["function"]], observed=True).sum()
    spans = spans_of(path)
    inner = [(start, end) for name, start, end in spans if name.endswith(" attention")]
    outer = [(start, end) for name, start, end in spans if name.endswith(" transformer_block")]
    assert (len(inner), len(outer)) == (3, 3)
    assert all(any(first <= start and end <= last for first, last in outer) for start, end in inner)
    within = sum(end - start for start, end in inner)
    assert spent[FILE, 21, "attention"] == within
    assert spent[FILE, 29, "transformer_block"] == sum(end - start for start, end in outer) - within


def test_functions_are_no_ranges():
    trace = xplane.read(corpus(GPU))
    assert not trace.ranges["name"].astype("string").str.startswith("$").any()
    assert trace.info["host_lines"] == "python functions"


@pytest.mark.parametrize(
    ("name", "file", "line", "function", "owner"),
    [
        ("$train.py:41 step", "train.py", 41, "step", PROGRAM),
        ("$core.py:634 _true_bind", "core.py", 634, "_true_bind", FRAMEWORK),
        ("$gen_math_ops.py:12 mat_mul", "gen_math_ops.py", 12, "mat_mul", FRAMEWORK),
        ("$threading.py:900 run", "threading.py", 900, "run", FRAMEWORK),
        ("$<ipython-input-3-0a>:1 <module>", "<ipython-input-3-0a>", 1, "<module>", PROGRAM),
        ("$<string>:2 __init__", "<string>", 2, "__init__", FRAMEWORK),
    ],
)
def test_names(name, file, line, function, owner):
    place = functions._place_of(name)
    assert (place.file, place.line, place.function, place.owner) == (file, line, function, owner)


@pytest.mark.parametrize("name", ["$builtins len", "$<unknown> astype", "PjitFunction(step)", "$", "$x.py:" + "9" * 30 + " f"])
def test_names_of_no_file(name):
    assert functions._place_of(name) is None
