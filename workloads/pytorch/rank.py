"""The program that rank 0 starts as each other rank of a step on several devices; see ranks.

It ends when rank 0 ends, however that happens: its input ends, and the operating system's kernel is asked to end it too,
because it may be waiting in a collective operation.
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

BINDINGS = True  # stands in for torchrun, which users have
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _end_with(parent: Any) -> None:
    """Ask the operating system for SIGKILL when rank 0 ends, however that happens; exit if it has ended already."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # the end of the input ends this process too, at its next read
    if os.getppid() != parent:
        sys.exit(1)


class Recording(object):
    """This rank's torch.profiler, which runs while rank 0 is recorded; profiler: None while it does not run."""

    def __init__(self, rank: int, cuda: bool) -> None:
        activity = torch.profiler.ProfilerActivity
        self._activities = [activity.CPU] + [activity.CUDA] * cuda
        self._name = ranks.TRACE_FILE % rank
        self._path = ""
        self.profiler: Any = None

    def start(self, folder: str) -> None:
        """Record from now on; `end` writes to this folder."""
        self._path = os.path.join(folder, self._name)
        self.profiler = torch.profiler.profile(activities=self._activities, record_shapes=True)
        self.profiler.start()

    def end(self) -> None:
        """Stop recording and write the trace."""
        self.profiler.stop()
        self.profiler.export_chrome_trace(self._path)
        self.profiler = None


def _line() -> str:
    """Return the next line of the standard input."""
    return b"".join(iter(lambda: os.read(sys.stdin.fileno(), 1), b"\n")).decode()


def _told(made: Any, batches: Iterator[Any], recording: Recording, options: Options) -> Iterator[Any]:
    """Do what rank 0 says, and yield the next batch for each step that it begins, until it ends."""
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
    """Run as one of the other ranks."""
    with io.open(sys.stdin.fileno(), "rb", 0, closefd=False) as told:  # a buffer would take the following bytes
        line = told.readline()
    if not line.endswith(b"\n"):
        return  # rank 0 has ended
    options = json.loads(line.decode())
    _end_with(options["parent"])
    options["ready_fd"] = os.dup(1)
    os.dup2(2, 1)  # all output goes to the log
    network = networks.get(options["network"])
    made = parallel.Program(network, options)
    whole = data.batches(network, options["batch"], options["seed"], options["batches"], options.get("data"))
    run = made.train if options["mode"] == "train" else made.infer
    recording = Recording(options["rank"], str(options.get("device") or "cpu").startswith("cuda"))
    run(_told(made, made.stream(itertools.cycle(made.prepare(whole))), recording, options))


if __name__ == "__main__":
    main()
