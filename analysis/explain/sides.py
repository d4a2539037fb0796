"""One side of an explanation, from a run folder, an imported folder or a capture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import totals_cells
from kernelscope.analysis.accounting.levels import KEYS
from kernelscope.analysis.accounting.partition import Partition, partition
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.estimates import closest_half
from kernelscope.analysis.explain.instrumentation import LayerGroups, layer_groups
from kernelscope.analysis.explain.instrumentation import labels as labels_of
from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.explain.trace_layers import labels, layers_of
from kernelscope.analysis.recordings import archives, core_use, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.names import told_apart
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import PROFILE, Trace

MOST_WINDOWS = 24  # of a capture without turns: more do not improve its interval
_LONGEST_NAME = 24  # characters of a side's name in sentences
_LONGER = 1.5  # times the clean step: a layers pass costs less, so one that took longer was disturbed
_OF_LINES = (
    "; it is explained beside another result of line_profiler, and `kernelscope explain A.py B.py` records two scripts and "
    "compares them"
)
_RECORDED = (
    "framework", "version", "versions", "settings", "variables", "options", "machine", "noise", "conditions", "network",
    "recorder", "profiled",
)  # fmt: skip


def load(path: Path) -> Side:
    """Return the side in a run folder, an imported folder (both also packed) or a capture; raise EvidenceError for anything
    else.
    """
    path = archives.folder(path)
    trace = capture(path)
    return of_run(Run(path)) if trace is None else of_trace(trace, path.name or str(path), archives.named(str(path)))


def capture(path: Path) -> Trace | None:
    """Return the Trace of a capture or an imported folder; None for a run folder. Raises EvidenceError for anything else."""
    return None if kind_of(path) is Kind.RUN else reading.read(path)


def of_run(run: Run) -> Side:
    """Return a run's side: all repeats of its kernels pass, and the steps of its clean pass."""
    facts = {name: run.record.get(name) for name in _RECORDED}
    options = run.record["options"]
    facts.update(network_name=options["network"], mode=options["mode"], batch=options["batch"], created=run.record.get("created"))
    passes = run.passes("clean")
    if passes and passes[0].report.get("settings"):
        facts["settings"] = passes[0].report["settings"]  # those of the pass whose times are explained
    facts["compiled"] = passes[0].report.get("compiled") if passes else None
    facts["settled"] = (passes[0].report.get("warmup") or {}).get("settled") if passes else None
    main = run.trace()
    main = replace(main, info={**main.info, "network": run.record["network"], "modules": _modules(run)})
    side = _assembled(run.name, archives.named(str(run.path)), run.traces(), main, facts)
    side.clean, side.clean_ns, side.check = [data.measured for data in passes], run.clean_step_ns, run.check()
    if side.clean_ns is not None:
        side.grouped, side.layers_ns = layers_pass_of(run, side.clean_ns)
    facts["batches_by_workers"] = run.kernels_pass().report.get("batches_by_workers")
    side.missing = dict(run.record.get("unavailable", {}))
    side.facts["main_source"], side.sources = run.sources()
    side.foreign_cores = core_use.foreign_of_run(run)
    return side


def _modules(run: Run) -> list[dict[str, Any]]:
    """Return the modules of a user's own script, as its kernels pass describes them; empty for our own networks."""
    described = [data.report.get("network") for data in run.passes("kernels")]
    return next((list(network["layers"]) for network in described if network and not run.record["network"]), [])


def layers_pass_of(run: Run, clean_ns: int) -> tuple[LayerGroups, pd.Series[float] | None]:
    """Return which layers are one group in the layers pass (see Side), and the time of each; None if unknown."""
    result = run.layers_trace()
    if result is None:
        return {}, None
    grouped = layer_groups(result.info.get("left_out", {}))
    return grouped, _layers_ns(result, clean_ns, grouped)


def _layers_ns(trace: Trace, clean_ns: int, grouped: LayerGroups) -> pd.Series[float] | None:
    """Return the time of each layer and phase in the layers pass, over the half of its windows that is closest to the clean
    step.

    None if the pass knows neither layers nor phases, or took so much longer than the clean one that it says nothing about it.
    """
    windows = [partition for _, partition in _windows(trace)]
    wall = np.array([window.step_ns for window in windows], dtype=float)
    weights = closest_half(wall, clean_ns, np.ones(len(wall), dtype=np.int64))
    cells = pd.concat([window.cells.assign(part=window.cells["time_ns"] * w) for window, w in zip(windows, weights, strict=True)])
    if float(weights @ wall) > _LONGER * clean_ns:
        return None
    named = (cells["layer"].notna() | cells["phase"].isin(["data", "optimizer"])).to_numpy(bool)
    known = bool(grouped) or float(cells.loc[named, "part"].sum()) > 0.5 * cells["part"].sum()
    return cells.groupby(labels_of(cells, grouped))["part"].sum() if known else None


def of_trace(trace: Trace, name: str, path: str) -> Side:
    """Return the side of a single recording; raise EvidenceError if it holds no kernels, copies or steps."""
    facts = {"framework": trace.info.get("framework"), "devices": trace.info.get("devices"), **_stated(trace.info)}
    try:
        side = _assembled(name, path, [trace], trace, facts)
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {error}") from error
    side.missing = dict(trace.info.get("unavailable", {}))
    if not trace.has_timeline():
        side.missing["timeline"] = "totals only: what ran at the same time is not known, so durations are compared"
    if trace.steps.empty:
        side.missing["steps"] = "nothing in the capture says where a step ends and the next begins"
    return side


