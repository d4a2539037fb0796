"""Tables that profilers print: delimited rows or columns, and numbers with units, read from text as exact integers."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from kernelscope.analysis.files import markdown, stream

# in these functions, pyarrow's type stubs allow neither large strings nor boolean masks nor buffers as files
pc: Any = pyarrow.compute
read_delimited: Any = pyarrow.csv.read_csv

# powers of ten that convert a unit into ns; nsys and nvprof write these units, old nsys the words, people also a Greek mu
TIME_POWERS = {
    "ns": 0, "nsec": 0, "nanoseconds": 0, "us": 3, "\u00b5s": 3, "\u03bcs": 3, "usec": 3, "ms": 6, "msec": 6,
    "s": 9, "sec": 9, "seconds": 9,
}  # fmt: skip
# nsys writes KB, MB and GB for powers of 1000, and KBi or KiB for powers of 1024 (its help on formats)
DECIMAL_SIZES = {
    "b": 1, "byte": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kbi": 2**10, "mbi": 2**20, "gbi": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
# nvprof's are powers of 1024 since about CUDA 7: 1096 bytes of shared memory are 1.0703KB, and only so is throughput
# size / duration; before, they are powers of 1000
BINARY_SIZES = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}

_NUMBER = (
    r"^\s*(?P<whole>\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.(?P<fraction>\d{0,17}))?(?:[eE](?P<exponent>[-+]?\d{1,2}))?"
    "\\s*(?P<unit>[A-Za-z\u00b5\u03bc]{0,12})\\s*$"
)
_DIGITS = 18  # an int64 can hold any number with this many
_JOINED_LINES = 50  # of a name with line ends
_EMPTY = ("", "None")
_LINES = 1 << 17
_MARK = "\x1e"  # ASCII's record separator, put between cells
_BLOCK = 1 << 24  # bytes to parse at once: a row must fit
_LARGEST_BLOCK = (1 << 31) - 1


def delimited(lines: Sequence[str], width: int, free: int, delimiter: str = ",") -> tuple[pd.DataFrame, list[str]]:
    """Return rows of delimited text, and the lines that are not rows.

    lines: without line ends and without the header; empty ones are skipped. free: the column with names: neither nsys nor
    nvprof escapes quotes in them, and nvprof's may contain line ends. The table has columns 0 to width-1 of strings; empty
    cells and "None" (which nsys 2022 writes for them) are null. Raise pyarrow.ArrowInvalid if the text cannot be parsed.
    """
    strings = stream.strings_of(lines)
    filled = np.asarray(pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(strings)), 0))
    # a quote inside a cell is left to the slow path, which knows the column of names
    unbalanced = np.asarray(pc.bit_wise_and(pc.count_substring(strings, pattern='"'), 1)) == 1
    inner = np.asarray(pc.match_substring_regex(strings, pattern=rf'[^{delimiter}]"[^{delimiter}]'))
    plain = filled & ~unbalanced & ~inner
    table = _parsed(strings, np.flatnonzero(plain), width, delimiter)
    left = filled.copy()
    left[table.index] = False
    if not left.any():
        return table.reset_index(drop=True), []
    loose, unread = _loose_rows(strings, np.flatnonzero(left), width, free, delimiter)
    return pd.concat([table, loose]).sort_index().reset_index(drop=True), unread


def _parsed(strings: pa.LargeStringArray, positions: npt.NDArray[np.int64], width: int, delimiter: str) -> pd.DataFrame:
    """Return those of these lines that have `width` cells, with their positions as index."""
    if not len(positions):
        return _frame([pa.array([], pa.large_string())] * width)
    numbers = pc.cast(pa.array(positions), pa.large_string())
    numbered = pc.binary_join_element_wise(
        numbers, pc.take(strings, pa.array(positions)), pa.scalar(delimiter, pa.large_string())
    )
    content = "\n".join(numbered.to_pylist()).encode("utf8", errors="replace")
    longest = pc.max(pc.binary_length(numbered)).as_py()
    names = [str(number) for number in range(-1, width)]
    table = read_delimited(
        pa.BufferReader(content),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=min(max(_BLOCK, 2 * longest), _LARGEST_BLOCK)),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=_skip),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.int64() if name == "-1" else pa.large_string() for name in names},
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            null_values=list(_EMPTY),
        ),
    )
    result = _frame([table.column(name) for name in names[1:]])
    result.index = pd.Index(table.column("-1").to_numpy())
    return result


def _skip(_row: pyarrow.csv.InvalidRow) -> Literal["skip", "error"]:
    """Make the parser skip a row with another number of cells, which stays among the unread lines."""
    return "skip"


def _loose_rows(
    strings: pa.LargeStringArray, positions: npt.NDArray[np.int64], width: int, free: int, delimiter: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return rows whose names contain quotes or line ends, indexed by the position of their first line, and the other lines."""
    cell = rf'(?:"[^"]*"|[^"\n{delimiter}]*)'
    groups = [f"(?P<c{number}>{cell})" for number in range(width)]
    groups[-1] = rf'(?P<c{width - 1}>"(?s:.*)"|[^\n{delimiter}]*)'  # nsys repeats the name in the last one
    groups[free] = rf'(?P<c{free}>"(?s:.*)"|[^"\n].*|)'
    pattern = f"^{delimiter.join(groups)}$"

    def matched(texts: Any) -> tuple[Any, npt.NDArray[np.bool_]]:
        result = pc.extract_regex(texts, pattern=pattern)
        # a name that begins without a quote and ends with a quoted cell: the row has too many cells, as with decimal commas
        beyond = pc.match_substring_regex(result.field(f"c{free}"), rf'^[^"].*{delimiter}"[^"]*"$')
        return result, np.asarray(pc.and_(result.is_valid(), pc.invert(pc.fill_null(beyond, False))))

    result, alone = matched(pc.take(strings, pa.array(positions)))
    parts, rest = [(positions[alone], result.filter(pa.array(alone)))], positions[~alone]
    texts = pc.take(strings, pa.array(rest)).to_pylist()
    unread = texts
    if len(rest) and '"' in "".join(texts):
        # a line that does not start a row continues the name before it
        starts = np.asarray(pc.match_substring_regex(stream.strings_of(texts), pattern=f"^{f'{cell}{delimiter}' * free}"))
        bounds = np.flatnonzero(starts | np.append(True, rest[1:] != rest[:-1] + 1)).tolist()
        spans = [(first, min(last, first + _JOINED_LINES)) for first, last in itertools.pairwise([*bounds, len(texts)])]
        result, whole = matched(stream.strings_of(["\n".join(texts[first:last]) for first, last in spans]))
        parts.append((rest[np.array(bounds)[whole]], result.filter(pa.array(whole))))
        unread = [text for (first, last), good in zip(spans, whole, strict=True) if not good for text in texts[first:last]]
    tables = []
    for index, kept in parts:
        tables.append(_frame([_unquoted(kept.field(number)) for number in range(width)]))
        tables[-1].index = pd.Index(index)
    return pd.concat(tables), unread


