"""Turn captures of other tools into a folder that every analysis and report can read."""

from __future__ import annotations

import argparse
import datetime
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import all_formats
from kernelscope.analysis.formats.format import families, formats_named
from kernelscope.analysis.recordings import captures, imported
from kernelscope.cli import output, sharing, warn
from kernelscope.cli.output import write_rows
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.run_folder import prepare_output
from kernelscope.tracer.outside.suggestions import meant
from kernelscope.tracer.version import VERSION


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="a capture; several are merged if at most one has a timeline, or if all are of one machine and time",
    )
    add("-o", "--output", metavar="DIR", help="folder to write, new or empty")
    add(
        "--from",
        dest="form",
        metavar="NAME",
        help="read every FILE as this format (see --list), or as one of this tool's (nsys, rocprof, torch), not as recognised",
    )
    add("--list", action="store_true", help="list the formats and exit")
    add("--keep-secrets", action="store_true", help="keep what looks like a token, key or password: do not share DIR then")
    add("--force", action="store_true", help="replace DIR if an earlier import wrote it")
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the captures, write the folder, say what was found."""
    if arguments.list:
        _list()
        return 0
    if arguments.form:
        _check_known(arguments.form)  # an unknown format is reported before anything else
    if not arguments.files:
        raise UsageError("name at least one FILE (see kernelscope import --help)")
    if not arguments.output:
        raise UsageError("name the folder to write with -o DIR (see kernelscope import --help)")
    folder, files = Path(arguments.output), [Path(name) for name in arguments.files]
    _import(files, folder, arguments)
    print(f"imported: {folder}", file=sys.stderr)
    return 0


def _import(files: list[Path], folder: Path, arguments: argparse.Namespace) -> None:
    new = not folder.exists()
    prepare_output(folder, arguments.force, importing=True)
    try:
        _write(files, folder, arguments)
    finally:
        if new:
            with suppress(OSError):
                folder.rmdir()  # a failed import leaves nothing; a successful one is not empty


def _write(files: list[Path], folder: Path, arguments: argparse.Namespace) -> None:
    with ExitStack() as search:  # for secrets continues while tables are made
        read = search.enter_context(captures.reading_all(files, arguments.form, arguments.keep_secrets))
        trace = sharing.shareable_trace(read, arguments.full_paths)

        def info() -> dict[str, Any]:
            search.close()
            warn.about(read)
            return sharing.shareable(read.info, arguments.full_paths)

        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = imported.write(trace, files, folder, now, VERSION, info, replacing=arguments.force)
    output.write_capture(record, imported.Imported(folder).breakdowns())


def _check_known(name: str) -> None:
    try:
        formats_named(name)
    except EvidenceError as error:
        raise UsageError(f"{error}{meant(name, [*(form.name for form in all_formats()), *families()])}") from error


def _list() -> None:
    write_rows([{"format": form.name, "what": form.title} for form in all_formats()], "table", "formats")
