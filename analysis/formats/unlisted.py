"""The part of a summary's total that its rows lack: people cut lists short, and the remaining percentages reveal the total.

A row's time divided by its percentage gives the total, as precisely as the percentage is printed: the total lies where all rows
agree. How little of it they are does not matter: what was not printed may be most of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import UNLISTED

Floats = npt.NDArray[np.float64]

_WHOLE = 0.99  # of the total: rows that add up to this much are complete, as far as percentages show
_UNSURE = 0.05  # of the total: the largest error that rounding may leave in it
_FINEST = 1e-4  # percent: tools compute percentages in floating point
_MOST = 2.0**62  # ns
_DOTS = re.compile(r"[\s|()\[\].\u2026]*")


@dataclass(frozen=True)
class Unlisted:
    """kernels: one row for what was not printed, or none, of 0 executions, as their number is unknown.

    note: a remark on it, None if nothing is known to be missing.
    """

    kernels: pd.DataFrame = field(default_factory=pd.DataFrame)
    note: str | None = None


@dataclass(frozen=True)
class _Total:
    """The total in ns that follows from times and their percentages, and the bounds that rounding allows."""

    best: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return max(self.high - self.best, self.best - self.low)


def row(ns: int) -> pd.DataFrame:
    """Return a kernel for this much time (ns) in rows that were not printed; its kind and its executions are unknown."""
    return pd.DataFrame({"name": [UNLISTED], "kind": ["unknown"], "count": [0], "duration_ns": pd.array([ns], "Int64")})


def is_cut(line: str) -> bool:
    """Whether a line only says that others were cut out, as "(...)" does."""
    return (".." in line or "\u2026" in line) and _DOTS.fullmatch(line) is not None


def of(durations: pd.Series, percentages: pd.Series, step: int = 1, useless: int = 0) -> Unlisted:
    """Return the part of a section's total that its rows lack.

    durations: in ns; those that are null count as missing. percentages: as printed, each rounded to its last digit; step: the
    coarsest rounding of times, in ns. useless: how many further rows are there without usable values: they are missing, too.
    """
    known = durations.notna().to_numpy(bool)
    useless += int((~known).sum())
    durations, percentages = durations[known], percentages[known]
    shares = _numbers(percentages)
    if shares is None or not len(durations):
        return Unlisted()
    times = durations.to_numpy(dtype=np.float64)
    parts, halves = shares
    total, listed = _total(times, parts, halves, step) or _of_whole_percents(times, parts, step), times.sum()
    if total is None or not np.isfinite(total.high):
        share = float(parts.sum()) / 100
        return Unlisted(note=_part(share)) if 0 < share < _WHOLE else Unlisted()
    if listed >= _WHOLE * total.low:
        return Unlisted()
    if total.error > _UNSURE * total.best:
        return Unlisted(note=_part(listed / total.best))
    rest, beside = round(total.best - listed), f", and {useless:,} without a usable time," if useless else ""
    note = (
        f"the rows are {listed / total.best:.1%} of the time: by their percentages, rows that were not printed{beside} took "
        f"{_time(rest)} of {_time(total.best)} (\u00b1{_time(total.error)}, because percentages are rounded)"
    )
    return Unlisted(row(rest), note)


def _numbers(percentages: pd.Series) -> tuple[Floats, Floats] | None:
    """Return the percentages and half the rounding step of each; None if one is not a number from 0 to 100."""
    try:
        exact = [Decimal(str(text).strip().removesuffix("%")) for text in percentages]
    except InvalidOperation:
        return None
    if not all(number.is_finite() and 0 <= number <= 100 for number in exact):
        return None
    digits = np.array([min(float(number.as_tuple().exponent), 2.0) for number in exact])
    return np.array([float(number) for number in exact]), np.maximum(np.power(10.0, digits) / 2, _FINEST)


def _total(times: Floats, parts: Floats, halves: Floats, step: int) -> _Total | None:
    """Return the total that all rows agree on; None if they do not agree."""
    low = 100 * float(((times - step / 2) / (parts + halves)).max())
    rounded = parts > halves
    high = 100 * float(((times + step / 2)[rounded] / (parts - halves)[rounded]).min(initial=np.inf))
    if not 0 < low <= high or not parts.any():
        return None
    best = min(max(100 * float(times.sum() / parts.sum()), low), high)
    return _Total(best, low, high) if best < _MOST else None


def _of_whole_percents(times: Floats, parts: Floats, step: int) -> _Total | None:
    """Return the total if percentages that are all whole were rounded to whole ones: nsys 2020 prints 18.6 as 19.0."""
    whole = bool((parts == np.rint(parts)).all())
    return _total(times, parts, np.full(len(parts), 0.5), step) if whole else None


def _part(share: float) -> str:
    return f"the rows are {share:.1%} of the time by their percentages; the rest is in no table"


def _time(ns: float) -> str:
    unit, size = next(((unit, size) for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if ns >= size), ("ns", 1.0))
    return f"{ns / size:,.2f} {unit}"
