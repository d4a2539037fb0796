"""The captures of a job: summarised in parallel, and put in the order of their ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks import engines, execution_traces, one_job
from kernelscope.analysis.ranks.distinct import Distinct
from kernelscope.analysis.ranks.recording import CAPTURE, RankRecording
from kernelscope.analysis.ranks.summaries import load, summarise

_DIGITS = re.compile(r"(\d+)")


def recordings(
    paths: Sequence[Path], folder: Path, workers: int | None = None, scheduler: str | None = None
) -> tuple[list[RankRecording], list[str]]:
    """Return the ranks in captures, each once and in order of their numbers, and notes on what was left out.

    folder: an existing folder for summaries; those of an earlier run are used again. workers, scheduler: see engines. Raises
    EvidenceError for fewer than two ranks.
    """
    ordered = sorted(paths, key=_natural)
    without_times = [path for path in ordered if execution_traces.is_trace(path)]
    captures = [str(path) for path in ordered if path not in without_times]
    if without_times and not captures:
        raise EvidenceError(f"{without_times[0]}: an execution trace has no times; name the Kineto traces of the same run, too")
    told = {one["path"]: one for one in engines.each(summarise, captures, str(folder), workers, scheduler)}
    found, notes = _ordered([told[path] for path in captures])
    if without_times:
        found, more = execution_traces.with_sizes(found, without_times)
        notes += more
    return found, notes


def _natural(path: Path) -> list[Any]:
    """Return a key that puts rank_2 before rank_10."""
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(str(path))]


def _ordered(files: Sequence[Mapping[str, Any]]) -> tuple[list[RankRecording], list[str]]:
    """Return the recordings by rank, each rank once, and what was left out (see `recordings`)."""
    distinct: Distinct[RankRecording] = Distinct()
    distinct.notes += [f"left out: {one['reason']}" for one in files if one["reason"]]
    for one in files:
        if distinct.is_new(Path(one["path"]).name, one["digest"]):
            for recording in map(load, one["headers"]):
                rank = recording.rank if recording.rank is not None else len(distinct.of_rank)
                distinct.add(rank, recording, recording.work, recording.told_by == CAPTURE)
    found, notes = [recording for _, recording in sorted(distinct.of_rank.items())], distinct.notes
    if len(found) < 2:
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        why = f"; {notes[0]}{more}" if notes else "; name more"
        raise EvidenceError(f"a job needs the captures of at least two ranks, and {len(found)} can be compared{why}")
    return found, [*notes, *one_job.check(found), *_warnings(found)]


def _warnings(ranks: Sequence[RankRecording]) -> list[str]:
    """Return the captures' warnings, each once, with the name of one capture and the number of others."""
    told: dict[str, dict[str, None]] = {}
    for one in ranks:
        for warning in one.warnings:
            name = Path(one.path).name
            told.setdefault(warning.removeprefix(f"{name}: "), {})[name] = None
    return [
        f"{next(iter(names))}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {warning}"
        for warning, names in told.items()
    ]
