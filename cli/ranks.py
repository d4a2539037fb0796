"""Show where a job of several ranks loses time or why it hangs, and which rank the others wait for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.ranks import flight_recorder
from kernelscope.analysis.ranks.files import of_paths
from kernelscope.analysis.ranks.hang import hang
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.pipeline import is_recording, pipeline
from kernelscope.cli import sharing
from kernelscope.cli.output import refuse_source, write_page, write_result
from kernelscope.reports import hang as hang_text
from kernelscope.reports import pipeline as pipeline_text
from kernelscope.reports import ranks as ranks_text
from kernelscope.tracer.outside.errors import UsageError

FORMATS = ("table", "markdown", "json")
_TEXTS: dict[str, Any] = {"ranks": ranks_text, "hang": hang_text, "pipeline": pipeline_text}  # by the result's schema


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a capture or a PyTorch Flight Recorder dump of each rank, or a folder of them; or a table of the operations of a "
        "pipeline-parallel job",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format (default: table)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR|FILE.html",
        help="also write an HTML page; into DIR, with summaries of the ranks",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes that read captures (default: one per processor)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS|FILE",
        help="read captures on a Dask cluster: tcp://HOST:PORT, or its scheduler file (default: DASK_SCHEDULER_ADDRESS)",
    )
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the captures, and print what the job does."""
    files = of_paths([Path(path) for path in arguments.paths])
    page, summaries = _places(arguments.output)
    if page:
        refuse_source(page, files)
    other = _other(files)
    if other and arguments.output:
        raise UsageError("--output is for captures; dumps and pipeline recordings only have tables")
    result = other or job(files, arguments.workers, summaries, arguments.scheduler, page is not None)
    said = sharing.shareable(result, arguments.full_paths)
    text = _TEXTS[str(said["schema"]).split("/")[1]]
    write_result({key: part for key, part in said.items() if key != "timeline"}, arguments.format, text.shown, text.markdown)
    if page:
        from kernelscope.reports import ranks_page  # matplotlib takes half a second: load it only for a page

        write_page(lambda: ranks_page.write(said, page), page)
    return 0


def _other(files: Sequence[Path]) -> dict[str, Any] | None:
    """Return the result for dumps (why a job hangs) or a pipeline (what it loses); None for captures."""
    pipelines = [path for path in files if is_recording(path)]
    if pipelines and len(files) > 1:
        raise UsageError(f"{pipelines[0]}: describes a whole job; name it alone")
    if pipelines:
        return pipeline(pipelines[0])
    return hang(files) if any(map(flight_recorder.is_dump, files)) else None


def _places(output: Path | None) -> tuple[Path | None, Path | None]:
    """Return the path of the page and the folder for summaries of ranks, from which an interrupted command continues."""
    if output is None or output.suffix == ".html":
        return output, None
    return output / "ranks.html", output / "summaries"
