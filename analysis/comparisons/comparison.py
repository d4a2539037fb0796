"""Several runs of the same work side by side: one plain-data result that reports draw and compare.json holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from kernelscope.analysis import energy
from kernelscope.analysis.accounting import breakdowns as tables
from kernelscope.analysis.accounting import fairness, levels
from kernelscope.analysis.accounting import partition as parts
from kernelscope.analysis.accounting.statistics import interval_of_median, mean_step_ns, paired_difference, window_means
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import again, sides
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.recordings.run import PassData, Run
from kernelscope.analysis.trace import KINDS, PHASES, PROFILE, Trace
from kernelscope.analysis.trace.notebook import Shown

SCHEMA = "kernelscope/compare/1"
RESULTS = 7  # raise it when the same recordings give other results: stored comparisons are then made again
INSTRUMENTATION = "(profiling overhead)"
KERNELS_SHOWN = 25
_OTHER = {"phase": "other", "library": "(no library)"}  # for cells without one


def compare(runs: list[Run], left_out: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """Compare runs of one network, mode and batch; raise EvidenceError if they did not do the same work.

    left_out: sides that could not take part, as {"framework", "reason"}. Sides are identified by their labels, which every
    "framework" here holds; `framework_of` gives the framework of each. All times are integer ns per step. In `layers`, `kinds`
    and `cells` (both, by library), each side's column adds up to its clean step; the row (profiling overhead) is minus what the
    kernels pass took longer.
    """
    _same_work(runs)
    traces = {run.name: run.trace() for run in runs}
    partitions = {name: parts.partition(trace) for name, trace in traces.items()}
    first = runs[0].record
    options = first["options"]
    result = {
        "schema": SCHEMA,
        "network": (network := _network(first)),
        "mode": options["mode"],
        "batch": options["batch"],
        "device": options["device"],
        "device_count": options.get("devices", 1),
        "threads": options["threads"],
        "conditions": first["conditions"],
        "recorder": first.get("recorder"),
        "machine": first["machine"],
        "busy": _busy(runs),
        "command": first["command"],
        "kernelscope": first["kernelscope"],
        "created": first["created"],
        "results": RESULTS,
        "frameworks": [run.name for run in runs],
        "framework_of": {run.name: run.framework for run in runs},
        "left_out": left_out or [],
        "summary": (summary := summaries(runs)),
        "explanations": explanations(runs, [row["step_median_ns"] for row in summary]),
        "layers": _side_by_side(runs, traces, partitions, ["layer", "phase"], _layer_order(network)),
        "kinds": _side_by_side(runs, traces, partitions, ["kind"], {kind: rank for rank, kind in enumerate(KINDS)}),
        "cells": _side_by_side(runs, traces, partitions, ["layer", "phase", "kind", "library"], _layer_order(network)),
        "kernels": {name: _kernels(partitions[name], trace) for name, trace in traces.items()},
        "lines": {name: _lines(trace) for name, trace in traces.items()},
        "fairness": _fairness(runs),
        "passes": [row for run in runs for row in _passes(run, partitions[run.name])],
        "diagnostics": {name: trace.diagnostics for name, trace in traces.items()},
        "methods": {run.name: _methods(run, traces[run.name]) for run in runs},
        "settings": {run.name: run.record.get("settings", {}) for run in runs},
        "versions": {run.name: run.record.get("versions", {}) for run in runs},
    }
    return Shown(result)


def _methods(run: Run, trace: Trace) -> dict[str, str]:
    """Return how a run's layers and phases were found, and what its layers pass left out."""
    left_out = [data.report["left_out"]["text"] for data in run.passes("layers") if data.report.get("left_out")]
    covered = {"coverage of layers": trace.info["coverage_of"]} if trace.info.get("coverage_of") else {}
    return {**run.kernels_pass().report.get("methods", {}), **covered, **({"layers pass": left_out[0]} if left_out else {})}


def explanations(runs: list[Run], step_ns: list[int]) -> list[dict[str, Any]]:
    """Return why each run is slower than the fastest one, slowest first (see analysis.explain); empty for a single run.

    step_ns: of each run.
    """
    order = sorted(range(len(runs)), key=lambda number: step_ns[number])
    explained = {number: sides.of_run(runs[number]) for number in order} if len(runs) > 1 else {}
    return [explain(explained[order[0]], explained[number]) for number in reversed(order[1:])]


def _busy(runs: list[Run]) -> dict[str, float] | None:
    """Return how many cores other processes kept busy during the runs, on average; None if unknown, or few."""
    known = [cores for cores in map(core_use.foreign_of_run, runs) if cores is not None]
    cores = (runs[0].record["machine"] or {}).get("allowed_threads")
    return core_use.others(sum(known) / len(known) if known else None, cores)


