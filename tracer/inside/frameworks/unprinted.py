"""Keeps a library's messages out of the script's stderr while we call it; all other output still gets there."""

import re
import tempfile
from typing import Any, Optional

from kernelscope.tracer.inside.own import os


class Unprinted(object):
    """A context in which lines written to stderr that match `pattern` (bytes) are dropped; the others appear at its end."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern = re.compile(pattern)
        self._kept: Optional[int] = None
        self._file: Any = None

    def __enter__(self) -> "Unprinted":
        try:
            self._file = tempfile.TemporaryFile()
            self._kept = os.dup(2)
            os.dup2(self._file.fileno(), 2)
        except OSError:
            pass  # the script has closed stderr, so nothing is written
        return self

    def __exit__(self, *_: Any) -> None:
        if self._kept is None:
            return
        os.dup2(self._kept, 2)
        self._file.seek(0)
        rest = b"".join(line for line in self._file if not self._pattern.search(line))
        self._file.close()
        while rest:
            rest = rest[os.write(2, rest) :]
        os.close(self._kept)
        self._kept = None
