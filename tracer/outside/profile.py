"""Profile somebody's own command: `tracer.inside.launching`, with our code staged into a temporary folder."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernelscope.tracer.inside import temporary
from kernelscope.tracer.inside.launching.errors import NoSuchCommand
from kernelscope.tracer.inside.launching.launch import launch
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.launching.outcome import Outcome
from kernelscope.tracer.inside.launching.standard_input import StandardInput
from kernelscope.tracer.inside.profiling.recording import MARKING
from kernelscope.tracer.outside import conditions, process_noise
from kernelscope.tracer.outside.errors import ChildError, UsageError
from kernelscope.tracer.outside.run_folder import dated, move_content
from kernelscope.tracer.outside.staging import stage
from kernelscope.tracer.version import VERSION

FOLDER = "profiles"  # where results go for which no folder is named
_SHORT_S = 60.0  # a command without steps that lasts longer is run again only when that is asked for
_FIRST = ".first"  # behind the name of a folder whose command is run again


def runnable(command: Sequence[str], module: Sequence[str] | None = None) -> list[str]:
    """Return the command as a process can be started by it: a Python file or a module gets the interpreter of the environment.

    Raises UsageError where there is no such file.
    """
    if module:
        return [_python(), "-m", *module]
    if not command or not command[0].endswith(".py"):
        script = next((word for word in command[1:] if not word.startswith("-")), "")
        if Path((command or [""])[0]).name.startswith("python") and script.endswith(".py") and not Path(script).is_file():
            raise UsageError(f"{script}: no such script")
        return list(command)
    if not Path(command[0]).is_file():
        raise UsageError(f"{command[0]}: no such script")
    return [_python(), *command]


def _python() -> str:
    """Return the python that a shell would run here, else our own."""
    return shutil.which("python") or shutil.which("python3") or sys.executable


def profile(
    command: Sequence[str], options: ProfileOptions, folder: Path, label: str | None, asked: list[str], once: bool = False
) -> Outcome:
    """Run the command and write the run folder, which is there; raise UsageError where there is no such command.

    Where the command ends before all passes have their steps it is run again, with shorter passes or for each pass; where it
    only evaluates a model that it could train, with the model's calls as steps; where it has no steps, as a whole. The recording
    that has more is kept.
    asked: our own command line. once: do not run it again.
    """
    tries = not (once or options.rerun or options.window)
    began, given = time.monotonic(), StandardInput()
    outcome = _recorded(command, options, folder, label, asked)
    lasted = time.monotonic() - began
    while tries and not outcome.status and (again := _another_try(outcome, options, lasted)):  # what fails is not made to again
        given.begin_again()
        lost = "; what it read from the pipe at its standard input is gone" if given.read_up else ""
        print(f"kernelscope: {again}{lost} (--once forbids that)", file=sys.stderr)
        outcome = _better(outcome, command, options, folder, label, asked)
    return outcome


def _another_try(outcome: Outcome, options: ProfileOptions, lasted: float) -> str | None:
    """Change the options so that another try can record more, and return in words why and how; None where nothing would.

    lasted: seconds that the command took.
    """
    if options.rerun:
        return None
    if outcome.short >= 2:
        why = f"it ended before all passes had their steps (missing: {', '.join(outcome.missing)})"
        first, options.few = options.few is None, outcome.short
        if first and options.more and not options.ranks and options.shorter():  # no number of steps was asked for
            return f"{why}: it is run once more, with shorter passes"
        options.rerun = True
        return f"{why}: it is run {len(options.passes)} times more, once for each pass"
    if outcome.evaluates and options.mode == "auto":
        options.mode = "infer"
        return "it made an optimizer and never stepped it: it is run once more, with calls of the model as steps"
    if outcome.stepless and lasted < _SHORT_S:
        options.take_whole()
        why = "it made one step" if outcome.short else "it has no steps that were seen"
        return f"{why}: it is run {len(options.passes)} times more and recorded as a whole; {MARKING}"
    return None


def _better(
    outcome: Outcome, command: Sequence[str], options: ProfileOptions, folder: Path, label: str | None, asked: list[str]
) -> Outcome:
    """Record again; return the outcome of the try that has more, whose recording is kept."""
    first = folder.with_name(folder.name + _FIRST)
    move_content(folder, first)
    again = _recorded(command, options, folder, label, asked)
    worse = again.seen is None or len(again.missing) >= len(outcome.missing)
    if worse:
        move_content(first, folder)
    shutil.rmtree(first)
    return outcome if worse else again


@contextmanager
def _redirected(*targets: tuple[int, int]) -> Iterator[None]:
    """Let descriptors of this process, and of those that are started meanwhile, be others: pairs (descriptor, other)."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(descriptor, os.dup(descriptor)) for descriptor, _ in targets]
    for descriptor, other in targets:
        os.dup2(other, descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in kept:
            os.dup2(before, descriptor)
            os.close(before)


@contextmanager
def output_into(path: Path) -> Iterator[None]:
    """Let processes that are started meanwhile print into a file."""
    with path.open("ab") as file, _redirected((1, file.fileno()), (2, file.fileno())):
        yield


def in_turns(scripts: tuple[Path, Path], arguments: Sequence[str], repeats: int, asked: list[str]) -> tuple[Path, Path]:
    """Record two scripts, one after the other and that so often, so that the machine's drift meets both alike.

    Return a folder of recordings of each. arguments: of both scripts. asked: our own command line. Raises ChildError where a
    script fails or nothing is recorded of it; what was recorded until then is kept.
    """
    whole = dated(FOLDER, "explain")
    folders = [whole / name for name in names_of(scripts)]
    turn = list(zip(scripts, folders, strict=True))
    order = [(*side, number) for number in range(1, repeats + 1) for side in (turn if number % 2 else turn[::-1])]
    runs = "once" if repeats == 1 else f"{repeats} times"
    print(f"kernelscope: each script runs {runs} to its end, in turns; what is recorded: {whole}", file=sys.stderr)
    began = time.monotonic()
    for done, (script, folder, number) in enumerate(order):
        left = f", about {_duration((time.monotonic() - began) / done * (len(order) - done))} left" if done else ""
        print(f"kernelscope: recording {done + 1} of {len(order)}: {script}{left}", file=sys.stderr, flush=True)
        _one(script, folder / str(number), arguments, asked, whole)
    return folders[0], folders[1]


def names_of(scripts: tuple[Path, Path]) -> tuple[str, str]:
    """Return what tells two scripts apart: their own names, else those of the nearest folders that differ."""
    a, b = ([path.stem, *reversed(path.resolve().parent.parts[1:])] for path in scripts)
    return next(((one, other) for one, other in zip(a, b, strict=False) if one != other), ("a", "b"))


def _one(script: Path, folder: Path, arguments: Sequence[str], asked: list[str], whole: Path) -> None:
    """Record a script into a folder, and say what was recorded; raise ChildError where that fails."""
    folder.mkdir(parents=True)
    with _redirected((1, 2)):  # stdout is for what is said of it
        outcome = profile([_python(), str(script), *arguments], ProfileOptions(), folder, None, asked)
    for line in outcome.lines():
        print(line, file=sys.stderr, flush=True)
    if outcome.status or outcome.seen is None:
        reason = f"ended with status {outcome.status}" if outcome.status else "nothing was recorded of it"
        raise ChildError(f"{script}: {reason}; see what it said above, and {whole} for what was recorded")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _recorded(command: Sequence[str], options: ProfileOptions, folder: Path, label: str | None, asked: list[str]) -> Outcome:
    """Run the command once, or once for each pass, and write the run folder."""
    about = {
        "kernelscope": VERSION,
        "machine": conditions.machine(),
        "noise": process_noise.known(),
        "command": asked,
        "label": label,
    }
    with temporary.folder(temporary.UNCOUNTED) as made:  # so warnings name the program's lines, not those of our wrappers
        try:
            outcome: Outcome = launch(command, options, folder, str(stage(Path(made))), about)
        except NoSuchCommand as error:
            raise UsageError(str(error)) from error
    return outcome
