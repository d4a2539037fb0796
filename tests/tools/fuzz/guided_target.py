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
import makers

with atheris.instrument_imports(include=["kernelscope.analysis", "kernelscope.tracer.outside"], enable_loader_override=False):
    from worker import check, known_formats

    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.analysis.ranks import flight_recorder, pipeline, summaries
    from kernelscope.analysis.recordings import unpacking
    from kernelscope.tracer.inside import temporary
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


def archive(path: Path) -> None:
    """Unpack an archive of a folder; nothing may be written outside of the temporary folders."""
    outside = sorted(path.parent.iterdir())
    try:
        unpacking.unpack(path)
    finally:
        for one in Path(tempfile.gettempdir()).glob("kernelscope.tmp*"):
            temporary.removed(str(one))
    if sorted(path.parent.iterdir()) != outside:
        raise AssertionError("an archive wrote outside of its folder")


def rank_summaries(path: Path) -> None:
    """Take the index of a rank's summaries: whatever it holds, they are read, or made anew."""
    folder = path.with_name("summaries")
    folder.mkdir(exist_ok=True)
    index = next((one for one in folder.glob("*.json") if "-" not in one.name), None)
    if index is not None:
        index.write_bytes(path.read_bytes())
    made = summaries.summarise(str(makers.RANK), str(folder))
    if made["reason"] or len(made["headers"]) != 1:
        raise AssertionError(f"no summary: {made}")
    rank = summaries.load(made["headers"][0])
    if any(rank.table(name).empty for name in ("collectives", "windows")):
        raise AssertionError("a table is empty")


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
    "archive": archive,
    "rank-summaries": rank_summaries,
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
