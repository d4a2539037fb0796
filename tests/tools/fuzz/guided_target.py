"""What guided.py runs for one reader, with libFuzzer's options behind its name: each input is read as by the commands.

tests/tools/fuzz/guided_target.py READER [-max_total_time=60 ...] CORPUS
"""

from __future__ import annotations

import os
import shutil
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
    from kernelscope.tracer.outside import answers, experiments
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


def child(path: Path) -> None:
    """Read a line that a child wrote."""
    try:
        answers.parse(path.read_bytes())
    except answers.NoAnswerError as error:
        raise EvidenceError(str(error)) from error


def put(content: bytes, whole: Path, folder: Path) -> None:
    """Copy a whole folder, with one of its files replaced: the input's first line names it."""
    name, _, rest = content.partition(b"\n")
    names = sorted(path.name for path in whole.iterdir())
    chosen = name.decode("utf8", "replace") if name.decode("utf8", "replace") in names else names[len(name) % len(names)]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for one in names:
        os.link(whole / one, folder / one)
    (folder / chosen).unlink()
    (folder / chosen).write_bytes(rest)


OTHERS: dict[str, Callable[[Path], None]] = {
    "experiment": experiment,
    "flight-recorder": dump,
    "pipeline": operations,
    "child-answer": child,
}


def main() -> None:
    """Hand inputs to the reader until libFuzzer ends."""
    name = sys.argv.pop(1)
    warnings.simplefilter("ignore")
    known = {} if name in OTHERS else {name: known_formats()[name]}
    scratch = Path(tempfile.mkdtemp())
    path, whole = scratch / "input", scratch / "whole"
    folder = Path(f"{sys.argv[-1]}.whole")
    if folder.is_dir():
        shutil.copytree(folder, whole)

    def read(content: bytes) -> None:
        if whole.is_dir():
            put(content, whole, path)
        else:
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
