"""Trials of changes: a command runs again and again, unchanged and changed in turns, until its clean steps are recorded.

    FOLDER/trials/<name>/<round>/   a run folder with the clean pass alone

What is there already is not recorded again, so that trials that were interrupted go on.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.run_record import RUN_FILE
from kernelscope.tracer.outside import profile, turns

TRIALS = "trials"
LOG = "log.txt"  # what the program printed


@dataclass(frozen=True)
class Trial:
    """One way to run the command. changes: of tracer.inside.changes. variables: of its environment."""

    name: str
    changes: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def rounds(
    command: Sequence[str],
    trials: Sequence[Trial],
    count: int,
    folder: Path,
    options: ProfileOptions,
    said: Callable[[str], None],
) -> dict[str, list[Path]]:
    """Run each trial so often, in turns; return its run folders, by name. A trial that fails is not run again.

    said: gets a line before each run.
    """
    found: dict[str, list[Path]] = {trial.name: [] for trial in trials}
    left, done, began = list(trials), 0, time.monotonic()
    for number in range(count):
        for place, trial in enumerate(left[one] for one in turns.order(len(left), number)):
            coming = len(left) * (count - number) - place
            estimate = f", about {(time.monotonic() - began) / done * coming:.0f} s left" if done else ""
            said(f"round {number + 1} of {count}: {trial.name}{estimate}")
            found[trial.name].append(_one(command, trial, folder / TRIALS / trial.name / str(number + 1), options))
            done += 1
        left = [trial for trial in left if _record(found[trial.name][-1]).get("complete")]
    return found


def _one(command: Sequence[str], trial: Trial, folder: Path, options: ProfileOptions) -> Path:
    """Run a trial once, unless it ran before; return its folder."""
    if "exit_status" not in _record(folder):  # one that was killed has none
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted = ProfileOptions(
            steps=options.steps, warmup=options.warmup, mode=options.mode, full_paths=options.full_paths, sources=False,
            passes=("clean",), changes=trial.changes, variables=trial.variables, end=True,
        )  # fmt: skip
        with profile.output_into(folder / LOG):
            profile.profile(command, wanted, folder, trial.name, sys.argv, once=True)
    return folder


def _record(folder: Path) -> dict[str, Any]:
    """Return run.json; empty where there is none."""
    try:
        record: dict[str, Any] = json.loads((folder / RUN_FILE).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    return record