def _same_work(runs: list[Run]) -> None:
    if not runs:
        raise EvidenceError("nothing to compare: no framework's run finished")
    profiled = all(again.recorded_by(run.record) == PROFILE for run in runs)  # a script's name says nothing about its work
    for name in ("mode", "batch", "device") if profiled else ("network", "mode", "batch", "device"):
        values = {str(run.record["options"][name]) for run in runs}
        if len(values) > 1:
            raise EvidenceError(f"the runs differ in {name} ({', '.join(sorted(values))}); compare runs of the same work")


def summaries(runs: list[Run]) -> list[dict[str, Any]]:
    """Return one row per run from its clean pass: step time, throughput, memory, processor use; null if unknown.

    step_median_ns and step_quartiles_ns are over windows (see statistics.window_means), step_mean_ns is over all steps.
    """
    rows = [_summary(run) for run in runs]
    fastest = min(range(len(rows)), key=lambda number: int(rows[number]["step_median_ns"]))
    base = [data.measured for data in runs[fastest].passes("clean")]
    for run, row in zip(runs, rows, strict=True):
        row["ratio"] = row["step_median_ns"] / rows[fastest]["step_median_ns"]
        row.update(_slower(run, base) if run is not runs[fastest] else {"slower_ns": 0})
    return rows


def _slower(run: Run, base: list[pd.DataFrame]) -> dict[str, Any]:
    """Return how much slower a run is than the fastest, from paired windows, and the smallest difference that could be seen."""
    difference = paired_difference([data.measured for data in run.passes("clean")], base)
    if difference is None:
        return {"slower_ns": None}
    return {
        "slower_ns": difference.median_ns,
        "slower_interval_ns": difference.interval_ns,
        "significant": difference.significant,
        "detection_limit_ns": difference.detection_limit_ns,
    }


def _summary(run: Run) -> dict[str, Any]:
    repeats = run.passes("clean")
    if not repeats:
        raise EvidenceError(f"{run.path}: no clean pass finished; run it again")
    steps = pd.concat([data.measured for data in repeats], ignore_index=True)
    restarts = [window_means(data.measured) for data in repeats]
    quartiles = pd.concat(restarts).quantile([0.25, 0.5, 0.75])
    median = round(float(quartiles.loc[0.5]))
    peaks = [data.report.get("memory", {}).get("peak_resident_bytes") for data in repeats]
    return {
        "framework": run.name,
        "version": run.record.get("version"),
        "complete": run.complete,
        "step_median_ns": median,
        "step_mean_ns": mean_step_ns(steps),
        "step_quartiles_ns": [round(float(quartiles.loc[0.25])), round(float(quartiles.loc[0.75]))],
        "step_interval_ns": interval_of_median([data.measured for data in repeats]),
        "repeat_medians_ns": [round(float(means.median())) for means in restarts],
        "steps": len(steps),
        "repeats": len(repeats),
        "settled": all(data.report.get("warmup", {}).get("settled") for data in repeats),
        "samples_per_s": batch / (median / 1e9) if (batch := run.record["options"]["batch"]) else None,
        "lines_of_code": (run.check() or {}).get("lines_of_code"),
        "peak_resident_bytes": max((peak for peak in peaks if peak), default=None),
        "processor_ns": _mean(steps["user_ns"] + steps["system_ns"]),
        "system_ns": _mean(steps["system_ns"]),
        "minor_faults": _mean(steps["minor_faults"]),
        "voluntary_switches": _mean(steps["voluntary_switches"]),
        "involuntary_switches": _mean(steps["involuntary_switches"]),
        **_sampled(pd.concat([data.samples() for data in repeats], ignore_index=True)),
        **energy.of_step(run),
    }


def _mean(values: pd.Series[int]) -> float | None:
    return float(values.mean()) if values.notna().any() else None


def _sampled(samples: pd.DataFrame) -> dict[str, Any]:
    """Return the means of samples in the clean windows: per-core utilisation, and per GPU the readings of NVML."""
    cores = samples[samples["metric"] == "core_busy"].groupby("core")["value"].mean()
    result: dict[str, Any] = {"cores_busy": [round(float(value), 4) for value in cores] or None}
    for metric in ("gpu_power_w", "gpu_utilisation", "gpu_memory_bytes", "gpu_temperature_c", "gpu_sm_clock_hz"):
        values = samples[samples["metric"] == metric]["value"]
        result[metric] = float(values.mean()) if len(values) else None
    return result


