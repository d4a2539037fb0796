"""Secrets in our own recordings.

The recorder searches small texts for anything that looks like a secret, and all other files, which profilers write, only for
secrets of the environment and the command line (tracer.inside.scrubbing). Here those files are searched for everything else, too:
in the recorded program, which has only Python's own patterns, this would take minutes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.secrets.redaction import redact
from kernelscope.analysis.secrets.search import find
from kernelscope.tracer.inside import scrubbing


def overwrite(folder: Path) -> list[str]:
    """Overwrite values that look like secrets in those files of a recorded folder that the recorder did not search for them.

    Return messages on findings in files that cannot be rewritten, such as XPlane's. A file that cannot be read is left alone,
    as its content is shown nowhere. Raise OSError if a file cannot be written.
    """
    messages = []
    for path in _left(folder):
        with contextlib.suppress(EvidenceError):
            result = find(path)
            if result.total and result.redactable:
                redact(path, path)
            elif result.total:
                messages.append(f"{path}: holds what looks like a secret: {result.listed[0].what}; do not share it")
    return messages


def _left(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.name.endswith(scrubbing.LEFT):
            continue
        is_text = path.name.endswith(scrubbing.TEXTS)
        if not is_text or path.stat().st_size > scrubbing.SMALL:
            yield path
