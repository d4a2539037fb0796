"""Compare the rates of kernels and layers, in operations and bytes per second, with measured ceilings of the device.

Ceilings (a copy, a matrix product) come from the run folder or from --ceilings; --measure measures them on this machine in the
run's framework. Captures of other tools have no ceilings unless --ceilings names some.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.device import ceilings
from kernelscope.analysis.device.ceilings import Ceilings
from kernelscope.analysis.device.roofline import roofline
from kernelscope.analysis.recordings import archives, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli.output import FORMATS, refuse_source, write
from kernelscope.cli.warn import about
from kernelscope.reports import device, tables
from kernelscope.reports.renderers import to_csv
from kernelscope.reports.table import of_rows
from kernelscope.tracer.outside import ceilings as measured_ceilings
from kernelscope.tracer.outside import conditions, environments, run_folder
from kernelscope.tracer.outside.errors import InputError, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("path", metavar="PATH", help="a folder that `run` or `import` wrote, or a capture that `import` can read")
    add("--by", choices=("kernel", "layer"), default="kernel", help="what a row is (default: kernel)")
    add("--ceilings", metavar="FILE", help="use the ceilings of this JSON file or run folder")
    add("--measure", action="store_true", help="measure ceilings on this machine now, and store them in the run folder")
    add("--figure", metavar="FILE", help="also draw the roofline to this file (.svg, .png, .pdf)")
    add("--rows", type=int, default=25, metavar="N", help="rows of a printed table; 0: all (default: 25)")
    add("--format", choices=FORMATS, default="table", help="output format (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the table, and draw the figure."""
    path = archives.folder(Path(arguments.path))
    if arguments.figure:
        refuse_source(Path(arguments.figure), [path, Path(arguments.path)])
    trace = reading.read(path)
    about(trace)
    found = roofline(trace, arguments.by, _ceilings(path, arguments)).as_dict()
    _write(found, arguments.format, arguments.rows)
    if arguments.figure:
        _draw(found, Path(arguments.figure))
    return 0


def _write(found: dict[str, Any], form: str, limit: int) -> None:
    if form == "json":
        sys.stdout.write(tables.to_json(found))
    elif form == "csv":
        sys.stdout.write(to_csv(of_rows("roofline", found["rows"])))
    else:
        write(device.table(f"roofline by {found['by']}", device.rates(found), limit), form)
        separator = "\n\n" if form == "markdown" else "\n"
        print(separator.join(["", *device.roofline_lines(found)]).lstrip("\n" if form == "table" else ""))


def _ceilings(path: Path, arguments: argparse.Namespace) -> Ceilings | None:
    """Return the ceilings asked for, else those of the run folder, else none."""
    if arguments.ceilings and arguments.measure:
        raise UsageError("--ceilings and --measure: give only one of them")
    if arguments.ceilings:
        named = archives.folder(Path(arguments.ceilings))
        if named.is_dir():
            return ceilings.of_record(Run(named).record.get("ceilings"), str(named / "run.json"))
        return ceilings.read(named)
    if kind_of(path) is not Kind.RUN:
        if arguments.measure:
            raise UsageError("--measure: needs a run folder, which names the framework; use --ceilings for other captures")
        return None
    if arguments.measure and path != Path(arguments.path):
        raise UsageError(f"--measure: ceilings are stored in the run folder; unpack {arguments.path} and name the folder")
    if arguments.measure:
        return ceilings.of_record(_measured(path), str(path / "run.json"))
    record = Run(path).record.get("ceilings")
    return ceilings.of_record(best_known(record), str(path / "run.json")) if record else None


def best_known(record: Any) -> Any:
    """Return a run's ceilings, raised to what this machine has reached since, if the run is of this machine."""
    since = measured_ceilings.known(record) if isinstance(record, dict) and record.get("source") == "measured" else None
    try:
        return measured_ceilings.merged(record, since) if since is not None else record
    except (KeyError, TypeError, AttributeError):
        return record  # damaged: its reader reports that


def _measured(path: Path) -> dict[str, Any]:
    """Measure ceilings with the run's framework on this machine, and store them in the run folder."""
    record = Run(path).record
    here, there = conditions.machine(), record.get("machine", {})
    if any(here[name] != there.get(name) for name in ("processor", "threads")):
        raise UsageError(f"--measure: {path} was recorded on another machine ({there.get('processor')}); measure there")
    options = record["options"]
    print("measuring ceilings: this takes some seconds", file=sys.stderr)
    found = measured_ceilings.of(environments.resolve(record["framework"]), options["device"], options["threads"], again=True)
    run_folder.add(path, "ceilings", found)
    return found


def _draw(found: dict[str, Any], target: Path) -> None:
    from kernelscope.reports import figures  # matplotlib takes half a second: load it only to draw

    try:
        figures.roofline(found).savefig(target)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{target}: cannot be drawn: {error}; name a file such as roofline.svg in a folder that exists"
        ) from error
    print(f"figure: {target}", file=sys.stderr)
