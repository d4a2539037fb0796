"""Temporary folders of processes that were killed are removed by the next one that makes some; those in use never are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from kernelscope.tracer.inside import temporary

HOLDER = """
import sys, time
from kernelscope.tracer.inside import temporary
print(temporary.made(parent=sys.argv[1]), flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds a temporary folder, and the folder's path."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()


def settle(path):
    """Have a folder look as old as one that is settled."""
    past = time.time() - 60
    os.utime(path, (past, past))


def test_what_a_killed_process_left_is_removed(tmp_path, holder):
    process, path = holder
    settle(path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with temporary.folder(parent=str(tmp_path)) as mine:
        assert not os.path.exists(path)
        assert os.listdir(tmp_path) == [os.path.basename(mine)]
    assert os.listdir(tmp_path) == []


def test_what_is_in_use_stays(tmp_path, holder):
    _, path = holder
    settle(path)
    with temporary.folder(parent=str(tmp_path)):
        assert os.path.isdir(path)


def test_what_others_made_stays(tmp_path):
    (tmp_path / "kernelscope-results").mkdir()
    settle(tmp_path / "kernelscope-results")
    with temporary.folder(parent=str(tmp_path)):
        assert (tmp_path / "kernelscope-results").is_dir()


def test_links_are_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / f"{temporary.PREFIX}link").symlink_to(kept)
    os.utime(parent / f"{temporary.PREFIX}link", (1, 1), follow_symlinks=False)
    with temporary.folder(parent=str(parent)):
        assert (kept / "file").read_text() == "x"


def test_files_that_grow_beside_their_target_are_removed_too(tmp_path):
    prefix = temporary.beside("report.sqlite")
    left = tmp_path / f"{prefix}abc"
    left.write_text("half of it")
    settle(left)
    path = temporary.made_file(prefix, str(tmp_path))
    assert not left.exists()
    temporary.removed(path)
    assert os.listdir(tmp_path) == []