def _network(record: dict[str, Any]) -> dict[str, Any]:
    """Return the network as the run describes it; for a profiled script, what was seen of its model."""
    if record.get("network"):
        return dict(record["network"])
    model = record.get("model") or {}
    name = record["options"]["network"]
    return {"name": name, "title": model.get("title"), "parameters": model.get("parameters"), "layers": model.get("layers", [])}


def _layer_order(network: dict[str, Any]) -> dict[str, int]:
    return {layer["name"]: rank for rank, layer in enumerate(network["layers"])}


def _side_by_side(
    runs: list[Run], traces: dict[str, Trace], partitions: dict[str, parts.Partition], keys: list[str], order: dict[str, int]
) -> list[dict[str, Any]]:
    """Return rows of `keys` with each framework's ns per step and its ratio to the fastest framework that has the row."""
    columns = {}
    for run in runs:
        partition = partitions[run.name]
        cells = partition.cells.assign(layer=tables.layer_labels(partition.cells), kind=tables.kind_labels(partition.cells))
        column = cells.fillna(_OTHER).groupby(keys)["time_ns"].sum()
        clean_ns = traces[run.name].info["clean_step_ns"]
        extra = tuple(_OTHER.get(key, INSTRUMENTATION) for key in keys)
        column.loc[extra if len(keys) > 1 else extra[0]] = clean_ns - partition.step_ns
        columns[run.name] = column
    table = pd.DataFrame(columns)
    rows = [
        _row(key if isinstance(key, tuple) else (key,), keys, values)
        for key, values in zip(table.index, table.to_dict("records"), strict=True)
    ]
    phases = {phase: place for place, phase in enumerate((*PHASES, levels.OUTSIDE_OF_STEPS))}  # others come last
    last = len(order)
    return sorted(
        rows,
        key=lambda row: (
            order.get(row[keys[0]], last + (row[keys[0]] == INSTRUMENTATION)),
            phases.get(row["phase"], len(phases)) if "phase" in row else 0,
        ),
    )


def _row(key: tuple[Any, ...], keys: list[str], values: dict[Any, Any]) -> dict[str, Any]:
    times = {name: None if pd.isna(value) else int(value) for name, value in values.items()}
    positive = [value for value in times.values() if value is not None and value > 0]
    fastest = min(positive) if len(positive) > 1 and key[0] != INSTRUMENTATION else None
    ratios = {name: value / fastest if value and fastest else None for name, value in times.items()}
    return {**dict(zip(keys, key, strict=True)), "time_ns": times, "ratio": ratios}


def _kernels(partition: parts.Partition, trace: Trace) -> list[dict[str, Any]]:
    """Return the kernels with the most time, and the sum of the rest."""
    rows = tables.kernels(partition, trace).as_dict()["rows"]
    computing = [row for row in rows if row["library"] is not None]
    shown, rest = computing[:KERNELS_SHOWN], computing[KERNELS_SHOWN:]
    if rest:
        other = {name: sum(row[name] for row in rest) for name in ("count", "duration_ns", "time_ns", "share")}
        shown.append({"kernel": f"({len(rest)} more)", **other})
    return shown


def _lines(trace: Trace) -> dict[str, Any]:
    try:
        return tables.breakdown(trace, "line").as_dict()
    except EvidenceError as error:
        return {"unavailable": str(error), "rows": []}


def _fairness(runs: list[Run]) -> dict[str, Any]:
    checks = {run.name: run.check() for run in runs}
    return fairness.check(checks, runs[0].record.get("network") or {"parameters": 0, "layers": []}).as_dict()


def _passes(run: Run, partition: parts.Partition) -> list[dict[str, Any]]:
    """Return, for each pass, its median step next to the clean one's: the cost of measuring."""
    clean = _step_time(run.passes("clean"))
    coverage: Callable[[str], float] = lambda by: tables.of_cells(partition, by, {}).coverage  # noqa: E731
    rows = []
    for name in ("clean", "layers", "kernels", "lines"):
        row: dict[str, Any] = {"framework": run.name, "pass": name, "step_median_ns": None}
        result = [run.kernels_pass()] if name == "kernels" else run.passes(name)
        if result:
            median = _step_time(result)
            faults = pd.concat([data.measured["minor_faults"] for data in result])
            row.update(step_median_ns=round(median), overhead=median / clean - 1.0, minor_faults=_mean(faults))
        else:
            row["reason"] = run.record.get("passes", {}).get(name, {}).get("reason", "not recorded")
        if name == "kernels":
            row.update(layer_coverage=coverage("layer"), kind_coverage=coverage("kind"), measured_steps=len(partition.steps))
        rows.append(row)
    return rows


def _step_time(repeats: list[PassData]) -> float:
    """Return a pass's step time in ns: the median over all windows."""
    return float(pd.concat([window_means(data.measured) for data in repeats]).median())
