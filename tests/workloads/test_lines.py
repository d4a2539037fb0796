"""Lines of code, counted by hand beside the counter."""

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
