"""What paths on a command line name: the runs and comparisons at them, and where a file may be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.comparisons.comparison import SCHEMA
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import again
from kernelscope.analysis.recordings.kinds import COMPARISON, Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace.records import read_object
from kernelscope.tracer.outside.errors import InputError, UsageError


def target_file(text: str, force: bool) -> Path:
    """Return where the report goes; raise InputError when a file there would be lost or the folder cannot be made."""
    target = Path(text)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / 'report.html'}")
    if target.exists() and not force:
        raise InputError(f"{target}: exists; name another file or pass --force to replace it")
    return target


def recorded_comparison(paths: Sequence[Path]) -> dict[str, Any] | None:
    """Return the comparison that the only path names, as `compare` wrote it; None when runs are named."""
    if len(paths) > 1:
        return None
    if kind_of(paths[0]) is not Kind.COMPARISON:
        return None
    file = paths[0] if paths[0].is_file() else paths[0] / COMPARISON
    result = read_object(file)
    name, _, newest = SCHEMA.rpartition("/")
    kind, _, version = str(result.get("schema")).rpartition("/")
    if kind != name or not version.isdigit():
        raise EvidenceError(f"{file}: not a comparison; name a folder that `run` or `compare` wrote")
    if int(version) > int(newest):
        raise EvidenceError(f"{file}: written in schema {version}, this version reads up to {newest}; upgrade kernelscope")
    return result


def opened(paths: Sequence[Path]) -> tuple[list[Run], list[dict[str, Any]]]:
    """Open the run folders, those of comparisons among the paths included; raise UsageError when two are called the same."""
    runs: list[Run] = []
    left_out: list[dict[str, Any]] = []
    for path in paths:
        if kind_of(path) is Kind.COMPARISON:
            recorded = read_object(path / COMPARISON)
            runs += [Run(path / name) for name in recorded["frameworks"]]
            left_out += recorded.get("left_out", [])
        else:
            runs.append(Run(path))
    names = [run.name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        profiled = again.recorded_by(next(run for run in runs if run.name == twice[0]).record) == again.PROFILE
        label = "--label NAME" if profiled else f"-f LABEL={twice[0]}"
        raise UsageError(f"two runs are called {twice[0]}; record one of them with a label: {label}")
    return runs, left_out
