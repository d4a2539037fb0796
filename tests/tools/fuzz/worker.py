"""Runs the fuzzer's cases in a process of its own, so that crashes, hangs and memory are the fuzzer's to see.

    tests/tools/fuzz/worker.py FOLDER SEED      cases' numbers come on stdin, one a line; answers go to stdout, as JSON lines

A case is told by (SEED, number): it chooses a format, a seed capture of that format, mutations and, seldom, another format's
reader to read it with. Nothing between here and the readers catches anything.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import counts
import mutations
import seeds

from kernelscope.analysis import formats, secrets
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats import Format
from kernelscope.analysis.recordings import captures

CPU_SECONDS = 10
MEMORY = 1 << 30  # what a case may take over what importing everything takes


class _TooLongError(BaseException):
    """The case used more than CPU_SECONDS of processor time."""


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise _TooLongError(f"more than {CPU_SECONDS} s of processor time")


def known_formats() -> dict[str, Format]:
    """Return the formats, by name."""
    return {form.name: form for form in formats.all_formats()}


def format_of(path: Path, known: dict[str, Format]) -> str | None:
    """Return the name of the first format that says the capture is its own."""
    head = read_head(path)
    return next((name for name, form in known.items() if form.matches(head)), None)


def choose(rng: Random, by_format: dict[str | None, list[seeds.Seed]]) -> tuple[str | None, seeds.Seed]:
    """Return a format and one of its seeds; captures of no known format come seldom."""
    names = sorted(name for name in by_format if name)
    name = rng.choice(names) if names and rng.random() < 0.95 else None
    if name not in by_format:
        name = names[0] if names else None
    return name, rng.choice(by_format[name])


def make(number: int, seed: int, by_format: dict[str | None, list[seeds.Seed]], target: Path) -> dict[str, Any]:
    """Write the case's input to target; return what it is."""
    rng = Random(f"{seed}:{number}")
    name, source = choose(rng, by_format)
    done = mutations.mutate(rng, source.kind, Path(source.path), target)
    names = sorted(key for key in by_format if key)
    reader = rng.choice(names) if names and (name is None or rng.random() < 0.05) else name
    return {"case": number, "format": name, "reader": reader, "source": source.source, "mutations": done}


def check(path: Path, reader: str | None, known: dict[str, Format]) -> str:
    """Let all formats look at the input and the reader read it; return what came of it. Anything but EvidenceError escapes."""
    try:
        head = read_head(path)
        for form in known.values():
            form.matches(head)
        if reader is not None:
            trace = known[reader].read(path)
            captures.finish(trace)
            counts.check(path, reader, trace)
        secrets.find(path)
        return "read"
    except EvidenceError as error:
        message = str(error)
        if not message or not message.isprintable():
            raise AssertionError(f"not one line of text: {message[:200]!r}") from error
        return "refused"


def failure(error: BaseException) -> dict[str, str]:
    """Return what escaped: its type and message, where it was raised, and in which line of the project's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/analysis/" in frame.filename]
    last = (own or frames)[-1]
    return {
        "error": f"{type(error).__name__}: {str(error)[:300]!r}",
        "where": f"{'/'.join(Path(last.filename).parts[-3:])}:{last.lineno} in {last.name}",
        "kind": type(error).__name__,
    }


def serve(folder: Path, seed: int, only: str | None) -> None:
    """Answer case after case."""
    warnings.simplefilter("ignore")
    known = known_formats()
    by_format: dict[str | None, list[seeds.Seed]] = {}
    for item in seeds.load(folder):
        by_format.setdefault(format_of(Path(item.path), known), []).append(item)
    if only:
        by_format = {only: by_format.get(only, [])}
    target = folder / f"case.{os.getpid()}"
    limit_memory()
    signal.signal(signal.SIGPROF, _too_long)
    print(json.dumps({"ready": sorted(known), "seeds": {str(k): len(v) for k, v in by_format.items()}}), flush=True)
    for line in sys.stdin:
        remove(target)
        answer = make(int(line), seed, by_format, target)
        answer["input"] = str(target)
        print(json.dumps({"begun": answer}), flush=True)
        print(json.dumps(answer | run(target, answer["reader"], known)), flush=True)


def run(path: Path, reader: str | None, known: dict[str, Format]) -> dict[str, str]:
    """Return how the case went."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        return {"outcome": check(path, reader, known)}
    except BaseException as error:
        return {"outcome": "failed"} | failure(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory() -> None:
    """Let the process take MEMORY more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
