"""Children that crash, hang or refuse: one line that names the pass, the status or signal, and the log; nothing left behind."""

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

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
