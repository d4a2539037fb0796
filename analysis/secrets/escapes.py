"""JSON texts without their escapes: characters may be escaped (\\u0067hp_..., \\"password\\"), even repeatedly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_ESCAPED = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'/\\bfnrt]))|\"")
_CONTROL = {b"b": b"\x08", b"f": b"\x0c", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_OTHER = b"\x80"  # stands for a byte that no secret has
_ENCODED = 3  # levels of JSON within JSON


class Unescaped(NamedTuple):
    """Text without escapes. at: positions of characters that were escaped; longer: the bytes that escapes before each added."""

    text: bytes
    at: npt.NDArray[np.int64]
    longer: npt.NDArray[np.int64]

    def origin(self, place: int) -> int:
        """Return where the bytes before this place end in the escaped text."""
        return place + int(self.longer[np.searchsorted(self.at, place, "left")])


class UnescapedText(NamedTuple):
    """A text without its escapes, removed once or, if they are nested, several times."""

    taken_off: tuple[Unescaped, ...]

    @property
    def text(self) -> bytes:
        """The text without escapes."""
        return self.taken_off[-1].text

    def origin(self, place: int) -> int:
        """Return where the bytes before this place end in the original text with all its escapes."""
        for one in reversed(self.taken_off):
            place = one.origin(place)
        return place


def views(data: bytes) -> Iterator[UnescapedText]:
    """Yield a text with its escapes removed once, twice, ..., as long as it has any."""
    taken_off: tuple[Unescaped, ...] = ()
    while len(taken_off) < _ENCODED and (one := unescaped(taken_off[-1].text if taken_off else data)):
        taken_off = (*taken_off, one)
        yield UnescapedText(taken_off)


def unescaped(data: bytes) -> Unescaped | None:
    """Return the text without its escapes, or None if it has none.

    An unescaped quote ends a text: it becomes a line end, so nothing is found across it.
    """
    if b"\\" not in data:
        return None
    starts, ends, parts, widths = [], [], [], []
    reached = 0
    for match in _ESCAPED.finditer(data):
        character = _character(match)
        parts += [data[reached : match.start()], character]
        reached = match.end()
        if match[0] != b'"':
            starts.append(match.start())
            ends.append(reached)
            widths.append(len(character))
    if not starts:
        return None
    longer = np.concatenate([[0], np.cumsum(np.array(ends) - np.array(starts) - np.array(widths))])
    return Unescaped(b"".join([*parts, data[reached:]]), np.array(starts) - longer[:-1], longer)


def _character(match: re.Match[bytes]) -> bytes:
    """Return the character that an escape stands for, in UTF-8, and a line end for a bare quote."""
    if match[1]:
        return chr(int(match[1], 16)).encode("utf8", "surrogatepass")
    if match[2]:
        code = int(match[2], 16)
        return bytes([code]) if code < 0x80 else _OTHER
    return _CONTROL.get(match[3], match[3]) if match[3] else b"\n"
