"""The other ranks of a step on several devices: rank 0 starts them, tells them when to begin a step, and ends them.

They run the module rank with rank 0's interpreter. Each gets its commands on its standard input: a line of JSON with the
options, then one byte per step, so that none runs ahead of rank 0. RECORD is followed by a line that names a folder.
"""

import atexit
import itertools
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import Any, Iterator, List

import torch

from kernelscope.workloads.program import Options

BINDINGS = True  # stands in for torchrun, which users have
STEP, LOAD, RECORD, RECORDED = b"s", b"l", b"p", b"e"
TRACE_FILE = "rank-%d.pt.trace.json.gz"
_READY = b"r"
_NUMBERS = itertools.count()  # the numbers of this process's recorded steps
_END_LIMIT_S = 10


class Others(object):
    """The processes of ranks 1 and up, on rank 0's side. It starts them; the interpreter's exit ends them."""

    def __init__(self, options: Options, port: int) -> None:
        variables = {name: value for name, value in os.environ.items() if not name.endswith("_VERBOSE")}
        self.processes: List[Any] = []
        atexit.register(self.close)
        for rank in range(1, options["devices"]):
            process: Any = subprocess.Popen(
                [sys.executable, "-m", "kernelscope.workloads.pytorch.rank"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, env=variables, bufsize=0,
            )  # fmt: skip
            self.processes.append(process)
            told = dict(options.items(), rank=rank, port=port, parent=os.getpid())
            process.stdin.write((json.dumps(told) + "\n").encode())

    def wait_until_ready(self) -> None:
        """Wait until every rank has built its model or written its trace; raise RuntimeError if one has ended."""
        for rank, process in enumerate(self.processes, 1):
            if process.stdout.read(1) != _READY:
                raise _ended(rank, process)

    def tell(self, byte: bytes) -> None:
        """Tell all ranks what to do next; raise RuntimeError if one has ended."""
        for rank, process in enumerate(self.processes, 1):
            try:
                process.stdin.write(byte)
            except BrokenPipeError:
                raise _ended(rank, process) from None

    def record(self, folder: str) -> None:
        """Make all ranks record to this folder from their next step on."""
        self.tell(RECORD + folder.encode() + b"\n")

    def recorded(self) -> List[str]:
        """End the recording and wait until every rank has written its trace; return the names of the files."""
        self.tell(RECORDED)
        self.wait_until_ready()
        return [TRACE_FILE % rank for rank, _ in enumerate(self.processes, 1)]

    def ids(self) -> List[int]:
        """Return the process ids."""
        return [process.pid for process in self.processes]

    def close(self) -> None:
        """End the ranks: close their input, and kill those that have not ended after _END_LIMIT_S seconds."""
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


@contextmanager
def step(recording: bool) -> Iterator[None]:
    """If recording, mark the context as a step, in the way of torch.profiler's users."""
    if recording:
        with torch.profiler.record_function("ProfilerStep#%d" % next(_NUMBERS)):
            yield
    else:
        yield


def _ended(rank: int, process: Any) -> RuntimeError:
    return RuntimeError("rank %d ended with exit status %d; the log says why" % (rank, process.wait()))


def tell_ready(options: Options) -> None:
    """Tell rank 0 that this rank has done what rank 0 waits for."""
    os.write(options["ready_fd"], _READY)
