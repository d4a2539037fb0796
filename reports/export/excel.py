"""Excel workbooks: a sheet per table, numbers as numbers, text always as text.

Limits of a workbook: ROWS rows per sheet, including the heading, and TEXT characters per cell; the rest is cut, and the sheet
"about" says so. Excel keeps 15 digits of a number: longer integers are written as text. Cells that begin like a formula are
marked as text, in case somebody edits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xlsxwriter

from kernelscope.reports import text
from kernelscope.reports.export.sheets import ABOUT, Sheet, blocks

ROWS, TEXT, NAME = 1_048_576, 32_767, 31
_DIGITS = 10**15
_WIDEST = 60  # characters
_FORMATS = {"share": "0.0%", "ratio": "0.00"}
_OPTIONS = {
    "constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False,
    "nan_inf_to_errors": True,
}  # fmt: skip


def write(sheets: Sequence[Sheet], target: Path, rows: int = ROWS, beside: str | None = None) -> list[str]:
    """Write the tables as a workbook; return sentences on what was cut. rows: limit of a sheet, including the heading.

    beside: temporary folder for the sheets (default: the system's). Raises OSError if the file cannot be written.
    """
    cut = [said for sheet in sheets if (said := _cut(sheet, rows))]
    try:
        with xlsxwriter.Workbook(str(target), {**_OPTIONS, "tmpdir": beside}) as book:
            looks = _Looks(book)
            for sheet, name in zip(sheets, _names(sheets), strict=True):
                _write(book.add_worksheet(name), _noted(sheet, cut), looks, rows)
    except xlsxwriter.exceptions.FileCreateError as error:
        raise OSError(str(error)) from error
    return cut


def _cut(sheet: Sheet, rows: int) -> str | None:
    if len(sheet.frame) < rows:
        return None
    return f"{sheet.name}: the first {rows - 1:,} of {len(sheet.frame):,} rows; a sheet holds no more: use CSV or Parquet for all"


def _noted(sheet: Sheet, cut: Sequence[str]) -> Sheet:
    if sheet.name != ABOUT or not cut:
        return sheet
    said = pd.DataFrame({"name": ["cut"] * len(cut), "value": [*cut]})
    return Sheet(ABOUT, pd.concat([sheet.frame, said], ignore_index=True))


def _names(sheets: Sequence[Sheet]) -> list[str]:
    """Return names that Excel accepts: short, without special characters, and distinct regardless of case."""
    found: list[str] = []
    for sheet in sheets:
        name = "".join("_" if character in "[]:*?/\\'" else character for character in sheet.name)[:NAME] or "table"
        number = 1
        while name.lower() in (other.lower() for other in found):
            number += 1
            name = f"{name[: NAME - 4]}_{number}"
        found.append(name)
    return found


class _Looks:
    def __init__(self, book: Any):
        self.heading = book.add_format({"bold": True, "bottom": 1})
        self.text = book.add_format({"quote_prefix": True})
        self.whole = book.add_format({"num_format": "#,##0"})
        self.plain = {name: book.add_format({"num_format": code}) for name, code in _FORMATS.items()}

    def number(self, column: str) -> Any:
        found = next((look for name, look in self.plain.items() if column.endswith(name)), None)
        return found or (self.whole if column.endswith(("_ns", "bytes", "count")) else None)


def _write(page: Any, sheet: Sheet, looks: _Looks, rows: int) -> None:
    frame = sheet.frame.iloc[: rows - 1]
    page.freeze_panes(1, 0)
    page.set_landscape()
    page.fit_to_pages(1, 0)
    for place, name in enumerate(frame):
        page.set_column(place, place, _width(str(name), frame[name]))
        page.write_string(0, place, _cell(name), looks.heading)
    if len(frame.columns) and len(frame):
        page.autofilter(0, 0, len(frame), len(frame.columns) - 1)
    for block in blocks(len(frame)):
        columns = [_column(page, place, frame[name].iloc[block], looks) for place, name in enumerate(frame)]
        for at in range(block.start, min(block.stop, len(frame))):  # workbooks are written cell by cell, row by row
            for put in columns:
                put(at + 1, at - block.start)


def _column(page: Any, place: int, column: pd.Series, looks: _Looks) -> Any:
    """Return a function that writes a cell, given the row of the sheet and the row of the column."""
    name, missing = str(column.name), column.isna().to_numpy()
    if column.dtype in ("bool", "boolean"):
        flags = column.astype("boolean").fillna(False).to_numpy(dtype=bool).tolist()
        return lambda row, at: None if missing[at] else page.write_boolean(row, place, flags[at])
    if pd.api.types.is_numeric_dtype(column.dtype):
        whole = pd.api.types.is_integer_dtype(column.dtype)
        numbers = column.fillna(0).tolist()
        look = looks.number(name)
        fits = np.array([abs(number) < _DIGITS for number in numbers]) | (not whole)

        def put(row: int, at: int) -> None:
            if missing[at]:
                return
            if fits[at]:
                page.write_number(row, place, numbers[at], look)
            else:
                page.write_string(row, place, str(numbers[at]))

        return put
    texts = column.astype("object").tolist()
    return lambda row, at: None if missing[at] else page.write_string(row, place, *_text(texts[at], looks))


def _text(value: Any, looks: _Looks) -> tuple[Any, ...]:
    cell = _cell(value)
    return (cell, looks.text) if text.spreadsheet(cell) != cell else (cell,)


def _cell(value: Any) -> str:
    """Return text without hidden characters, short enough for a cell."""
    shown = text.printable(value, None)
    return shown if len(shown) <= TEXT else text.printable(value, TEXT - 100)[:TEXT]


def _width(name: str, column: pd.Series) -> int:
    """Return a width that suits the heading and the first rows."""
    shown = [len(str(value)) for value in column.iloc[:100].dropna()]
    return min(max([len(name), *shown]) + 3, _WIDEST)
