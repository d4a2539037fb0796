"""Numbers for reading. Unknown values are shown as unknown, never as 0.

Durations are given in nanoseconds. Bytes have decimal prefixes (1 MB is 1,000,000 B), as in the rest of the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelscope.analysis.accounting.amounts import NS_PER as NS_PER
from kernelscope.analysis.accounting.amounts import UNKNOWN as UNKNOWN
from kernelscope.analysis.accounting.amounts import Number as Number
from kernelscope.analysis.accounting.amounts import common_unit as common_unit
from kernelscope.analysis.accounting.amounts import duration as duration
from kernelscope.analysis.accounting.amounts import known as known
from kernelscope.analysis.accounting.amounts import significant
from kernelscope.analysis.accounting.amounts import size as size

TIMES = "\u00d7"  # the multiplication sign


def in_unit(ns: Number | None, unit: str, decimals: int = 2) -> str:
    """Return ns in `unit` without its name, for a column whose heading has it: 12.34; "<0.01" if it would round to 0."""
    if not known(ns):
        return UNKNOWN
    value = ns / NS_PER[unit]
    least = 10.0**-decimals
    if value and abs(value) < least / 2:
        return f"<{least:.{decimals}f}" if value > 0 else f">-{least:.{decimals}f}"
    return f"{value:,.{decimals}f}"


def signed(ns: Number | None) -> str:
    """Return a difference with its sign: +4.31 ms, -215 µs."""
    if not known(ns):
        return UNKNOWN
    return ("+" if ns > 0 else "-" if ns < 0 else "±") + duration(abs(ns))


def interval(ends: Iterable[Number] | None) -> str:
    """Return a pair of ns in one unit: 4.10 to 4.52 ms."""
    pair = list(ends) if ends is not None else []
    if len(pair) != 2 or not all(known(end) for end in pair):
        return UNKNOWN
    unit = common_unit([max(pair, key=abs)])
    low, high = (significant(end / NS_PER[unit]) for end in pair)
    return f"{low} to {high} {unit}"


def decimals_for(values: Iterable[Number | None], unit: str) -> int:
    """Return the number of decimals of a column of ns, so that small rows stay visible beside large ones."""
    largest = max((abs(value) for value in values if known(value)), default=0) / NS_PER[unit]
    return 0 if unit == "ns" else 2 if largest >= 10 else 3


def rounded_together(values: Sequence[int], step: int) -> list[int]:
    """Return ns as multiples of `step` that add up to the rounded sum: the largest remainders are rounded up, the others down."""
    down = [value // step * step for value in values]
    short = (round_half_up(sum(values), step) - sum(down)) // step
    places = sorted(range(len(values)), key=lambda place: down[place] - values[place])
    for place in places[:short]:
        down[place] += step
    return down


def round_half_up(value: int, step: int) -> int:
    """Return the multiple of `step` nearest to `value`; halves are rounded away from zero."""
    nearest = (2 * abs(value) + step) // (2 * step) * step
    return nearest if value >= 0 else -nearest


def ratio(value: Number | None, decimals: int = 2) -> str:
    """Return a ratio with a multiplication sign: 1.00, 12.3, 152; with one decimal 1.0, 12, >999."""
    if not known(value):
        return UNKNOWN
    if decimals == 1:
        return (">999" if value >= 999.5 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}") + TIMES
    return significant(value) + TIMES


def percent(value: Number | None, decimals: int = 1) -> str:
    """Return a share of 1 as a percentage: 93.4%; "<0.1%" if it would round to 0."""
    if not known(value):
        return UNKNOWN
    least = 10.0**-decimals
    if value and abs(value) * 100 < least / 2:
        return f"<{least:.{decimals}f}%"
    return f"{value * 100:.{decimals}f}%"


def overhead(value: Number | None) -> str:
    """Return a relative difference with its sign: +3.1%."""
    return f"{value * 100:+.1f}%" if known(value) else UNKNOWN


def count(value: Number | None) -> str:
    """Return a count with separators: 12,345; small means have one decimal: 3.4."""
    if not known(value):
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:,.1f}"


def counted(value: Number | None, noun: str) -> str:
    """Return a count with its noun: 1 step, 12 steps."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def rate(value: Number | None) -> str:
    """Return a rate per second with three or more significant digits: 15,600, 48.2."""
    return significant(value) if known(value) else UNKNOWN


def energy(uj: Number | None) -> str:
    """Return microjoules in a suitable unit with three significant digits: 4.31 mJ."""
    if not known(uj):
        return UNKNOWN
    unit, size = _joules(abs(uj))
    return f"{significant(uj / size)} {unit}" if uj else "0 J"


def energy_interval(low: Number | None, high: Number | None) -> str:
    """Return two energies in one unit: 4.10 to 4.52 mJ; "up to" or "from" if only one end is known."""
    if not known(high):
        return f"from {energy(low)}" if known(low) else UNKNOWN
    if not known(low):
        return f"up to {energy(high)}"
    unit, size = _joules(max(abs(low), abs(high)))
    return f"{significant(low / size)} to {significant(high / size)} {unit}"


def watts(value: Number | None) -> str:
    """Return a power: 312 W."""
    return f"{significant(value)} W" if known(value) else UNKNOWN


def _joules(uj: Number) -> tuple[str, int]:
    """Return the largest unit in which these microjoules are at least 1, and its size in microjoules."""
    return next(((unit, size) for unit, size in (("kJ", 10**9), ("J", 10**6), ("mJ", 10**3)) if uj >= size), ("µJ", 1))
