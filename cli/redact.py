"""Copy a capture, overwrite with x whatever looks like a secret (tokens, keys, passwords), and list what was overwritten.

It handles SQLite, JSON, CSV and text, plain or gzip, and never changes the original. Host and user names, paths and command
lines stay.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope.analysis.secrets.redaction import redact
from kernelscope.cli.output import FORMATS, refuse_source, write_rows
from kernelscope.tracer.inside.secret_values import kinds
from kernelscope.tracer.outside.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("file", metavar="FILE", help="a capture: SQLite, JSON, CSV or text, plain or gzip")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="where to write the copy")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="format of the list of overwritten texts (default: table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the copy and list what was overwritten."""
    source, target = Path(arguments.file), Path(arguments.output)
    _check_target(source, target, arguments.force)
    changes = redact(source, target)
    rows = [{"place": change.place, "what": change.what, "bytes": change.size} for change in changes]
    write_rows(rows, arguments.format, "Redacted", "redaction")
    found = sum(change.size > 0 for change in changes)
    print(
        f"kernelscope: {target}: {f'{found} found and overwritten' if found else 'nothing found'}; searched for {kinds()} kinds "
        "of secrets, by shape and by name: check the copy before sharing it (host and user names, paths and command lines stay)",
        file=sys.stderr,
    )
    return 0


def _check_target(source: Path, target: Path, force: bool) -> None:
    """Raise UsageError if the copy would replace the capture itself or, without --force, any file."""
    refuse_source(target, [source])
    if source.exists() and not (source.is_dir() or source.is_file()):
        raise UsageError(f"{source}: neither a file nor a folder; name a file")
    if target.exists() and not (target.is_dir() or target.is_file()):
        raise UsageError(f"{target}: not a regular file; name one for the copy")
    if target.is_dir():
        raise UsageError(f"{target}: a folder; name a file for the copy")
    if (target.exists() or target.is_symlink()) and not force:
        raise UsageError(f"{target}: exists already; add --force to replace it")
