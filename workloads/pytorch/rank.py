"""One of ranks 1 and up of a step on several devices: what rank 0 starts; see ranks.

It ends with rank 0, however that does: its input ends, and the kernel is asked to end it too, for it may wait in a collective
operation.
"""

import ctypes
import io
import itertools
import json
import os
import signal
import sys
from typing import Any, Iterator

from kernelscope.workloads import data, networks
from kernelscope.workloads.pytorch import parallel, ranks

BINDINGS = True  # stands for torchrun, which users have
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


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
        if byte == ranks.LOAD:
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
    network = networks.get(options["network"])
    made = parallel.Program(network, options)
    whole = data.batches(network, options["batch"], options["seed"], options["batches"], options.get("data"))
    run = made.train if options["mode"] == "train" else made.infer
    run(_told(made, made.stream(itertools.cycle(made.prepare(whole)))))


if __name__ == "__main__":
    main()
