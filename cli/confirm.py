"""Try the advice: run a program unchanged and changed in turns, and say what each change did."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from kernelscope.analysis.advise import advise
from kernelscope.analysis.confirm import candidates, interventions, kept, result
from kernelscope.analysis.confirm.candidates import Candidate, Claim
from kernelscope.analysis.confirm.result import Together
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.analysis.files import whole
from kernelscope.analysis.recordings.kinds import COMPARISON, RUN, Kind, kind_of
from kernelscope.analysis.trace.records import read_object
from kernelscope.cli import sharing
from kernelscope.cli.output import write, write_result
from kernelscope.cli.trying import TriedProgram, TriedScript, Workload
from kernelscope.reports import confirmed as told
from kernelscope.reports import content, tables
from kernelscope.tracer.inside import disclosure
from kernelscope.tracer.inside.disclosure import HIDDEN
from kernelscope.tracer.inside.launching.command import label
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.launching.parsing import Parser
from kernelscope.tracer.outside import profile, trials, verdicts
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError
from kernelscope.tracer.outside.run_folder import dated

FORMATS = ("table", "markdown", "json")
FOLDER, FILE = "confirm", "confirm.json"
ROUNDS, _FEWEST = 6, 4  # fewer if the budget is short, so that all findings are tried
_WHOLE = 4  # a recording of all passes takes as long as so many runs
BUDGET_S = 900.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
EXAMPLES = """examples:
  kernelscope confirm train.py --epochs 3      record the script, then try the advice
  kernelscope confirm profiles/train-20261125  try the advice on this recording
  kernelscope confirm RUN -- python train.py   the same, with another command
  kernelscope confirm out/demo                 try what makes a framework of a comparison slower
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("-o", "--output", metavar="DIR", help="folder for the trials; interrupted trials continue (default: PATH/confirm)")
    trial_options(parser)
    add("--format", choices=FORMATS, default="table", help="output format (default: table)")
    add("--verdicts", action="store_true", help="show the verdicts of all trials on this machine so far, and try nothing")
    add(
        "path",
        nargs="?",
        metavar="PATH",
        help="a folder that `profile`, `run` or `compare` wrote, or a script to record first",
    )
    add(
        "command",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="arguments of the script; after a folder, -- COMMAND to try another command",
    )
    sharing.configure(parser)


