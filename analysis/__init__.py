"""Analyses: any evidence becomes a `Trace`; a `Trace` becomes documented tables. Nothing here knows how a trace was made.

import kernelscope.analysis as ka
trace = ka.read("out/demo/pytorch")
ka.breakdown(trace, by="layer").table
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.errors import EvidenceError

if TYPE_CHECKING:
    from kernelscope.analysis.accounting.breakdowns import Breakdown, breakdown
    from kernelscope.analysis.comparisons.comparison import compare
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.analysis.trace import Trace

__all__ = ["Breakdown", "EvidenceError", "Run", "Trace", "breakdown", "compare", "read"]

# Imported when asked for: this module is imported before any other of the package, for errors alone as well.
_HOMES = {
    "Breakdown": "accounting.breakdowns",
    "breakdown": "accounting.breakdowns",
    "compare": "comparisons.comparison",
    "Run": "recordings.run",
    "Trace": "trace",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"kernelscope.analysis.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read(path: str | Path, form: str | None = None) -> Trace:
    """Return the Trace of a run folder, of a folder that `import` wrote (both also packed), or of a capture as `import` takes it.

    form: a format's name (see analysis.formats); found out from the content if not given. Raises EvidenceError when the path
    cannot be read as any of these.
    """
    with reading(path, form) as trace:
        return trace


@contextmanager
def reading(path: str | Path, form: str | None = None) -> Iterator[Trace]:
    """Give the Trace that `read` returns while a capture is still searched for secrets: its info tells the outcome at the end."""
    from kernelscope.analysis.recordings import archives, captures, imported
    from kernelscope.analysis.recordings.kinds import Kind, kind_of

    path = archives.folder(Path(path))
    kind = Kind.CAPTURE if form else kind_of(path)
    if kind is Kind.IMPORT:
        yield imported.Imported(path).trace()
        return
    if kind in (Kind.RUN, Kind.RUNS, Kind.COMPARISON, Kind.SWEEP):
        from kernelscope.analysis.recordings.run import Run

        yield Run(path).trace()
        return
    with captures.reading(path, form) as trace:
        yield trace
