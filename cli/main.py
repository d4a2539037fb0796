"""The command `kernelscope`: finds the subcommand, runs it, and turns the project's errors into one line and an exit status."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import keyword
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import archives
from kernelscope.cli import outlets
from kernelscope.reports.text import printable
from kernelscope.tracer.inside.launching.parsing import Parser
from kernelscope.tracer.outside.errors import KernelscopeError
from kernelscope.tracer.outside.suggestions import meant
from kernelscope.tracer.version import VERSION

_FULL = "no space left on the device; free some, or write to another one, and try again"
_MEMORY = "not enough memory; let it have more (ulimit -v says how much it may have), or record less"
_WITHOUT_MEMORY = ("can't start new thread", "failed to map segment", "cannot allocate memory", "Cannot allocate memory")
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "the file would be larger than the system allows; raise the limit (ulimit -f), or write to another file system",
}
# In the order in which help lists them. The module of a command has configure(parser) and run(arguments); it is imported when the
# command is chosen, so that --help and --version wait for none.
GROUPS = {
    "every day": {
        "profile": "record a script of your own, unchanged, and say what to do about it",
        "advise": "what to do about one recording: what costs a step most that can be avoided, and how",
        "explain": "why one recording is slower than another, in parts that add up and causes with remedies",
        "report": "a report of a run, or of several side by side",
        "breakdown": "where a recorded step's time goes",
    },
    "record": {
        "run": "record one workload in one framework",
        "compare": "one workload in several frameworks, side by side",
        "sweep": "run an experiment: all combinations that a TOML file lists",
        "watch": "how far a recording in progress is",
    },
    "captures": {
        "import": "read a capture of nsys, nvprof, torch.profiler, TensorFlow, MXNet, CNTK, oneDNN, MKL, rocprof and other tools",
        "steps": "the steps of a capture: what marks them, how sure that is, and what else they could be",
        "export": "write what was recorded or found in other tools' formats",
        "redact": "copy a capture without what looks like secrets",
        "classify": "what a kernel's name tells, and by which rule",
    },
    "look closer": {
        "confirm": "try what advice says, in turns with the unchanged program, and say what each change did",
        "device": "occupancy, hardware counters, tensor cores, overlap, copies and memory of a recording",
        "roofline": "operations and bytes per second of kernels or layers against measured ceilings",
        "energy": "joules per step, sample, layer and kind",
        "ranks": "where a job of several ranks loses its time, and which rank makes the others wait",
        "gate": "fail when NEW is slower than BASE by more than allowed",
    },
    "set up": {
        "doctor": "what can be measured on this machine, and why the rest cannot",
        "env": "create, list or remove the environments that frameworks run in",
        "data": "convert a data set into frameworks' own record formats",
        "agent": "make one file that records where nothing can be installed",
        "completion": "what makes bash, zsh or fish complete commands and options",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

DESCRIPTION = "Explain, layer by layer and kernel by kernel, why one deep-learning framework is slower than another."
EPILOG = (
    "exit status: 0 done, 1 a check failed, 2 wrong use, 3 input cannot be read, 4 the framework's process failed, 5 undecided"
)


_UNKNOWN = re.compile(r"argument COMMAND: invalid choice: '([^']*)'")
# options of one command that others are given
_ELSEWHERE = {"--from": "; `kernelscope import --from NAME FILE -o DIR` reads a file as one format, then name DIR here"}
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")


class _Parser(Parser):
    """Says what is wrong in one line, with the way to the help, and exits with 2."""

    def error(self, message: str) -> None:  # type: ignore[override]
        if unknown := _UNKNOWN.match(message):
            message = f"no command {unknown[1]!r}{meant(unknown[1], COMMANDS)}"
        elif choice := _CHOICE.search(message):
            message += meant(choice[1], re.findall(r"'([^']*)'", choice[2]))
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def refuse(self, words: Sequence[str]) -> None:
        """Say that these words are none of the command's, and exit; what follows an unknown option may be its value or not."""
        words = [word for word in words if word.startswith("-")] or words
        first = words[0].partition("=")[0]
        instead = _ELSEWHERE.get(first) or meant(first, self._option_string_actions)
        self.error(f"unrecognized arguments: {printable(' '.join(words), None)}{instead}")


class _Top(_Parser):
    """Lists the commands in groups."""

    def format_help(self) -> str:
        """Return what --help prints."""
        width = max(map(len, COMMANDS))
        lines = [f"usage: {self.prog} COMMAND ...   ({self.prog} COMMAND --help says more)", "", DESCRIPTION]
        for group, commands in GROUPS.items():
            lines += ["", f"{group}:", *(f"  {name:{width}}  {summary}" for name, summary in commands.items())]
        return "\n".join([*lines, "", "-V, --version prints the version.", EPILOG, ""])


