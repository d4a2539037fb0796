"""The command `kernelscope`: find the sub-command, run it, and turn our errors into one line and an exit status."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import itertools
import keyword
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import archives
from kernelscope.cli import outlets
from kernelscope.reports.text import printable
from kernelscope.tracer.inside.launching.parsing import Parser
from kernelscope.tracer.outside.errors import KernelscopeError
from kernelscope.tracer.outside.suggestions import meant
from kernelscope.tracer.version import VERSION

_FULL = "no space left on the device; free some or write to another device, and try again"
_MEMORY = "not enough memory; allow more (ulimit -v shows the limit) or record less"
_WITHOUT_MEMORY = ("can't start new thread", "failed to map segment", "cannot allocate memory", "Cannot allocate memory")
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "the file would be larger than the system allows; raise the limit (ulimit -f), or write to another file system",
}
# In the order of the help. A command's module has configure(parser) and run(arguments); it is imported only when the command is
# chosen, which keeps --help and --version fast.
GROUPS = {
    "every day": {
        "profile": "record your own script, unchanged, and advise on it",
        "advise": "advise on one recording: what to change, and how much of a step each change may save",
        "explain": "explain why one recording is slower than another: an exact account, and causes with remedies",
        "report": "write an HTML report of a run, or of several side by side",
        "breakdown": "show where the time of a step goes",
    },
    "record": {
        "run": "record one workload in one framework",
        "compare": "record one workload in several frameworks and compare them",
        "sweep": "run an experiment: all combinations that a TOML file lists",
        "watch": "show the progress of a recording",
    },
    "captures": {
        "import": "read a capture of nsys, nvprof, torch.profiler, TensorFlow, MXNet, CNTK, oneDNN, MKL, rocprof and other tools",
        "steps": "show the steps of a capture, how they were found, and the alternatives",
        "export": "export a recording or its results in other tools' formats",
        "redact": "copy a capture with everything overwritten that looks like a secret",
        "classify": "show what a kernel's name reveals, and by which rule",
    },
    "look closer": {
        "confirm": "try the advice in turns with the unchanged program, and show what each change did",
        "device": "show occupancy, hardware counters, tensor cores, overlap, copies and memory",
        "roofline": "compare the rates of kernels or layers with measured ceilings",
        "energy": "show joules per step, sample, layer and kind",
        "ranks": "show where a job of several ranks loses time, and which rank the others wait for",
        "gate": "fail if NEW is slower than BASE by more than allowed",
    },
    "set up": {
        "doctor": "show what can be measured on this machine, and why the rest cannot",
        "env": "create, list or remove the environments of the frameworks",
        "data": "convert a data set to the frameworks' own record formats",
        "agent": "make a single file that records where nothing can be installed",
        "completion": "print shell completion for bash, zsh or fish",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

DESCRIPTION = "Explain, layer by layer and kernel by kernel, why one deep-learning framework is slower than another."
EPILOG = (
    "exit status: 0 success, 1 a check failed, 2 wrong usage, 3 unreadable input, 4 the framework's process failed, 5 undecided"
)


_MISSING = "the following arguments are required"
_UNKNOWN = re.compile(r"argument COMMAND: invalid choice: '([^']*)'")
# options of one command that users also try with others
_ELSEWHERE = {"--from": "; to read a file as one format, run `kernelscope import --from NAME FILE -o DIR` and name DIR here"}
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")


class _Parser(Parser):
    """Says in one line what is wrong, points to the help, and exits with 2."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does; a missing argument may only seem so, because of an option that does not exist."""
        self.given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> None:  # type: ignore[override]
        if message.startswith(_MISSING) and (options := self._no_options()):
            self.refuse(options)
        if unknown := _UNKNOWN.match(message):
            message = f"no command {unknown[1]!r}{meant(unknown[1], COMMANDS)}"
        elif choice := _CHOICE.search(message):
            message += meant(choice[1], re.findall(r"'([^']*)'", choice[2]))
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def _no_options(self) -> list[str]:
        """Return the words of the command line that look like options and are none, or the beginning of none."""
        words = [word for word in itertools.takewhile(lambda word: word != "--", self.given) if re.match(r"--?[a-zA-Z]", word)]
        known = tuple(self._option_string_actions)
        return [word for word in words if not any(option.startswith(word.partition("=")[0]) for option in known)]

    def refuse(self, words: Sequence[str]) -> None:
        """Reject these words and exit. A word may be the value of an unknown option: name only options if there are any."""
        words = [word for word in words if word.startswith("-")] or words
        first = words[0].partition("=")[0]
        instead = _ELSEWHERE.get(first) or meant(first, self._option_string_actions)
        self.error(f"unrecognized arguments: {printable(' '.join(words), None)}{instead}")


