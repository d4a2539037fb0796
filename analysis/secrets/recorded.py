"""Secrets in what was recorded here. Who records looks through small texts for whatever looks like one, and through all others,
which profilers write, for the secrets of the environment and the command line alone (tracer.inside.scrubbing). Here these are
looked through for the rest, too: Python's own patterns, which are all that a recorded program has, would take minutes.
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
    """Overwrite what looks like a secret in a recorded folder's files that its recorder did not look through for it.

    Return in words what was found in files that cannot be rewritten, such as XPlane's. A file that cannot be read is left: nobody
    shows anything of it. Raises OSError where a file cannot be written.
    """
    said = []
    for path in _left(folder):
        with contextlib.suppress(EvidenceError):
            found = find(path)
            if found.total and found.redactable:
                redact(path, path)
            elif found.total:
                said.append(f"{path}: holds what looks like a secret: {found.listed[0].what}; do not share it")
    return said


def _left(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.name.endswith(scrubbing.LEFT):
            continue
        is_text = path.name.endswith(scrubbing.TEXTS)
        if not is_text or path.stat().st_size > scrubbing.SMALL:
            yield path
