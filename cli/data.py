"""Convert a data set to the formats that frameworks read fastest, for `run` and `compare` with --loader records."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelscope.tracer.outside import converting, recipes
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.options import check_workload

_MIB = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="convert", required=True)
    convert = actions.add_parser("convert", help="write training samples as records")
    convert.add_argument(
        "folder", metavar="DIR", help="folder with MNIST idx files, CIFAR-10 binary files, or one folder of images per class"
    )
    convert.add_argument("--for", required=True, dest="network", metavar="WORKLOAD", help="the network that will use the samples")
    convert.add_argument(
        "--to",
        required=True,
        metavar="NAMES",
        help="comma-separated: pytorch (WebDataset), tensorflow (TFRecord), mxnet (RecordIO), cntk (CTF), arrays (numpy)",
    )
    convert.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the new files")
    convert.add_argument("--force", action="store_true", help="replace files of the same name")


def run(arguments: argparse.Namespace) -> int:
    """Convert and print a line for each format; return the exit status."""
    check_workload(arguments.network)
    if not Path(arguments.folder).is_dir():
        raise UsageError(f"{arguments.folder}: not a folder")
    targets = list(dict.fromkeys(name.strip() for name in arguments.to.split(",") if name.strip()))
    for name in targets:
        if name != converting.ARRAYS:
            recipes.check_known(name)
    if not targets:
        raise UsageError(f"--to {arguments.to}: name each framework, separated by commas")
    folder, output = Path(arguments.folder), Path(arguments.output)
    for done in converting.convert(arguments.network, folder, targets, output, arguments.force):
        names = ", ".join(path.name for path in done.files)
        print(f"{done.framework}: {done.samples:,} samples, {done.bytes / _MIB:,.1f} MiB, {done.seconds:.1f} s: {names}")
    return 0
