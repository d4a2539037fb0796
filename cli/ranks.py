"""Show where a job of several ranks loses its time, or why it hangs: which rank makes the others wait."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelscope.analysis.ranks import flight_recorder, hang, job
from kernelscope.cli import sharing
from kernelscope.cli.output import write_ranks
from kernelscope.tracer.outside.errors import InputError

FORMATS = ("table", "markdown", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a capture of each rank, or a dump of PyTorch's Flight Recorder of each, or a folder of them",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that read captures (default: as many as processors)")
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the captures, and print what the job does."""
    files = _files([Path(path) for path in arguments.paths])
    dumps = [path for path in files if flight_recorder.is_dump(path)]
    result = hang(dumps) if dumps else job(files, arguments.workers)
    write_ranks(sharing.shareable(result, arguments.full_paths), arguments.format)
    return 0


def _files(paths: list[Path]) -> list[Path]:
    """Return the captures: files as they are, of folders what lies in them."""
    found = []
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: does not exist; name the captures of the ranks, or a folder of them")
        found += sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    return found
