"""How the command line names sides: labels, frameworks, programs and variables; one line with a remedy for what is wrong."""

import pytest

from kernelscope.cli import sides
from kernelscope.cli.sides import Entry
from kernelscope.tracer.outside.errors import UsageError
from tests.commands import called


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytorch", [("pytorch", "pytorch", None)]),
        ("pytorch, cntk,", [("pytorch", "pytorch", None), ("cntk", "cntk", None)]),
        ("a=pytorch,b=pytorch", [("a", "pytorch", None), ("b", "pytorch", None)]),
        ("pytorch,pytorch@plants/slow.v2.py", [("pytorch", "pytorch", None), ("slow.v2", "pytorch", "plants/slow.v2.py")]),
        ("x-1=mxnet@../a=b@c.py", [("x-1", "mxnet", "../a=b@c.py")]),
    ],
)
def test_sides_and_what_they_are_called(text, expected):
    assert sides.entries(text) == [Entry(*entry) for entry in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" , ", "name each framework"),
        ("pytorch,cntk,pytorch", "two sides are called pytorch; write LABEL=pytorch for one of them"),
        ("cntk,cntk=pytorch", "two sides are called cntk; write LABEL=cntk for one of them"),
        ("a=torch", "unknown framework 'torch'; known: pytorch, tensorflow, mxnet, cntk"),
        ("=pytorch", "'' cannot name a side; write LABEL=pytorch"),
        ("../up=pytorch", "'../up' cannot name a side"),
        (".hidden=pytorch", "'.hidden' cannot name a side"),
        ("a b=pytorch", "'a b' cannot name a side"),
        ("x" * 65 + "=pytorch", "cannot name a side"),
        ("tables=pytorch", "'tables' cannot name a side"),
        ("pytorch@my program.py", "'my program' cannot name a side; write LABEL=pytorch with another LABEL"),
        ("\x1b[31m=pytorch", "cannot name a side"),
    ],
)
def test_wrong_sides_are_refused_with_a_way_out(text, expected):
    with pytest.raises(UsageError) as caught:
        sides.entries(text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_variables_for_all_sides_and_for_one():
    given = ["OMP_NUM_THREADS=2", "b:OMP_NUM_THREADS=1", "XLA_FLAGS=--a=b:c", "a:EMPTY="]
    assert sides.variables(given, ["a", "b"]) == {
        "a": {"OMP_NUM_THREADS": "2", "XLA_FLAGS": "--a=b:c", "EMPTY": ""},
        "b": {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--a=b:c"},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OMP_NUM_THREADS", "--env OMP_NUM_THREADS: write NAME=VALUE"),
        ("=1", "write NAME=VALUE"),
        ("A B=1", "write NAME=VALUE"),
        ("c:A=1", "no side is called c; write LABEL:NAME=VALUE with one of a, b"),
        ("PYTHONHOME=/x", "PYTHONHOME"),
    ],
)
def test_wrong_variables_are_refused(text, expected):
    with pytest.raises(UsageError, match=expected):
        sides.variables([text], ["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["compare", "lenet", "-f", "pytorch,pytorch", "-o", "OUT"], 2, "write LABEL=pytorch for one of them"),
        (["compare", "lenet", "-f", "pytorch", "--env", "x:A=1", "-o", "OUT"], 2, "no side is called x"),
        (["compare", "lenet", "-f", "pytorch,b=pytorch", "--python", "c=/x", "-o", "OUT"], 2, "with one of pytorch, b"),
        (["run", "lenet", "-f", "pytorch", "--program", "/nowhere/p.py", "-o", "OUT"], 3, "/nowhere/p.py: No such file"),
        (["run", "lenet", "-f", "pytorch", "--program", "/etc/passwd", "-o", "OUT"], 2, "name one that ends with .py"),
        (["run", "lenet", "-f", "pytorch", "--env", "A", "-o", "OUT"], 2, "--env A: write NAME=VALUE"),
    ],
)
def test_wrong_use_is_answered_in_one_line(tmp_path, arguments, status, expected):
    arguments = [argument.replace("OUT", str(tmp_path / "out")) for argument in arguments]
    done = called(*arguments)
    assert done.returncode == status, done.stderr
    assert expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