def _stated(info: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that a capture states about its work."""
    return {name: info[name] for name in ("network_name", "mode", "batch", "version", "source", "settings") if name in info}


def _assembled(name: str, path: str, traces: list[Trace], main: Trace, facts: dict[str, Any]) -> Side:
    """Combine the windows of several recordings of one side."""
    tables, windows = [], []
    for restart, trace in enumerate(traces, start=1):
        if not trace.has_timeline():
            cells = _totals(trace)
            windows.append((restart, 0, 1, int(cells["time_ns"].sum())))
            tables.append(cells.assign(window_row=len(windows) - 1))
            continue
        for window, one in _windows(trace):
            windows.append((restart, window, max(len(one.steps), 1), one.step_ns))
            tables.append(_per_step(one).assign(window_row=len(windows) - 1))
    cells = pd.concat(tables, ignore_index=True)
    if cells["layer"].isna().all():
        cells["layer"] = labels(cells)  # the only structure in such a capture
    columns = ["restart", "window", "steps", "wall_ns"]
    return Side(
        name=name, path=path, trace=main, windows=pd.DataFrame(windows, columns=columns), cells=cells, clean=[], clean_ns=None,
        layers=layers_of(main, cells), events=events_of(main), facts=facts,
    )  # fmt: skip


def _windows(trace: Trace) -> list[tuple[int, Partition]]:
    """Return the partition of every turn, or of groups of consecutive steps if the capture has no turns."""
    steps = trace.steps[~trace.steps["warmup"]]
    if steps.empty:
        return [(0, partition(trace))]
    if steps["window"].notna().all():
        number = steps["window"].astype("int64")
    else:
        rank = np.argsort(np.argsort(steps["start_ns"].to_numpy()))
        number = pd.Series(rank * min(len(steps), MOST_WINDOWS) // len(steps), index=steps.index)
    return [(int(window), partition(replace(trace, steps=mine))) for window, mine in steps.groupby(number)]


def _totals(trace: Trace) -> pd.DataFrame:
    """Return the cells of a source of totals: their summed durations stand for the time to explain."""
    cells = totals_cells(trace)
    if cells.empty:
        why = (trace.info.get("unavailable") or {}).get("kernels") or "there is nothing to compare with another capture"
        raise EvidenceError(f"it holds no kernels, copies or steps: {why}{_OF_LINES if len(trace.lines) else ''}")
    text = {key: "Int64" if key in ("m", "n", "k") else "string" for key in KEYS}
    return cells.astype({**text, "count": "float64", "duration_ns": "float64"}).assign(time_ns=cells["duration_ns"].astype(float))


def _per_step(partition: Partition) -> pd.DataFrame:
    """Return a partition's cells with count and duration_ns per step, like time_ns."""
    steps = max(len(partition.steps), 1)
    cells = partition.cells[[*KEYS, "time_ns"]].astype({"time_ns": "float64"})
    return cells.assign(count=partition.cells["count"] / steps, duration_ns=partition.cells["duration_ns"] / steps)


def events_of(trace: Trace) -> pd.Series[float]:
    """Return how many events were recorded per step and (layer, phase): operators, kernels and ranges; null counts as ""."""
    measured = trace.steps[~trace.steps["warmup"]]
    tables = [trace.operators[["layer", "phase", "start_ns"]], trace.kernels[["layer", "phase", "start_ns"]]]
    tables.append(trace.ranges[["layer", "phase", "start_ns"]])
    events = pd.concat([table.astype({"layer": "string", "phase": "string"}) for table in tables], ignore_index=True)
    if len(measured):
        first, last = measured["start_ns"].min(), measured["end_ns"].max()
        events = events[(events["start_ns"] >= first) & (events["start_ns"] < last)]
    counts = events.fillna({"layer": "", "phase": ""}).groupby(["layer", "phase"]).size()
    return counts / max(len(measured), 1)


def with_distinct_names(a: Side, b: Side) -> tuple[Side, Side]:
    """Return the sides with names that differ: their own, else those of their folders or files, else A and B.

    Names that would fill a sentence, such as file names, also become A and B.
    """
    if max(len(a.name), len(b.name)) > _LONGEST_NAME:
        return replace(a, name="A"), replace(b, name="B")
    if a.name != b.name:
        return a, b
    names = told_apart([Path(side.path) for side in (a, b)]) or ["A", "B"]
    return replace(a, name=names[0]), replace(b, name=names[1])


def same_work(a: Side, b: Side) -> list[str]:
    """Say how the work of two sides differs; empty if it is the same, as far as is known."""
    facts = [("network_name", "network"), ("mode", "mode"), ("batch", "batch")]
    result = []
    for fact, text in facts[1:] if are_scripts(a, b) else facts:
        values = [side.facts.get(fact) for side in (a, b)]
        if None not in values and values[0] != values[1]:
            result.append(f"{text}: {values[0]} against {values[1]}")
    if ("steps" in a.missing) != ("steps" in b.missing):
        result.append("a whole capture against one step" if "steps" in a.missing else "one step against a whole capture")
    return result


def are_scripts(a: Side, b: Side) -> bool:
    """Return whether both sides are users' own scripts, whose names say nothing about what they do."""
    return all(side.facts.get("recorder") == PROFILE for side in (a, b))


def refuse_different_work(a: Side, b: Side, remedy: str = "--force explains them anyway") -> None:
    """Raise EvidenceError if the sides did different work; in users' own scripts, the batch may be what was changed.

    remedy: what to do about it.
    """
    differing = [text for text in same_work(a, b) if not (are_scripts(a, b) and text.startswith("batch"))]
    if differing:
        raise EvidenceError(f"{a.path} and {b.path} did different work ({'; '.join(differing)}); {remedy}")
