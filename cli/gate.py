"""Fail if a change makes a step slower than allowed, and account for the slowdown: a check for continuous integration."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.comparisons import gate
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import whole
from kernelscope.analysis.recordings import archives
from kernelscope.cli import sharing
from kernelscope.cli.comparisons import write_explanation
from kernelscope.cli.explain import explained
from kernelscope.cli.output import refuse_source
from kernelscope.reports import gate as words
from kernelscope.reports.text import printable
from kernelscope.tracer.outside.errors import InputError, UsageError

FORMATS = ("table", "markdown", "json")
FAILED, UNDECIDED = 1, 5  # exit statuses


def _share(text: str) -> float:
    """Return 0.03 for "3%"."""
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage such as 3%") from None
    if not text.endswith("%") or not 0 <= value < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0% and 1000%")
    return value / 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("base", metavar="BASE", help="what to compare with: a folder of `run` or `profile`, a folder of several, or a capture")
    add("new", metavar="NEW", help="what to judge")
    add("--max-regression", type=_share, default=0.03, metavar="PERCENT", help="allowed slowdown (default: 3%%)")
    add("--strict", action="store_true", help="also fail (1) if the recordings cannot decide")
    add("--allow-undecided", action="store_true", help="exit with 0 if the recordings cannot decide (default: 5)")
    add("--force", action="store_true", help="compare even if the work differs (network, mode, batch)")
    add("--markdown", metavar="FILE", help="also write verdict and account to this file, for a pull request")
    add("--junit", metavar="FILE", help="also write a JUnit XML file")
    add("--format", choices=FORMATS, default="table", help="output format on stdout (default: table)")
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain and judge the difference, and write the verdict; return 0, FAILED, or UNDECIDED if the recordings cannot say."""
    paths = (archives.folder(Path(arguments.base)), archives.folder(Path(arguments.new)))
    if paths[0].resolve() == paths[1].resolve():
        raise UsageError(f"{arguments.base} and {arguments.new} are the same recording; name two different ones")
    for target in filter(None, (arguments.markdown, arguments.junit)):
        refuse_source(Path(target), [Path(arguments.base), Path(arguments.new)])
    result = sharing.shareable(explained(paths, None, arguments.force), arguments.full_paths)
    other = [said for said in result.get("differs") or [] if said.startswith("batch")]
    if other and not arguments.force:  # `explain` can account for another batch; the gate compares the times of a step
        raise EvidenceError(f"{paths[0]} and {paths[1]} did different work ({other[0]}); --force judges them anyway")
    verdict = gate.judge(result, arguments.max_regression).as_dict()
    _print(verdict, result, arguments.format)
    for target, write in ((arguments.markdown, words.markdown), (arguments.junit, words.junit)):
        if target is not None:
            _write(Path(target), write(verdict, result))
    if verdict["status"] == gate.UNDECIDED:
        return FAILED if arguments.strict else 0 if arguments.allow_undecided else UNDECIDED
    return FAILED if verdict["status"] == gate.FAILED else 0


def _print(verdict: dict[str, Any], result: dict[str, Any], form: str) -> None:
    if form == "json":
        json.dump({**verdict, "explanation": result}, sys.stdout, indent=1)
        print()
    elif form == "markdown":
        sys.stdout.write(words.markdown(verdict, result))
    else:
        print(printable(words.headline(verdict, result), None))
        print(printable(words.remark(verdict), None) + "\n")
        write_explanation(result, "table")


def _write(target: Path, content: str) -> None:
    try:
        whole.write_text(target, content)
    except OSError as error:
        raise InputError(f"{target}: not writable: {error.strerror or error}; name another file") from error
