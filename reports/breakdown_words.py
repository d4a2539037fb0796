"""Words and numbers of a breakdown for every renderer: what it covers, what its rows add up to, and what their columns show.

A breakdown is plain data, as `Breakdown.as_dict` returns it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.kernels import short_names
from kernelscope.analysis.recordings.run import WHOLE
from kernelscope.reports import content, units

_APART = 0.005  # of a step: a smaller difference between host and device steps is not mentioned
RATE = "gflops_per_s"
EXECUTIONS = {  # of kernels
    "mean_ns": "average", "median_ns": "median", "min_ns": "shortest", "max_ns": "longest", RATE: "GFLOP/s",
}  # fmt: skip
_LONGEST = 3  # kernels that are named
_OVERLAP = 1.05  # kernels overlap if their durations sum to more than this times the busy time


def by(breakdown: Mapping[str, Any]) -> str:
    """Return what a row of a breakdown is, in words: by layer, by kernel in each layer, by kernel and problem."""
    if breakdown.get("group"):
        return f"by {' and '.join(breakdown['group'])}"
    if breakdown["by"] == "layer-kernel":
        return "by kernel in each layer"
    if of_functions(breakdown) and breakdown["by"] in ("kernel", "range"):
        return "by function" if breakdown["by"] == "kernel" else "by function with what it calls"
    rows = breakdown["rows"] if breakdown["by"] == "kernel" else []
    problems = {(row["kernel"], row["problem"]) for row in rows if row.get("kernel") and row.get("problem")}
    several = len({kernel for kernel, _ in problems}) < len(problems)
    return f"by {breakdown['by']}{' and problem' if several else ''}"


def of_functions(breakdown: Mapping[str, Any]) -> bool:
    """Return whether what stands in the place of kernels are functions of Python: cProfile knows nothing else."""
    return breakdown.get("counted") == "functions"


def noun(breakdown: Mapping[str, Any], key: str) -> str:
    """Return the title of the column with a key: functions do not stand below "kernel" or "range"."""
    return "function" if of_functions(breakdown) and key in ("kernel", "range") else key


def known(breakdown: Mapping[str, Any]) -> str:
    """Return a breakdown's coverage, as in "layer known for 99.3%"; "" for kernels and kinds if nothing is unknown.

    Tables of kernels and kinds have rows for time without either, so they say instead how much is unknown.
    """
    key = {"layer-kernel": "layer", "idle": "cause"}.get(breakdown["by"], breakdown["by"])
    coverage = breakdown["coverage"]
    unknown = units.percent(1 - coverage)
    if key == "kernel" and breakdown["step_ns"] is not None:
        if (idle := _idle(breakdown)) is not None:
            return f"the device is idle for {units.percent(idle)} of it" if idle else ""
        return f"no kernel, operator or range was recorded for {unknown} of it" if coverage < 1 else ""
    if of_functions(breakdown) and key in ("kernel", "kind"):
        return ""
    if key == "range" and of_functions(breakdown):
        return "rows overlap: each time includes what the function calls"
    if key == "range" and breakdown["window"] == "totals":
        return "ranges may be nested, and then add up to more than the whole"
    if key in ("kernel", "kind"):  # for totals, rows are kernels
        return f"{unknown} of it of unknown kind" if coverage < 1 else ""
    return f"{key} known for {units.percent(coverage)}"


def _idle(breakdown: Mapping[str, Any]) -> float | None:
    """Return the share of a capture in which its device is idle, if only device work was recorded; else None."""
    totals = breakdown.get("totals") or {}
    on_host = [totals.get(name) for name in ("known_operator_ns", "known_range_ns", "known_layer_ns")]
    busy, wall = totals.get("device_busy_ns"), totals.get("wall_ns")
    if any(on_host) or not totals.get("kernel_sum_ns") or not busy or not wall or busy > wall:
        return None
    return float(1 - busy / wall)


def breakdown_of(breakdown: Mapping[str, Any]) -> list[str]:
    """Return what a breakdown covers, in parts: framework, network and mode of a run, or the tool that recorded a capture."""
    source = breakdown.get("source") or {}
    tool = " ".join(str(source[key]) for key in ("tool", "version") if source.get(key))
    run = (breakdown.get("framework"), breakdown.get("network_name"), content.mode(breakdown.get("mode")))
    return [str(part) for part in (tool, *run) if part]


def whole(breakdown: Mapping[str, Any]) -> str:
    """Return what a breakdown's rows add up to, in words."""
    on_timeline = any("host_ns" in row for row in breakdown["rows"][:1])
    if breakdown["by"] == "line" and breakdown.get("source") and not on_timeline:
        return "profiled function"
    if breakdown.get("inside"):
        return f"range {breakdown['inside']}"
    step = "program" if breakdown.get("mode") == WHOLE else "step"
    totals = "the whole" if of_functions(breakdown) else "sum of durations"
    return {"totals": totals, "capture": "capture"}.get(str(breakdown.get("window")), step)


