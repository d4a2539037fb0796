"""Tables as plain values, for JSON and for people."""

from __future__ import annotations

from typing import Any

import pandas as pd


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows with None for null."""
    values = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in values]