def trial_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is tried, and for how long."""
    add = parser.add_argument
    add("--rounds", type=int, metavar="N",
        help=f"trials: runs of each change (default: {ROUNDS}, as few as {_FEWEST} if the budget is short)")  # fmt: skip
    add(
        "--budget",
        type=_budget,
        default=BUDGET_S,
        metavar="TIME",
        help="trials: time limit; the least promising changes that exceed it are left out (default: 15m)",
    )
    add("--only", action="append", default=[], metavar="NAME",
        help="trials: try this change, whatever the findings (repeatable): " + ", ".join(interventions.known()))  # fmt: skip


def checked(arguments: argparse.Namespace, trying: bool = True) -> None:
    """Raise UsageError for wrong options of trials, before anything is recorded. trying: whether anything is tried."""
    if not trying and (arguments.only or (arguments.rounds, arguments.budget) != (None, BUDGET_S)):
        raise UsageError("--rounds, --budget and --only are options of trials: add --confirm")
    if arguments.rounds is not None and arguments.rounds < 3:
        raise UsageError(f"--rounds {arguments.rounds}: at least 3")
    unknown = [name for name in arguments.only if name not in interventions.known()]
    if unknown:
        raise UsageError(f"--only {unknown[0]}: no such change; choose one of {', '.join(interventions.known())}")


def run(arguments: argparse.Namespace) -> int:
    """Try the advice on a recording, and print the verdicts."""
    _options_behind(arguments)
    checked(arguments)
    if arguments.verdicts:
        write(told.verdicts(kept.summary(kept.read(verdicts.read()))), arguments.format)
        print(f"kernelscope: all verdicts: {verdicts.file()}; a program's trials: RECORDING/{FOLDER}/{FILE}", file=sys.stderr)
        return 0
    if arguments.path is None:
        raise UsageError("PATH is missing: name a folder that `profile` or `run` wrote, or a script")
    recorded, output = _recorded(arguments), Path(arguments.output) if arguments.output else None
    if kind_of(recorded) is Kind.COMPARISON:
        slower, findings = _of_comparison(recorded, arguments.only)
        said = confirmed(arguments, program_of(arguments, slower, output, _named(arguments)), findings, kept.EXPLANATION)
    else:
        program = program_of(arguments, recorded, output, _named(arguments))
        advised = advise(recorded)
        if warning := content.busy(advised).strip():
            print(f"kernelscope: while {recorded} was recorded: {warning}", file=sys.stderr)
        said = confirmed(arguments, program, candidates.of_advice(advised))
    _write(said, arguments.format)
    return 0


def _of_comparison(folder: Path, names: Sequence[str]) -> tuple[Path, list[Claim]]:
    """Return the run of the slower framework of which changes may remove most, and what makes it slower; print which it is.

    names: the changes that are asked for. Raises InputError if there is none for which anything can be tried.
    """
    best: tuple[int, str, str, list[Claim]] | None = None
    for explained in read_object(folder / COMPARISON).get("explanations") or []:  # the slowest comes first
        side, findings = candidates.of_explanation(explained)
        slow, fast = (str(explained[one]["name"]) for one in (side, "a" if side == "b" else "b"))
        framework, settings = str(explained[side]["framework"]), _settings(_record(folder / slow))
        found = candidates.candidates(framework, findings, names, general=False, settings=settings)
        if found and (best is None or candidates.promised_ns(found) > best[0]):
            best = candidates.promised_ns(found), slow, fast, findings
    if best is None:
        nothing = "found no cause of a slower framework that a change from outside can remove"
        raise InputError(f"{folder}: {nothing}; name one of its run folders to try the advice on it")
    _, slow, fast, findings = best
    others = f"for others: kernelscope explain {folder} --a {fast} --b NAME --confirm"
    print(f"kernelscope: trying on {slow} what makes it slower than {fast}; {others}", file=sys.stderr)
    return folder / slow, findings


def _record(folder: Path) -> Mapping[str, Any]:
    """Return the record of a side of a comparison; empty if its folder is gone."""
    return read_object(folder / RUN) if (folder / RUN).is_file() else {}


def _settings(record: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the settings of a workload's recording; none of a script's, whose parts may have several."""
    return {} if "profiled" in record else record.get("settings") or {}


def confirmed(
    arguments: argparse.Namespace, program: TriedProgram, findings: Sequence[Claim], source: str = kept.ADVICE
) -> dict[str, Any]:
    """Try the changes that answer the findings, and return the result, which is also kept in the program's folder.

    arguments: those of `trial_options`. source: where the findings come from, kept.ADVICE or kept.EXPLANATION; with advice,
    settings that no finding asks for are tried too. Raises InputError if nothing can be tried, ChildError if the unchanged
    program does not run.
    """
    recorded, folder, framework = program.path, program.folder, str(program.record["framework"])
    found = candidates.candidates(framework, findings, arguments.only, source == kept.ADVICE, _settings(program.record))
    if not found:
        raise InputError(f"{recorded}: no change that can be tried on a {framework} program answers the findings")
    try:
        with trials.alone(folder, _waiting):
            said = _tried(arguments, program, findings, found)
    except KeyboardInterrupt:
        print(f"kernelscope: trials so far: {folder}; the same command continues them", file=sys.stderr)
        raise
    said = sharing.shareable(said, arguments.full_paths)
    whole.write_text(folder / FILE, tables.to_json(said))
    verdicts.keep(kept.lines(said, source))
    print(f"kernelscope: trials: {folder / trials.TRIALS}", file=sys.stderr)
    return said


def _waiting() -> None:
    print(
        "kernelscope: waiting for another process that tries this program, or for one left over from earlier trials",
        file=sys.stderr,
    )


