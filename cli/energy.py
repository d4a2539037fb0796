"""Show how many joules a step takes, and which layers take them: of runs that were recorded with --energy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kernelscope.cli.output import FORMATS

NAME = "energy"
HELP = "joules per step, sample, layer and kind"
BY = ("step", "layer", "kind", "both")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders that `run --energy` or `compare --energy` wrote")
    parser.add_argument("--by", choices=BY, default="step", help="what makes a row; both: layer and kind (default: step)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print one table of all runs."""
    from kernelscope.analysis import archives
    from kernelscope.analysis.run import Run
    from kernelscope.cli.output import write_rows

    found = [Run(Path(path)) for path in arguments.runs]
    alike = len({run.name for run in found}) < len(found)
    names = [archives.named(str(run.path)) if alike else run.name for run in found]
    rows, notes = _steps(found, names) if arguments.by == "step" else _layers(found, names, arguments.by)
    read = arguments.format in ("table", "markdown")
    title = (
        "Energy per step" if arguments.by == "step" else f"Energy of a step by {arguments.by.replace('both', 'layer and kind')}"
    )
    write_rows([_shown(row) for row in rows] if read else rows, arguments.format, title, "energy")
    if read:
        print("\n".join(notes))
    return 0


def _steps(runs: list[Any], names: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    from kernelscope.analysis import energy

    found = [(name, summary) for name, run in zip(names, runs, strict=True) for summary in energy.steps(run)]
    unsteady = {name for name, summary in found if summary.steady is False}
    notes = ["Intervals: 95%, over windows; bounds: by the counter's updates alone. The instrument's own error is in neither."]
    notes += [f"{name}: temperature or power had not settled when measuring began" for name in sorted(unsteady)]
    return [{"run": name, **summary.as_dict()} for name, summary in found], notes


def _layers(runs: list[Any], names: list[str], by: str) -> tuple[list[dict[str, Any]], list[str]]:
    from kernelscope.analysis import energy

    rows, notes = [], []
    for name, run in zip(names, runs, strict=True):
        found = energy.layers(run, by)
        plain = found.rows.astype(object).where(found.rows.notna(), None)
        rows += [{"run": name, **{str(key): value for key, value in row.items()}} for row in plain.to_dict("records")]
        averaged = " or ".join(f"{value / 1e6:g}" for value in found.facts["averaged_ns"]) or "one update's"
        notes.append(
            f"{name}: {found.facts['samples']} power samples, each the mean of {averaged} ms; samples and counter agree to"
            f" {abs(found.facts['gain'] - 1):.1%}; rows add up to the step's energy exactly"
        )
    if by == "layer":
        notes.append("replay: the layer alone, for one step and without idle power; to compare with energy less idle")
    return rows, notes


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for reading: energies with their unit, intervals in one column."""
    from kernelscope.reports import units

    shown: dict[str, Any] = {}
    for key, value in row.items():
        stem = key.removesuffix("_uj")
        if key == "step_ns" or key == "time_ns":
            shown["step" if key == "step_ns" else "time"] = units.duration(value)
        elif key == "update_ns":
            shown["counter's update"] = units.duration(value)
        elif key.endswith("low_uj") or key == "least_uj":
            high = row["most_uj" if key == "least_uj" else key.replace("low", "high")]
            name = {"low": "interval", "net_low": "net interval", "least": "bounds", "replay_low": "replay interval"}[stem]
            shown[name] = units.energy_interval(value, high)
        elif key.endswith("_uj") and not key.endswith("high_uj") and key != "most_uj":
            shown[stem.replace("_", " ")] = units.energy(value)
        elif key in ("power_w", "idle_w"):
            shown[key.removesuffix("_w").replace("power", "mean power") if key == "power_w" else "idle power"] = units.watts(
                value
            )
        elif not key.endswith(("_uj", "_w")):
            shown[key] = value
    return shown
