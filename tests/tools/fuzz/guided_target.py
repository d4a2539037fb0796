"""What guided.py runs for one reader, with libFuzzer's options behind its name: each input is read as by the commands.

tests/tools/fuzz/guided_target.py READER [-max_total_time=60 ...] CORPUS
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["kernelscope.analysis", "kernelscope.tracer.outside"], enable_loader_override=False):
    from worker import check, known_formats

    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.analysis.ranks import flight_recorder, pipeline
    from kernelscope.tracer.outside import experiments
    from kernelscope.tracer.outside.errors import KernelscopeError


def experiment(path: Path) -> None:
    """Read the file of an experiment."""
    experiments.parse(path.read_text("utf8", errors="replace"), "experiment", str(path))


def dump(path: Path) -> None:
    """Read a dump of PyTorch's Flight Recorder."""
    if flight_recorder.is_dump(path):
        flight_recorder.read(path)


def operations(path: Path) -> None:
    """Read the operations of a pipeline."""
    if pipeline.is_recording(path):
        pipeline.pipeline(path)


OTHERS: dict[str, Callable[[Path], None]] = {"experiment": experiment, "flight-recorder": dump, "pipeline": operations}


def main() -> None:
    """Hand inputs to the reader until libFuzzer ends."""
    name = sys.argv.pop(1)
    warnings.simplefilter("ignore")
    known = {} if name in OTHERS else {name: known_formats()[name]}
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    path = Path(tempfile.mkdtemp(dir=shared)) / "input"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        if known:
            check(path, name, known)
            return
        try:
            OTHERS[name](path)
        except (EvidenceError, KernelscopeError) as error:
            if not str(error).isprintable():
                raise AssertionError(f"not one line of text: {str(error)[:200]!r}") from error

    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
