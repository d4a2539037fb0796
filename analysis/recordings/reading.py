"""Read whatever is recorded at a path into its Trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelscope.analysis.recordings import archives, captures, imported
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace


def read(path: str | Path, form: str | None = None) -> Trace:
    """Return the Trace of a run folder, of a folder that `import` wrote (also packed ones), or of a capture for `import`.

    form: a format's name (see analysis.formats); recognised from the content if None. Raises EvidenceError if the path cannot
    be read as any of these.
    """
    with reading(path, form) as trace:
        return trace


@contextmanager
def reading(path: str | Path, form: str | None = None) -> Iterator[Trace]:
    """Yield the Trace that `read` returns while a capture is still searched for secrets; its info has the result at the end."""
    path = archives.folder(Path(path))
    kind = Kind.CAPTURE if form else kind_of(path)
    if kind is Kind.CAPTURE:
        with captures.reading(path, form) as trace:
            yield trace
    else:
        yield imported.Imported(path).trace() if kind is Kind.IMPORT else Run(path).trace()
