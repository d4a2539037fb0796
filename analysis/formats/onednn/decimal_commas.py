"""Times that oneDNN printed with decimal commas, as printf does in many locales: they look like one more field of a line.

    mkldnn_verbose,exec,convolution,...,alg:convolution_direct,mb48_ic48oc192_...,9,4747

A line has such a time if, without its last two fields, it is a whole description that ends in a problem, and they are whole
numbers as "%g" prints them: at most six digits, the last of which is not 0. A program prints all its times in one locale, so a
stream in which any time has a decimal point has none with a comma.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.onednn import primitive

_STAMP = rf"^({stream.ONEDNN_START}(?:v\d+,)?\d{{1,13}})"
_POINT = rf"{_STAMP}\.\d|^{stream.ONEDNN_START}.*(?:exec|create)[\w:]*,.*,\d+\.\d*(?:e[-+]?\d+)?\s*$"
_COMMA = (
    rf"^{stream.ONEDNN_START}(?:v\d+,)?(?:\d+,){{0,2}}(?:primitive,)?(?:exec|create[\w:]*),"
    r"(?P<body>.*),(?P<whole>\d{1,12}),(?P<fraction>\d*[1-9](?:e[-+]?\d+)?)\s*$"
)
_TIME = r",(\d{1,12}),(\d+(?:e[-+]?\d+)?)\s*$"
_PARTITION = rf"^{stream.ONEDNN_START}.*graph,exec,.*,[^,]*[^,\d][^,]*{_TIME}"
_HEAD = 1000  # lines that nearly always tell
_DIGITS = 6  # that "%g" prints


def with_points(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the library's lines, as returned by stream.split, with a decimal point for each decimal comma."""
    strings = stream.strings_of(lines["text"])
    if any(_have(part, _POINT) for part in (strings.slice(0, _HEAD), strings)):
        return lines
    timed = with_comma(strings)
    if not timed.any():
        return lines
    timed |= np.asarray(pc.match_substring_regex(strings, pattern=_PARTITION), dtype=bool)
    pointed = pc.replace_substring_regex(strings, pattern=_TIME, replacement=r",\1.\2")
    result = pc.if_else(pa.array(timed), pointed, strings)
    result = pc.replace_substring_regex(result, pattern=rf"{_STAMP},(\d+),", replacement=r"\1.\2,")
    return lines.assign(text=pd.Series(result.to_pandas(), dtype="string", index=lines.index))


def with_comma(strings: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    """Return which lines, taken alone, end in a time with a decimal comma."""
    fields = stream.extract(strings, _COMMA)
    found = fields["body"].notna().to_numpy(dtype=bool)
    codes, distinct = pd.factorize(fields["body"][found])
    described = np.array([_is_whole(str(body)) for body in distinct], dtype=bool)
    digits = fields["whole"][found] + fields["fraction"][found].str.replace(r"e.*", "", regex=True)
    result = np.zeros(len(strings), dtype=bool)
    result[found] = described[codes] & (digits.str.lstrip("0").str.len() <= _DIGITS).to_numpy(dtype=bool)
    return result


def _is_whole(body: str) -> bool:
    """Return whether a description is whole: it ends in a problem."""
    problem = primitive.describe(body)["problem"]
    return problem is not None and primitive.PROBLEM.fullmatch(problem) is not None


def _have(strings: pa.Array[Any], pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(strings, pattern=pattern)).as_py())
