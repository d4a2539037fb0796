"""Run the cells of a sweep, so that it can be killed at any moment and resumes where it was.

    sweep.json         the request (the file's text), the machine, and the cells
    results.parquet    one row per cell, replaced as a whole after each
    cells/<key>/       the cell's run folder; its cell.json is written last, by renaming, and marks the cell as finished
    .lock              held by the sweeping process and its children, so that no other runs beside an orphan
    .staged            the code that children import

A cell without cell.json is started again. Everything else is derived from the cells' files, so nothing can contradict them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside import durable
from kernelscope.tracer.outside import conditions, environments, failures, gpu, locks, memory, turns
from kernelscope.tracer.outside.cells import Cell
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError
from kernelscope.tracer.outside.estimates import Estimates
from kernelscope.tracer.outside.experiments import Experiment
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.staging import stage
from kernelscope.tracer.outside.variants import Variant
from kernelscope.tracer.version import VERSION

SCHEMA, CELL_SCHEMA = "kernelscope/sweep/1", "kernelscope/cell/1"
SWEEP_FILE, CELL_FILE, CELLS, LOCK, STAGED = "sweep.json", "cell.json", "cells", ".lock", ".staged"
DONE, LEFT_OUT = "done", "left out"
NOT_YET, OUTSIDE_BUDGET = "not run yet", "not run: no time was left in the budget"
_SAME_MACHINE = ("processor", "threads", "allowed_threads", "architecture")

Row = dict[str, Any]
Measure = Callable[[Path], tuple[Row, str | None]]  # the values of a run folder, or why there are none
Publish = Callable[[list[Row]], None]


@dataclass(frozen=True)
class SweepProgress:
    """The progress of a sweep: numbers of cells that are over and wanted, and the remaining time in s.

    text: the cell and its pass that begins now or, with `result`, the cell that is over.
    """

    over: int
    wanted: int
    left_s: float
    text: str
    result: Result | None = None


@dataclass
class Result:
    """The outcome of a cell; values: the columns read from its run folder."""

    status: str
    reason: str | None = None
    folder: str | None = None
    started: str | None = None
    seconds: float | None = None
    values: Row = field(default_factory=dict)


class _Running:
    """A cell whose passes are running."""

    def __init__(self, cell: Cell, session: Session):
        self.cell = cell
        self.session = session
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.seconds = 0.0
        self.killed = False  # whether the kernel killed processes for lack of memory during a pass
        self._walk = session.passes()
        self.label, self.passes_over, self.passes = next(self._walk)

    @property
    def over(self) -> bool:
        """Whether all passes have run, or one has failed."""
        return self.passes_over == self.passes

    def advance(self) -> None:
        """Run the next pass."""
        start, kills = time.monotonic(), memory.kills()
        self.label, self.passes_over, _ = next(self._walk)
        self.seconds += time.monotonic() - start
        self.killed = self.killed or memory.kills() > kills

    def close(self) -> None:
        """Abandon what is not over; its run folder says so."""
        self._walk.close()


class RunningSweep:
    """A sweep in its folder; see `opened`. results: those of finished cells, by key."""

    def __init__(self, folder: Path, experiment: Experiment, measure: Measure, publish: Publish, lock: int):
        self.folder = folder
        self.experiment = experiment
        self.results: dict[str, Result] = {}
        self.estimates = Estimates()
        self._measure, self._publish, self._lock = measure, publish, lock
        self._machine = conditions.machine()
        self._lacking: dict[tuple[str, str, str], str] = {}  # what a framework does not support, by name, network and mode
        self._environments: dict[tuple[str, str, int], Environment | str] = {}
        self._skipped: dict[str, str] = {}  # why a cell of this run has no result
        for cell in experiment.cells:
            result = finished(folder, cell)
            if result is not None:
                self._keep(cell, result)

    def pending(self, cells: Iterable[Cell], retry: bool = False) -> list[Cell]:
        """Return those of these cells that should run: cells without a result or, with `retry`, with a failure as result."""
        again = [failures.FAILED, failures.OUT_OF_MEMORY, failures.TIMEOUT, failures.NOT_AVAILABLE] if retry else []
        known = {key for key, result in self.results.items() if result.status not in again}
        return [cell for cell in cells if cell.key not in known and cell.excluded is None]

    def run(self, cells: Sequence[Cell], progress: Callable[[SweepProgress], None], budget_s: float | None = None) -> None:
        """Run these `pending` cells, and write the results after each.

        budget_s: start nothing that is not expected to end within it. Raises InputError if files cannot be written.
        """
        until = None if budget_s is None else time.monotonic() + budget_s
        self._skipped = {}
        for cell in cells:
            self.results.pop(cell.key, None)
        self._write_record()
        self.publish()
        staged = stage(_emptied(self.folder.absolute() / STAGED))  # absolute, as children run in other folders
        try:
            for group in turn_groups(cells):
                if until is not None and time.monotonic() + self.estimates.total(group) > until:
                    self._skipped.update((cell.key, OUTSIDE_BUDGET) for cell in group)
                else:
                    self._run_group(group, staged, lambda text, result: progress(self._progress(cells, text, result)))
        finally:
            self.publish()
            shutil.rmtree(staged, ignore_errors=True)

    def _progress(self, cells: Sequence[Cell], text: str, result: Result | None) -> SweepProgress:
        left = [cell for cell in cells if cell.key not in self.results and cell.key not in self._skipped]
        return SweepProgress(len(cells) - len(left), len(cells), self.estimates.total(left), text, result)

    def _run_group(self, cells: list[Cell], staged: Path, progress: Callable[[str, Result | None], None]) -> None:
        """Run cells that differ only in the framework. Their passes take turns, so that the machine's drift affects all alike.

        Only one process is alive at a time, so none holds memory that another could use.
        """
        running: list[_Running] = []
        try:
            for cell in cells:
                environment = self._environment(cell)
                if isinstance(environment, Environment):
                    running.append(_Running(cell, self._session(cell, environment, staged)))
                else:
                    self.results[cell.key] = Result(failures.NOT_AVAILABLE, environment)
                    progress(cell.key, self.results[cell.key])
            rounds = range(max((one.passes for one in running), default=0))
            for index in (index for number in rounds for index in turns.order(len(running), number)):
                one = running[index]
                if not one.over:
                    progress(f"{one.cell.key}: {one.label}", None)
                    one.advance()
                    if one.over:
                        self._finish(one)
                        progress(one.cell.key, self.results[one.cell.key])
        finally:
            for one in running:
                one.close()
        self.publish()

    def _environment(self, cell: Cell) -> Environment | str:
        """Return where a cell runs, or why it cannot; looked up once for all cells that share it."""
        axes = cell.axes
        known = self._lacking.get((axes.framework, axes.network, axes.mode))
        if known is not None:
            return known
        key = (axes.framework, axes.device, axes.devices)
        if key not in self._environments:
            self._environments[key] = _environment(*key)
        return self._environments[key]

    def _session(self, cell: Cell, environment: Environment, staged: Path) -> Session:
        folder = self._cell_folder(cell)
        _emptied(folder)
        options = cell.options(memory.total() if cell.axes.device == "cpu" else None)
        variant = Variant(cell.axes.framework, environment)
        return Session([variant], options, [folder], sys.argv, inherited=[self._lock], staged=staged)

    def _cell_folder(self, cell: Cell) -> Path:
        return self.folder / CELLS / cell.key

    def _finish(self, one: _Running) -> None:
        """Finish a cell: everything else is in files already, and cell.json appears atomically."""
        folder = self._cell_folder(one.cell)
        side = one.session.sides[0]
        result = Result(DONE, None, f"{CELLS}/{one.cell.key}", one.started, round(one.seconds, 3))
        result.values["version"] = side.variant.environment.version
        if side.failure is None:
            values, reason = self._measure(folder)
            result.values.update(values)
            if reason is not None:
                result.status, result.reason = failures.FAILED, conditions.without_home(reason)
        else:
            log = side.pass_folder / "child.log"
            result.status = failures.status(side.failure_kind or "", side.failure, log, one.killed)
            reason = side.failure.replace(f"{folder.absolute()}{os.sep}", "").replace(f"{folder}{os.sep}", "")
            result.reason = conditions.without_home(reason)
        content = {
            "schema": CELL_SCHEMA, "cell": one.cell.key, "settings": one.cell.settings.as_dict(), "status": result.status,
            "reason": result.reason, "folder": result.folder, "started": result.started, "seconds": result.seconds,
            "values": result.values,
        }  # fmt: skip
        _replace(folder / CELL_FILE, content)
        self._keep(one.cell, result)
        self.publish()

    def _keep(self, cell: Cell, result: Result) -> None:
        self.results[cell.key] = result
        if result.status == DONE and result.seconds:
            self.estimates.learn(cell, result.seconds)
        axes = cell.axes
        if result.reason and f"network {axes.network} is not supported" in result.reason:
            self._lacking[axes.framework, axes.network, axes.mode] = result.reason

    def publish(self) -> None:
        """Write the current results of all cells."""
        self._publish([self._row(cell) for cell in self.experiment.cells])

    def _row(self, cell: Cell) -> Row:
        result = self.results.get(cell.key) or self._without_result(cell)
        facts = {name: getattr(result, name) for name in ("status", "reason", "folder", "started", "seconds")}
        about = {"cell": cell.key, "experiment": self.experiment.experiment, "hardware": self._hardware(cell)}
        return {**about, **cell.axes.as_dict(), **facts, **result.values}

    def _without_result(self, cell: Cell) -> Result:
        """Return why a cell has no result: it is left out, cannot run here, or was not reached."""
        if cell.excluded is None and isinstance(reason := self._environment(cell), str):
            return Result(failures.NOT_AVAILABLE, reason)
        return Result(LEFT_OUT, cell.excluded or self._skipped.get(cell.key, NOT_YET))

    def _hardware(self, cell: Cell) -> str:
        """Return what a cell runs on, in words."""
        axes = cell.axes
        if axes.device == "cpu":
            count = self._machine["allowed_threads"]
            return f"{self._machine['processor'] or self._machine['architecture']}, {count} thread{'s' * (count != 1)}"
        names = [one.name for one in gpu.find().devices[: axes.devices]]
        return f"{axes.devices}x {names[0] if names else 'GPU'}"

    def _write_record(self) -> None:
        """Write sweep.json; raise InputError if the folder holds a sweep of another machine."""
        file = self.folder / SWEEP_FILE
        before = _object(file)
        if before is not None and (before.get("schema") != SCHEMA or not isinstance(before.get("machine"), dict)):
            raise InputError(f"{file}: not what this version of `sweep` writes; name another folder")
        for name in _SAME_MACHINE:
            if before is not None and before["machine"].get(name) != self._machine[name]:
                difference = f"{name} {before['machine'].get(name)!r}, here {self._machine[name]!r}"
                raise InputError(f"{file}: was recorded on another machine ({difference}); name another folder")
        cells = [{"cell": c.key, **c.axes.as_dict(), "settings": c.settings.as_dict()} for c in self.experiment.cells]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {
            "schema": SCHEMA, "name": self.experiment.name, "title": self.experiment.title,
            "experiment": self.experiment.experiment, "created": before.get("created") if before else now, "resumed": now,
            "kernelscope": VERSION, "machine": self._machine,
            "gpus": [seen.as_dict() for seen in gpu.find().devices], "toml": conditions.without_home(self.experiment.text),
            "cells": cells,
        }  # fmt: skip
        _replace(file, content)


def _environment(framework: str, device: str, devices: int) -> Environment | str:
    """Return the environment of a framework for this many devices, or why it cannot run."""
    gpus = gpu.find()
    if device == "cuda" and len(gpus.devices) < devices:
        return f"needs {devices} GPU(s), {len(gpus.devices)} here" + (f" ({gpus.reason})" if gpus.reason else "")
    try:
        environment = environments.resolve(framework)
    except ChildError as error:
        reason: str = conditions.without_home(str(error))
        return reason
    if device == "cuda" and environment.variant == "cpu":
        return f"{framework}: its environment has no CUDA build"
    return environment


@contextmanager
def opened(
    folder: Path, experiment: Experiment, measure: Measure, publish: Publish, waiting: Callable[[], None]
) -> Iterator[RunningSweep]:
    """Yield the sweep in a folder, which is created if necessary, and keep other processes out meanwhile.

    waiting: called once if another process, or a killed one's child, holds the folder. Raises InputError for a folder with
    other content, and UsageError if cells were recorded with other settings than the file's.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in folder.iterdir() if path.name not in (LOCK, STAGED, SWEEP_FILE + ".new")]
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; name another folder") from error
    if foreign and not (folder / SWEEP_FILE).is_file():
        raise InputError(f"{folder}: holds files that no sweep wrote, such as {min(foreign)}; name another folder")
    with locks.exclusive(folder / LOCK, waiting) as lock:
        yield RunningSweep(folder, experiment, measure, publish, lock)