def parser(*chosen: str) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the arguments of those that are chosen."""
    top = _Top(prog="kernelscope", description=DESCRIPTION, epilog=EPILOG)
    top.add_argument("-V", "--version", action="version", version=VERSION)
    # prog is what argparse would find itself, with all that it takes to format help
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser, prog=top.prog)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary)
        if name in chosen:
            module = importlib.import_module(f"kernelscope.cli.{name}" + ("_" if keyword.iskeyword(name) else ""))
            sub.description = module.__doc__
            module.configure(sub)
            sub.set_defaults(run=module.run, refuse=sub.refuse)
    return top


def _asked(given: list[str]) -> list[str]:
    """Return a command line in which help and version, which elsewhere are commands, are options."""
    if given[:1] == ["help"]:
        return [*given[1:2], "--help"]
    return ["--version"] if given == ["version"] else given


def _complete() -> None:
    """Answer a shell that asks how the line may go on (see cli.completion), and end."""
    import argcomplete  # only where a shell asks

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(parser(*words[1:2]))


class _ToldToEnd(KeyboardInterrupt):
    """A signal other than Ctrl-C's ends the command: what it holds is let go of as after Ctrl-C."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise _ToldToEnd(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        return _run(arguments)
    except _ToldToEnd as told:
        print(f"kernelscope: ended by {signal.Signals(told.args[0]).name}", file=sys.stderr)
        return 128 + int(told.args[0])
    except KeyboardInterrupt:
        print("kernelscope: interrupted", file=sys.stderr)
        return 130
    except SystemExit as left:  # of argparse, which prints help and versions
        try:
            sys.stdout.flush()
        except OSError as error:
            outlets.abandon()
            print(f"kernelscope: error: {_said(error, None, None)}", file=sys.stderr)
            return 3
        raise left
    except (MemoryError, RuntimeError, ImportError, SystemError, OSError) as error:  # also while a command's modules are imported
        if not _is_memory(error):
            raise
        print(f"kernelscope: error: {_MEMORY}", file=sys.stderr)
        return 3


def _run(arguments: Sequence[str] | None) -> int:
    """Run the command line; return the exit status for all but an interruption."""
    gc.set_threshold(100_000, 20, 20)  # little of what a command makes is garbage with cycles; looking for it costs some percent
    if arguments is None:  # not where somebody else's process called this
        outlets.prepare()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup has them ignored
                signal.signal(number, _end)
        if "_ARGCOMPLETE" in os.environ:
            _complete()
    given = _asked(list(sys.argv[1:] if arguments is None else arguments)) or ["--help"]
    parsed, unknown = parser(*given[:1]).parse_known_args(given)
    if unknown:  # the command's own parser knows its options, and which help says more
        parsed.refuse(unknown)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except Exception as error:
        status = _exit_status(error)
        if not status or _is_memory(error):
            raise
        told = archives.named(_said(error, getattr(parsed, "output", None), getattr(parsed, "path", None)))
        if isinstance(error, EvidenceError):
            told = _begun(parsed) or _of_file(told, getattr(parsed, "path", None))
        with contextlib.suppress(OSError):  # where it is stderr that cannot be written, the exit status says it
            print(f"kernelscope: error: {printable(told, None)}", file=sys.stderr)
        if isinstance(error, OSError):
            outlets.abandon()
        return status


def _said(error: Exception, output: object, path: object) -> str:
    """Return an error in words; one of the system with the place and what to do: what the command writes to, or reads."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    reason = _REMEDIES.get(error.errno) or error.strerror or os.strerror(error.errno)
    likely = output if error.errno in _REMEDIES else output or path if error.errno == errno.EIO else None
    place = error.filename or likely
    return f"{place}: {reason}" if place else reason


def _of_file(told: str, path: object) -> str:
    """Return what is said of a file with its name, where it names none."""
    named = isinstance(path, str) and os.path.basename(path.rstrip(os.sep)) not in told
    return f"{path}: {told}" if named else told


def _begun(parsed: argparse.Namespace) -> str | None:
    """Return what to say of a folder that the command was to read and in which nothing is, or None where each holds something."""
    from kernelscope.tracer.outside.run_folder import is_begun  # not at the top: few commands need it

    for path in [getattr(parsed, "path", None), *(getattr(parsed, "paths", None) or [])]:
        with contextlib.suppress(OSError):  # a folder that may not be read
            if isinstance(path, str) and os.path.isdir(path) and is_begun(Path(path)):
                left = "nothing was recorded in it yet: it is empty, or the command that wrote it was killed before that"
                return f"{path}: {left}; record into it (--force replaces what is there), or name another folder"
    return None


def _exit_status(error: Exception) -> int:
    """Return the exit status for our own errors and those of the file system, 0 for any other."""
    if isinstance(error, EvidenceError | OSError):
        return 3
    return error.exit_code if isinstance(error, KernelscopeError) else 0


def _is_memory(error: Exception) -> bool:
    """Return whether memory is short: the interpreter says so itself, or that it has none for a thread's stack or a library.

    Where there is none for the error itself, C code of a library returns without one, which is a SystemError.
    """
    if isinstance(error, SystemError):
        return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and any(text in str(error) for text in _WITHOUT_MEMORY)
    )


if __name__ == "__main__":
    sys.exit(main())
