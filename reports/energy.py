"""Energy for reading: joules with units, intervals in one column, and notes on the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.reports import units

INTERVALS = "Intervals: 95%, over windows; bounds: from the counter's updates alone. Neither includes the instrument's own error."
REPLAY = "replay: the layer alone, for one step and without idle power; compare it with energy minus idle"
# the most important columns, if not all fit
FIRST = ("run", "energy", "interval", "net", "net interval", "time", "step", "sample", "mean power", "idle power")
_STARTS = {"low": "interval", "net_low": "net interval", "least": "bounds", "replay_low": "replay interval"}


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of energy per step, layer or kind for reading: energies with their unit, intervals in one column."""
    shown: dict[str, Any] = {}
    for key, value in row.items():
        stem = key.removesuffix("_uj")
        if key == "step_ns" or key == "time_ns":
            shown["step" if key == "step_ns" else "time"] = units.duration(value)
        elif key == "update_ns":
            shown["counter's update"] = units.duration(value)
        elif key.endswith("low_uj") or key == "least_uj":
            high = row["most_uj" if key == "least_uj" else key.replace("low", "high")]
            shown[_STARTS[stem]] = units.energy_interval(value, high)
        elif key.endswith("_uj") and not key.endswith("high_uj") and key != "most_uj":
            shown[stem.replace("_", " ")] = units.energy(value)
        elif key in ("power_w", "idle_w"):
            shown["mean power" if key == "power_w" else "idle power"] = units.watts(value)
        elif not key.endswith(("_uj", "_w")):
            shown[key] = value
    return shown


def of_samples(facts: Mapping[str, Any]) -> str:
    """Return the basis of a split by layer or kind (see analysis.energy.layers)."""
    averaged = " or ".join(f"{value / 1e6:g}" for value in facts["averaged_ns"]) or "one update's"
    return (
        f"{facts['samples']} power samples, each the mean of {averaged} ms; samples and counter agree to"
        f" {abs(facts['gain'] - 1):.1%}; rows add up to the step's energy exactly"
    )


def not_resolved(name: str, refused: int, rows: int) -> list[str]:
    """Return how to resolve rows that power samples do not resolve; empty if they resolve all."""
    if not refused:
        return []
    more = "another --batch changes the length of steps, so samples fall on other parts of them"
    return [f"{name}: {refused} of {rows} rows are not resolved; {more}; replays do not depend on samples"]
