"""A fast screen for secrets: RE2 runs over everything, and the exact patterns check only its matches.

The exact patterns are in `tracer.inside.secret_values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.analysis.secrets.escapes import UnescapedText, views
from kernelscope.tracer.inside.secret_shapes import SHAPES
from kernelscope.tracer.inside.secret_values import (
    GIVEN,
    KEY_BLOCK,
    LONGEST,
    NAMED,
    PRIVATE_KEY,
    QUOTE,
    Span,
    begins_like_one,
    merged,
    spans,
)

CHUNK = 1 << 13
_LONGEST_VALUE = 4096
_FEW = 1 << 20  # up to this many bytes of values are searched without importing the library with RE2
_MOST = 2300  # characters of a pattern: with longer ones RE2's automaton outgrows its memory and is a hundred times slower
_NAMED = f"{NAMED}|{GIVEN}".replace(QUOTE, r"(?:\\*[\"']+|&[#a-z0-9]+;)")  # shorter: matches more, which exact patterns check


def _grouped(shapes: Sequence[str]) -> tuple[str, ...]:
    """Return patterns that each combine several shapes, none too long."""
    groups: list[list[str]] = [[]]
    for shape in shapes:
        if groups[-1] and sum(map(len, groups[-1])) + len(shape) > _MOST:
            groups.append([])
        groups[-1].append(shape)
    return tuple("|".join(group) for group in groups)


_BEGINS_LONG = re.compile(r"(^|\|)(?:\[[A-Z]+\])?(\[[^]]+\])\{[1-9][0-9]*(?:,[0-9]*)?\}(?!\?)")
_AT_MOST = re.compile(r"\{([0-9]+),([0-9]{2,})\}")


def _screening(shape: str) -> str:
    """Return a pattern that matches everything that a shape matches, and as little else as RE2 can do fast.

    Named groups and word boundaries are removed, and counted repetitions shortened: for a text that may begin at each letter
    and has a minimum length, such as base64, RE2's automaton needs a state for each set of possible starts, which exceeds its
    memory.
    """
    shape = shape.replace("?P<v>", "").replace(r"\b", "")
    return _AT_MOST.sub(r"{\1,}", _BEGINS_LONG.sub(r"\1\2", shape))


# The patterns of shapes alone: most suspicious values are so only by a name, and need not be searched for each shape.
_SHAPED = _grouped([_screening(shape) for shape in (*(shape for _, shape in SHAPES), PRIVATE_KEY)])
_SCREEN = (*_SHAPED, _NAMED)
ESCAPED = r"\\[\"u]"  # an escape in a text within a text, which reads differently without it


def suspicious(data: bytes | memoryview, patterns: Sequence[str] = _SCREEN) -> list[tuple[int, int]]:
    """Return the stretches of data, CHUNK bytes plus a margin, in which `spans` may find something; merged, in order.

    patterns: other patterns to search for, in RE2's syntax; their matches may have up to 256 bytes.
    """
    count = -(-len(data) // CHUNK)
    offsets = np.minimum(np.arange(count + 1, dtype=np.int64) * CHUNK, len(data))
    edges = b"".join(data[edge - 256 : edge + 256] for edge in range(CHUNK, len(data), CHUNK))
    result = set(_matching(data, offsets, patterns))
    lengths = [min(512, len(data) - edge + 256) for edge in range(CHUNK, len(data), CHUNK)]
    result.update(_matching(edges, np.cumsum([0, *lengths], dtype=np.int64), patterns))
    stretches: list[tuple[int, int]] = []
    for chunk in sorted(result):
        start, after = max(0, chunk * CHUNK - 512), (chunk + 1) * CHUNK
        end = min(len(data), after + (LONGEST if b"PRIVATE KEY" in bytes(data[start:after]) else _LONGEST_VALUE + 512))
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], end)
        else:
            stretches.append((start, end))
    return stretches


def _matching(data: bytes | memoryview, offsets: npt.NDArray[np.int64], patterns: Sequence[str]) -> list[int]:
    """Return which pieces of the data, between offsets, any of the patterns matches."""
    if len(offsets) < 2:
        return []
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    matched = np.zeros(len(pieces), dtype=bool)
    for pattern in patterns:
        matched |= pc.match_substring_regex(pieces, pattern).to_numpy(zero_copy_only=False)
    return np.flatnonzero(matched).tolist()


def suspicious_values(values: list[bytes], patterns: Sequence[str] = _SCREEN) -> list[int]:
    """Return the positions of the values in which `spans` may find something, or which match the given patterns."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return _matching(b"".join(values), offsets, patterns)


def spans_of(values: list[bytes], thorough: bool = False) -> dict[int, list[Span]]:
    """Return the findings of `spans` in the values, by position.

    This includes findings that appear only when a value's JSON escapes are removed.
    """
    result = _spans_as_written(values, thorough)
    read = [(place, view) for place, value in enumerate(values) if b"\\" in value for view in views(value)]
    for number, more in _spans_as_written([view.text for _, view in read], thorough).items():
        place, view = read[number]
        result[place] = merged([*result.get(place, []), *in_view(more, view)])
    return result


def in_view(found: Iterable[Span], view: UnescapedText) -> Iterator[Span]:
    """Map findings in a text without escapes to positions in the original text."""
    for span in found:
        if span.what != KEY_BLOCK:  # may continue beyond the end of its text
            yield span._replace(start=view.origin(span.start), end=view.origin(span.end))


def _spans_as_written(values: list[bytes], thorough: bool) -> dict[int, list[Span]]:
    if sum(map(len, values)) <= _FEW:
        suspicious, shaped = begins_like_one(values)
    else:
        places = suspicious_values(values)
        suspicious, shaped = set(places), {places[one] for one in suspicious_values([values[place] for place in places], _SHAPED)}
    return {place: spans(values[place], thorough, place in shaped) for place in sorted(suspicious)}
