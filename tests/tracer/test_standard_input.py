"""What a command reads when it is run several times."""

import os
import subprocess
import sys

import pytest

CODE = """
import subprocess, sys
from kernelscope.tracer.inside.launching.standard_input import StandardInput
given = StandardInput()
for _ in range(2):
    given.begin_again()
    subprocess.run(['cat'])
print(given.read_up)
"""


@pytest.mark.parametrize(("through_a_pipe", "expected"), [(False, "rest\nrest\nFalse\n"), (True, "rest\nTrue\n")])
def test_a_file_is_read_from_its_place_again_and_a_pipe_is_read_up(tmp_path, through_a_pipe, expected):
    (tmp_path / "in").write_text("read before\nrest\n")
    with (tmp_path / "in").open() as file:
        os.lseek(file.fileno(), len("read before\n"), os.SEEK_SET)
        given = {"input": file.read()} if through_a_pipe else {"stdin": file}
        done = subprocess.run([sys.executable, "-u", "-c", CODE], capture_output=True, text=True, check=True, **given)
    assert done.stdout == expected


def test_none_is_none():
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", CODE]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("False\n"), done.stderr
