"""JSON numbers read from their text: exact where a double would round."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# up to 18 digits fit into int64; 16 digits of microseconds with three decimals do, up to the limit
_INTEGER = r'^"?(?P<whole>-?\d{1,18})(?:\.0*)?"?$'
_DECIMAL = r'^"?(?P<sign>-?)(?P<whole>\d{1,16})(?:\.(?P<part>\d*))?"?$'
_EXPONENT = r'^"?-?\d{1,40}(\.\d{1,40})?[eE][-+]?\d{1,3}"?$'
_FIVE, _MINUS = pa.scalar("5"), pa.scalar("-")
LIMIT = 4_000_000_000_000_000  # microseconds: 126 years, and the sum of two still fits into int64 nanoseconds


def integers(texts: Sequence[bytes]) -> tuple[Int, Bool]:
    """Return numbers or quoted numbers as (integers, valid): valid ones have no fraction except zeros, and at most 18 digits."""
    result = pc.extract_regex(_strings(texts), _INTEGER)
    whole = pc.struct_field(result, "whole").cast(pa.int64())
    return _filled(whole), _present(result)


def thousandfold(texts: Sequence[bytes]) -> tuple[Int, Bool]:
    """Return numbers or quoted numbers times 1000 as (integers, valid), half to even: microseconds become nanoseconds.

    Numbers beyond LIMIT in magnitude, NaN and texts that are not numbers are not valid.
    """
    strings = _strings(texts)
    parts = pc.extract_regex(strings, _DECIMAL)
    valid = _present(parts)
    whole = _filled(pc.struct_field(parts, "whole").cast(pa.int64()))
    part = pc.fill_null(pc.struct_field(parts, "part"), "")
    thousandths = _filled(pc.utf8_rpad(pc.utf8_slice_codeunits(part, 0, 3), 3, "0").cast(pa.int64()))
    value = whole * 1000 + thousandths
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(part, 3), "0")
    up = _mask(pc.greater(rest, _FIVE)) | (_mask(pc.equal(rest, _FIVE)) & (value % 2 == 1))
    value = np.where(valid, value + up, 0)
    negative = _mask(pc.equal(pc.struct_field(parts, "sign"), _MINUS))
    valid &= whole <= LIMIT
    value = np.where(negative, -value, value)
    other = np.flatnonzero(~_present(parts))
    exponents = other[_mask(pc.match_substring_regex(strings.take(other), _EXPONENT))]
    for row in exponents.tolist():  # no profiler writes exponents in many rows
        value[row], valid[row] = _exactly(strings[row].as_py().strip('"'))
    return np.where(valid, value, 0), valid


def _exactly(text: str) -> tuple[int, bool]:
    try:
        number = Decimal(text)
        if abs(number) > LIMIT:
            return 0, False
        return int((number * 1000).to_integral_value()), True
    except InvalidOperation:
        return 0, False


def _strings(texts: Sequence[bytes]) -> Any:
    try:
        return pa.array(texts, type=pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text.decode("utf8", "replace") for text in texts], type=pa.string())


def _present(result: Any) -> Bool:
    return np.asarray(pc.is_valid(result).to_numpy(zero_copy_only=False), dtype=bool)


def _mask(values: Any) -> Bool:
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), dtype=bool)


def _filled(values: Any) -> Int:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
