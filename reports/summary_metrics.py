"""The rows of a comparison's summary as text: times, rates, memory, use of the machine, energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelscope.reports import units
from kernelscope.reports.content import Result, Row

_AGAINST_OTHERS = ("slower by", "ratio to fastest")


def cores(row: Row) -> str:
    """Return how busy each core was: a list of percentages, or mean and range if there are many cores."""
    busy: Sequence[float] | None = row.get("cores_busy")
    if not busy:
        return units.UNKNOWN
    if len(busy) <= 4:
        return ", ".join(f"{share * 100:.0f}%" for share in busy)
    mean = sum(busy) / len(busy)
    return f"{mean * 100:.0f}% ({min(busy) * 100:.0f} to {max(busy) * 100:.0f})"


def summary_metrics(result: Result) -> list[tuple[str, list[str]]]:
    """Return the summary as (metric, a text per framework in the result's order), without metrics that no framework has."""
    rows = {row["framework"]: row for row in result["summary"]}
    ordered = [rows[name] for name in result["frameworks"]]
    unit = units.common_unit(row["step_median_ns"] for row in ordered)
    decimals = units.decimals_for((row["step_median_ns"] for row in ordered), unit)
    table = [(f"{title}, {unit}", [_timed(value(row), unit, decimals) for row in ordered]) for title, value in _TIMES]
    table += [(title, [value(row) for row in ordered]) for title, value in _METRICS]
    if len(ordered) == 1:
        table = [line for line in table if not line[0].startswith(_AGAINST_OTHERS)]
    always = 3
    return [line for number, line in enumerate(table) if number < always or any(cell != units.UNKNOWN for cell in line[1])]


def _timed(value: object, unit: str, decimals: int) -> str:
    """Return a time in a unit; text stays as it is."""
    return value if isinstance(value, str) else units.in_unit(value if isinstance(value, int | float) else None, unit, decimals)


def _end(row: Row, name: str, number: int) -> object:
    pair = row.get(name)
    return pair[number] if pair else None


def _slower(row: Row) -> object:
    return "fastest" if row.get("ratio") == 1 else row.get("slower_ns")


def _scaled(value: float | None, scale: float, suffix: str) -> str:
    return f"{value * scale:,.0f} {suffix}" if units.known(value) else units.UNKNOWN


def _measured(row: Row) -> str:
    return f"{row['steps']} / {row['repeats']}"


# The summary's rows for reading: title and value in ns, then title and text
_TIMES: tuple[tuple[str, Callable[[Row], object]], ...] = (
    ("step, median of windows", lambda row: row["step_median_ns"]),
    ("1st quartile", lambda row: _end(row, "step_quartiles_ns", 0)),
    ("3rd quartile", lambda row: _end(row, "step_quartiles_ns", 1)),
    ("interval from", lambda row: _end(row, "step_interval_ns", 0)),
    ("interval to", lambda row: _end(row, "step_interval_ns", 1)),
    ("slower by", _slower),
    ("step, mean", lambda row: row["step_mean_ns"]),
    ("processor time", lambda row: row.get("processor_ns")),
    ("of it in the OS", lambda row: row.get("system_ns")),
)
_METRICS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("ratio to fastest", lambda row: units.ratio(row.get("ratio"))),
    ("samples per second", lambda row: units.rate(row.get("samples_per_s"))),
    ("peak memory", lambda row: units.size(row.get("peak_resident_bytes"))),
    ("lines of code", lambda row: units.count(row.get("lines_of_code"))),
    ("cores busy", cores),
    ("page faults", lambda row: units.count(row.get("minor_faults"))),
    ("waits", lambda row: units.count(row.get("voluntary_switches"))),
    ("preemptions", lambda row: units.count(row.get("involuntary_switches"))),
    ("steps / restarts", _measured),
    ("energy per step", lambda row: units.energy(row.get("energy_uj"))),
    ("energy interval", lambda row: units.energy_interval(*(row.get("energy_interval_uj") or (None, None)))),
    ("energy above idle", lambda row: units.energy(row.get("net_energy_uj"))),
    ("GPU power", lambda row: _scaled(row.get("gpu_power_w"), 1, "W")),
    ("GPU busy", lambda row: units.percent(row.get("gpu_utilisation"))),
    ("GPU memory", lambda row: units.size(row.get("gpu_memory_bytes"))),
    ("GPU temperature", lambda row: _scaled(row.get("gpu_temperature_c"), 1, "°C")),
    ("GPU clock", lambda row: _scaled(row.get("gpu_sm_clock_hz"), 1e-6, "MHz")),
)
