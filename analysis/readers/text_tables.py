"""Tables that profilers print: delimited rows and rows of columns, and numbers with units, as text into exact integers."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from kernelscope.analysis.readers import stream

# powers of ten that turn a unit into ns; nsys and nvprof write these, old nsys the words
TIME_POWERS = {"ns": 0, "nanoseconds": 0, "us": 3, "\u00b5s": 3, "ms": 6, "s": 9, "sec": 9, "seconds": 9}
# nsys writes KB, MB and GB for powers of 1000, and KBi or KiB for powers of 1024 (its help on formats)
DECIMAL_SIZES = {
    "b": 1, "byte": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kbi": 2**10, "mbi": 2**20, "gbi": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
# nvprof's are powers of 1024: 1096 bytes of shared memory are 1.0703KB, and its throughput is size by duration only so
BINARY_SIZES = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}

_NUMBER = (
    r"^\s*(?P<whole>\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.(?P<fraction>\d{0,17}))?(?:[eE](?P<exponent>[-+]?\d{1,2}))?"
    "\\s*(?P<unit>[A-Za-z\u00b5]{0,12})\\s*$"
)
_DIGITS = 18  # an int64 holds any number of so many
_JOINED_LINES = 50  # a quoted text that runs over more lines than these is a stray quote
_BLOCK = 1 << 24


def delimited(lines: Sequence[str], width: int, delimiter: str = ",") -> tuple[pd.DataFrame, list[str]]:
    """Return rows of delimited text, and the rows that have another number of cells.

    lines: without line ends and without header. The table has columns 0 to width-1 of strings; empty cells and "None" (which
    nsys 2022 writes for them) are null. Raises pyarrow.ArrowInvalid when the text cannot be taken apart.
    """
    records, odd = _records(lines)
    names = [str(number) for number in range(width)]
    if not records:
        return pd.DataFrame({number: pd.Series([], dtype="str") for number in range(width)}), odd

    def skip(row: pa.csv.InvalidRow) -> str:
        odd.append(row.text or "")
        return "skip"

    content = "\n".join(records).encode("utf8", errors="replace")
    table = pyarrow.csv.read_csv(
        pa.BufferReader(content),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=max(_BLOCK, 2 * max(map(len, records)) * 4)),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.large_string() for name in names},
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            null_values=["", "None"],
        ),
    )
    return _frame([table.column(name) for name in names]), odd


def cells(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line of delimited text; one cell where its quotes do not close."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    except csv.Error:
        return [line]


def columns_at(lines: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[pd.DataFrame, list[str]]:
    """Return rows of text in columns, and the rows that cannot be taken apart.

    spans: first and last+1 character of every column. A row that has text between columns is split at runs of spaces instead
    (tables quoted by hand lose their alignment); it must then have a cell for every column.
    """
    strings = stream.strings_of(lines)
    aligned = np.ones(len(strings), dtype=bool)
    for (_, end), (start, _) in itertools.pairwise(spans):
        gap = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(strings, end, start))
        aligned &= np.isin(np.asarray(gap.to_pandas(), dtype=object), ("", "|"))
    sliced = strings.filter(pa.array(aligned))
    ends = [end for _, end in spans[:-1]] + [None]
    table = _frame([_cell(sliced, start, end) for (start, _), end in zip(spans, ends, strict=True)])
    if aligned.all():
        return table, []
    loose, odd = spaced([line for line, good in zip(lines, aligned, strict=True) if not good], len(spans))
    return pd.concat([table, loose], ignore_index=True), odd


def spaced(lines: Sequence[str], width: int) -> tuple[pd.DataFrame, list[str]]:
    """Return rows whose cells stand two or more spaces apart, and the rows that have less than `width` such cells.

    The last cell is all that is left, whatever it holds. "-" is how nvprof writes an empty cell: it is null.
    """
    strings = stream.strings_of(lines)
    groups = [rf"(?P<c{number}>\S+(?: \S+)*)" for number in range(width - 1)] + [rf"(?P<c{width - 1}>\S.*?)"]
    found = pc.extract_regex(strings, pattern=r"^\s*" + r"\s{2,}".join(groups) + r"\s*$")
    valid = np.asarray(found.is_valid())
    kept = found.filter(pa.array(valid))
    columns = [pc.if_else(pc.equal(cell, "-"), None, cell) for cell in (kept.field(number) for number in range(width))]
    return _frame(columns), [line for line, good in zip(lines, valid, strict=True) if not good] if not valid.all() else []


def nanoseconds(values: pd.Series, unit: str | None = None) -> pd.Series:
    """Return times written as text in integer ns (Int64), exactly: a half is rounded up, and what is no time is null.

    unit: of values that name none themselves; without it those are null.
    """
    strings = pa.array(values, type=pa.large_string(), from_pandas=True)
    if unit in TIME_POWERS and TIME_POWERS[unit] == 0:
        whole = _integers(strings)
        if whole is not None:
            return whole
    found = pc.extract_regex(strings, pattern=_NUMBER)
    units = found.field("unit").to_pandas().fillna("").replace("", unit or "?")
    powers = units.map(TIME_POWERS).to_numpy(dtype="float64", na_value=np.nan)
    mantissa, power, valid = _parts(found)
    valid &= np.isfinite(powers)
    power = power + np.where(valid, np.nan_to_num(powers), 0).astype(np.int64)
    return _scaled(mantissa, power, valid)


def counts(values: pd.Series) -> pd.Series:
    """Return whole numbers written as text (Int64), thousands separators or not; null where it is none."""
    strings = pa.array(values, type=pa.large_string(), from_pandas=True)
    whole = _integers(strings)
    if whole is not None:
        return whole
    found = pc.extract_regex(strings, pattern=_NUMBER)
    mantissa, power, valid = _parts(found)
    whole_only = found.field("fraction").to_pandas().fillna("").str.strip("0").eq("") & found.field("unit").to_pandas().eq("")
    return _scaled(mantissa, power, valid & whole_only.to_numpy(dtype=bool))


def sizes(values: pd.Series, units: dict[str, int], unit: str | None = None) -> pd.Series:
    """Return sizes written as text in bytes (Int64), rounded to whole ones: the sources round them; null where it is none.

    units: bytes of each unit, in small letters. unit: of values that name none themselves.
    """
    strings = pa.array(values, type=pa.large_string(), from_pandas=True)
    found = pc.extract_regex(strings, pattern=_NUMBER)
    mantissa, power, valid = _parts(found)
    named = found.field("unit").to_pandas().fillna("").replace("", unit or "?").str.lower()
    factor = named.map(units).to_numpy(dtype="float64", na_value=np.nan)
    amount = mantissa.astype("float64") * np.power(10.0, power.astype("float64")) * factor
    valid &= np.isfinite(amount) & (amount < 2.0**62)
    return pd.Series(np.rint(np.where(valid, amount, 0)).astype(np.int64), dtype="Int64").where(valid)


def resolution(values: pd.Series, unit: str | None = None) -> int:
    """Return the coarsest step in ns between neighbouring times that can be written as these are; 1 where they are exact."""
    found = pc.extract_regex(pa.array(values, type=pa.large_string(), from_pandas=True), pattern=_NUMBER)
    _, power, valid = _parts(found)
    powers = found.field("unit").to_pandas().fillna("").replace("", unit or "?").map(TIME_POWERS)
    steps = power[valid] + powers.to_numpy(dtype="float64", na_value=0.0)[valid].astype(np.int64)
    return int(10 ** min(max(int(steps.max(initial=0)), 0), _DIGITS))


def _records(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Join lines that one quoted text runs over; return the records and the lines whose quote never closes."""
    quotes = np.asarray(pc.count_substring(stream.strings_of(lines), pattern='"'))
    open_lines = np.flatnonzero(quotes % 2)
    if not len(open_lines):
        return list(lines), []
    records, odd, done, position = [], [], 0, 0
    while position < len(open_lines):
        first = int(open_lines[position])
        last = int(open_lines[position + 1]) if position + 1 < len(open_lines) else len(lines)
        records += lines[done:first]
        if last < len(lines) and last - first <= _JOINED_LINES:
            records.append("\n".join(lines[first : last + 1]))
            done, position = last + 1, position + 2
        else:
            odd.append(lines[first])
            done, position = first + 1, position + 1
    return records + list(lines[done:]), odd


