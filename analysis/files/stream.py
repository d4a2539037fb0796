"""One captured stream (file descriptor 1 or 2 of a process), split by writer, with positions kept.

Libraries, our range markers and the application write to the same stream. A piece of text belongs to the writer whose token
starts it, wherever on the line the token is: output without a line end must not hide the text after it. Nothing is dropped:
text of no library and no marker is the application's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.analysis.files.magic import UTF16_MARKS
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.files.quoting import unquoted

ONEDNN_START = r"(?:onednn|dnnl|mkldnn)_verbose,"
MKL_START = r"MKL_VERBOSE "
MARKER = r"@kernelscope (?P<time_ns>\d{1,18}) (?P<edge>[BE]) (?P<name>.*)"
_TOKENS = rf"({ONEDNN_START}|{MKL_START}|@kernelscope \d{{1,18}} [BE] )"
_TOKEN_TEXTS = ("nn_verbose,", "dnnl_verbose,", "MKL_VERBOSE ", "@kernelscope ")
_LEADING_TEXTS = ("onednn_verbose,", "mkldnn_verbose,", "dnnl_verbose,", "MKL_VERBOSE ", "@kernelscope ")
_SEPARATOR = "\x1e"  # ASCII's record separator: splits a line into pieces that keep its line number


@dataclass(frozen=True)
class Stream:
    """A stream, split by writer. Every table has `line_number`, the line's position in the stream, counted from 1.

    onednn, mkl, application: columns line_number, text. The first two are for the `parse` of their readers.
    markers: columns line_number, time_ns (our monotonic clock), edge ("B" begin or "E" end), name.
    Rows are in the order of the stream; pieces of one line share its number.
    """

    onednn: pd.DataFrame
    mkl: pd.DataFrame
    markers: pd.DataFrame
    application: pd.DataFrame
    line_count: int


# Appended to a last line without its end, which may be cut within a number, so no reader takes it for complete
_CUT = "\ufffd"


def lines(path: Path | str) -> list[str]:
    """Return the stream's lines without their ends, unpacked if the file is packed; invalid bytes are replaced.

    Text is UTF-8, or UTF-16 if it starts with its mark (as PowerShell redirects output). Raise EvidenceError if the file cannot
    be read.
    """
    return _lines(_text(read_content(path)))


def table_lines(path: Path | str) -> list[str]:
    """Return the lines of a file with printed tables as `lines` does, without marks of comments or quotations before them."""
    return _lines(unquoted(_text(read_content(path))))


def verbose_lines(path: Path | str) -> list[str]:
    """Return only the lines that contain a library's verbose token (see `lines`), as most lines may be others'."""
    content = read_content(path)
    if _is_utf16(content):
        content = content.decode("utf-16", errors="replace").encode()
    text = np.frombuffer(content, dtype=np.uint8)
    ends = np.append(np.flatnonzero(text == ord("\n")), len(text))
    at = np.concatenate([_positions(text, token) for token in (b"nn_verbose,", b"dnnl_verbose,", b"MKL_VERBOSE ")])
    line = np.unique(np.searchsorted(ends, at))
    change = np.zeros(len(text) + 2, dtype=np.int8)
    change[np.append(-1, ends)[line] + 1] += 1
    change[ends[line] + 1] -= 1
    result = _lines(_text(text[np.cumsum(change[: len(text)], dtype=np.int8) > 0].tobytes()))
    if len(line) and ends[line[-1]] == len(text):
        result[-1] += _CUT
    return result


def _positions(text: npt.NDArray[np.uint8], token: bytes) -> npt.NDArray[np.int64]:
    """Return the positions of a token in a text."""
    result = np.flatnonzero(text[: max(len(text) - len(token) + 1, 0)] == token[0])
    for offset, character in enumerate(token):
        result = result[text[result + offset] == character]
    return result


def _is_utf16(content: bytes) -> bool:
    zeros = content[:1024].count(b"\x00")  # every other byte of the Latin text that libraries write
    return content.startswith(UTF16_MARKS) and 4 * zeros > min(len(content), 1024)


def _text(content: bytes) -> str:
    return content.decode("utf-16" if _is_utf16(content) else "utf8", errors="replace").removeprefix("\ufeff")


def _lines(text: str) -> list[str]:
    result = text.split("\n")
    return result[:-1] if result[-1] == "" else result


def split(source: Path | str | Sequence[str]) -> Stream:
    """Split a captured stream: the file at a path, or lines already read. Raise EvidenceError if the file cannot be read."""
    all_lines = lines(source) if isinstance(source, Path | str) else list(source)
    pieces, numbers = _pieces(all_lines)
    is_onednn = starts_with(pieces, ONEDNN_START)
    is_mkl = starts_with(pieces, MKL_START)
    is_marker = starts_with(pieces, MARKER + "$")
    markers = extract(pieces.filter(pa.array(is_marker)), rf"^{MARKER}$").assign(line_number=numbers[is_marker])
    markers["time_ns"] = markers["time_ns"].astype("int64")
    return Stream(
        onednn=_table(pieces, numbers, is_onednn),
        mkl=_table(pieces, numbers, is_mkl),
        markers=markers[["line_number", "time_ns", "edge", "name"]].reset_index(drop=True),
        application=_table(pieces, numbers, ~(is_onednn | is_mkl | is_marker)),
        line_count=len(all_lines),
    )


def extract(strings: pa.Array[Any], pattern: str) -> pd.DataFrame:
    """Return the pattern's named groups as columns of strings: null in rows that do not match, empty if a group is unused.

    The pattern has RE2's syntax (no look-around).
    """
    parts = pc.extract_regex(strings, pattern=pattern)
    valid = np.asarray(parts.is_valid())
    columns = {}
    for field in parts.type:
        values = pd.Series(parts.field(field.name).to_pandas(), dtype="string")
        columns[field.name] = values.where(valid)
    return pd.DataFrame(columns)


def starts_with(strings: pa.Array[Any], pattern: str) -> npt.NDArray[np.bool_]:
    """Return for each string whether the pattern matches at its start."""
    return np.asarray(pc.match_substring_regex(strings, pattern=f"^{pattern}"), dtype=bool)


def strings_of(values: Sequence[str] | pd.Series) -> pa.LargeStringArray:
    """Return the values as an Arrow array of strings that can hold more than 2 GiB of text."""
    return pa.array(values, type=pa.large_string(), from_pandas=True)


def _pieces(all_lines: Sequence[str]) -> tuple[pa.Array[Any], npt.NDArray[np.int64]]:
    """Return the pieces of all lines, and the line number of each."""
    strings = pc.ascii_rtrim(strings_of(all_lines), characters="\r")
    numbers = np.arange(1, len(strings) + 1)
    mixed = _mixed(strings)
    if not mixed.any():
        return strings, numbers
    marked = pc.replace_substring_regex(strings.filter(pa.array(mixed)), pattern=_TOKENS, replacement=_SEPARATOR + r"\1")
    nested = pc.split_pattern(marked, pattern=_SEPARATOR)
    parts = cast(pa.LargeStringArray, pc.list_flatten(nested))
    part_numbers = numbers[mixed][np.asarray(pc.list_parent_indices(nested)).astype(np.int64)]
    # a line that starts with a token is split before it: drop that empty part
    keep = np.asarray(pc.utf8_length(parts)) > 0
    pieces = pa.concat_arrays([strings.filter(pa.array(~mixed)), parts.filter(pa.array(keep))])
    piece_numbers = np.concatenate([numbers[~mixed], part_numbers[keep]])
    order = np.argsort(piece_numbers, kind="stable")
    return pieces.take(pa.array(order, type=pa.int64())), piece_numbers[order]


def _mixed(strings: pa.LargeStringArray) -> npt.NDArray[np.bool_]:
    """Return which lines contain a token that does not start them. Plain searches suffice: nearly every line has one writer."""
    result = sum(np.asarray(pc.count_substring(strings, pattern=text)).astype(np.int64) for text in _TOKEN_TEXTS)
    leading = sum(np.asarray(pc.starts_with(strings, pattern=text)).astype(np.int64) for text in _LEADING_TEXTS)
    return np.asarray(result > leading)


def _table(pieces: pa.Array[Any], numbers: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> pd.DataFrame:
    text = pd.Series(pieces.filter(pa.array(chosen)).to_pandas(), dtype="string")
    return pd.DataFrame({"line_number": numbers[chosen], "text": text})
