"""Convert a data set into frameworks' own record formats; each framework's library writes its own, in its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside import environments, staging
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError
from kernelscope.workloads import files, networks

ARRAYS = "arrays"  # numpy files, which every framework reads with the file loader


@dataclass(frozen=True)
class Written:
    """One written format: its framework, number of samples, files, their size and the time it took."""

    framework: str
    samples: int
    files: tuple[Path, ...]
    bytes: int
    seconds: float


def convert(network: str, folder: Path, targets: list[str], output: Path, force: bool = False) -> Iterator[Written]:
    """Write a folder's training samples, as a network takes them, in each target's format; yield each when it is done.

    targets: frameworks, or ARRAYS. output: folder of the new files; a file of the same name is an error unless `force`. Files
    appear when they are complete. Raises UsageError, InputError (the data), and ChildError (the framework).
    """
    resolved = [None if target == ARRAYS else environments.resolve(target) for target in targets]
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=output) as made, _staged() as staged:
        source = folder
        if _needs_decoding(network, folder):
            # Pillow decodes images; it is installed here, but not in the frameworks' environments
            source = Path(made, ARRAYS)
            _run(Path(sys.executable), {}, staged, [ARRAYS, network, str(folder), str(source)])
        for target, environment in zip(targets, resolved, strict=True):
            python = environment.python if environment else Path(sys.executable)
            start = time.monotonic()
            answer = _run(python, environment.variables if environment else {}, staged, [target, network, str(source), made])
            moved = tuple(_moved(Path(path), output, force) for path in answer["files"])
            size = sum(path.stat().st_size for path in moved)
            yield Written(target, answer["samples"], moved, size, time.monotonic() - start)


@contextmanager
def _staged() -> Iterator[Path]:
    with temporary.folder() as folder:
        yield staging.stage(Path(folder))


def _needs_decoding(network: str, folder: Path) -> bool:
    try:
        return isinstance(files.find(networks.get(network), str(folder)), files.ImageFolder)
    except (OSError, files.DataError) as error:
        raise InputError(str(error)) from error


def _run(python: Path, variables: dict[str, str], staged: Path, arguments: list[str]) -> dict[str, Any]:
    """Run the converter; return its report on the files that it wrote."""
    Path(arguments[-1]).mkdir(exist_ok=True)
    command = [str(python), "-m", "kernelscope.workloads.convert", *arguments]
    environment = {**os.environ, **variables, "PYTHONPATH": str(staged)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        message = done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}"
        raise ChildError(f"{arguments[0]}: the conversion failed: {message}") from None
    if "error" in answer:
        raise InputError(str(answer["error"]))
    return answer


def _moved(path: Path, output: Path, force: bool) -> Path:
    target = output / path.name
    if target.exists() and not force:
        raise UsageError(f"{target}: exists already; give --force to replace it")
    os.replace(path, target)
    return target
