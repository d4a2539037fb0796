"""The progress of a recording: what a run, comparison or sweep has written so far.

Only files are read. So anyone who can read the folder can watch, from anywhere, and the recording does not notice. A pass has
begun when its folder has spec.json, and is over when it has samples.parquet, which is written last. Steps are written after
each turn.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.recordings import kinds
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import NOT_ENDED
from kernelscope.analysis.trace import PROFILE
from kernelscope.analysis.trace.records import read_object

# a side that ended without all of its passes is INCOMPLETE, one without any FAILED
RECORDING, COMPLETE, INCOMPLETE, FAILED = "recording", "complete", "incomplete", "failed"
_MADE_LATER = ("trace",)  # folders that analyses write into a run
_NOW = "now"  # [process, folder of the pass] while a script's pass is recorded

Plan = Callable[[Mapping[str, Any]], list[tuple[str, int]]]  # from a run's options: passes and their repeats, in order


@dataclass(frozen=True)
class Pass:
    """The current pass. repeats: how often it is done in total. steps: measured so far; wanted: in total, None if unknown.

    step_ns: the median of the measured steps; None before the first.
    """

    name: str
    repeat: int
    repeats: int
    steps: int
    wanted: int | None
    step_ns: int | None


@dataclass(frozen=True)
class SideProgress:
    """One side's run folder. over, planned: numbers of passes; planned is None if a script decides. left_s: None if unknown.

    state: one of RECORDING, COMPLETE, INCOMPLETE, FAILED. reason: why it is not complete.
    """

    label: str
    batch: int | None
    over: int
    planned: int | None
    now: Pass | None
    state: str
    reason: str | None
    left_s: float | None


@dataclass(frozen=True)
class RecordingProgress:
    """A recording. began, written: when it began and last wrote something, in s since 1970. cells: over and total, of a sweep.

    sides: those recorded together; for a sweep, those of the unfinished cells. ended: whether nothing more will come.
    """

    title: str
    began: float
    written: float
    sides: list[SideProgress]
    cells: tuple[int, int] | None
    ended: bool

    @property
    def left_s(self) -> float | None:
        """The remaining time in s, estimated from what is over; None if it cannot be estimated."""
        if self.cells is not None:
            over, wanted = self.cells
            return (self.written - self.began) / over * (wanted - over) if over else None
        known = [side.left_s for side in self.sides if side.left_s is not None]
        return max(known) if known else None


def read(folder: Path, plan: Plan) -> RecordingProgress:
    """Return the progress of the recording in a folder; raise EvidenceError if there is none."""
    kind = kind_of(folder)
    if kind is Kind.SWEEP:
        return _sweep(folder, plan)
    runs = [folder] if kind is Kind.RUN else sorted(path.parent for path in folder.glob("*/run.json"))
    if not runs:
        raise EvidenceError(f"{folder}: no recording here; name the folder that `run`, `compare`, `profile` or `sweep` writes to")
    records = [read_object(run / kinds.RUN) for run in runs]
    sides = [_side(run, record, plan) for run, record in zip(runs, records, strict=True)]
    options = records[0].get("options") or {}
    named = [options.get("network"), options.get("mode"), f"batch {options['batch']}" if options.get("batch") else None]
    began = min(_seconds(record.get("created"), run) for run, record in zip(runs, records, strict=True))
    ended = all(side.state != RECORDING for side in sides)
    return RecordingProgress(" · ".join(str(part) for part in named if part), began, _written(runs), sides, None, ended)


def _sweep(folder: Path, plan: Plan) -> RecordingProgress:
    record = read_object(folder / kinds.SWEEP)
    keys = [str(cell.get("cell")) for cell in record.get("cells") or []]
    over = [key for key in keys if (folder / "cells" / key / "cell.json").is_file()]
    running = [run for key in keys if key not in over and (run := folder / "cells" / key / kinds.RUN).is_file()]
    sides = [_side(run.parent, read_object(run), plan, run.parent.name) for run in running]
    began = _seconds(record.get("resumed") or record.get("created"), folder)
    written = max((path.stat().st_mtime for path in [folder / kinds.SWEEP, *folder.glob("cells/*/cell.json")]), default=began)
    title = str(record.get("title") or record.get("name") or folder.name)
    ended = not running and (len(over) == len(keys) or not (folder / ".staged").exists())
    return RecordingProgress(
        title, began, max(written, _written([run.parent for run in running])), sides, (len(over), len(keys)), ended
    )


def _side(folder: Path, record: Mapping[str, Any], plan: Plan, label: str | None = None) -> SideProgress:
    """Return one side: its passes as its options plan them or, for a profiled script, as they come."""
    options = record.get("options") or {}
    profiled = record.get("recorder") == PROFILE
    planned = [] if profiled else plan(options)
    begun = list(_begun(folder, planned))
    current = _current(folder) if profiled else next((path for path, over in begun if not over), None)
    reason = None if record.get("reason") in (None, NOT_ENDED) else str(record["reason"])
    made = sum(entry.get("status") == COMPLETE for entry in (record.get("passes") or {}).values())
    ended = INCOMPLETE if made and profiled else FAILED
    state = COMPLETE if record.get("complete") else RECORDING if reason is None else ended
    left = _left(folder, planned, begun) if state == RECORDING and not profiled else None
    if not profiled:
        over = sum(over for _, over in begun)
    else:
        over = made if state != RECORDING else max(len(list(folder.glob("*/*/child.json"))) - (current is not None), 0)
    return SideProgress(
        label=label or str(record.get("label") or record.get("framework")),
        batch=options.get("batch"),
        over=over,
        planned=None if profiled else len(planned),
        now=_pass(current, planned, options) if current is not None and state == RECORDING else None,
        state=state,
        reason=reason,
        left_s=left,
    )


def _begun(folder: Path, planned: list[tuple[str, int]]) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of the passes that have begun, in order, and whether each is over."""
    for name, repeat in planned:
        path = folder / name / str(repeat)
        if (path / "spec.json").is_file():
            yield path, (path / "samples.parquet").is_file()


