"""Run one workload in several frameworks in turns, and compare them layer by layer and kernel by kernel."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.comparisons.comparison import compare
from kernelscope.analysis.files import whole
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import capture, sharing, sides
from kernelscope.cli.comparisons import write_comparison
from kernelscope.cli.output import FORMATS
from kernelscope.cli.roofline import best_known
from kernelscope.reports import comparison_tables
from kernelscope.tracer.outside.errors import ChildError
from kernelscope.tracer.outside.recipes import FRAMEWORKS
from kernelscope.tracer.outside.run_folder import replaced
from kernelscope.tracer.outside.session import Session


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    capture.configure(parser)
    parser.add_argument(
        "-f",
        "--frameworks",
        required=True,
        metavar="A,B,...",
        help=f"the sides, each [LABEL=]FRAMEWORK[@PROGRAM.py]: {', '.join(FRAMEWORKS)}; PROGRAM.py varies the workload",
    )
    sides.add_variables(parser, "[LABEL:]NAME=VALUE", "environment variable for one side, or for all (repeatable)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="interpreter of one side or framework (repeatable)",
    )
    parser.add_argument("--skip-missing", action="store_true", help="leave out frameworks that are not set up, and say why")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a fairness check fails")
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format on stdout (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Record all sides, compare them, write compare.json, tables and the report, and print the comparison."""
    options = capture.options(arguments)
    variants, left_out = sides.variants(arguments)
    folder = capture.folder(arguments, options.network)
    choices = capture.choices(arguments, options, variants)
    with replaced(folder, arguments.force):
        session = Session(variants, options, [folder / variant.label for variant in variants], sys.argv, choices)
        capture.record(session)
        sharing.overwrite_secrets(folder)
        failed = [{"framework": side.label, "reason": side.failure} for side in session.sides if side.failure is not None]
        for side in failed:
            print(f"kernelscope: {side['framework']} dropped out: {side['reason']}", file=sys.stderr)
        if len(failed) == len(session.sides):
            raise ChildError(f"no framework finished; what was recorded is in {folder}")
        result = _compare(session, sharing.shareable(left_out + failed, options.full_paths), folder)
        _write(result, folder, arguments.format)
    if failed:
        return ChildError.exit_code
    return 1 if arguments.strict and result["fairness"]["failed"] else 0


def _compare(session: Session, left_out: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    runs = [Run(folder / side.label) for side in session.sides if side.failure is None]
    return compare(runs, left_out)


def _write(result: dict[str, Any], folder: Path, form: str) -> None:
    """Write the files of a comparison and print it."""
    from kernelscope.reports import html, interactive_parts  # loading matplotlib would disturb the measurement

    whole.write_text(folder / "compare.json", json.dumps(result, indent=1))
    comparison_tables.write_csv_folder(result, folder / "tables")
    html.write_comparison(result, folder / "report.html", interactive_parts.beside(result, folder, best_known))
    write_comparison(result, form)
    print(f"report: {folder / 'report.html'}", file=sys.stderr)
