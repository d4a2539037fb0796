"""Programs for `confirm`, which run unchanged and changed in turns: scripts by the process, workloads by the window."""

from __future__ import annotations

import contextlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelscope.analysis.confirm import interventions
from kernelscope.analysis.confirm.candidates import Candidate
from kernelscope.analysis.confirm.result import UNCHANGED
from kernelscope.analysis.confirm.runs import TrialRun, read, restarts
from kernelscope.tracer.inside.disclosure import HIDDEN
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.plan import RECORDED_VARIABLES
from kernelscope.tracer.outside import trials
from kernelscope.tracer.outside.errors import ChildError
from kernelscope.tracer.outside.trials import Trial

Runs = dict[str, list[TrialRun]]


class TriedProgram(ABC):
    """A program to try. count: runs of each change. folder: for the trials. path, record: its recording and its run.json."""

    def __init__(self, count: int, folder: Path, record: dict[str, Any], path: Path):
        self.count = count
        self.folder = folder
        self.record = record
        self.path = path

    def trial(self, name: str, changes: Sequence[Candidate]) -> Trial:
        """Return the program with these changes."""
        made = [one.intervention for one in changes]
        variables: dict[str, str] = {}
        for one in made:
            variables = interventions.combined(variables, one.variables)
        return Trial(name, [*self.noting(), *(change for one in made for change in one.changes)], variables)

    def noting(self) -> Sequence[str]:
        """Return the changes that make the program note its results."""
        return ()

    def run(self, several: Sequence[Trial], folder: Path, count: int | None = None) -> Runs:
        """Run trials in turns with the unchanged program, `count` times; raise ChildError if the unchanged program fails."""
        with self.environment():
            found = self.runs([self.trial(UNCHANGED, ()), *several], folder, count or self.count)
        last = found[UNCHANGED][-1]
        if last.step_ns is None:
            raise ChildError(f"{folder}: the unchanged program cannot be run again: {last.reason}")
        return found

    @contextlib.contextmanager
    def environment(self) -> Iterator[None]:
        """Unset variables for speed that were not set when the program was recorded."""
        recorded = self.record.get("variables")
        more = {} if recorded is None else {
            name: os.environ.pop(name) for name in RECORDED_VARIABLES if name in os.environ and name not in recorded
        }  # fmt: skip
        try:
            yield
        finally:
            os.environ.update(more)

    def as_recorded(self, trial: Trial) -> Trial:
        """Return the trial in the environment of the recording: variables for speed that it set are part of the program."""
        recorded = {name: value for name, value in self.record.get("variables", {}).items() if value != HIDDEN}
        return replace(trial, variables=interventions.combined(recorded, trial.variables))

    def whole(self, trial: Trial, folder: Path) -> Path:
        """Record all passes of the program with a trial's changes; return the run folder."""
        with self.environment():
            return self.recorded(trial, folder)

    @abstractmethod
    def runs(self, several: Sequence[Trial], folder: Path, count: int) -> Runs:
        """Run trials in turns."""

    @abstractmethod
    def recorded(self, trial: Trial, folder: Path) -> Path:
        """Record all passes."""

    @abstractmethod
    def seconds(self) -> float:
        """Return how long a run takes."""


class TriedScript(TriedProgram):
    """A user's command. directory: where it runs."""

    def __init__(
        self, count: int, folder: Path, record: dict[str, Any], path: Path, command: list[str], directory: Path = Path()
    ):
        super().__init__(count, folder, record, path)
        self.command = command
        self.directory = directory

    def noting(self) -> Sequence[str]:
        """Return the changes that make the program note its results."""
        return interventions.noting(str(self.record["framework"]))

    def runs(self, several: Sequence[Trial], folder: Path, count: int) -> Runs:
        """Run trials in turns, each in its own process."""
        options = ProfileOptions(mode=self.record["options"]["mode"])
        with contextlib.chdir(self.directory):
            folders = trials.rounds(self.command, [self.as_recorded(one) for one in several], count, folder, options, _said)
        return {name: [read(path) for path in mine] for name, mine in folders.items()}

    def recorded(self, trial: Trial, folder: Path) -> Path:
        """Record all passes."""
        with contextlib.chdir(self.directory):
            options = ProfileOptions(mode=self.record["options"]["mode"])
            return trials.whole(self.command, self.as_recorded(trial), folder, options)

    def seconds(self) -> float:
        """Return how long a run of the unchanged program takes; run it once before the trials."""
        return self.run([], self.folder / "first", 1)[UNCHANGED][0].seconds


class Workload(TriedProgram):
    """One of our own workloads, as recorded by `run`."""

    def runs(self, several: Sequence[Trial], folder: Path, count: int) -> Runs:
        """Run trials in turns, window by window, in `count` restarts; the workload checks its own results."""
        folders = trials.session(self.record, self.path, [self.as_recorded(one) for one in several], count, folder, _said)
        return {name: restarts(path) for name, path in folders.items()}

    def recorded(self, trial: Trial, folder: Path) -> Path:
        """Record the same passes as the workload's recording has."""
        return trials.whole_workload(self.record, self.path, self.as_recorded(trial), folder, _said)

    def seconds(self) -> float:
        """Return how long a restart takes, at most: 5 s to start, and one and a half times its steps."""
        options = self.record["options"]
        return 5.0 + 1.5 * (int(options["steps"]) + int(options["warmup"])) * _step_s(self.path)


def _step_s(path: Path) -> float:
    step = restarts(path)[0].step_ns
    return 1.0 if step is None else step / 1e9


def _said(text: str) -> None:
    print(f"kernelscope: {text}", file=sys.stderr, flush=True)
