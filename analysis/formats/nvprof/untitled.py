"""Rows of nvprof's summaries that someone quoted without the titles above them.

    GPU activities:   40.00%  3.0000ms       250  12.000us  11.000us  13.000us  kernel(int)

The type at the beginning and the units tell what the values are; one of them may be damaged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARK = r"[*_`]{0,3}"  # of bold text
_TIME = _MARK + r"\d[\d.,]{0,12}(?:e[+-]?\d{1,2})?(?:[num]?s)" + _MARK
_SHARE = _MARK + r"\d[\d.,]{0,8}%" + _MARK
_CALLS = rf"{_MARK}\d{{1,12}}{_MARK}"
_TYPED = r"^[ \t]*(?:GPU activities|API calls):?[ \t]+"
_CELLS = (_SHARE, _TIME, _CALLS, _TIME, _TIME, _TIME)
_DAMAGED = r"[^ \t]{1,20}"  # a share or a time: five good cells beside it show well enough what the row is
_COUNT = _CELLS.index(_CALLS)


def _row(cells: Sequence[str]) -> str:
    return "".join(rf"{cell}[ \t]+" for cell in cells)


_ROWS = [_row([*_CELLS[:at], _DAMAGED, *_CELLS[at + 1 :]]) for at in range(len(_CELLS)) if at != _COUNT]
_FULL = re.compile(rf"{_TYPED}(?:{'|'.join(_ROWS)})\S")
_SHORT = re.compile(rf"{_TYPED}{_row(_CELLS[:3])}(?!{_TIME}[ \t])[^ \t\d]")  # without average, minimum and maximum
ANY = rf"{_TYPED}{_DAMAGED}[ \t]"  # a pattern of RE2, too


def titles(line: str) -> str:
    """Return the line of titles that belongs above a row of a summary; empty if the line is no such row."""
    if _FULL.match(line):
        return "Type  Time(%)  Time  Calls  Avg  Min  Max  Name"
    return "Type  Time(%)  Time  Calls  Name" if _SHORT.match(line) else ""
