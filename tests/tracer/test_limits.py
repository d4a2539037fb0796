"""What ends with the process that started it, however that ended."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

SLEEPS = "import signal, time; print(%s, flush=True); time.sleep(60)"
ASKS = "from kernelscope.tracer.inside import limits; limits.end_with_parent(); import os; " + SLEEPS % "os.getpid()"
STARTS = """
import signal, subprocess, sys, time
from kernelscope.tracer.inside import limits
before = limits.ending_with_us(signal.SIGTERM) if sys.argv[2] == "between" else None
subprocess.Popen([sys.executable, "-c", sys.argv[1]], preexec_fn=before)
time.sleep(60)
"""


@pytest.mark.parametrize(("how", "program"), [("itself", ASKS), ("between", "import os; " + SLEEPS % "os.getpid()")])
def test_a_process_ends_with_the_one_that_started_it(how, program):
    parent = subprocess.Popen([sys.executable, "-c", STARTS, program, how], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    assert child.is_running()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
