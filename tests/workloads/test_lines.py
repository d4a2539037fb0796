"""Lines of code, counted by hand beside the counter."""

import sys
import types

from kernelscope.workloads import lines

PROGRAM = '''"""A module."""

import os  # 1
import json

from kernelscope.workloads.x import net

TABLE = {  # 2
    "a": 1,  # 3
}  # 4


def helper():  # 5
    """Say nothing."""
    return os.sep  # 6


def unused():
    return json


class Base:  # 7
    """A base."""

    def stream(self):  # 8
        # a comment
        text = """two
        lines"""  # 9, 10
        return text, TABLE  # 11

    def parameters(self):
        return 1


class Program(Base):  # 12
    rate = 1  # 13

    def __init__(self):  # 14
        self.net = net(  # 15

            1,  # 16
        )  # 17

    @property  # 18
    def helped(self):  # 19
        return helper()  # 20

    def train(self):
        return 0

    def infer(self):  # 21
        return self.helped  # 22
'''
NETWORK = '''"""A network."""


def net(size):  # 23
    return inner(size)  # 24


def inner(size):  # 25
    return size  # 26


def other():
    return 1
'''


def test_only_lines_of_code_that_the_loop_reaches_are_counted():
    assert lines.count_sources([PROGRAM, NETWORK], ("Program", "load", "prepare", "stream", "infer")) == 26
    # without the loop for inference nothing needs `helped`, `helper` and what it imports
    assert lines.count_sources([PROGRAM, NETWORK], ("Program", "stream", "train")) == 26 - 2 - 3 - 2 - 1 + 2


def test_code_lines_are_neither_blank_nor_comments_nor_docstrings():
    source = '"""Doc."""\nx = 1\n\n# no\nif x:  # yes\n    "a string alone"\n    y = ("a"\n         "b")\n'
    assert lines.code_lines(source) == {2, 5, 7, 8}


def test_a_decorated_function_of_compiled_code_counts_with_its_decorator():
    source = "import functools\n\n\n@functools.wraps\ndef load():\n    return 1\n"
    assert lines.count_sources([source], ("load",)) == 4


ANNOTATED = """from typing import Any, Dict


class Options(dict):
    pass


class Program(object):  # 1
    kept: Dict[str, Any] = {}  # 2

    def train(self, batches: Options) -> Options:  # 3
        held: Dict = dict(batches)  # 4
        return held  # 5
"""


def test_annotations_and_what_they_name_do_not_count():
    assert lines.count_sources([ANNOTATED], ("Program", "train")) == 5


TABLED = """from kernelscope.workloads.x.first import First
from kernelscope.workloads.x.family import second, third
from kernelscope.workloads.x import alone, shared

MODELS = {
    "first": First,  # 1
    "second": second,
    "third": third,
    "alone": lambda: alone.build(
        shared.size,  # 2 of alone's
    ),
}


def make(name):
    return MODELS[name]()
"""
FAMILY = """def family(size):
    return size


def second():
    return family(2)


def third():
    return family(3) + 1
"""


def test_of_a_table_of_networks_only_the_one_that_runs_counts():
    sources = [TABLED, FAMILY, "class First:\n    def __init__(self):\n        self.made = 1\n"]
    # make, its entry, and what that leads to: class First; second and family; two lines that lead to no source here
    assert lines.count_sources(sources, ("make",), "first") == 2 + 1 + 3
    assert lines.count_sources(sources, ("make",), "second") == 2 + 1 + 2 + 2
    assert lines.count_sources(sources, ("make",), "alone") == 2 + 2


def test_modules_imported_for_other_networks_alone_are_left_out(tmp_path, monkeypatch):
    package = "kernelscope.workloads.x"
    files = {
        "program": TABLED + "\n\nclass Program:\n    def __init__(self):\n        make('second')\n",
        "first": "def family():\n    return 1\n",  # the name of what is reached, elsewhere
        "family": FAMILY,
        "third": "def second():\n    return 1\n",  # named after another network, but holds what this one needs
        "alone": "def family():\n    return 1\n",
        "shared": "def family():\n    return 1\n",
    }
    for name, text in files.items():
        module = types.ModuleType(f"{package}.{name}")
        module.__file__ = str(tmp_path / f"{name}.py")
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    program = type("Program", (), {"__module__": f"{package}.program"})()
    monkeypatch.setattr(lines, "_modules", lambda _: [sys.modules[f"{package}.{name}"] for name in files])
    # Program 3, make 2, entry 1, second 2 and family 2; second of the module third 2
    assert lines.count(program, "train", "second", ["first", "second", "third"]) == 3 + 2 + 1 + 4 + 2
