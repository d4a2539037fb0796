"""Files that are whole under their names, also where the command that writes them is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelscope.tracer.inside import durable, temporary


@contextmanager
def growing(target: Path) -> Iterator[Path]:
    """Yield where the content of a file is to be written; the file gets it when the block has ended well, else stays as it was.

    The path ends as the file's name does. What is no plain file, such as /dev/stdout, or stands in a folder where no other can
    be made, is written itself. Raises OSError where that fails.
    """
    real = Path(os.path.realpath(target))
    if real.exists() and not (real.is_file() and os.access(real.parent, os.W_OK)):
        yield target
        return
    growing = Path(temporary.made_file(temporary.beside(real.name), str(real.parent), "".join(real.suffixes[-2:])))
    try:
        growing.chmod(real.stat().st_mode & 0o777 if real.exists() else 0o666 & ~_umask())
        yield growing
        durable.replace(growing, real)
    finally:
        temporary.removed(str(growing))


def write_text(target: Path, text: str) -> None:
    """Write a text, in UTF-8. Raises OSError where that fails."""
    with growing(target) as path:
        path.write_text(text, encoding="utf8")


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask
