"""Texts of JSON as they read: their characters may be written with escapes (\\u0067hp_..., \\"password\\"), also twice over."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_ESCAPED = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'/\\bfnrt]))|\"")
_CONTROL = {b"b": b"\x08", b"f": b"\x0c", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_OTHER = b"\x80"  # in place of a character that no secret has


class Unescaped(NamedTuple):
    """Text without escapes. at: where in it each character stands that was escaped; longer: by how much all up to it were."""

    text: bytes
    at: npt.NDArray[np.int64]
    longer: npt.NDArray[np.int64]

    def origin(self, place: int) -> int:
        """Return where the bytes before this place end in the escaped text."""
        return place + int(self.longer[np.searchsorted(self.at, place, "left")])


def unescaped(data: bytes) -> Unescaped | None:
    """Return the text without its escapes, or None where it has none.

    A quote that is not escaped ends a text: it becomes the end of a line, so that nothing is found across it.
    """
    if b"\\" not in data:
        return None
    starts, ends, parts = [], [], []
    reached = 0
    for match in _ESCAPED.finditer(data):
        parts += [data[reached : match.start()], _character(match)]
        reached = match.end()
        if match[0] != b'"':
            starts.append(match.start())
            ends.append(reached)
    if not starts:
        return None
    longer = np.concatenate([[0], np.cumsum(np.array(ends) - np.array(starts) - 1)])
    return Unescaped(b"".join([*parts, data[reached:]]), np.array(starts) - longer[:-1], longer)


def _character(match: re.Match[bytes]) -> bytes:
    """Return the one byte that stands for what matched."""
    number = match[1] or match[2]
    if number:
        code = int(number, 16)
        return bytes([code]) if code < 0x80 else _OTHER
    return _CONTROL.get(match[3], match[3]) if match[3] else b"\n"