def finished(folder: Path, cell: Cell) -> Result | None:
    """Return the result of a finished cell, None for any other; raise UsageError if its settings differ."""
    file = folder / CELLS / cell.key / CELL_FILE
    content = _object(file)
    if content is None or content.get("schema") != CELL_SCHEMA:
        return None
    names = [name.name for name in fields(Result)]
    settings = content.get("settings")
    if not isinstance(settings, dict) or not all(name in content for name in names):
        raise InputError(f"{file}: not what `sweep` writes; remove its folder to have it recorded again")
    for name, value in cell.settings.as_dict().items():
        if settings.get(name) != value:
            difference = f"was recorded with {name} = {settings.get(name)}, now {value}"
            raise UsageError(f"{folder}: cell {cell.key} {difference}; name another folder")
    return Result(**{name: content[name] for name in names})


def turn_groups(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Return the cells in groups that differ only in the framework, in order."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.turn, []).append(cell)
    return list(groups.values())


def _emptied(folder: Path) -> Path:
    """Remove a folder with an unfinished run's remains; cell.json goes first, as it vouches for the rest."""
    if folder.is_dir():
        (folder / CELL_FILE).unlink(missing_ok=True)
        shutil.rmtree(folder)
    return folder


def _replace(file: Path, content: Row) -> None:
    """Write a file as a whole: a reader sees the old or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    durable.write_text(file, json.dumps(content, indent=1))


def _object(file: Path) -> Row | None:
    """Return the content of one of our files; None if missing. Files are replaced as a whole, so a damaged one is not ours."""
    try:
        content = json.loads(file.read_text(encoding="utf8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read ({error}); remove its folder to have it recorded again") from error
    if not isinstance(content, dict):
        raise InputError(f"{file}: not a JSON object; remove its folder to have it recorded again")
    return content
