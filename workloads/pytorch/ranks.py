"""Ranks 1 and up of a step on several devices: rank 0 starts them, tells them when to begin a step, and takes them with it.

They run with rank 0's interpreter, ``python -m`` this module. Each is told through its standard input what to do: a line of JSON
with the options, then a byte a step, so that none runs ahead of rank 0. They end with it, however it does: their input ends, and
the kernel is asked to end them too, for a rank may wait in a collective operation.
"""

import atexit
import ctypes
import io
import itertools
import json
import os
import signal
import subprocess
import sys
from typing import Any, Iterator, List

from kernelscope.workloads import data, networks
from kernelscope.workloads.program import Options

BINDINGS = True  # stands for torchrun, which users have
STEP, LOAD = b"s", b"l"
_READY = b"r"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_END_LIMIT_S = 10


class Others(object):
    """The processes of ranks 1 and up, as rank 0 sees them."""

    def __init__(self, options: Options, port: int) -> None:
        variables = {name: value for name, value in os.environ.items() if not name.endswith("_VERBOSE")}
        self.processes: List[Any] = []
        atexit.register(self.close)
        for rank in range(1, options["devices"]):
            process: Any = subprocess.Popen(
                [sys.executable, "-m", "kernelscope.workloads.pytorch.ranks"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, env=variables, bufsize=0,
            )  # fmt: skip
            self.processes.append(process)
            told = dict(options.items(), rank=rank, port=port, parent=os.getpid())
            process.stdin.write((json.dumps(told) + "\n").encode())

    def wait_until_ready(self) -> None:
        """Wait until every rank has built its model; raise RuntimeError where one failed."""
        for rank, process in enumerate(self.processes, 1):
            if process.stdout.read(1) != _READY:
                raise _ended(rank, process)

    def tell(self, byte: bytes) -> None:
        """Tell all ranks what to do next; raise RuntimeError where one has ended."""
        for rank, process in enumerate(self.processes, 1):
            try:
                process.stdin.write(byte)
            except BrokenPipeError:
                raise _ended(rank, process) from None

    def ids(self) -> List[int]:
        """Return the processes' ids."""
        return [process.pid for process in self.processes]

    def close(self) -> None:
        """End the ranks: each does once its input has ended."""
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


def _ended(rank: int, process: Any) -> RuntimeError:
    return RuntimeError("rank %d ended with exit status %d; the log says why" % (rank, process.wait()))


def tell_ready(options: Options) -> None:
    """Tell rank 0 that this rank has built its model."""
    os.write(options["ready_fd"], _READY)


def _end_with(parent: Any) -> None:
    """Ask the kernel for SIGKILL when rank 0 ends, however that happens; it may have ended before."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # the end of the input ends this process too, once it looks at it
    if os.getppid() != parent:
        sys.exit(1)


def _told(made: Any, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the next batch for each step that rank 0 begins, until it ends."""
    for byte in iter(lambda: os.read(sys.stdin.fileno(), 1), b""):
        if byte == LOAD:
            made.receive()
        else:
            yield next(batches)


def main() -> None:
    """Be one of the other ranks."""
    with io.open(sys.stdin.fileno(), "rb", 0, closefd=False) as told:  # without a buffer, which would take the bytes that follow
        line = told.readline()
    if not line.endswith(b"\n"):
        return  # rank 0 has ended
    options = json.loads(line.decode())
    _end_with(options["parent"])
    options["ready_fd"] = os.dup(1)
    os.dup2(2, 1)  # whatever is printed goes to the log
    from kernelscope.workloads.pytorch.parallel import Program

    network = networks.get(options["network"])
    made = Program(network, options)
    whole = data.batches(network, options["batch"], options["seed"], options["batches"], options.get("data"))
    run = made.train if options["mode"] == "train" else made.infer
    run(_told(made, made.stream(itertools.cycle(made.prepare(whole)))))


if __name__ == "__main__":
    main()