def _unquoted(texts: Any) -> Any:
    """Return cells without the quotes around them; quotes inside are halved if all are doubled, as in CSV."""
    inside = pc.replace_substring_regex(texts, pattern=r'^"((?s:.*))"$', replacement=r"\1")
    doubled = pc.equal(pc.count_substring(inside, '""'), pc.divide(pc.count_substring(inside, '"'), 2))
    even = pc.equal(pc.bit_wise_and(pc.count_substring(inside, '"'), 1), 0)
    plain = pc.if_else(pc.and_(doubled, even), pc.replace_substring(inside, '""', '"'), inside)
    return pc.if_else(pc.is_in(plain, pa.array(_EMPTY, type=plain.type)), None, plain)


def cells(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line of delimited text; a single cell if its quotes do not close."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    except csv.Error:
        return [line]


def columns_at(lines: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[pd.DataFrame, list[str]]:
    """Return rows of text in columns, and the rows that cannot be split.

    spans: first and last+1 character of every column. A row that has text between columns is split at runs of spaces instead
    (tables quoted by hand lose their alignment); it must then have a cell for every column.
    """
    strings = markdown.without_marks(stream.strings_of(lines))
    # if all text before the last column is ASCII, as usual, characters are bytes, and slicing is much faster
    ascii_only = (
        np.asarray(pc.string_is_ascii(_bytes_between(strings, 0, spans[-1][0]))) if len(lines) else np.zeros(0, dtype=bool)
    )
    tables, unread = [], []
    for chosen, between in ((ascii_only, _bytes_between), (~ascii_only, pc.utf8_slice_codeunits)):
        if not chosen.any():
            continue
        positions = np.flatnonzero(chosen)
        part = strings.filter(pa.array(chosen))
        aligned = np.ones(len(part), dtype=bool)
        for (_, end), (start, _) in itertools.pairwise(spans):
            aligned &= np.asarray(pc.match_substring_regex(between(part, end, start), pattern=r"^[\s|]*$"))
        table, loose = _aligned_rows(part, aligned, spans, between)
        table.index = pd.Index(positions[table.index])
        tables.append(table)
        unread += loose
    result = pd.concat(tables).sort_index() if tables else _frame([pa.array([], pa.large_string())] * len(spans))
    return result.reset_index(drop=True), unread


def _aligned_rows(
    strings: pa.LargeStringArray, aligned: npt.NDArray[np.bool_], spans: Sequence[tuple[int, int]], between: Any
) -> tuple[pd.DataFrame, list[str]]:
    """Return rows split at the spans, misaligned ones at runs of spaces, indexed by position; and lines that are not rows."""
    inside = strings.filter(pa.array(aligned))
    longest = pc.max(pc.binary_length(strings)).as_py()
    ends = [*(end for _, end in spans[:-1]), max(longest, spans[-1][1])]
    table = _frame([_cell(between(inside, start, end)) for (start, _), end in zip(spans, ends, strict=True)])
    table.index = pd.Index(np.flatnonzero(aligned))
    if aligned.all():
        return table, []
    positions = np.flatnonzero(~aligned)
    loose, shaped = _spaced(pc.take(strings, pa.array(positions)), len(spans))
    loose.index = pd.Index(positions[shaped])
    return pd.concat([table, loose]), pc.take(strings, pa.array(positions[~shaped])).to_pylist()


def _bytes_between(strings: pa.LargeStringArray, start: int, end: int) -> Any:
    """Return the bytes of each text from start to end, as text: they must be whole characters, unless only tested for ASCII."""
    return pc.binary_slice(strings.view(pa.large_binary()), start, end).view(pa.large_string())


def spaced(lines: Sequence[str], width: int) -> tuple[pd.DataFrame, list[str]]:
    """Return rows whose cells are two or more spaces apart, and the rows that have fewer than `width` cells.

    The last cell is the rest of the line, whatever it contains. "-", nvprof's empty cell, is null.
    """
    # in parts, to keep copies of the text small
    firsts = range(0, max(len(lines), 1), _LINES)
    parts = [_spaced(stream.strings_of(lines[first : first + _LINES]), width) for first in firsts]
    table = pd.concat([part for part, _ in parts], ignore_index=True) if len(parts) > 1 else parts[0][0]
    shaped = np.concatenate([good for _, good in parts])
    return table, [line for line, good in zip(lines, shaped, strict=True) if not good] if not shaped.all() else []


def _spaced(strings: pa.LargeStringArray, width: int) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """Return the rows, and for each line whether it is a row."""
    trimmed = pc.utf8_trim_whitespace(pc.replace_substring(strings, _MARK, " "))
    marked = pc.replace_substring_regex(trimmed, pattern=r"\s{2,}", replacement=_MARK, max_replacements=width - 1)
    parts = pc.split_pattern(marked, pattern=_MARK)
    shaped = np.asarray(pc.equal(pc.list_value_length(parts), width))
    flat = pc.list_flatten(parts.filter(pa.array(shaped)))
    columns = [flat.take(pa.array(np.arange(number, len(flat), width))) for number in range(width)]
    return _frame([pc.if_else(pc.equal(cell, "-"), None, cell) for cell in columns]), shaped


def nanoseconds(values: pd.Series, unit: str | None = None) -> pd.Series:
    """Return times written as text in integer ns (Int64), exactly: a half is rounded up, and other texts are null.

    unit: the unit of values without one; if it is None, these are null.
    """
    strings = strings_of(values)
    if unit in TIME_POWERS and TIME_POWERS[unit] == 0:
        whole = _integers(strings)
        if whole is not None:
            return whole
    parts = pc.extract_regex(strings, pattern=_NUMBER)
    units = parts.field("unit").to_pandas().fillna("").replace("", unit or "?")
    powers = units.map(TIME_POWERS).to_numpy(dtype="float64", na_value=np.nan)
    mantissa, power, valid = _parts(parts)
    valid &= np.isfinite(powers)
    power = power + np.where(valid, np.nan_to_num(powers), 0).astype(np.int64)
    return _scaled(mantissa, power, valid)


def counts(values: pd.Series) -> pd.Series:
    """Return whole numbers written as text (Int64), with or without thousands separators; null for other texts."""
    strings = strings_of(values)
    whole = _integers(strings)
    if whole is not None:
        return whole
    parts = pc.extract_regex(strings, pattern=_NUMBER)
    mantissa, power, valid = _parts(parts)
    whole_only = parts.field("fraction").to_pandas().fillna("").str.strip("0").eq("") & parts.field("unit").to_pandas().eq("")
    return _scaled(mantissa, power, valid & whole_only.to_numpy(dtype=bool))


def sizes(values: pd.Series, units: dict[str, int], unit: str | None = None) -> pd.Series:
    """Return sizes written as text in bytes (Int64), rounded to whole ones, as the sources round them; null for other texts.

    units: bytes of each unit, in lower case. unit: the unit of values without one.
    """
    strings = strings_of(values)
    parts = pc.extract_regex(strings, pattern=_NUMBER)
    mantissa, power, valid = _parts(parts)
    named = parts.field("unit").to_pandas().fillna("").replace("", unit or "?").str.lower()
    factor = named.map(units).to_numpy(dtype="float64", na_value=np.nan)
    amount = mantissa.astype("float64") * np.power(10.0, power.astype("float64")) * factor
    valid &= np.isfinite(amount) & (amount < 2.0**62)
    return pd.Series(np.rint(np.where(valid, amount, 0)).astype(np.int64), dtype="Int64").where(valid)


def strings_of(values: pd.Series) -> pa.LargeStringArray:
    """Return a column of text as one Arrow array, as pandas may hold it in several pieces."""
    result = pa.array(values, type=pa.large_string(), from_pandas=True)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def resolution(values: pd.Series, unit: str | None = None) -> int:
    """Return the coarsest rounding of these printed times, in ns; 1 if they are exact."""
    parts = pc.extract_regex(strings_of(values), pattern=_NUMBER)
    _, power, valid = _parts(parts)
    powers = parts.field("unit").to_pandas().fillna("").replace("", unit or "?").map(TIME_POWERS)
    steps = power[valid] + powers.to_numpy(dtype="float64", na_value=0.0)[valid].astype(np.int64)
    return int(10 ** min(max(int(steps.max(initial=0)), 0), _DIGITS))


def _frame(columns: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame({number: pd.Series(column.to_pandas(), dtype="str") for number, column in enumerate(columns)}, copy=False)


def _cell(texts: Any) -> Any:
    trimmed = pc.utf8_trim(texts, characters=" |\r")
    return pc.if_else(pc.is_in(trimmed, pa.array(_EMPTY, type=trimmed.type)), None, trimmed)


def _integers(strings: pa.Array[Any]) -> pd.Series | None:
    """Return the numbers if all are plain whole ones, the common and fast case; else None."""
    try:
        return pd.Series(pc.cast(strings, pa.int64()).to_pandas(types_mapper=None, integer_object_nulls=True), dtype="Int64")
    except pa.ArrowInvalid:
        return None


def _parts(result: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the digits as one whole number, the power of ten to multiply it by, and which rows hold a number that fits."""
    valid = np.asarray(result.is_valid(), dtype=bool).copy()
    whole = pc.fill_null(pc.replace_substring(result.field("whole"), ",", ""), "")
    fraction = pc.fill_null(result.field("fraction"), "")
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(whole, fraction, pa.scalar("", whole.type)), characters="0")
    valid &= np.asarray(pc.utf8_length(digits)) <= _DIGITS
    usable = pc.if_else(pc.and_(pa.array(valid), pc.greater(pc.utf8_length(digits), 0)), digits, "0")
    exponent = pc.fill_null(result.field("exponent"), "")
    exponent = pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, characters="+"))
    power = np.asarray(pc.cast(exponent, pa.int64())) - np.asarray(pc.utf8_length(fraction)).astype(np.int64)
    return np.asarray(pc.cast(usable, pa.int64())), power, valid


def _scaled(mantissa: npt.NDArray[np.int64], power: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_]) -> pd.Series:
    """Return mantissa times ten to the power as whole numbers, with a half rounded up; null if not valid or too large."""
    up = np.power(10, np.clip(power, 0, _DIGITS), dtype=np.int64)
    down = np.power(10, np.clip(-power, 0, _DIGITS), dtype=np.int64)
    fits = valid & (power <= _DIGITS) & (mantissa <= np.iinfo(np.int64).max // 2 // up)
    value = (np.where(fits, mantissa, 0) * np.where(fits, up, 1) + down // 2) // down
    value[power < -_DIGITS] = 0
    return pd.Series(value, dtype="Int64").where(fits)