def _tried(
    arguments: argparse.Namespace, program: TriedProgram, findings: Sequence[Claim], found: list[Candidate]
) -> dict[str, Any]:
    """Try the candidates that the budget allows, then those that helped together; return the result."""
    until = time.monotonic() + arguments.budget
    mine, left_out, one_s = _affordable(program, found, arguments.budget, arguments.rounds)
    runs = program.run([program.trial(one.intervention.name, [one]) for one in mine], program.folder)
    rows = result.tried(mine, runs)
    judged = result.of_findings(findings, found, rows)
    worth = result.worth_keeping(rows, result.busy(runs))
    helping = [one for name in worth for one in mine if one.intervention.name == name]
    together = _together(program, helping, lambda count: time.monotonic() + (count + _WHOLE) * one_s < until)
    after = _after(program, together, mine)
    return result.result(str(program.path), program.record, judged, rows, runs, together, left_out, after)


def beside(said: dict[str, Any], form: str, write: Callable[[Any, str], None], trying: Callable[[], dict[str, Any]]) -> None:
    """Write the findings, then the trials; as JSON both in one object, the trials under "confirmed"."""
    if form == "json":
        write({**said, "confirmed": trying()}, form)
        return
    write(said, form)
    print()
    _write(trying(), form)


def _write(result: Mapping[str, Any], form: str) -> None:
    """Write the result of trials (analysis.confirm.result)."""
    write_result(result, form, told.shown, told.markdown)


def _recorded(arguments: argparse.Namespace) -> Path:
    """Return the folder of the recording; record a script first."""
    path = Path(arguments.path)
    if path.suffix != ".py":
        return path
    command = profile.runnable([str(path), *arguments.command])
    earlier = _interrupted(path, command, arguments.output)
    if earlier is not None:
        print(f"kernelscope: continuing with {earlier}, whose trials were interrupted", file=sys.stderr)
        arguments.command = ["--", *command]
        return earlier
    folder = dated(profile.FOLDER, str(label(command)))
    folder.mkdir(parents=True)
    outcome = profile.profile(command, ProfileOptions(), folder, None, sys.argv)
    for line in outcome.lines():
        print(line, file=sys.stderr)
    sharing.overwrite_secrets(folder)
    if outcome.exit_status:
        raise ChildError(f"{path}: ended with status {outcome.status}; see its messages above")
    arguments.command = ["--", *command]
    return folder


def _interrupted(script: Path, command: Sequence[str], output: str | None) -> Path | None:
    """Return the newest recording of a script that has not changed since, if its trials are not complete."""
    folders = Path(profile.FOLDER).glob(f"{label(command)}-*")
    for folder in sorted(folders, key=lambda one: one.stat().st_mtime, reverse=True):
        tried = Path(output) if output else folder / FOLDER
        if not tried.is_dir() or (tried / FILE).exists() or not (folder / RUN).is_file():
            continue
        record = read_object(folder / RUN)
        unchanged = script.stat().st_mtime < datetime.fromisoformat(record["created"]).timestamp()
        if unchanged and record.get("profiled") == disclosure.command(command):
            return folder
    return None


class _Behind(Parser):
    """Reads options after a folder, with the same error messages as before it."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _options_behind(arguments: argparse.Namespace) -> None:
    """Take options after a folder as our own; after a script they are the script's."""
    first = arguments.command[0] if arguments.command else "--"
    if not first.startswith("-") or first == "--" or Path(arguments.path).suffix == ".py":
        return
    at = arguments.command.index("--") if "--" in arguments.command else len(arguments.command)
    ours, own = arguments.command[:at], arguments.command[at:]
    parser = _Behind(prog="kernelscope confirm", add_help=False)
    configure(parser)
    found = parser.parse_args([*ours, arguments.path])
    if found.path != arguments.path:
        raise UsageError(f"{found.path}: write another command after --")
    vars(arguments).update({name: value for name, value in vars(found).items() if value != parser.get_default(name)})
    arguments.command = own


def _named(arguments: argparse.Namespace) -> list[str]:
    """Return the command that the arguments name; empty if none."""
    named: list[str] = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    return named


