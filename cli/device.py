"""Show what a device did: occupancy, hardware counters, tensor cores, TF32, streams, overlap, copies and memory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.device.tables import SCHEMA
from kernelscope.analysis.device.tables import tables as device_tables
from kernelscope.analysis.recordings import archives, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli.output import FORMATS, write
from kernelscope.cli.warn import about
from kernelscope.reports import device, tables
from kernelscope.reports.renderers import to_csv
from kernelscope.reports.table import of_rows
from kernelscope.tracer.outside.errors import UsageError

_LONG = ("occupancy", "metrics", "copies")  # tables that may have many rows
TABLES = ("occupancy", "metrics", "tensor-cores", "tf32", "streams", "overlap", "copies", "peak", "memory")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="PATH", help="a folder that `run` or `import` wrote, or a capture that `import` can read")
    parser.add_argument("--table", choices=TABLES, help="one table (default: all of them)")
    parser.add_argument("--rows", type=int, default=15, metavar="N", help="rows of a printed table; 0: all (default: 15)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format; csv needs --table (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables."""
    if arguments.format == "csv" and arguments.table is None:
        raise UsageError(f"--format csv writes one table; choose it with --table ({', '.join(TABLES)})")

    path = archives.folder(Path(arguments.path))
    trace = reading.read(path)
    about(trace)
    record = Run(path).record if kind_of(path) is Kind.RUN else {}
    names = [arguments.table] if arguments.table else list(TABLES)
    _write(device_tables(trace, names, record), arguments.format, arguments.rows)
    return 0


def _write(found: dict[str, Any], form: str, limit: int) -> None:
    if form == "json":
        sys.stdout.write(tables.to_json({"schema": SCHEMA, **device.envelope(found)}))
        return
    for name, rows in found.items():
        title = device.TITLES[name]
        if isinstance(rows, str):
            print(f"{title}: {rows}\n", file=sys.stdout if form != "csv" else sys.stderr)
        elif form == "csv":
            sys.stdout.write(to_csv(of_rows(name, rows)))
        else:
            write(device.table(name, rows, limit if name in _LONG else 0), form)
