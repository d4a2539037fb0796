"""The sides of a recording on the command line: [LABEL=]FRAMEWORK[@PROGRAM.py], and environment variables for each."""

from __future__ import annotations

import argparse
import sys
from pathlib import PurePath
from typing import Any, NamedTuple

from kernelscope.cli import capture
from kernelscope.tracer.outside.errors import ChildError, UsageError
from kernelscope.tracer.outside.recipes import check_known
from kernelscope.tracer.outside.variants import LABEL, VARIABLE, Variant, program_file

_TAKEN = ("tables",)  # folders of a comparison that are no sides
_OURS = ("PYTHONHOME",)  # variables that would keep a child from starting


class Entry(NamedTuple):
    """One side of the command line."""

    label: str
    framework: str
    program: str | None


def add_variables(parser: argparse.ArgumentParser, metavar: str, meaning: str) -> None:
    """Add the option --env."""
    parser.add_argument("--env", action="append", default=[], metavar=metavar, dest="variables", help=meaning)


def entries(text: str) -> list[Entry]:
    """Return the sides that a list such as "pytorch,changed=pytorch@changed.py" names; raise UsageError for a wrong one."""
    found = [_entry(part.strip()) for part in text.split(",") if part.strip()]
    if not found:
        raise UsageError(f"--frameworks {text}: name each framework, separated by commas")
    labels = [entry.label for entry in found]
    for entry in found:
        if labels.count(entry.label) > 1:
            raise UsageError(f"--frameworks: two sides are called {entry.label}; write LABEL={entry.framework} for one of them")
    return found


def _entry(part: str) -> Entry:
    """Return the side that [LABEL=]FRAMEWORK[@PROGRAM.py] names; its label defaults to its program or framework."""
    head, at, program = part.partition("@")
    label, given, framework = head.rpartition("=")
    check_known(framework)
    if not given:
        label = PurePath(program).stem if at else framework
    if not LABEL.fullmatch(label) or label in _TAKEN:
        raise UsageError(f"{label!r} cannot name a side; write LABEL={framework} with another LABEL")
    return Entry(label, framework, program if at else None)


def variables(given: list[str], labels: list[str]) -> dict[str, dict[str, str]]:
    """Return each label's variables from NAME=VALUE (for all) and LABEL:NAME=VALUE, which takes precedence.

    Raises UsageError for any other text.
    """

    for_all: dict[str, str] = {}
    own: dict[str, dict[str, str]] = {label: {} for label in labels}
    for text in given:
        key, equals, value = text.partition("=")
        label, colon, name = key.rpartition(":")
        if not equals or not VARIABLE.fullmatch(name) or name in _OURS or "\0" in value:
            raise UsageError(f"--env {key}: write NAME=VALUE, with the name of an environment variable")
        if colon and label not in own:
            raise UsageError(f"--env {key}: no side is called {label}; write LABEL:NAME=VALUE with one of {', '.join(labels)}")
        (own[label] if colon else for_all)[name] = value
    return {label: {**for_all, **mine} for label, mine in own.items()}


def variant(arguments: argparse.Namespace) -> Variant:
    """Return the one side of `run`; raise UsageError, InputError or ChildError if it is not possible."""
    program = arguments.program
    entry = _entry(arguments.framework if program is None else f"{arguments.framework}@{program}")
    return _variant(entry, arguments.python, variables(arguments.variables, [entry.label])[entry.label])


def variants(arguments: argparse.Namespace) -> tuple[list[Variant], list[dict[str, Any]]]:
    """Return the sides of `compare`, and those left out with the reasons; raise UsageError, InputError or ChildError."""
    asked = entries(arguments.frameworks)
    labels = [entry.label for entry in asked]
    given = variables(arguments.variables, labels)
    pythons = dict(text.partition("=")[::2] for text in arguments.python)
    names = list(dict.fromkeys([*labels, *(entry.framework for entry in asked)]))
    unused = set(pythons) - set(names)
    if unused:
        raise UsageError(f"--python {sorted(unused)[0]}: write NAME=PATH with one of {', '.join(names)}")
    found, left_out = [], []
    for entry in asked:
        try:
            found.append(_variant(entry, pythons.get(entry.label) or pythons.get(entry.framework), given[entry.label]))
        except ChildError as error:
            if not arguments.skip_missing:
                raise
            left_out.append({"framework": entry.label, "reason": str(error)})
            print(f"kernelscope: {entry.label} left out: {error}", file=sys.stderr)
    if not found:
        raise ChildError("no framework is set up; see `kernelscope env create`")
    return found, left_out


def _variant(entry: Entry, python: str | None, given: dict[str, str]) -> Variant:
    program = program_file(entry.program) if entry.program is not None else None
    return Variant(entry.label, capture.environment(entry.framework, python), program, given)