def program_of(
    arguments: argparse.Namespace, recorded: Path, folder: Path | None = None, command: Sequence[str] = ()
) -> TriedProgram:
    """Return the recorded program for trials; raise UsageError if it cannot run again.

    folder: for the trials, if not the recording's own. command: to run, if not the recorded one.
    """
    if kind_of(recorded) is not Kind.RUN:
        raise UsageError(
            f"{recorded}: only recordings of `profile`, `run` or `compare` can run again; name a folder that they wrote"
        )
    record, count = read_object(recorded / RUN), arguments.rounds or ROUNDS
    folder = (folder or recorded / FOLDER).resolve()
    if "profiled" not in record:
        if command:
            raise UsageError(f"{recorded}: a workload of `kernelscope run` has no command; leave {command[0]} out")
        return Workload(count, folder, record, recorded)
    if command:
        return TriedScript(count, folder, record, recorded, list(command))
    profiled = [_own_home(part) for part in record["profiled"]]
    if any(HIDDEN in part for part in profiled):
        raise UsageError(f"{recorded}: its command has secrets, which were not recorded; write the command after --")
    directory = Path(_own_home(record.get("directory", ".")))
    if not directory.is_dir():
        raise UsageError(
            f"{recorded}: it ran in {directory}, which no longer exists; go where it can run and write its command after --"
        )
    return TriedScript(count, folder, record, recorded, profiled, directory)


def _own_home(path: str) -> str:
    """Return a recorded path with ~ expanded to this user's home folder."""
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _affordable(
    program: TriedProgram, found: list[Candidate], budget: float, rounds: int | None
) -> tuple[list[Candidate], list[Candidate], float]:
    """Return the changes that the budget allows (at least one), the others, and the seconds of a run; print how long it may take.

    Beside the runs of each change, the unchanged program runs, both run again for what helped, and all passes are recorded once.
    Without --rounds, rounds are reduced until every finding gets a trial.
    """
    one_s = max(program.seconds(), 0.1)
    wanted = len({id(finding) for one in found for finding in one.findings}) or len(found)
    for count in range(program.count, (rounds or _FEWEST) - 1, -1):
        beside = 3 * count + _WHOLE
        most = max(1, int((budget / one_s - beside) / count))
        if most >= min(wanted, len(found)):
            break
    program.count = count
    tried = found[:most]
    seconds = one_s * (beside + count * len(tried))
    changes = f"{len(tried)} change{'s' if len(tried) > 1 else ''}"
    more = f", more than --budget ({budget:.0f} s), because a verdict needs that many runs" if seconds > budget else ""
    print(f"kernelscope: {changes} in {count} rounds: at most about {seconds:.0f} s in all{more}", file=sys.stderr)
    return tried, found[most:], one_s


def _together(program: TriedProgram, kept: list[Candidate], affordable: Callable[[int], bool]) -> Together | None:
    """Try the changes that helped together: add one at a time, and keep it if it helps beside the others.

    affordable: whether there is time for so many runs. Even a single change is run again: it was chosen because it helped, and
    part of that was chance.
    """
    if not kept:
        return None
    mine, untried, dropped = kept[:1], kept[1:], []
    while untried and affordable(3 * program.count):
        one, *untried = untried
        names = _joined(mine), _joined([*mine, one])
        print(f"kernelscope: {names[1]} against {names[0]}", file=sys.stderr)
        both = [program.trial(names[0], mine), program.trial(names[1], [*mine, one])]
        runs = program.run(both, program.folder / "together" / names[1])
        if result.helps(runs[names[0]], runs[names[1]]):
            mine.append(one)
        else:
            dropped.append((one.intervention.name, names[0]))
    if len(kept) == len(untried) + 1:  # none was added to the first
        print(f"kernelscope: {_joined(mine)} once more, to measure its effect", file=sys.stderr)
        runs = program.run([program.trial(_joined(mine), mine)], program.folder / "together")
    alone = tuple(one.intervention.name for one in untried)
    return Together(tuple(one.intervention.name for one in mine), _joined(mine), runs, tuple(dropped), alone)


def _after(program: TriedProgram, together: Together | None, mine: Sequence[Candidate]) -> dict[str, Any]:
    """Record the program with the changes kept; return where the time went and what remains, or nothing if that is unknown."""
    if together is None:
        return {}
    several = [one for one in mine if one.intervention.name in together.names]
    folder = program.whole(program.trial(together.name, several), program.folder)
    try:
        return result.after(pair.read(program.path, folder).explain(force=True), advise(folder))
    except EvidenceError:
        return {}


def _joined(several: Sequence[Candidate]) -> str:
    return "+".join(one.intervention.name for one in several)


def _budget(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write a duration such as 90s, 15m or 1h")
    return float(match[1]) * _SECONDS[match[2]]