def whole_ns(breakdown: Mapping[str, Any]) -> int:
    """Return what a breakdown's rows add up to: the wall time or, for totals, the sum of durations."""
    if breakdown.get("step_ns") is not None:
        return int(breakdown["step_ns"])
    if breakdown["by"] == "range" and of_functions(breakdown) and (breakdown.get("totals") or {}).get("kernel_sum_ns"):
        return int(breakdown["totals"]["kernel_sum_ns"])
    return sum(int(row["duration_ns"]) for row in breakdown["rows"])


def row_ns(row: Mapping[str, Any]) -> int:
    """Return a row's part of the whole: its share of the wall time or, for totals, its durations."""
    return int(row["duration_ns"] if row["time_ns"] is None else row["time_ns"])


def kernels_apart(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what distinguishes kernels of the same short name (see short_names.apart), by their full names."""
    return short_names.apart(str(row["kernel"]) for row in rows if row.get("kernel"))


def added_up(breakdown: Mapping[str, Any]) -> str:
    """Return which kernels take longest over all of their rows, if the rows do not show it; else ""."""
    if (known := breakdown.get("added_up")) is not None:  # computed before rows were left out
        return str(known)
    rows = [row for row in breakdown["rows"] if breakdown["by"] == "kernel" and row.get("mean_ns") is not None]
    times: dict[str, list[int]] = {}
    for row in rows:
        times.setdefault(short_names.short(row["kernel"]), []).append(row_ns(row))
    longest = sorted(times, key=lambda name: -sum(times[name]))[:_LONGEST]
    if not longest or short_names.short(rows[0]["kernel"]) == longest[0] or len(times[longest[0]]) == 1:
        return ""
    named = [f"{name} {units.duration(sum(times[name]))} in {units.counted(len(times[name]), 'row')}" for name in longest]
    return f"most by name: {', '.join(named)}; --group kernel adds up the rows of each"


def overlaps(breakdown: Mapping[str, Any]) -> bool:
    """Return whether the durations of a whole capture's kernels add up to more than their share of the wall time."""
    timed = [row for row in breakdown["rows"] if row.get("mean_ns") is not None]
    times, durations = (sum(row[name] or 0 for row in timed) for name in ("time_ns", "duration_ns"))
    return breakdown.get("window") == "capture" and durations > _OVERLAP * times


def executions(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the columns of single executions that have a value in any row, with their titles."""
    return {key: title for key, title in EXECUTIONS.items() if any(row.get(key) is not None for row in rows)}


def each(breakdown: Mapping[str, Any], number: int | None) -> int | float | None:
    """Return one step's part of a sum over all steps; the sum itself in a table of steps, or without steps."""
    steps = 1 if breakdown["by"] == "step" else breakdown.get("steps") or 1
    return None if number is None else number // steps if number % steps == 0 else number / steps


def execution(row: Mapping[str, Any], key: str) -> str:
    """Return the text of a column of single executions."""
    value = row.get(key)
    if key != RATE:
        return units.duration(value)
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def rates(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how the operations of convolutions are counted, if rows have their rate; else ""."""
    if any(row.get(RATE) is not None and str(row.get("kind")).startswith("convolution") for row in rows):
        return "GFLOP/s of convolutions counts the direct method: with Winograd or FFT it can exceed the device's peak"
    return ""


def of_one_pass(breakdown: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table of host lines without what the lines pass measured in other steps: no table mixes two passes."""
    if not any(row.get("profiled_ns") is not None for row in breakdown["rows"]):
        return breakdown
    own = dict.fromkeys(("profiled_ns", "count", "duration_ns"))
    return {**breakdown, "rows": [{**row, **own} for row in breakdown["rows"]]}


def three_numbers(breakdown: Mapping[str, Any]) -> str:
    """Return three numbers that are often confused, per step if there are steps; "" if none is known."""
    steps = breakdown.get("steps") or 1
    totals = {name: ns / steps for name, ns in (breakdown.get("totals") or {}).items()}
    named = {"kernel_sum_ns": "sum of kernel times", "kernel_busy_ns": "some kernel running", "wall_ns": "wall"}
    if of_functions(breakdown):
        named["kernel_sum_ns"] = "functions' own times add up to"
    if totals.get("kernel_sum_ns") == 0 and "wall_ns" in totals:
        return f"no kernels were recorded · wall {units.duration(totals['wall_ns'])}"
    if totals.keys() >= {"kernel_sum_ns", "kernel_busy_ns"} and totals["kernel_sum_ns"] > _OVERLAP * totals["kernel_busy_ns"]:
        named["kernel_busy_ns"] += " (several at once share the time)"
    text = " · ".join(f"{name} {units.duration(totals[key])}" for key, name in named.items() if key in totals)
    mean = f" in an iteration ({breakdown['iteration']})" if text and breakdown.get("iteration") else ""
    return text + mean + _marked(totals, bool(breakdown.get("inside")))


def _marked(totals: Mapping[str, float], of_range: bool) -> str:
    """Return how long the steps last on the host, if that differs from the device, which the breakdown counts."""
    wall, marked = totals.get("wall_ns"), totals.get("marked_ns")
    if not wall or marked is None or abs(wall - marked) < _APART * wall:
        return ""
    lasts = units.duration(marked)
    on_host = f"the range is open for {lasts}" if of_range else f"{lasts} between the steps' marks"
    return f" on the device, {on_host} on the host"
