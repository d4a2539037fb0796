"""Trials of changes: a command runs again and again, unchanged and changed in turns, until its clean steps are recorded.

    FOLDER/trials/<set>/<name>/<round>/   a run folder with only the clean pass
    FOLDER/kept/<set>/                    with all passes, of the program with the changes that were kept

Existing recordings are not repeated, so interrupted trials resume; an unfinished one is discarded. Each set of changes of a
command has its own folder, with SET, which says what it is. Recordings of another set at another time are no reference for it,
and stay.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside import disclosure
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.run_record import LOG_FILE, RUN_FILE
from kernelscope.tracer.outside import environments, locks, machine_cache, profile, turns, variants
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import Variant

TRIALS, KEPT, SET, LOCK = "trials", "kept", "trials.json", ".lock"
_INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit statuses of an interrupted program


@dataclass(frozen=True)
class Trial:
    """One way to run the command. changes: of tracer.inside.changes. variables: of its environment."""

    name: str
    changes: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def alone(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Keep other processes from running trials in this folder meanwhile; `waiting` is called once if one does.

    The tested programs inherit the lock, so nothing is measured beside one that a killed command left behind.
    """
    (folder / TRIALS).mkdir(parents=True, exist_ok=True)
    with locks.exclusive(folder / TRIALS / LOCK, waiting) as lock:
        os.set_inheritable(lock, True)
        yield


def rounds(
    command: Sequence[str],
    trials: Sequence[Trial],
    count: int,
    folder: Path,
    options: ProfileOptions,
    said: Callable[[str], None],
) -> dict[str, list[Path]]:
    """Run each trial `count` times, in turns; return its run folders, by name. A trial that fails is not run again.

    The first trial is the unchanged program: if it fails, nothing more is run. Raises KeyboardInterrupt if a program is
    interrupted. said: receives a line before each run.
    """
    place_of_set = _of_set(folder / TRIALS, command, trials)
    found: dict[str, list[Path]] = {trial.name: [] for trial in trials}
    left, ran, took = list(trials), 0, 0.0
    for number in range(count):
        for place, trial in enumerate(left[one] for one in turns.order(len(left), number)):
            coming = len(left) * (count - number) - place
            estimate = f", about {took / ran * coming:.0f} s for all {coming} that are left" if ran else ""
            target = place_of_set / trial.name / str(number + 1)
            there, began = _worked(target), time.monotonic()
            if not there:
                said(f"round {number + 1} of {count}: {trial.name}{estimate}")
            wanted = ProfileOptions(
                steps=options.steps, warmup=options.warmup, mode=options.mode, full_paths=options.full_paths, sources=False,
                passes=("clean",), changes=trial.changes, variables=trial.variables, end=True,
            )  # fmt: skip
            found[trial.name].append(_one(command, trial.name, target, wanted))
            ran, took = (ran, took) if there else (ran + 1, took + time.monotonic() - began)
        left = [trial for trial in left if _worked(found[trial.name][-1])]
        if trials[0] not in left:  # without the unchanged program the others mean nothing
            break
    return found


def session(
    record: Mapping[str, Any],
    path: Path,
    trials: Sequence[Trial],
    count: int,
    folder: Path,
    said: Callable[[str], None],
) -> dict[str, Path]:
    """Run a workload with each trial's changes, window by window in turns; return the run folders, with `count` restarts each.

    trials: the recorded variables are among theirs. record: run.json of the unchanged workload. path: its folder, which holds its
    own program, if any. Folders that are complete are used as they are.
    """
    place = _of_set(folder / TRIALS, [], trials)
    folders = {trial.name: place / trial.name for trial in trials}
    _session(record, path, trials, folders, said, passes=("check", "clean"), repeats=count)
    return folders


def _session(
    record: Mapping[str, Any],
    path: Path,
    trials: Sequence[Trial],
    folders: Mapping[str, Path],
    said: Callable[[str], None],
    **options: Any,
) -> None:
    if all(_record(mine).get("complete") for mine in folders.values()):
        return
    for mine in folders.values():
        shutil.rmtree(mine, ignore_errors=True)
    known = {one.name for one in fields(RunOptions)}
    asked = {name: value for name, value in record["options"].items() if name in known}
    wanted = replace(RunOptions(**asked), **options, energy=False)
    environment = environments.resolve(str(record["framework"]), None)
    own = record.get("program")
    program = variants.program_file(str(path / own["file"])) if own else None
    sides = [Variant(trial.name, environment, program, dict(trial.variables), tuple(trial.changes)) for trial in trials]
    made = Session(sides, wanted, list(folders.values()), sys.argv)
    made.run(lambda label, done, total: said(f"{label}: {len(trials)} sides in turns, {done} of {total} done"))


def whole(command: Sequence[str], trial: Trial, folder: Path, options: ProfileOptions) -> Path:
    """Record all passes of a command with these changes; return the run folder."""
    wanted = ProfileOptions(mode=options.mode, full_paths=options.full_paths, changes=trial.changes, variables=trial.variables)
    return _one(command, trial.name, _of_set(folder / KEPT, command, [trial]) / trial.name, wanted)


def whole_workload(record: Mapping[str, Any], path: Path, trial: Trial, folder: Path, said: Callable[[str], None]) -> Path:
    """Record all passes of a workload with these changes; return the run folder."""
    kept = _of_set(folder / KEPT, [], [trial]) / trial.name
    _session(record, path, [trial], {trial.name: kept}, said)
    return kept


def _of_set(folder: Path, command: Sequence[str], trials: Sequence[Trial]) -> Path:
    """Create and return the folder of a set of trials of a command."""
    several = [[trial.name, list(trial.changes), dict(trial.variables)] for trial in trials]
    about = {"command": disclosure.command(command), "trials": several}
    mine = folder / machine_cache.key(SET, about)
    mine.mkdir(parents=True, exist_ok=True)
    (mine / SET).write_text(json.dumps(about), encoding="utf8")
    return mine


def _one(command: Sequence[str], name: str, folder: Path, options: ProfileOptions) -> Path:
    """Run a command once with these options, unless it ran before; return its folder. name: the run's label."""
    if not _worked(folder):  # the cause of an earlier failure may be fixed by now
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with profile.output_into(folder / LOG_FILE):
            outcome = profile.profile(command, options, folder, name, sys.argv, once=True)
        if outcome.status in _INTERRUPTED:
            shutil.rmtree(folder, ignore_errors=True)
            raise KeyboardInterrupt
    return folder


def _worked(folder: Path) -> bool:
    record = _record(folder)
    return bool(record.get("complete")) and not record.get("exit_status")


def _record(folder: Path) -> dict[str, Any]:
    """Return run.json; empty if there is none."""
    return _json(folder / RUN_FILE)


def _json(file: Path) -> dict[str, Any]:
    """Return a file's content; empty if there is none."""
    try:
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    return record