def _current(folder: Path) -> Path | None:
    """Return the folder of the pass that a script is in; None if there is none."""
    try:
        _, place = json_text.parsed((folder / _NOW).read_text(encoding="utf8"))
    except (OSError, ValueError, TypeError):
        return None
    path = (folder / str(place)).resolve()
    return path if path.is_relative_to(folder.resolve()) else None


def _pass(folder: Path, planned: list[tuple[str, int]], options: Mapping[str, Any]) -> Pass:
    name, repeat = folder.parent.name, int(folder.name) if folder.name.isdigit() else 1
    durations = _durations(folder / "steps.jsonl")
    wanted = options.get("steps") if planned and name != "check" else None
    middle = int(np.sort(durations)[len(durations) // 2]) if len(durations) else None
    return Pass(name, repeat, max(1, sum(other == name for other, _ in planned)), len(durations), wanted, middle)


def _durations(path: Path) -> npt.NDArray[np.int64]:
    """Return the durations in ns of the measured steps written so far; the last line may be incomplete."""
    try:
        text = path.read_bytes()
        table = pyarrow.json.read_json(io.BytesIO(text[: text.rfind(b"\n") + 1]))
        measured = table.filter(pc.invert(table["warmup"]))
        return np.asarray(pc.subtract(measured["end_ns"], measured["start_ns"]), dtype=np.int64)
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return np.zeros(0, dtype=np.int64)


def _left(folder: Path, planned: list[tuple[str, int]], begun: list[tuple[Path, bool]]) -> float | None:
    """Return the remaining time in s: each pass that is not over takes as long as others of its name, else as all others.

    A pass lasts until the next one begins.
    """
    starts = [(path / "spec.json").stat().st_mtime for path, _ in begun]
    last = begun[-1][0] / "samples.parquet" if begun and begun[-1][1] else None
    ends = [*starts[1:], *([last.stat().st_mtime] if last else [])]
    took: dict[str, list[float]] = {}
    for (path, _), start, end in zip(begun, starts, ends, strict=False):
        took.setdefault(path.parent.name, []).append(end - start)
    if not took or len(ends) == len(planned):
        return None
    every = mean(seconds for one in took.values() for seconds in one)
    waiting = planned[len(ends) :]
    total = sum(mean(took[name]) if name in took else every for name, _ in waiting)
    going_on = _written([folder]) - starts[-1] if len(starts) > len(ends) else 0.0
    return max(total - going_on, 0.0)


def _written(folders: list[Path]) -> float:
    """Return when a pass in these folders last wrote something, in s since 1970."""
    files = (path for folder in folders for path in (folder / kinds.RUN, *folder.glob("*/*/*")))
    passes = [path for path in files if path.parent.parent.name not in _MADE_LATER]
    return max(map(_changed, passes), default=0.0)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # a temporary file that was renamed meanwhile


def _seconds(text: object, folder: Path) -> float:
    """Return when a recording began, in s since 1970."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return folder.stat().st_mtime
