"""Children that crash, hang or refuse: one line that names the pass, the status or signal, and the log; nothing left behind."""

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from kernelscope.tracer.outside import answers
from kernelscope.tracer.outside.errors import ChildError
from kernelscope.tracer.outside.process import Child


def _start(folder, fault, timeout_s=20.0):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "children")}
    return Child(Path(sys.executable), {"framework": "pytorch", "pass": fault}, folder, environment, timeout_s, module="faulty")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("exit", r"pytorch, exit pass: ended with exit status 7: something went wrong in the framework \(log: .*child\.log\)"),
        ("abort", r"pytorch, abort pass: ended with signal SIGABRT"),
        ("error", r"pytorch, error pass: RuntimeError: out of memory \(log: .*child\.log\)"),
        ("import", r"import failed: No module named 'torch'; create its environment with `kernelscope env create pytorch`"),
    ],
)
def test_a_failing_child_is_named_with_its_pass_status_and_log(tmp_path, fault, expected):
    child = _start(tmp_path, fault)
    with pytest.raises(ChildError, match=expected) as caught:
        child.answer()
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4
    assert not psutil.pid_exists(child.pid)


def test_a_hung_child_is_ended_with_its_own_children(tmp_path):
    child = _start(tmp_path, "hang", timeout_s=2.0)
    with pytest.raises(
        ChildError, match=r"pytorch, hang pass: no answer within 2 s; raise --timeout, or look at the log: .*child.log"
    ):
        child.answer()
    grandchild = int((tmp_path / "grandchild.pid").read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _alive(grandchild):
        time.sleep(0.05)
    assert not _alive(grandchild)


def _alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_child_that_went_away_between_commands(tmp_path):
    child = _start(tmp_path, "closed")
    assert child.answer() == {"event": "ready"}
    with pytest.raises(ChildError, match=r"ended with exit status 0"):
        child.tell(do="warmup")


def test_an_interpreter_that_cannot_be_started(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ChildError, match=r"cannot start .*no-such-python: No such file"):
        Child(tmp_path / "no-such-python", {"framework": "pytorch", "pass": "clean"}, tmp_path, {}, 5.0)
    assert len(os.listdir("/proc/self/fd")) == before, "pipes were left open"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("hello\x1b[31m", r"but hello\\x1b\[31m \(log: .*child\.log\)"),
        ("[1]", r"but \[1\] \("),
        ('{"a":1}', r'but \{"a":1\} \('),
        ('{"event":["x"]}', "but "),
        ("[" * 3000, r"but \[{120}\.\.\. \("),
        ("\xff\xfe", "but \N{REPLACEMENT CHARACTER}"),
        ('{"event":"ready","pid":"x"}', r"\(pid is missing, or of another type\)"),
        ('{"event":"ready","pid":1e999}', r"\(pid is missing"),
        ('{"event":"error"}', r"\(kind is missing"),
        ('{"event":"window","step_ns":[1,"x"]}', r"\(step_ns is missing"),
        ("9" * 5000, "but 99999"),
        ("", r"wrote no answer into its pipe, but an empty line \("),
    ],
)
def test_a_line_that_is_no_answer(tmp_path, line, shown):
    """What libraries or the program write into the descriptor is named, and ends the child."""
    child = _start(tmp_path, f"line {line}")
    with pytest.raises(ChildError, match=shown) as caught:
        child.answer()
    assert str(caught.value).rpartition(" pass: ")[2].isprintable()
    assert not psutil.pid_exists(child.pid)


def test_a_line_without_end_takes_no_more_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "LONGEST", 1_000_000)
    child = _start(tmp_path, "endless")
    with pytest.raises(ChildError, match=r"but a line of more than 1 MB: x{120}\.\.\. \("):
        child.answer()
    assert not psutil.pid_exists(child.pid)


def test_an_answer_to_another_command(tmp_path):
    child = _start(tmp_path, "another answer")
    child.answer()
    with pytest.raises(ChildError, match=r"wrote no answer into its pipe, but warm to window \("):
        child.tell(do="window", window=1, steps=1)
