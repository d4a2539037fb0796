"""Write to stdout in the format that the user chose: a table for reading, or CSV, JSON or Markdown."""

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

_ELSEWHERE = 120  # columns, in a file or pipe
_UNWRAPPED = 1000  # columns
FORMATS = tuple(RENDERERS)
FOR_READING = ("table", "markdown")  # the other formats are for programs

Rows = Sequence[Mapping[str, Any]]


def write_rows(rows: Rows, form: str, title: str, schema: str | None = None, elsewhere: int = _UNWRAPPED) -> None:
    """Write rows with the same keys in one of FORMATS. schema: the name in the JSON envelope (default: the title)."""
    if rows or form != "csv":
        write(of_rows(schema or title, rows, title=title), form, elsewhere)


def write(table: Table, form: str, elsewhere: int = _UNWRAPPED) -> None:
    """Write a table in one of FORMATS. elsewhere: its width outside a terminal, where a program may read it."""
    rendered = RENDERERS[form].render(table)
    if isinstance(rendered, str):
        sys.stdout.write(rendered)
    else:
        _print(rendered, elsewhere)


def figure_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that write figures."""
    add = parser.add_argument
    add("--figures", metavar="DIR", help="write each figure into this folder as PNG, SVG and PDF")
    # the names in reports.figures.STYLES, which loads matplotlib
    meaning = "style of the figures: paper is readable in black and white (default: paper)"
    add("--style", choices=("paper", "slides"), default="paper", help=meaning)


def write_breakdown(result: Mapping[str, Any], form: str, first: str | None = None, rows: int | None = None) -> None:
    """Write a breakdown (Breakdown.as_dict) to stdout in one of FORMATS.

    first: a remark to read first; with formats for programs it goes to stderr. rows: of a table (default: a screenful).
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
    """Write a summary of an imported capture (import.json and its breakdowns) to stdout, for reading."""
    _print(breakdown_terminal.capture(record, breakdowns))


def write_result(result: Mapping[str, Any], form: str, shown: Callable[[Any], Any], markdown: Callable[[Any], str]) -> None:
    """Write a result to stdout as a table, Markdown or JSON. shown, markdown: render it for a terminal and as Markdown."""
    whole = dict(result)
    if form == "table":
        _print(shown(whole))
    else:
        sys.stdout.write(tables.to_json(whole) if form == "json" else markdown(whole))


def target_file(text: str, force: bool, sources: Sequence[Path]) -> Path:
    """Return the report's path; raise InputError if a file there would be lost.

    sources: its inputs, which it never replaces.
    """
    target = Path(text)
    refuse_source(target, sources)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / 'report.html'}")
    if target.exists() and not force:
        raise InputError(f"{target}: exists; name another file or pass --force to replace it")
    return target


def refuse_source(target: Path, sources: Sequence[Path]) -> None:
    """Raise UsageError if an output would replace an input, or become part of an input folder.

    A page, or a file with a new name, may go into an input folder. Pipes and sockets are refused, too.
    """
    try:
        whole.refuse_endless(target)
    except EvidenceError as error:
        raise UsageError(str(error)) from error
    for source in sources:
        if source.is_dir() and target.is_dir() and target.resolve().is_relative_to(source.resolve()):
            raise UsageError(f"{target}: is inside the input {source}; name a folder elsewhere, or a new one")
        if source.is_dir() and parts.belongs(target, source):
            raise UsageError(f"{target}: is part of the input {source}; name another file")
        if source.is_file() and target.exists() and target.samefile(source):
            raise UsageError(f"{target}: is the input {source}; name another file to write")


def write_page(write: Callable[[], None], target: Path) -> None:
    """Write an HTML page and say on stderr where it is; raise InputError if it cannot be written."""
    try:
        write()
    except OSError as error:
        raise InputError(f"{target}: not writable: {error.strerror or error}; name another file") from error
    print(f"report: {target}", file=sys.stderr)


def _replacing() -> None:
    """Replace characters that the terminal cannot show, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors=outlets.ERRORS)


def _print(renderable: Any, elsewhere: int = _ELSEWHERE) -> None:
    """Print what rich draws, without trailing spaces; see `console`."""
    console(elsewhere).print(Trimmed(renderable))


def console(elsewhere: int = _ELSEWHERE, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr, as wide as the terminal or COLUMNS says, else `elsewhere` columns wide.

    Rich uses colours on terminals only, and none if NO_COLOR is set.
    """

    _replacing()
    known = {name: value for name, value in os.environ.items() if (name, value) != ("COLUMNS", "0")}  # some shells set it to 0
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(width=None if is_terminal or "COLUMNS" in known else elsewhere, stderr=stderr, _environ=known)
