"""Profile a user's command: `tracer.inside.launching`, with our code staged in a temporary folder."""

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

FOLDER = "profiles"  # results go here if no folder is named
_SHORT_S = 60.0  # a command without steps that lasts longer is run again only on request
_FIRST = ".first"  # suffix of the folder with the first try of a command that is run again


def runnable(command: Sequence[str], module: Sequence[str] | None = None) -> list[str]:
    """Return the command in executable form: a Python file or a module is prefixed with the environment's interpreter.

    Raises UsageError if the file does not exist.
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
    """Run the command and write the run folder, which exists; raise UsageError if there is no such command.

    If the command ends before all passes have their steps, it is run again, with shorter passes or once for each pass. If it
    only evaluates a model that it could train, it is run again with the model's calls as steps; if it has no steps, as a whole.
    The recording with more in it is kept. asked: our own command line. once: do not run it again.
    """
    tries = not (once or options.rerun or options.window)
    began, given = time.monotonic(), StandardInput()
    outcome = _recorded(command, options, folder, label, asked)
    lasted = time.monotonic() - began
    while tries and not outcome.status and (again := _another_try(outcome, options, lasted)):  # not a failing one
        given.begin_again()
        lost = "; its standard input was a pipe and cannot be read again" if given.read_up else ""
        print(f"kernelscope: {again}{lost} (--once prevents this)", file=sys.stderr)
        outcome = _better(outcome, command, options, folder, label, asked)
    return outcome


def _another_try(outcome: Outcome, options: ProfileOptions, lasted: float) -> str | None:
    """Change the options so that another try can record more, and return a sentence on why and how; None if none would.

    lasted: seconds that the command took.
    """
    if options.rerun:
        return None
    if outcome.short >= 2:
        why = f"it ended before all passes had their steps (missing: {', '.join(outcome.missing)})"
        first, options.few = options.few is None, outcome.short
        if first and options.more and not options.ranks and options.shorter():  # the user gave no number of steps
            return f"{why}: it is run once more with shorter passes"
        options.rerun = True
        return f"{why}: it is run {len(options.passes)} more times, once for each pass"
    if outcome.evaluates and options.mode == "auto":
        options.mode = "infer"
        return "it created an optimizer but never stepped it: it is run once more, with calls of the model as steps"
    if outcome.stepless and lasted < _SHORT_S:
        options.take_whole()
        why = "it made one step" if outcome.short else "no steps were detected"
        return f"{why}: it is run {len(options.passes)} more times and recorded as a whole; {MARKING}"
    return None


def _better(
    outcome: Outcome, command: Sequence[str], options: ProfileOptions, folder: Path, label: str | None, asked: list[str]
) -> Outcome:
    """Record again; return the outcome of the try that recorded more, and keep that one's recording."""
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
    """Redirect descriptors of this process and of processes started meanwhile: pairs (descriptor, target)."""
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
    """Redirect the output of processes started meanwhile into a file."""
    with path.open("ab") as file, _redirected((1, file.fileno()), (2, file.fileno())):
        yield


def in_turns(scripts: tuple[Path, Path], arguments: Sequence[str], repeats: int, asked: list[str]) -> tuple[Path, Path]:
    """Record two scripts, one after the other, several times, so that the machine's drift affects both alike.

    Returns a folder of recordings for each. arguments: of both scripts. asked: our own command line. Raises ChildError if a
    script fails or nothing is recorded of it; earlier recordings are kept.
    """
    whole = dated(FOLDER, "explain")
    folders = [whole / name for name in names_of(scripts)]
    turn = list(zip(scripts, folders, strict=True))
    order = [(*side, number) for number in range(1, repeats + 1) for side in (turn if number % 2 else turn[::-1])]
    runs = "once" if repeats == 1 else f"{repeats} times"
    print(f"kernelscope: each script runs {runs} to its end, in turns; recordings: {whole}", file=sys.stderr)
    began = time.monotonic()
    for done, (script, folder, number) in enumerate(order):
        left = f", about {_duration((time.monotonic() - began) / done * (len(order) - done))} left" if done else ""
        print(f"kernelscope: recording {done + 1} of {len(order)}: {script}{left}", file=sys.stderr, flush=True)
        _one(script, folder / str(number), arguments, asked, whole)
    return folders[0], folders[1]


def names_of(scripts: tuple[Path, Path]) -> tuple[str, str]:
    """Return labels for two scripts: their own names, else those of the nearest folders that differ."""
    a, b = ([path.stem, *reversed(path.resolve().parent.parts[1:])] for path in scripts)
    return next(((one, other) for one, other in zip(a, b, strict=False) if one != other), ("a", "b"))


def _one(script: Path, folder: Path, arguments: Sequence[str], asked: list[str], whole: Path) -> None:
    """Record a script into a folder, and report what was recorded; raise ChildError if that fails."""
    folder.mkdir(parents=True)
    with _redirected((1, 2)):  # stdout is reserved for the result
        outcome = profile([_python(), str(script), *arguments], ProfileOptions(), folder, None, asked)
    for line in outcome.lines():
        print(line, file=sys.stderr, flush=True)
    if outcome.status or outcome.seen is None:
        reason = f"ended with status {outcome.status}" if outcome.status else "nothing was recorded"
        raise ChildError(f"{script}: {reason}; see its output above, and {whole} for the recordings")


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
    with temporary.folder(temporary.UNCOUNTED) as made:  # so warnings name the program's lines, not our wrappers'
        try:
            outcome: Outcome = launch(command, options, folder, str(stage(Path(made))), about)
        except NoSuchCommand as error:
            raise UsageError(str(error)) from error
    return outcome
