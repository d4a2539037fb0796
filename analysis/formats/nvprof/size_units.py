"""What nvprof's KB and MB are: powers of 1024, or of 1000 in its first versions."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats.nvprof.printed_tables import PrintedTable

_SIZE_UNITS = (text_tables.BINARY_SIZES, text_tables.DECIMAL_SIZES)
_ROWS_THAT_VOTE = 1000
_AGREES = 0.005  # a prefix makes a difference of 0.024, and five digits are printed


def of(tables: list[PrintedTable]) -> dict[str, int]:
    """Return the bytes of each unit of size: powers of 1024, or of 1000 if only these make sizes, durations and throughput agree.

    The first versions wrote 409600 bytes as 409.60KB. A row is evidence if its size and throughput have different prefixes.
    """
    votes = 0
    for table in tables:
        if set(table.rows) >= {"Size", "Throughput", "Duration"}:
            rows = table.rows[["Size", "Throughput", "Duration"]].dropna().head(_ROWS_THAT_VOTE)
            duration = text_tables.nanoseconds(rows["Duration"], table.units.get("Duration"))
            binary, decimal = (_error(rows, duration, table.units, units) for units in _SIZE_UNITS)
            votes += int(((decimal < _AGREES) & (binary > 2 * _AGREES)).sum())
            votes -= int(((binary < _AGREES) & (decimal > 2 * _AGREES)).sum())
    return _SIZE_UNITS[votes > 0]


def _error(rows: pd.DataFrame, duration: pd.Series, named: dict[str, str], units: dict[str, int]) -> pd.Series:
    """Return the relative error of the printed throughput against size / duration, assuming these units of size."""
    size = text_tables.sizes(rows["Size"], units, named.get("Size", "").lower())
    per_second = rows["Throughput"].str.removesuffix("/s")
    printed = text_tables.sizes(per_second, units, named.get("Throughput", "").lower().removesuffix("/s"))
    size, printed, duration = (values.astype("Float64").mask(values <= 0) for values in (size, printed, duration))
    return (size * 1e9 / duration / printed - 1).abs().fillna(1.0)
