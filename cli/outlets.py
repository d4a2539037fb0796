"""stdout and stderr whose reader may go away early, as with `| head -1`, or whose encoding lacks characters.

Output without a reader is dropped, so the command finishes, writes its files and exits with its own status. Where the encoding
lacks a character (LANG=C), plain ones replace it: us for microseconds, # for bars.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import Any

_PLAIN = {
    "µ": "u", "μ": "u", "·": "-", "→": "->", "\xd7": "x", "…": "...", "─": "-", "—": "-", "\u2013": "-", "▒": "~", "±": "+-",
}  # fmt: skip
_BARS = "█▉▊▋▌▍▎▏"
ERRORS = "kernelscope-plain"


def _in_plain(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of characters that cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join("#" if letter in _BARS else _PLAIN.get(letter, "?") for letter in lacking), error.end


codecs.register_error(ERRORS, _in_plain)


class _Outlet(io.FileIO):
    """Writes to a descriptor for as long as somebody reads."""

    dropping = False

    def write(self, data: Any, /) -> int:
        """Write bytes; return how many were written or dropped."""
        try:
            return super().write(data)
        except BrokenPipeError:
            self.dropping = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes
        except OSError as error:  # named, to tell it from the files that the command reads or writes
            raise OSError(error.errno, error.strerror, {1: "stdout", 2: "stderr"}.get(self.fileno())) from error


def prepare() -> None:
    """Let this process outlive the readers of its stdout and stderr."""
    sys.stdout, sys.stderr = (_outliving(stream) for stream in (sys.stdout, sys.stderr))


def unread() -> bool:
    """Return whether the reader of stdout is known to be gone."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, _Outlet) and raw.dropping


def _outliving(stream: Any) -> Any:
    if stream is None:  # closed before we began
        return open(os.devnull, "w", encoding="utf8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    buffer = io.BufferedWriter(_Outlet(stream.fileno(), "w", closefd=False))
    # with PYTHONUNBUFFERED the stream writes through to this buffer, so each line must flush it
    settings: dict[str, Any] = {"line_buffering": stream.line_buffering or stream.write_through}
    errors = ERRORS if codecs.lookup(stream.encoding).name != "utf-8" else stream.errors
    return io.TextIOWrapper(buffer, stream.encoding, errors, **settings)


def abandon() -> None:
    """Drop pending output of a stdout that cannot be written: Python would try again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
