"""Completion as shells ask for it."""

import os
import shutil
import subprocess
import sys

import pytest

from kernelscope.cli.main import COMMANDS

COMMAND = [sys.executable, "-m", "kernelscope.cli.main"]


def completed(line, tmp_path):
    """Return what a shell is told of a line that ends where the cursor is."""
    asked = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out"),
    }
    environment = {**os.environ, **asked, "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "bash"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {word.strip() for word in (tmp_path / "out").read_text().split("\n") if word.strip()}


def test_commands_options_and_choices(tmp_path):
    assert completed("kernelscope ", tmp_path) >= set(COMMANDS)
    assert completed("kernelscope exp", tmp_path) == {"explain", "export"}
    assert "--filter" in completed("kernelscope breakdown x --f", tmp_path)
    assert completed("kernelscope breakdown x --by op", tmp_path) == {"operator"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_is_what_the_shell_takes(shell):
    done = subprocess.run([*COMMAND, "completion", shell], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "kernelscope" in done.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, timeout=60, check=False)
        assert checked.returncode == 0, checked.stderr
