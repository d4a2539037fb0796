"""Show where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle cause or host line."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelscope.cli import quick
from kernelscope.cli.output import FORMATS

NAME = "breakdown"
HELP = "where a recorded step's time goes"
BY = ("layer", "kernel", "kind", "phase", "step", "line", "operator", "range", "idle")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "path", metavar="PATH", help="a folder that `run`, `compare` or `import` wrote, or a capture as `import` takes it"
    )
    parser.add_argument("--by", choices=BY, default="layer", help="what makes a row (default: layer)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the breakdown."""
    from kernelscope.analysis import archives, imported
    from kernelscope.cli.output import import_writing, write_breakdown

    path = archives.folder(Path(arguments.path))
    if imported.is_imported(path):
        write_breakdown(imported.Imported(path).breakdown(arguments.by), arguments.format)
        return 0
    quick.start()
    from kernelscope import analysis
    from kernelscope.analysis import helper
    from kernelscope.cli.warn import about

    with helper.started(path) as ahead:
        # late, for the helper is to be at work before anything is imported; all of it now, while it is
        from kernelscope.analysis.breakdowns import breakdowns

        import_writing(arguments.by, arguments.format)
        with analysis.reading(path, helper=ahead) as trace:
            result = breakdowns(trace, (arguments.by,))[arguments.by]
    about(trace)
    if isinstance(result, str):
        raise analysis.EvidenceError(result)
    write_breakdown(result.as_dict(), arguments.format)
    return 0