def _frame(columns: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame({number: pd.Series(column.to_pandas(), dtype="str") for number, column in enumerate(columns)}, copy=False)


def _cell(strings: pa.Array[Any], start: int, end: int | None) -> Any:
    text = pc.utf8_trim(pc.utf8_slice_codeunits(strings, start, end), characters=" |\r")
    return pc.if_else(pc.is_in(text, pa.array(["", "None"], type=text.type)), None, text)


def _integers(strings: pa.Array[Any]) -> pd.Series | None:
    """Return the numbers when all are plain whole ones, which is the common case and fast."""
    try:
        return pd.Series(pc.cast(strings, pa.int64()).to_pandas(types_mapper=None, integer_object_nulls=True), dtype="Int64")
    except pa.ArrowInvalid:
        return None


def _parts(found: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return digits as one whole number, the power of ten to multiply it with, and which rows hold a number that fits."""
    valid = np.asarray(found.is_valid(), dtype=bool).copy()
    whole = pc.fill_null(pc.replace_substring(found.field("whole"), ",", ""), "")
    fraction = pc.fill_null(found.field("fraction"), "")
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(whole, fraction, pa.scalar("", whole.type)), characters="0")
    valid &= np.asarray(pc.utf8_length(digits)) <= _DIGITS
    usable = pc.if_else(pc.and_(pa.array(valid), pc.greater(pc.utf8_length(digits), 0)), digits, "0")
    exponent = pc.fill_null(found.field("exponent"), "")
    exponent = pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, characters="+"))
    power = np.asarray(pc.cast(exponent, pa.int64())) - np.asarray(pc.utf8_length(fraction)).astype(np.int64)
    return np.asarray(pc.cast(usable, pa.int64())), power, valid


def _scaled(mantissa: npt.NDArray[np.int64], power: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_]) -> pd.Series:
    """Return mantissa times ten to the power in whole numbers, a half rounded up; null where it is not valid or too large."""
    up = np.power(10, np.clip(power, 0, _DIGITS), dtype=np.int64)
    down = np.power(10, np.clip(-power, 0, _DIGITS), dtype=np.int64)
    fits = valid & (power <= _DIGITS) & (mantissa <= np.iinfo(np.int64).max // 2 // up)
    value = (np.where(fits, mantissa, 0) * np.where(fits, up, 1) + down // 2) // down
    value[power < -_DIGITS] = 0
    return pd.Series(value, dtype="Int64").where(fits)
