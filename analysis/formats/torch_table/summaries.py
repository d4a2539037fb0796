"""Summaries of a profile as Markdown tables that people's own scripts print, with their own titles and order of columns.

Read are those with a column of names, one of own times and one of calls. Own times are those of titles with "self"; a table of
kernels needs no such word, as nothing is nested in kernels, but a sign that its times are not those of one call. A unit stands
in the title, as in "self cuda (ms)", or in each cell: a time without one stays unknown. The columns get the titles that PyTorch
prints.
"""

from __future__ import annotations

import re

import pandas as pd

_NAME = re.compile(r"(?:op|operator|operation|kernel|cuda kernel|name)(?: name)?s?", re.IGNORECASE)
_KERNELS = re.compile(r"kernel", re.IGNORECASE)
_CALLS = re.compile(r"(?:# ?(?:of )?|num(?:ber of)? |total )?calls|count", re.IGNORECASE)
_TIME = re.compile(
    r"(?P<own>self )?(?P<where>cpu|cuda|gpu|xpu|hip|device)(?P<inside> total)?(?: time)?(?P<total> total)?"
    "(?:[ ,]*[(\\[]?(?P<unit>ns|us|[\u00b5\u03bc]s|ms|s)[)\\]]?)?",
    re.IGNORECASE,
)
_SHARE = "%"
_NOT_OF_ONE_CALL = re.compile(r"%|\b(?:avg|average|mean|total)\b", re.IGNORECASE)  # titles that a table of times per call lacks
_BARE = r"^\s*[\d.,]+(?:[eE][-+]?\d+)?\s*$"  # a time without a unit
UNKNOWN = "?"  # what stands behind times whose unit neither the title nor the cell tells


def titles(cells: list[str]) -> list[str]:
    """Return PyTorch's titles for those of such a summary, "" for columns that it has not; none if they are not those of one.

    Titles as PyTorch prints them are those of its own table, not of a summary.
    """
    names = [cell for cell in cells if _NAME.fullmatch(cell)]
    if len(names) != 1:
        return []
    kernels = bool(_KERNELS.search(names[0])) and any(map(_NOT_OF_ONE_CALL.search, cells))
    result = [_title(cell, kernels) for cell in cells]
    own = [title for title in result if title.startswith("Self ") and not title.endswith(_SHARE)]
    once = all(result.count(title) == 1 for title in result if title)
    return result if own and once and "# of Calls" in result else []


def _title(cell: str, kernels: bool) -> str:
    """Return PyTorch's title for one of a summary; "" if it has none. kernels: whether all times are sums over kernels."""
    if _NAME.fullmatch(cell):
        return "Name"
    if _CALLS.fullmatch(cell):
        return "# of Calls"
    match = _TIME.fullmatch(cell.removesuffix(_SHARE).strip())
    if not match:
        return ""
    where, inside = match["where"].upper(), match["inside"] or match["total"]
    own = match["own"] or (kernels and where != "CPU")
    if cell.endswith(_SHARE):
        return f"Self {where} %" if own else ""
    return f"Self {where}" if own else f"{where} total" if inside else ""


def with_units(cells: list[str], rows: pd.DataFrame) -> pd.DataFrame:
    """Return a summary's rows with the unit behind each time that has none: that of its title, or UNKNOWN."""
    result = rows.copy()
    for place, cell in enumerate(cells):
        match = _TIME.fullmatch(cell)
        if match:
            unit = (match["unit"] or UNKNOWN).lower()
            bare = rows[place].str.fullmatch(_BARE).fillna(False).astype(bool)
            result[place] = rows[place].where(~bare, rows[place] + unit)
    return result
