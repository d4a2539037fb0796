"""Create, list or remove the environments of the frameworks."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape

from kernelscope.analysis.accounting.amounts import size
from kernelscope.cli.output import write_rows
from kernelscope.tracer.outside import environments, recipes
from kernelscope.tracer.outside.building import BuildProgress
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError

_NAMES = f"one of: {', '.join(recipes.FRAMEWORKS)}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="create|list|remove", required=True)
    create = actions.add_parser("create", help="create an environment for each named framework, unless it exists")
    create.add_argument("frameworks", nargs="+", metavar="NAME", help=_NAMES)
    create.add_argument("--python", metavar="PATH", help="interpreter to create it from (default: the best one found)")
    create.add_argument("--variant", choices=("cpu", "cuda"), help="build of the framework (default: by the GPUs that NVML sees)")
    create.add_argument("--no-hashes", action="store_true", help="accept files with unknown digests, in the same versions")
    listing = actions.add_parser("list", help="show which environments are ready, and why the others are not")
    listing.add_argument(
        "--format", choices=("table", "csv", "json", "markdown"), default="table", help="output format (default: table)"
    )
    remove = actions.add_parser("remove", help="remove all environments of each named framework")
    remove.add_argument("frameworks", nargs="+", metavar="NAME", help=_NAMES)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; return the exit status."""
    action = {"create": _create, "list": _list, "remove": _remove}[arguments.action]
    return action(arguments)


def _names(arguments: argparse.Namespace) -> list[str]:
    """Return the named frameworks, each once; raise UsageError for an unknown one before anything is done."""
    for name in arguments.frameworks:
        recipes.check_known(name)
    return list(dict.fromkeys(arguments.frameworks))


def _create(arguments: argparse.Namespace) -> int:
    """Create each environment; a failure does not stop the others."""
    names = _names(arguments)
    if arguments.python is not None and len(names) > 1:
        raise UsageError(f"--python {arguments.python}: name one framework with it, not {len(names)}")
    failed = 0
    for name in names:
        start = time.monotonic()
        variant, why = recipes.wanted_variant(name)
        build = f"{arguments.variant} build, as asked" if arguments.variant else f"{variant} build: {why}"
        there = arguments.python is None and environments.find(name, arguments.variant or variant) is not None
        try:
            with _progress(name) as progress:
                made = environments.create(
                    name, arguments.python, variant=arguments.variant, progress=progress, hashed=not arguments.no_hashes
                )
        except (ChildError, InputError) as error:
            failed = failed or error.exit_code
            print(f"kernelscope: error: {error}", file=sys.stderr)
            continue
        seconds = time.monotonic() - start
        how = "existed already" if there else f"took {seconds:.0f} s"
        print(f"{name} {made.version} is ready ({build}; {how}): {made.python}", file=sys.stderr)
    return failed


def _list(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = environments.list_all()
    first = ("framework", "python", "version", "ready", "reason")
    if arguments.format in ("table", "markdown"):
        rows = [
            {
                "framework": row["framework"],
                "version": row["version"],
                "python": row["python_version"],
                "variant": row["variant"],
                "ready": row["ready"],
                "size": size(row["size_bytes"]),
                "reason or path": row["reason"] or row["path"],
            }
            for row in rows
        ]
    else:
        rows = [{key: row[key] for key in (*first, *(other for other in row if other not in first))} for row in rows]
    write_rows(rows, arguments.format, "Environments", "environments")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    for name in _names(arguments):
        removed = environments.remove(name)
        for folder in removed:
            print(f"removed {folder}", file=sys.stderr)
        if not removed:
            print(f"{name}: there is no environment to remove", file=sys.stderr)
    return 0


@contextmanager
def _progress(name: str) -> Iterator[BuildProgress]:
    """Show stages on stderr: a spinner on a terminal, lines elsewhere."""
    if sys.stderr.isatty():
        with Console(stderr=True).status(f"{name}: looking for an interpreter") as status:
            yield _Spinner(name, status)
    else:
        yield _Lines(name)


class _Lines:
    """One line per stage."""

    def __init__(self, name: str):
        self._name = name

    def stage(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        pass


class _Spinner:
    """A spinner with the current stage."""

    def __init__(self, name: str, status: Any):
        self._name = name
        self._status = status
        self._stage = ""

    def stage(self, text: str) -> None:

        self._stage = f"{self._name}: {escape(text)}"
        self._status.update(self._stage)

    def detail(self, text: str) -> None:

        self._status.update(f"{self._stage} [dim]{escape(text)}[/dim]")
