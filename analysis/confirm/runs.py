"""The result of one run of a trial: its step, what was changed in the program, its first losses, its memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting.statistics import median_step_ns
from kernelscope.analysis.files import json_text
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.recordings import run as recordings
from kernelscope.analysis.recordings.kinds import RUN
from kernelscope.analysis.recordings.run import PassData

LOG = "log.txt"  # what the program printed
_LAST = 2000  # characters at its end that hold the reason for a failure
_REASON = 300  # characters of a reason: the log has the rest
_ASIDE = re.compile(r"\s*(\[[^\]]{40,}\]|\{\{[^}]*\}\})")  # settings and addresses in TensorFlow's messages
_NO_REASON = ("kernelscope:", "lost sys.stderr")


@dataclass(frozen=True)
class TrialRun:
    """The result of one run of a trial.

    step_ns: the median of its clean steps; None if it failed, for `reason`. met: what was changed in the program. values: its
    first losses or outputs. peak_bytes: the most memory that the process held. seconds: the time of the whole run.
    foreign_cores: how many cores other processes kept busy meanwhile, out of `cores` that it may use; None if unknown.
    """

    step_ns: int | None
    reason: str = ""
    met: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    peak_bytes: int | None = None
    seconds: float = 0.0
    foreign_cores: float | None = None
    cores: int | None = None


def read(folder: Path) -> TrialRun:
    """Return the result of a run of a trial."""
    run = recordings.Run(folder)
    record, clean = run.record, run.passes("clean")
    noted = [json_text.parsed(note["text"]) for note in _notes(folder) if note["kind"] == "change"]
    met = tuple(dict.fromkeys(str(what) for name, what in noted if not name.endswith(":values")))
    values = tuple(float(what) for name, what in noted if name.endswith(":values"))
    if record["exit_status"] or not run.complete or not clean:
        return TrialRun(None, _reason(folder, record), met, values)
    steps = run.clean_steps()
    began = datetime.fromisoformat(record["created"]).timestamp()
    seconds = (folder / RUN).stat().st_mtime - began
    step_ns = round((steps["end_ns"] - steps["start_ns"]).median())
    return TrialRun(step_ns, "", met, values, _peak(clean), seconds, core_use.foreign_of_run(run), _cores(record))


def restarts(folder: Path) -> list[TrialRun]:
    """Return the result of each restart of a workload, with the median over its windows; a run that failed has one failed
    result.
    """
    run = recordings.Run(folder)
    if not run.complete:
        return [TrialRun(None, str(run.record["reason"]))]
    check = run.check()
    values = tuple(check.get("losses") or [value for row in check["outputs"] for value in row]) if check else ()
    result, foreign, cores = [], core_use.foreign_of_run(run), _cores(run.record)
    for data in run.passes("clean"):
        met = tuple(dict.fromkeys(str(what) for _, what in data.report.get("changed", [])))
        result.append(TrialRun(median_step_ns([data.measured]), "", met, values, _peak([data]), 0.0, foreign, cores))
    return result


def _cores(record: Mapping[str, Any]) -> int | None:
    return (record.get("machine") or {}).get("allowed_threads")


def _reason(folder: Path, record: Mapping[str, Any]) -> str:
    """Return why a trial failed: the last line that the program wrote, else what the recording says."""
    try:
        text = (folder / LOG).read_text(encoding="utf8", errors="replace")[-_LAST:]
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NO_REASON)]
    status = record["exit_status"]
    if not status:
        return str(record["reason"])
    said = _ASIDE.sub("", lines[-1]).strip() if lines else "it says nothing"
    return f"the program ended with status {status}: {said[:_REASON]}"


def _peak(passes: Sequence[PassData]) -> int | None:
    """Return the most memory sampled for the process; None if it was not sampled."""
    samples = pd.concat([data.samples() for data in passes])
    most = samples.loc[(samples["metric"] == "resident_bytes").to_numpy(bool), "value"].max()
    return None if pd.isna(most) else int(most)


def _notes(folder: Path) -> list[dict[str, Any]]:
    """Return what the process wrote down; empty if it wrote nothing."""
    path = folder / "notes.jsonl"
    return [json_text.parsed(line) for line in path.read_text(encoding="utf8").splitlines()] if path.is_file() else []
