"""The input of a report: a comparison as recorded, or runs, including those of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.comparisons.comparison import RESULTS, SCHEMA, compare
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import schema
from kernelscope.analysis.recordings.kinds import COMPARISON, Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace.records import read_object


def recorded_comparison(paths: Sequence[Path]) -> dict[str, Any] | None:
    """Return the comparison that the only path names, as `compare` wrote it.

    None if runs are named, or if an earlier version wrote it and its runs are still there: then it is to be made again.
    """
    if len(paths) > 1 or kind_of(paths[0]) is not Kind.COMPARISON:
        return None
    file = paths[0] if paths[0].is_file() else paths[0] / COMPARISON
    result = _recorded(file)
    name, _, newest = SCHEMA.rpartition("/")
    kind, _, version = str(result.get("schema")).rpartition("/")
    if kind != name or not version.isdigit():
        raise EvidenceError(f"{file}: not a comparison; name a folder that `run` or `compare` wrote")
    if int(version) > int(newest):
        raise EvidenceError(f"{file}: written in schema {version}, this version reads up to {newest}; upgrade kernelscope")
    outdated = result.get("results") != RESULTS and paths[0].is_dir()
    there = all((paths[0] / str(name)).is_dir() for name in result.get("frameworks") or [""])
    return None if outdated and there else result


def _recorded(file: Path) -> dict[str, Any]:
    """Return the content of a comparison's file; raise EvidenceError if parts have wrong types, or a side has no summary."""
    result = schema.checked(file, read_object(file), schema.ComparisonRecord)
    names = {row["framework"] for row in result.get("summary") or ()}
    if missing := [name for name in result.get("frameworks", ()) if "summary" in result and name not in names]:
        raise EvidenceError(f"{file}: its summary has no row for {missing[0]}; compare again")
    return result


def comparison(folder: Path) -> dict[str, Any]:
    """Return the comparison in a folder that `compare` wrote, made again from its runs if an earlier version wrote it."""
    return recorded_comparison([folder]) or compare(*runs([folder]))


def runs(paths: Sequence[Path]) -> tuple[list[Run], list[dict[str, Any]]]:
    """Return the runs in these folders, including those of comparisons, and which frameworks those left out."""
    found: list[Run] = []
    left_out: list[dict[str, Any]] = []
    for path in paths:
        if kind_of(path) is Kind.COMPARISON:
            recorded = _recorded(path / COMPARISON)
            found += [Run(path / name) for name in recorded["frameworks"]]
            left_out += recorded.get("left_out", [])
        else:
            found.append(Run(path))
    return found, left_out
