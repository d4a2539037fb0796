"""Make the portable agent: a single file that records on machines where nothing can be installed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope.analysis.accounting.amounts import size
from kernelscope.tracer.outside import agent


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write, such as agent.pyz")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and say how to use it."""
    path = Path(arguments.output)
    written = agent.pack(path, arguments.force)
    print(
        f"{path}: {size(written)}; run it with the framework's Python 3.6+: python {path.name} run lenet -f pytorch -o DIR, "
        f"or python {path.name} profile -- train.py",
        file=sys.stderr,
    )
    return 0
