"""What one run of a trial gave: its step, what was changed of the program, its first losses, its memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting.statistics import median_step_ns
from kernelscope.analysis.recordings import run as recordings
from kernelscope.analysis.recordings.kinds import RUN

LOG = "log.txt"  # what the program printed
_LAST = 2000  # characters of it in which the reason for a failure stands


@dataclass(frozen=True)
class Run:
    """What one run of a trial gave.

    step_ns: the median of its clean steps; None where it failed, for `reason`. met: what was changed of the program. values: its
    first losses or outputs. peak_bytes: the most memory that the process held. seconds: what the whole run took.
    """

    step_ns: int | None
    reason: str = ""
    met: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    peak_bytes: int | None = None
    seconds: float = 0.0


def read(folder: Path) -> Run:
    """Return what a run of a trial gave."""
    record = json.loads((folder / RUN).read_text(encoding="utf8"))
    notes = _lines(folder / "notes.jsonl")
    noted = [json.loads(note["text"]) for note in notes if note["kind"] == "change"]
    met = tuple(dict.fromkeys(str(what) for name, what in noted if not name.endswith(":values")))
    values = tuple(float(what) for name, what in noted if name.endswith(":values"))
    places = record["passes"].get("clean", {}).get("folders", [])
    steps = [row for place in places for row in _lines(folder / place / "steps.jsonl")]
    times = [row["end_ns"] - row["start_ns"] for row in steps if not row["warmup"]]
    if record["exit_status"] or not record["complete"] or not times:
        return Run(None, _reason(folder, record), met, values)
    began = datetime.fromisoformat(record["created"]).timestamp()
    seconds = (folder / RUN).stat().st_mtime - began
    return Run(round(median(times)), "", met, values, _peak(folder, record), seconds)


def restarts(folder: Path) -> list[Run]:
    """Return what each restart of a workload gave, with the median over its windows; one that failed gave none."""
    run = recordings.Run(folder)
    if not run.complete:
        return [Run(None, str(run.record["reason"]))]
    check = run.check()
    values = tuple(check.get("losses") or [value for row in check["outputs"] for value in row]) if check else ()
    result = []
    for data in run.passes("clean"):
        met = tuple(dict.fromkeys(str(what) for _, what in data.report.get("changed", [])))
        resident = data.samples().query("metric == 'resident_bytes'")["value"].max()
        peak = None if pd.isna(resident) else int(resident)
        result.append(Run(median_step_ns([data.measured]), "", met, values, peak))
    return result


def _reason(folder: Path, record: Mapping[str, Any]) -> str:
    """Return why a trial gave nothing: the last line that the program wrote, else what the recording says."""
    try:
        text = (folder / LOG).read_text(encoding="utf8", errors="replace")[-_LAST:]
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("kernelscope:")]
    status = record["exit_status"]
    if not status:
        return str(record["reason"])
    return f"the program ended with status {status}: {lines[-1] if lines else 'it says nothing'}"


def _peak(folder: Path, record: Mapping[str, Any]) -> int | None:
    """Return the most memory that was sampled of the process."""
    places = record["passes"]["clean"]["folders"]
    rows = [row for place in places for row in _lines(folder / place / "samples.jsonl")]
    return max((int(row["value"]) for row in rows if row["metric"] == "resident_bytes"), default=None)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none where it is missing."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines() if line.strip()]