class _Top(_Parser):
    """Lists the commands in groups."""

    def format_help(self) -> str:
        """Return what --help prints."""
        width = max(map(len, COMMANDS))
        lines = [f"usage: {self.prog} COMMAND ...   (see {self.prog} COMMAND --help)", "", DESCRIPTION]
        for group, commands in GROUPS.items():
            lines += ["", f"{group}:", *(f"  {name:{width}}  {summary}" for name, summary in commands.items())]
        return "\n".join([*lines, "", "-V, --version prints the version", EPILOG, ""])


def parser(*chosen: str) -> argparse.ArgumentParser:
    """Return the parser of all commands; only the chosen ones get their arguments."""
    top = _Top(prog="kernelscope", description=DESCRIPTION, epilog=EPILOG)
    top.add_argument("-V", "--version", action="version", version=VERSION)
    # argparse would find prog itself, but by formatting the help
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
    """Turn the words help and version, which are commands in other tools, into options."""
    if given[:1] == ["help"]:
        return [*given[1:2], "--help"]
    return ["--version"] if given == ["version"] else given


def _complete() -> None:
    """Answer a shell that asks for completions (see cli.completion), and end."""
    import argcomplete  # only where a shell asks

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(parser(*words[1:2]))


class _Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C's ends the command, which cleans up as after Ctrl-C."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise _Terminated(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        return _run(arguments)
    except _Terminated as signalled:
        print(f"kernelscope: ended by {signal.Signals(signalled.args[0]).name}", file=sys.stderr)
        return 128 + int(signalled.args[0])
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
    """Run the command line; return the exit status, except after an interruption."""
    gc.set_threshold(100_000, 20, 20)  # commands make little cyclic garbage; searching for it costs some percent
    if arguments is None:  # not when called from another program
        outlets.prepare()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup has them ignored
                signal.signal(number, _end)
        if "_ARGCOMPLETE" in os.environ:
            _complete()
    given = _asked(list(sys.argv[1:] if arguments is None else arguments)) or ["--help"]
    parsed, unknown = parser(*given[:1]).parse_known_args(given)
    if unknown:  # the command's own parser knows its options and names its own help
        parsed.refuse(unknown)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except Exception as error:
        status = _exit_status(error)
        if not status or _is_memory(error):
            raise
        message = archives.named(_said(error, getattr(parsed, "output", None), getattr(parsed, "path", None)))
        if isinstance(error, EvidenceError):
            message = _begun(parsed) or _of_file(message, getattr(parsed, "path", None))
        with contextlib.suppress(OSError):  # if stderr itself cannot be written, the exit status must do
            print(f"kernelscope: error: {printable(message, None)}", file=sys.stderr)
        if isinstance(error, OSError):
            outlets.abandon()
        return status


def _said(error: Exception, output: object, path: object) -> str:
    """Return an error's message. A system error gets its remedy and the path that the command writes or reads."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    reason = _REMEDIES.get(error.errno) or error.strerror or os.strerror(error.errno)
    likely = output if error.errno in _REMEDIES else output or path if error.errno == errno.EIO else None
    place = error.filename or likely
    return f"{place}: {reason}" if place else reason


def _of_file(message: str, path: object) -> str:
    """Put the file's name in front of a message that does not name it."""
    named = isinstance(path, str) and os.path.basename(path.rstrip(os.sep)) not in message
    return f"{path}: {message}" if named else message


def _begun(parsed: argparse.Namespace) -> str | None:
    """Return the message for a folder to be read that holds no recording yet; None if there is no such folder."""
    from kernelscope.tracer.outside.run_folder import is_begun  # not at the top: few commands need it

    for path in [getattr(parsed, "path", None), *(getattr(parsed, "paths", None) or [])]:
        with contextlib.suppress(OSError):  # an unreadable folder
            if isinstance(path, str) and os.path.isdir(path) and is_begun(Path(path)):
                left = "nothing was recorded in it yet: it is empty, or the command that wrote it was killed early"
                return f"{path}: {left}; record into it (--force replaces its contents), or name another folder"
    return None


def _exit_status(error: Exception) -> int:
    """Return the exit status for our own errors and those of the file system, 0 for any other."""
    if isinstance(error, EvidenceError | OSError):
        return 3
    return error.exit_code if isinstance(error, KernelscopeError) else 0


def _is_memory(error: Exception) -> bool:
    """Return whether memory ran out: the interpreter says so, or has none for a thread's stack or a library.

    If there is no memory for the error itself, C code of a library returns without setting one, which is a SystemError.
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
