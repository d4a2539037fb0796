"""Texts as they read without JSON's escapes: a token may be written with its letters as numbers (\\u0067hp_...)."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Backslashes, however many (JSON within JSON doubles them), before a character's number or a slash. Quotes and backslashes stay
# escaped: what ends a text must not be seen within it.
_ESCAPED = re.compile(rb"\\+(?:/|(?:u00|x)(2[013-9a-fA-F]|[346][0-9a-fA-F]|5[0-9abABd-fD-F]|7[0-9a-eA-E]))")


class Unescaped(NamedTuple):
    """Text without escapes. at: where in it each character stands that was escaped; longer: by how much all up to it were."""

    text: bytes
    at: npt.NDArray[np.int64]
    longer: npt.NDArray[np.int64]

    def origin(self, place: int) -> int:
        """Return where the bytes before this place end in the escaped text."""
        return place + int(self.longer[np.searchsorted(self.at, place, "left")])


def unescaped(data: bytes) -> Unescaped | None:
    """Return the text without its escapes, or None where it has none."""
    starts, ends = [], []
    parts = []
    reached = 0
    for match in _ESCAPED.finditer(data):
        starts.append(match.start())
        ends.append(match.end())
        parts += [data[reached : match.start()], bytes([int(match[1], 16)]) if match[1] else b"/"]
        reached = match.end()
    if not starts:
        return None
    longer = np.concatenate([[0], np.cumsum(np.array(ends) - np.array(starts) - 1)])
    return Unescaped(b"".join([*parts, data[reached:]]), np.array(starts) - longer[:-1], longer)
