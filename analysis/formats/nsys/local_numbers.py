"""Numbers as locales print them: `19,0` and `285 118 634`, `285.118.634` or `285'118'634` for 19.0 and 285118634.

A table is printed in one locale. What is between thousands, and which mark is the decimal one, must follow from all its numbers
together: `1,234` alone may be either, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

_SPACES = " \u00a0\u2009\u202f"
_QUOTES = "'\u2019"
_BETWEEN = f"{_SPACES}{_QUOTES}"  # thousands, and never whole numbers and fractions
# columns of numbers in summaries; others may hold any text
_TITLES = frozenset({
    "Time", "Total Time", "Total", "Instances", "Num Calls", "Calls", "Count", "Operations", "Avg", "Med", "Min", "Max", "StdDev",
    "Range Instances", "Total Range Time",
})  # fmt: skip
_NUMBER = rf"[0-9]+(?:[.,{_BETWEEN}][0-9]+)*"
_COMMAS = rf"(?:[0-9]{{1,3}}(?:[.{_BETWEEN}][0-9]{{3}})+|[0-9]+)(?:,[0-9]+)?"  # a number with a decimal comma
_POINTS = rf"(?:[0-9]{{1,3}}(?:[{_BETWEEN}][0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?"
_NO_THOUSANDS = r",(?:[0-9]{1,2}|[0-9]{4,})$"  # after this comma
_KINDS = (rf"[{_SPACES}]", rf"[{_QUOTES}]", r"\.")
_FOREIGN = re.compile(rf"[0-9],[0-9]{{1,2}}(?![0-9,])|[0-9][{_BETWEEN}][0-9]{{3}}(?![0-9])")


def are_foreign(lines: Sequence[str]) -> bool:
    """Return whether one of the first lines seems to have numbers in a locale's format."""
    return any(_FOREIGN.search(line[:1000]) for line in lines[:20])


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return a summary with plain numbers in its columns of numbers, if all of these are of one locale; else as it is."""
    cells = table[[title for title in table.columns if title in _TITLES]]
    if "Start" in table or not any(cells[title].str.contains(rf"[,{_BETWEEN}]").fillna(False).any() for title in cells):
        return table
    numbers = np.column_stack([cells[title].fillna("0").str.fullmatch(_NUMBER).to_numpy(bool) for title in cells])
    rows = pd.Series(numbers.all(axis=1), index=table.index)  # others are no rows of the table, or damaged
    marks = _marks(cells[rows].melt()["value"].dropna())
    if marks is None:
        return table
    result = table.copy()
    for title in cells:
        changed = cells[title].str.replace(marks[0], "", regex=True).str.replace(marks[1], ".", regex=False)
        result[title] = changed.where(rows, cells[title])
    return result


def _marks(texts: pd.Series) -> tuple[str, str] | None:
    """Return the pattern of what is between thousands and the decimal mark of all these numbers; None if they are not sure."""

    def have(pattern: str) -> bool:
        return bool(texts.str.contains(pattern).any())

    between = have(f"[{_BETWEEN}]")
    commas = have(_NO_THOUSANDS) or (between and have(","))
    kinds = sum(map(have, _KINDS if commas else _KINDS[:2]))
    if commas and kinds <= 1 and texts.str.fullmatch(_COMMAS).all():
        return f"[.{_BETWEEN}]", ","
    if between and not commas and kinds == 1 and texts.str.fullmatch(_POINTS).all():
        return f"[{_BETWEEN}]", "."
    return None
