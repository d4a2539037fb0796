"""Run a command, once or once per pass, into a run folder."""

import contextlib
import json
import os
import shutil
import sys
from typing import Any, Dict, List, Sequence, Tuple, Union

from kernelscope.tracer.inside import disclosure
from kernelscope.tracer.inside.launching import command as process
from kernelscope.tracer.inside.launching.errors import NoSuchCommand
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.launching.outcome import SIGNALLED, SPEC_FILE, Outcome, Result
from kernelscope.tracer.inside.launching.standard_input import StandardInput
from kernelscope.tracer.inside.launching.watching import Watcher
from kernelscope.tracer.inside.plan import WHOLE
from kernelscope.tracer.inside.profiling import ranks
from kernelscope.tracer.inside.run_record import RUN_FILE, RunRecord
from kernelscope.tracer.inside.scrubbing import Scrubber


def launch(
    command: Sequence[str], options: ProfileOptions, path: Union[str, "os.PathLike[str]"], root: str, about: Dict[str, Any]
) -> Outcome:
    """Run the command and write the run folder, which exists and is empty; return an Outcome.

    path: the folder. root: the folder with the staged copy of our code. about: {"kernelscope": version, "machine": facts,
    "command": our own command line, "label": the run's label or None}. Raises NoSuchCommand.
    """
    if shutil.which(command[0]) is None:
        raise NoSuchCommand("%s: no such command; write the command as you would run it, behind --" % command[0])
    folder = os.path.realpath(path)
    scrubber = Scrubber(options.full_paths, os.environ, list(about["command"]) + list(command))
    run = RunRecord(folder, _record(command, options, about), scrubber)
    spec, status, name = os.path.join(folder, SPEC_FILE), 0, str(process.script_name(command))
    watcher = Watcher(folder)
    plans, given = options.plans(), StandardInput()
    for number, plan in enumerate(plans, 1):
        given.begin_again()
        if len(plans) > 1:
            sys.stderr.write("kernelscope: run %d of %d: %s\n" % (number, len(plans), ", ".join(one["pass"] for one in plan)))
            sys.stderr.flush()
        for owner in [folder] + [path for _, path in ranks.recorded(folder)]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(owner, "owner"))
        wanted = {
            "folder": folder, "mode": options.mode, "plan": plan, "seconds": options.seconds, "warmup": options.warming(),
            "focus": options.focus, "limit": options.limit, "sources": options.sources, "changes": options.changes,
            "end": options.end, "ranks": options.ranks, "alone": options.alone,
        }  # fmt: skip
        with open(spec, "w", encoding="utf8") as out:
            json.dump(wanted, out, indent=1)
        with watcher:
            status = process.run(command, spec, os.path.join(root, process.INJECTED), options.variables)
        process.forward_rest(folder)
        # a program that fails is recorded until then; if it fails before its pass has a step, another run would have none
        # either
        if not os.path.isdir(folder) or status > SIGNALLED or (status and not _stepped(folder, plan)):
            if options.mode == WHOLE and status > SIGNALLED:  # an interrupted program is not the whole
                shutil.rmtree(os.path.join(folder, plan[0]["pass"]), ignore_errors=True)
            break
    if not os.path.isdir(folder):
        lost = "%s: it was removed or renamed while the script ran; name another folder" % folder
        return Outcome(name, status, None, [lost])
    try:
        return _outcome(run, status, watcher, options, scrubber)
    except OSError as error:  # the exit status is still the script's
        full = "%s: not all could be written: %s; free some space, or name another folder" % (folder, error.strerror)
        return Outcome(name, status, None, [full])


def _outcome(run: RunRecord, status: int, watcher: Watcher, options: ProfileOptions, scrubber: Scrubber) -> Outcome:
    """Complete what the command's processes left in the run folder, or in those of its ranks."""
    recorded = ranks.recorded(run.folder)
    if recorded:
        outcome = _of_ranks(recorded, run, status, options, scrubber)
    else:
        outcome = Result(run, status, watcher, options.passes).outcome()
    outcome.problems += _unseen(options, [number for number, _ in recorded])
    scrubber.folder(run.folder)
    return outcome


def _stepped(folder: str, plan: Sequence[Dict[str, Any]]) -> bool:
    """Return whether a pass of the plan has steps in some process of the command."""
    places = [folder] + [path for _, path in ranks.recorded(folder)]
    files = [os.path.join(place, entry["pass"], "1", "steps.jsonl") for place in places for entry in plan]
    return any(os.path.exists(file) and os.path.getsize(file) for file in files)


def _unseen(options: ProfileOptions, recorded: Sequence[int]) -> List[str]:
    """Name in one line the requested ranks that are missing; return an empty list if all are there."""
    if not options.ranks or options.alone:
        return []
    if not recorded:
        return ["--ranks %s: no process of the command is a rank of several; it was recorded as one program" % options.ranks]
    missing = [] if options.ranks == "all" else sorted(set(map(int, options.ranks.split(","))) - set(recorded))
    return ["--ranks %s: not recorded: rank %s" % (options.ranks, ", ".join(map(str, missing)))] if missing else []


def _of_ranks(
    recorded: Sequence[Tuple[int, str]], run: RunRecord, status: int, options: ProfileOptions, scrubber: Scrubber
) -> Outcome:
    """Make a run folder for each rank, after which their parent folder is no run any more. Return the outcome of all."""
    made = []
    for number, folder in recorded:
        record = RunRecord(folder, dict(run.record, label="%s rank %d" % (run.record["label"], number)), scrubber)
        made.append((number, Result(record, status, Watcher(folder), options.passes).outcome()))
    os.unlink(os.path.join(run.folder, RUN_FILE))
    problems = ["rank %d: %s" % (number, problem) for number, outcome in made for problem in outcome.problems]
    seen = [(number, outcome.seen) for number, outcome in made if outcome.seen is not None]
    missing = [name for _, outcome in made for name in outcome.missing]
    said = "ranks %s: %s" % (", ".join(str(number) for number, _ in seen), seen[0][1]) if seen else None
    return Outcome(made[0][1].name, status, said, problems, missing, ranks=[folder for _, folder in recorded])


def _record(command: Sequence[str], options: ProfileOptions, about: Dict[str, Any]) -> Dict[str, Any]:
    name = process.script_name(command)
    return {
        "kernelscope": about["kernelscope"],
        "recorder": "profile",
        "label": about["label"] or process.label(command),
        "framework": "unknown",
        "version": None,
        "python": None,
        "program": None,
        "options": {
            "network": name, "mode": options.mode, "batch": None, "device": "cpu", "threads": None, "seed": None,
            "steps": options.steps, "window": list(options.window) if options.window else None, "warmup": options.warmup,
            "repeats": 1, "steady": False, "timeout_s": None, "data": None, "collector": "framework", "rerun": options.rerun,
            "full_paths": options.full_paths,
        },
        "conditions": "as it comes",
        "machine": about["machine"],
        "noise": about.get("noise", {}),
        "command": disclosure.command(about["command"], options.full_paths),
        "profiled": disclosure.command(command, options.full_paths),
        "directory": disclosure.command([os.getcwd()], options.full_paths)[0],
        "variables": disclosure.recorded(dict(os.environ, **options.variables), options.variables, options.full_paths),
        "network": None,
        "model": None,
    }  # fmt: skip
