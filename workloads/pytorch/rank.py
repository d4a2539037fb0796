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

import torch

from kernelscope.workloads import data, networks
from kernelscope.workloads.program import Options
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


class Recording(object):
    """torch.profiler of this rank, while rank 0 is recorded."""

    def __init__(self, rank: int, cuda: bool) -> None:
        activity = torch.profiler.ProfilerActivity
        self._activities = [activity.CPU] + [activity.CUDA] * cuda
        self._name = ranks.TRACE_FILE % rank
        self._path = ""
        self.profiler: Any = None

    def start(self, folder: str) -> None:
        """Record from now on, for a folder."""
        self._path = os.path.join(folder, self._name)
        self.profiler = torch.profiler.profile(activities=self._activities, record_shapes=True)
        self.profiler.start()

    def end(self) -> None:
        """Write what was recorded."""
        self.profiler.stop()
        self.profiler.export_chrome_trace(self._path)
        self.profiler = None


def _line() -> str:
    """Return the line that comes next on the standard input."""
    return b"".join(iter(lambda: os.read(sys.stdin.fileno(), 1), b"\n")).decode()


def _told(made: Any, batches: Iterator[Any], recording: Recording, options: Options) -> Iterator[Any]:
    """Yield the next batch for each step that rank 0 begins, until it ends."""
    for byte in iter(lambda: os.read(sys.stdin.fileno(), 1), b""):
        if byte == ranks.LOAD:
            made.receive()
        elif byte == ranks.RECORD:
            recording.start(_line())
        elif byte == ranks.RECORDED:
            recording.end()
            ranks.tell_ready(options)
        else:
            with ranks.step(recording.profiler is not None):
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
    recording = Recording(options["rank"], str(options.get("device") or "cpu").startswith("cuda"))
    run(_told(made, made.stream(itertools.cycle(made.prepare(whole))), recording, options))


if __name__ == "__main__":
    main()
