"""Faults during a real run: Ctrl-C, a killed child, a full disk, a child that does not answer. The run folder stays readable."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from kernelscope.analysis.recordings.run import Run

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "kernelscope.cli.main"]


def _start(folder, *options, **popen):
    command = [*COMMAND, "run", "lenet", "-f", "pytorch", "-o", str(folder), "--device", "cpu", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)


def _wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def _children(process):
    found = psutil.Process(process.pid).children(recursive=True)
    return [child for child in found if "kernelscope.tracer.inside.child" in " ".join(child.cmdline())]


def _record(folder):
    return json.loads((folder / "run.json").read_text())


@pytest.mark.long
def test_ctrl_c_ends_the_children_and_keeps_what_was_recorded(tmp_path):
    folder = tmp_path / "run"
    process = _start(folder)
    _wait_for(lambda: (folder / "clean" / "2").exists())
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or [])]
    assert _record(folder)["complete"] is False
    assert "interrupted" in _record(folder)["reason"]
    assert len(Run(folder).clean_steps()) == 30, "the first repeat of the clean pass is whole"
    assert len(Run(folder).trace().kernels) > 0, "and so is the kernels pass that followed it"


def test_a_killed_child_is_named_with_pass_signal_and_log(tmp_path):
    folder = tmp_path / "run"
    process = _start(folder)
    _wait_for(lambda: (folder / "layers" / "1" / "child.log").exists() and _children(process))
    _children(process)[0].send_signal(signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "pytorch, layers pass: ended with signal SIGKILL" in stderr
    assert str(folder / "layers" / "1" / "child.log") in stderr
    assert _record(folder)["passes"]["layers"]["status"] == "failed"
    assert _record(folder)["passes"]["clean"]["status"] == "complete"
    assert len(Run(folder).clean_steps()) == 30


def test_a_child_that_does_not_answer_in_time(tmp_path):
    folder = tmp_path / "run"
    process = _start(folder, "--timeout", "0.3")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "pytorch, check pass: no answer within 0.3 s; raise --timeout" in stderr
    assert _record(folder)["complete"] is False


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 100 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_said_in_one_line_and_the_run_stays_readable(small_disk):
    folder = small_disk / "run"
    process = _start(folder)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode in (3, 4)
    errors = [line for line in stderr.splitlines() if not line.startswith("[")]
    assert len(errors) == 1, stderr
    assert "No space left on device" in errors[0]
    assert str(folder) in errors[0]
    assert "pass" in errors[0]
    assert _record(folder)["complete"] is False
    assert len(Run(folder).clean_steps()) == 30, "what was recorded before the disk was full can be read"


def test_a_full_temporary_folder_is_said_in_one_line(small_disk, tmp_path):
    process = _start(tmp_path / "run", env={**os.environ, "TMPDIR": str(small_disk)})
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "Traceback" not in stderr
    assert "free some space" in stderr.splitlines()[-1]
    assert _record(tmp_path / "run")["complete"] is False


@pytest.mark.long
def test_a_folder_is_read_while_it_is_written(tmp_path):
    """Alone shows that whoever looks early sees what is there, or is told in a line that nothing is yet."""
    folder = tmp_path / "run"
    process = _start(folder, "--repeats", "1")
    statuses = []
    while process.poll() is None:
        if (folder / "run.json").exists():
            done = subprocess.run([*COMMAND, "breakdown", str(folder)], capture_output=True, text=True, check=False)
            assert "Traceback" not in done.stderr
            assert done.returncode == 0 or "kernelscope: error:" in done.stderr.splitlines()[-1]
            statuses.append(done.returncode)
    process.communicate()
    assert process.returncode == 0
    assert set(statuses) <= {0, 3}
    assert len(statuses) > 2
    assert Run(folder).complete


def test_an_unwritable_output_folder(tmp_path):
    target = "/proc/kernelscope-out" if os.geteuid() == 0 else "/kernelscope-out"
    process = _start(target)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "not writable" in stderr
