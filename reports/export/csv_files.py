"""CSV: a file per table (RFC 4180, UTF-8); spreadsheets take no cell for a formula (see text.spreadsheet)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kernelscope.analysis.files import whole
from kernelscope.reports import text
from kernelscope.reports.export.sheets import Sheet


def write(sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """Write each table as folder/<name>.csv; return the files. Unknown is an empty cell. Raises OSError if that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for sheet in sheets:
        files.append(folder / f"{sheet.name}.csv")
        with whole.growing(files[-1]) as path:
            harmless(sheet.frame).to_csv(path, index=False, encoding="utf8", lineterminator="\n")
    return files


def harmless(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts, including headings, no spreadsheet takes for formulas; other values are unchanged."""
    columns = {str(text.spreadsheet(name)): _harmless(frame[name]) for name in frame}
    return pd.DataFrame(columns)


def _harmless(column: pd.Series) -> pd.Series:
    if column.dtype in ("bool", "boolean"):
        return column.astype("boolean").map({True: "true", False: "false"}, na_action="ignore")
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    texts = column.astype("category")  # each distinct text is converted once
    found = pd.Series([text.spreadsheet(str(value)) for value in texts.cat.categories] + [None], dtype="object")
    return found.take(texts.cat.codes.to_numpy() % len(found)).set_axis(column.index)  # null, -1, is the last place
