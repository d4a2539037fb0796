"""Write rows to stdout as the user asked: a table for reading, CSV, JSON or Markdown for everything else."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from rich.console import Console

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import whole
from kernelscope.analysis.recordings import parts
from kernelscope.cli import outlets
from kernelscope.reports import breakdown_terminal, tables
from kernelscope.reports.breakdown_grid import TALL
from kernelscope.reports.renderers import RENDERERS, to_csv
from kernelscope.reports.table import Table, of_rows
from kernelscope.reports.trimmed import Trimmed
from kernelscope.tracer.outside.errors import InputError, UsageError

_ELSEWHERE = 120  # columns of what is written into a file or pipe
_UNWRAPPED = 1000  # columns
FORMATS = tuple(RENDERERS)
FOR_READING = ("table", "markdown")  # the others are data for programs

Rows = Sequence[Mapping[str, Any]]


def write_rows(rows: Rows, form: str, title: str, schema: str | None = None, elsewhere: int = _UNWRAPPED) -> None:
    """Write rows, all of the same keys, in one of FORMATS. schema: the name in JSON's envelope, the title unless given."""
    if rows or form != "csv":
        write(of_rows(schema or title, rows, title=title), form, elsewhere)


def write(table: Table, form: str, elsewhere: int = _UNWRAPPED) -> None:
    """Write a table in one of FORMATS. elsewhere: its width outside of a terminal, where the reader may be another program."""
    rendered = RENDERERS[form].render(table)
    if isinstance(rendered, str):
        sys.stdout.write(rendered)
    else:
        _print(rendered, elsewhere)


def figure_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that write figures."""
    add = parser.add_argument
    add("--figures", metavar="DIR", help="write each figure there as PNG, SVG and PDF")
    # the names in reports.figures.STYLES, which loads matplotlib
    meaning = "of these: paper is readable in black and white (default: paper)"
    add("--style", choices=("paper", "slides"), default="paper", help=meaning)


def write_breakdown(result: Mapping[str, Any], form: str, first: str | None = None, rows: int | None = None) -> None:
    """Write a breakdown (Breakdown.as_dict) to stdout in one of FORMATS.

    first: what is to be known before it is read; beside data for programs it goes to stderr. rows: of a table, unless as many as
    fit a screen.
    """
    if first is not None:
        _replacing()
        read = form in FOR_READING
        print(f"{first}\n" if read else f"kernelscope: {first}", file=sys.stdout if read else sys.stderr)
    if form == "table":
        _print(breakdown_terminal.breakdown(result, rows or TALL))
        return

    if form == "csv":
        sys.stdout.write(to_csv(tables.breakdown_table(result)))
    else:
        sys.stdout.write(tables.to_json(result) if form == "json" else tables.breakdown_markdown(result))


def write_capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]]) -> None:
    """Write what an imported capture holds (import.json and its breakdowns) to stdout, for reading."""
    _print(breakdown_terminal.capture(record, breakdowns))


def write_result(result: Mapping[str, Any], form: str, shown: Callable[[Any], Any], markdown: Callable[[Any], str]) -> None:
    """Write a result to stdout as a table, as Markdown or as JSON. shown, markdown: return it for a terminal and as Markdown."""
    whole = dict(result)
    if form == "table":
        _print(shown(whole))
    else:
        sys.stdout.write(tables.to_json(whole) if form == "json" else markdown(whole))


def target_file(text: str, force: bool, sources: Sequence[Path]) -> Path:
    """Return where the report goes; raise InputError when a file there would be lost or the folder cannot be made.

    sources: what it is made of, which it never replaces.
    """
    target = Path(text)
    refuse_source(target, sources)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / 'report.html'}")
    if target.exists() and not force:
        raise InputError(f"{target}: exists; name another file or pass --force to replace it")
    return target


def refuse_source(target: Path, sources: Sequence[Path]) -> None:
    """Raise UsageError where what is to be written would replace a file that it is made of, or go into a folder of them.

    A page, or a file with a new name, may go into a folder that is read. Pipes and sockets are refused, too.
    """
    try:
        whole.refuse_endless(target)
    except EvidenceError as error:
        raise UsageError(str(error)) from error
    for source in sources:
        if source.is_dir() and target.is_dir() and target.resolve().is_relative_to(source.resolve()):
            raise UsageError(f"{target}: lies in what is read, {source}; name a folder elsewhere, or a new one")
        if source.is_dir() and parts.belongs(target, source):
            raise UsageError(f"{target}: lies in what is read, {source}, and is a part of it; name another file")
        if source.is_file() and target.exists() and target.samefile(source):
            raise UsageError(f"{target}: the same file as {source}; name another one to write")


def write_page(write: Callable[[], None], target: Path) -> None:
    """Write an HTML page and say on stderr where it is; raise InputError when it cannot be written."""
    try:
        write()
    except OSError as error:
        raise InputError(f"{target}: not writable: {error.strerror or error}; name another file") from error
    print(f"report: {target}", file=sys.stderr)


def _replacing() -> None:
    """Let bars and dashes not stop a terminal that cannot show them."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors=outlets.ERRORS)


def _print(renderable: Any, elsewhere: int = _ELSEWHERE) -> None:
    """Print what rich draws, each line as far as its text goes; see `console`."""
    console(elsewhere).print(Trimmed(renderable))


def console(elsewhere: int = _ELSEWHERE, stderr: bool = False) -> Console:
    """Return what prints on stdout, or stderr: as wide as the terminal, or as COLUMNS says, or `elsewhere` columns into a file.

    Colours are for terminals, and not where NO_COLOR is set: rich sees to both.
    """

    _replacing()
    known = {name: value for name, value in os.environ.items() if (name, value) != ("COLUMNS", "0")}  # which some shells leave
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(width=None if is_terminal or "COLUMNS" in known else elsewhere, stderr=stderr, _environ=known)
