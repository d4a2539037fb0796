"""Parquet: a file per table with exact values; units and meanings of columns are in the files' schemas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kernelscope.analysis.files import parquet_files, whole
from kernelscope.reports.export.sheets import Sheet


def write(sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """Write each table as folder/<name>.parquet; return the files. Raises OSError if that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for sheet in sheets:
        files.append(folder / f"{sheet.name}.parquet")
        with whole.growing(files[-1]) as path:
            parquet_files.write(_described(sheet), path, compression="zstd")
    return files


def _described(sheet: Sheet) -> pa.Table:
    table = pa.Table.from_pandas(sheet.frame, preserve_index=False)
    for column in sheet.columns:
        place = table.schema.get_field_index(column.name)
        said: dict[bytes | str, bytes | str] = {"unit": column.unit, "meaning": column.meaning}
        table = table.set_column(place, table.field(place).with_metadata(said), table.column(place))
    return table
