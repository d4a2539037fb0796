"""Lines of oneDNN that a terminal or a mail program broke: a line of an execution ends early, and the next lines have its rest.

A line is joined with the next ones if it ends before its problem is whole, and they complete it to a description with a problem
and a time; a number alone is no problem here, as other output may be such. Its parts but the last have one length. All lines of a
stream that one terminal broke have the same length: if the joined ones do, and no line of the library is longer, lines of that
length that end within their last number are joined, too, and so are the library's other messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from kernelscope.analysis.files import stream
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.formats.onednn import primitive

_EXEC = r"(?:onednn|dnnl|mkldnn)_verbose,(?:v\d+,)?(?:\d+(?:\.\d+)?,)?(?:primitive,)?exec,"
_FINISHED = rf"{_EXEC}(?:[^,]*,){{5,}}[^,]+,\d+(?:\.\d*)?(?:e[-+]?\d+)?\s*$"
_TOKEN = rf"{stream.ONEDNN_START}|{stream.MKL_START}|@kernelscope \d"
_WHOLE = re.compile(rf"{_EXEC}(?P<body>(?:[^,]*,){{5,8}}[^,]*),(?P<time>\d+(?:\.\d*)?(?:e[-+]?\d+)?)\s*$")
_BODY = re.compile(rf"{_EXEC}(?P<body>.*)$")
_PROBLEM = re.compile(r"(?:[a-z]{1,9}-?\d{1,18}_?){1,99}|\d{1,18}(?:[x:]\d{1,18}){0,99}")
_REST_OF_NUMBER = re.compile(r"[\d.]*(?:e[-+]?\d+)?\s*")
_PIECES = 16  # lines that are joined to one
_CUT = "\ufffd"  # after a last line without its end, which may be cut within a number


def verbose_lines(path: Path) -> tuple[list[str], int]:
    """Return the lines with a library's token, as stream.verbose_lines does, with broken ones joined; and how many these were."""
    lines = stream.verbose_lines(path)
    if not _unfinished(lines):
        return lines, 0
    every = [line.rstrip("\r") for line in stream.lines(path)]
    if not read_content(path).rstrip(b"\x00").endswith(b"\n"):
        every[-1] += _CUT
    tokens = _matching(every, _TOKEN)
    joined = _joined(every, tokens)
    return [joined.get(place, every[place]) for place in tokens], sum(_WHOLE.search(text) is not None for text in joined.values())


def _joined(every: Sequence[str], tokens: Sequence[int]) -> dict[int, str]:
    """Return the texts of the lines that were broken, by the place of their first part."""
    known = set(tokens)
    first = [place for place in _unfinished(every) if place + 1 not in known and not _has_problem(every[place])]
    found = {place: _completed(every, place, known, blank=True) for place in first}
    result = {place: text for place, text in found.items() if text is not None}
    widths = {len(every[place]) for place in result}
    width = widths.pop() if len(widths) == 1 else 0
    if not width or any(len(every[place]) > width for place in tokens):
        return result
    for place in tokens:
        if len(every[place]) == width and place not in result and place + 1 not in known:
            text = _message(every, place, known) if ",info," in every[place] else _completed(every, place, known, blank=False)
            result |= {place: text} if text else {}
    return result


def _completed(every: Sequence[str], place: int, known: set[int], blank: bool) -> str | None:
    """Return a line of an execution, completed by the next ones; None if they do not. blank: as in `_pieces`."""
    text, width = every[place], len(every[place])
    result = None
    for piece in _pieces(every, place, known, blank):
        if result is not None and not _REST_OF_NUMBER.fullmatch(piece):
            return result
        text += piece
        match = _WHOLE.search(text)
        if match is not None and _is_whole(match["body"]) and not match["body"].rsplit(",", 1)[-1].isdecimal():
            result = text
        if len(piece) != width:
            return result
    return result


def _message(every: Sequence[str], place: int, known: set[int]) -> str:
    """Return another message of the library: it goes on after each part that is as long as its first one."""
    text, width = every[place], len(every[place])
    for piece in _pieces(every, place, known, blank=False):
        text += piece
        if len(piece) < width:
            break
    return text


def _pieces(every: Sequence[str], place: int, known: set[int], blank: bool) -> Iterator[str]:
    """Yield the lines after a place that have no token, up to the most that are joined. blank: leave out one blank line each."""
    at = place + 1
    for _ in range(_PIECES):
        if blank and at < len(every) and not every[at].strip():
            at += 1
        if at >= len(every) or at in known or not every[at].strip():
            return
        yield every[at]
        at += 1


def _has_problem(line: str) -> bool:
    """Return whether a line of an execution lacks only its time, as lines that people shortened do."""
    match = _BODY.search(line)
    return match is not None and _is_whole(match["body"].rstrip(", "))


def _is_whole(body: str) -> bool:
    """Return whether a description is whole, with the numbers of a problem at its end."""
    problem = primitive.describe(body)["problem"]
    return problem is not None and _PROBLEM.fullmatch(problem) is not None


def _unfinished(lines: Sequence[str]) -> list[int]:
    """Return the places of the lines of executions that do not end in a problem and a time."""
    strings = stream.strings_of(lines)
    return _places(pc.and_(pc.match_substring_regex(strings, _EXEC), pc.invert(pc.match_substring_regex(strings, _FINISHED))))


def _matching(lines: Sequence[str], pattern: str) -> list[int]:
    """Return the places of the lines that a pattern matches."""
    return _places(pc.match_substring_regex(stream.strings_of(lines), pattern))


def _places(chosen: Any) -> list[int]:
    return [int(place) for place in np.flatnonzero(np.asarray(chosen, dtype=bool))]
