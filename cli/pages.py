"""Write the HTML pages of `report` and `explain`, and say on stderr where they are. See sharing for what they hide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis import advise
from kernelscope.analysis.accounting.calls import of_calls
from kernelscope.analysis.accounting.envelopes import envelopes
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace
from kernelscope.cli import sharing
from kernelscope.cli.output import write_page
from kernelscope.cli.roofline import best_known
from kernelscope.reports import html, interactive_parts, measured


def comparison(result: dict[str, Any], path: Path, target: Path, full_paths: bool) -> None:
    """Write the page of the comparison at `path`, with the interactive parts of the runs beside it."""
    folder = path if path.is_dir() else path.parent

    def write() -> None:
        parts = interactive_parts.beside(result, folder, best_known)
        html.write_comparison(result, target, sharing.shareable_parts(parts, full_paths))

    write_page(write, target)


def runs(result: dict[str, Any], found: Sequence[Run], target: Path, full_paths: bool) -> None:
    """Write the page of several runs side by side."""

    def write() -> None:
        parts = interactive_parts.of_runs(found, best_known)
        html.write_comparison(result, target, sharing.shareable_parts(parts, full_paths))

    write_page(write, target)


def run(
    result: dict[str, Any], found: Run, first: str | None, target: Path, full_paths: bool, advice: Callable[[], dict[str, Any]]
) -> None:
    """Write the page of a run. first: a remark to read before its tables. advice: a function that returns its advice."""
    tables = sharing.shareable(envelopes(found.trace()), full_paths)
    parts = measured.of_run(found, best_known)
    drawn = sharing.shareable_parts(interactive_parts.of_runs([found], best_known), full_paths)
    advised = _advised(advice, full_paths)
    write_page(lambda: html.write_run(result, tables, target, parts, drawn, first, advised), target)


def capture(record: Mapping[str, Any], tables: Sequence[Mapping[str, Any]], trace: Trace, target: Path) -> None:
    """Write the page of an imported capture. Its record, breakdowns and Trace are already shareable."""
    parts = interactive_parts.of_capture(" \u00b7 ".join(str(entry["name"]) for entry in record["sources"]), trace)
    # full_paths: the Trace is already shareable
    advised = _advised(lambda: advise.of_subject(advise.of_trace(trace, str(target))), full_paths=True)
    device = measured.of_device(trace)
    write_page(lambda: html.write_capture(record, tables, target, parts, advised, of_calls(trace), device), target)


def _advised(advice: Callable[[], dict[str, Any]], full_paths: bool) -> dict[str, Any] | None:
    """Return the advice on a recording; None if there is nothing to advise on."""
    try:
        return sharing.shareable(advice(), full_paths)
    except EvidenceError:
        return None


def explanation(result: Mapping[str, Any], target: Path) -> None:
    """Write the page of an explanation."""
    write_page(lambda: html.write_explanation(result, target), target)
