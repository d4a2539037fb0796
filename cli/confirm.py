"""Try what advice says: run a program unchanged and changed in turns, and say what each change did."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.advise import advise
from kernelscope.analysis.confirm import interventions, result
from kernelscope.analysis.confirm.interventions import Candidate
from kernelscope.analysis.confirm.result import Together
from kernelscope.analysis.recordings.kinds import RUN, Kind, kind_of
from kernelscope.analysis.trace.records import read_object
from kernelscope.cli import sharing
from kernelscope.cli.output import write_confirmed
from kernelscope.cli.trying import Program, Script, Workload
from kernelscope.reports import tables
from kernelscope.tracer.inside.disclosure import HIDDEN
from kernelscope.tracer.inside.launching.command import label
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.outside import profile, trials
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError

FORMATS = ("table", "markdown", "json")
FILE = "confirm.json"
ROUNDS = 6
BUDGET_S = 900.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
EXAMPLES = """examples:
  kernelscope confirm train.py --epochs 3      record the script, then try what its advice says
  kernelscope confirm profiles/train-20261125  try the advice on what was recorded
  kernelscope confirm RUN -- python train.py   the same, with another command
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("-o", "--output", metavar="DIR", help="folder for the trials; one that was interrupted goes on (default: PATH/confirm)")
    add("--rounds", type=int, default=ROUNDS, metavar="N", help=f"runs of each change (default: {ROUNDS})")
    add("--budget", type=_budget, default=BUDGET_S, metavar="TIME", help="what promises least is left out above (default: 15m)")
    add("--only", action="append", default=[], metavar="NAME", help="try this change, whatever the advice is (repeatable): "
        + ", ".join(interventions.known()))  # fmt: skip
    add("--format", choices=FORMATS, default="table", help="(default: table)")
    add("path", metavar="PATH", help="a folder that `profile` or `run` wrote, or a script, which is recorded first")
    add("command", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script; of a folder -- COMMAND, if another")
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Try what the advice on a recording says, and print what came of it."""
    if arguments.rounds < 3:
        raise UsageError(f"--rounds {arguments.rounds}: at least 3")
    unknown = [name for name in arguments.only if name not in interventions.known()]
    if unknown:
        raise UsageError(f"--only {unknown[0]}: no such change; there are {', '.join(interventions.known())}")
    recorded = _recorded(arguments)
    folder = Path(arguments.output) if arguments.output else recorded / "confirm"
    program = _program(arguments, recorded, folder)
    advised = advise(recorded)
    found = interventions.candidates(advised, arguments.only)
    if not found:
        raise InputError(f"{recorded}: nothing can be tried on a program of {advised['framework']}")
    mine, left_out = _affordable(program, found, arguments.budget)
    runs = program.run([program.trial(one.intervention.name, [one]) for one in mine], folder)
    rows = result.tried(mine, runs, advised)
    together = _together(program, [one for name in result.worth_keeping(rows) for one in mine if one.intervention.name == name])
    said = sharing.shareable(result.result(advised, rows, runs, together, left_out), arguments.full_paths)
    (folder / FILE).write_text(tables.to_json(said), encoding="utf8")
    write_confirmed(said, arguments.format)
    print(f"kernelscope: trials: {folder / trials.TRIALS}", file=sys.stderr)
    return 0


def _recorded(arguments: argparse.Namespace) -> Path:
    """Return the folder of the recording; a script is recorded."""
    path = Path(arguments.path)
    if path.suffix != ".py":
        if arguments.command[:1] not in ([], ["--"]):
            raise UsageError(f"{arguments.command[0]}: options stand before PATH, another command behind --")
        if kind_of(path) is not Kind.RUN:
            raise UsageError(f"{path}: not a folder that `profile` or `run` wrote; name one, or a script")
        return path
    command = profile.runnable([str(path), *arguments.command])
    folder = profile.dated(str(label(command)))
    folder.mkdir(parents=True)
    outcome = profile.profile(command, ProfileOptions(), folder, None, sys.argv)
    for line in outcome.lines():
        print(line, file=sys.stderr)
    if outcome.exit_status:
        raise ChildError(f"{path}: ended with status {outcome.status}; see what it said above")
    arguments.command = ["--", *command]
    return folder


def _command(arguments: argparse.Namespace, record: dict[str, Any]) -> list[str]:
    """Return what is run: what was recorded, or the command that is named."""
    named = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    command = named or [str(Path(part).expanduser()) if part.startswith("~") else part for part in record["profiled"]]
    if any(HIDDEN in part for part in command):
        raise UsageError(f"{arguments.path}: its command has secrets, which were not recorded; name it behind --")
    return command


def _program(arguments: argparse.Namespace, recorded: Path, folder: Path) -> Program:
    """Return what is tried."""
    record = read_object(recorded / RUN)
    if "profiled" in record:
        return Script(arguments.rounds, folder, record, _command(arguments, record))
    if arguments.command:
        raise UsageError(f"{recorded}: a workload of `kernelscope run` has no command; leave {arguments.command[0]} out")
    return Workload(arguments.rounds, folder, record, recorded)


def _affordable(program: Program, found: list[Candidate], budget: float) -> tuple[list[Candidate], list[Candidate]]:
    """Return the changes that can be tried in this time, and the others; at least one is tried."""
    most = max(1, int(budget / max(program.seconds(), 0.1) / program.count) - 1)
    return found[:most], found[most:]


def _together(program: Program, kept: list[Candidate]) -> Together | None:
    """Try the changes that helped together: each is added to those before it, and stays where it helps beside them."""
    if not kept:
        return None
    mine, dropped = kept[:1], []
    for one in kept[1:]:
        names = _named(mine), _named([*mine, one])
        folder = program.folder / "together" / names[1]
        several = [program.trial(names[0], mine), program.trial(names[1], [*mine, one])]
        runs = program.run(several, folder)
        if result.helps(runs[names[0]], runs[names[1]]):
            mine.append(one)
        else:
            dropped.append((one.intervention.name, names[0]))
    name = _named(mine)
    # anew, also for one alone: what was chosen because it helped helped more than it does, by chance
    runs = program.run([program.trial(name, mine)], program.folder / "together")
    return Together(tuple(one.intervention.name for one in mine), name, runs, tuple(dropped))


def _named(several: Sequence[Candidate]) -> str:
    return "+".join(one.intervention.name for one in several)


def _budget(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write a time such as 90s, 15m or 1h")
    return float(match[1]) * _SECONDS[match[2]]
