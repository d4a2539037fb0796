"""Rows of nvprof's summaries that someone quoted without the titles above them.

    GPU activities:   40.00%  3.0000ms       250  12.000us  11.000us  13.000us  kernel(int)

The type at the beginning and the units tell what the values are.
"""

from __future__ import annotations

import re

_MARK = r"[*_`]{0,3}"  # of bold text
_TIME = _MARK + r"\d[\d.,]{0,12}(?:e[+-]?\d{1,2})?(?:[num]?s)" + _MARK
_SHARE = _MARK + r"\d[\d.,]{0,8}%" + _MARK
_ROW = rf"^[ \t]*(?:GPU activities|API calls):?[ \t]+{_SHARE}[ \t]+{_TIME}[ \t]+{_MARK}\d{{1,12}}{_MARK}[ \t]+"
_FULL = re.compile(rf"{_ROW}(?:{_TIME}[ \t]+){{3}}\S")
_SHORT = re.compile(rf"{_ROW}(?!{_TIME}[ \t])[^ \t\d]")  # without average, minimum and maximum
ANY = rf"{_ROW}\S"  # a pattern of RE2, too


def titles(line: str) -> str:
    """Return the line of titles that belongs above a row of a summary; empty if the line is no such row."""
    if _FULL.match(line):
        return "Type  Time(%)  Time  Calls  Avg  Min  Max  Name"
    return "Type  Time(%)  Time  Calls  Name" if _SHORT.match(line) else ""
