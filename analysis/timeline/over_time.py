"""Memory, power and utilisation over time, from samples and counters of a recording.

For a run, memory and utilisation are samples of the clean pass, on a clock that only runs during the run's turns; restarts follow
each other, with a break between them. Power comes from the energy pass if there is one, else from the clean pass's samples. The
framework's allocator comes from the kernels pass, as far as the framework's trace has its events. For a capture, it is whatever
the capture holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.energy.recording import recording
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import PassData, Run
from kernelscope.analysis.trace import Trace

SCHEMA = "kernelscope/over-time/1"
MOST = 1200  # points of one series; more are drawn together
CLEAN = "clean pass: time of the run's own turns; restarts follow each other, with breaks between them"
NO_SAMPLES = "nothing was sampled in a clean pass"

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


@dataclass
class Series:
    """One line. time_ns: since the recording's start. value: in its quantity's unit; None breaks the line."""

    name: str
    time_ns: list[int] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)


@dataclass
class Quantity:
    """One quantity over time.

    key: memory, allocator, power or utilisation. unit: B, W, or "" for a share from 0 to 1. about: what the time refers to, and
    how points were merged. spans: (start_ns, end_ns) of the measured steps or windows, if the line covers other time, too.
    unavailable: why there is no series.
    """

    key: str
    unit: str
    about: str = ""
    series: list[Series] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    unavailable: str | None = None


def of_run(run: Run, trace: Trace | str) -> dict[str, Any]:
    """Return {"schema", "quantities": a Quantity as plain data for memory, allocator, power, utilisation} for a run folder.

    trace: that of its kernels pass (Run.trace), or the reason why there is none.
    """
    clean = [_on_turns(data, data.samples()) for data in run.passes("clean")]
    reason = None if clean else NO_SAMPLES
    if isinstance(trace, str):
        allocator = Quantity("allocator", "B", unavailable=_without_place(run, trace))
    else:
        allocator = _allocator(trace.memory, trace.steps)
    result = [_memory(clean, CLEAN, reason), allocator, _power_of_run(run, clean), _utilisation(clean, CLEAN, reason)]
    return _as_dict(result)


def of_trace(trace: Trace) -> dict[str, Any]:
    """Return the same for a capture; time counts from its first sample or event."""
    about = "time since the first sample"
    samples = trace.samples
    low = int(samples["time_ns"].min()) if len(samples) else 0
    parts = [samples.assign(elapsed_ns=samples["time_ns"] - low)] if len(samples) else []
    reason = None if parts else "the capture holds no samples"
    power = _quantity("power", "W", parts, about, POWER, reason)
    return _as_dict(
        [_memory(parts, about, reason), _allocator(trace.memory, trace.steps), power, _utilisation(parts, about, reason)]
    )


def _without_place(run: Run, reason: object) -> str:
    return str(reason).removeprefix(f"{run.path}: ")


def _as_dict(result: Iterable[Quantity]) -> dict[str, Any]:
    return {"schema": SCHEMA, "quantities": [asdict(quantity) for quantity in result]}


# --- samples ----------------------------------------------------------------------------------------------------------------

# Metrics of a quantity in order of preference: a device uses the first one that it has
MEMORY = ("gpu_process_memory_bytes", "gpu_memory_bytes")
POWER = ("gpu_power_w", "gpu_power_instant_w", "gpu_power_average_w")
_TITLES = {
    "gpu_process_memory_bytes": "{device}: the process", "gpu_memory_bytes": "{device}: all processes",
    "gpu_power_average_w": "{device}: average over 1 s",
}  # fmt: skip


def _on_turns(data: PassData, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of one restart's measured windows with elapsed_ns, on a clock that only runs in these windows."""
    steps = data.measured.assign(window=data.measured["window"].fillna(-1)).groupby("window")
    begin, end = steps["start_ns"].min().sort_index(), steps["end_ns"].max().sort_index()
    window = samples["window"].fillna(-1)
    inside = window.isin(begin.index).to_numpy(bool)
    mine = samples[inside]
    place = np.searchsorted(begin.index.to_numpy(np.int64), window[inside].to_numpy(np.int64))
    first, last = begin.to_numpy(np.int64), end.to_numpy(np.int64).copy()
    time = mine["time_ns"].to_numpy(np.int64)
    np.maximum.at(last, place, time)
    before = np.cumsum(last - first) - (last - first)
    kept = time >= first[place]
    return mine[kept].assign(elapsed_ns=(before[place] + time - first[place])[kept], whole_ns=int((last - first).sum()))


def _memory(parts: list[pd.DataFrame], about: str, reason: str | None) -> Quantity:
    result = _quantity("memory", "B", parts, about, MEMORY, reason, most=True)
    resident = _lines(parts, "process", [_of(part, "resident_bytes") for part in parts], most=True)
    result.series = [*([resident] if resident.value else []), *result.series]
    return _or_reason(result, reason or "no memory was sampled")


def _utilisation(parts: list[pd.DataFrame], about: str, reason: str | None) -> Quantity:
    result = _quantity("utilisation", "", parts, about, ("gpu_utilisation",), reason)
    cores = _lines(parts, _cores(parts), [_mean_of_cores(part) for part in parts])
    result.series = [*([cores] if cores.value else []), *result.series]
    return _or_reason(result, reason or "no use of processors or devices was sampled")


def _cores(parts: list[pd.DataFrame]) -> str:
    count = max((_of(part, "core_busy")["core"].nunique() for part in parts), default=0)
    return "processor" if count < 2 else f"processor: mean of {count} cores"


def _mean_of_cores(part: pd.DataFrame) -> pd.DataFrame:
    """Return one row per reading of all cores together."""
    mine = _of(part, "core_busy")
    return mine.groupby(["time_ns", "elapsed_ns"])["value"].mean().reset_index()


def _of(part: pd.DataFrame, metric: str) -> pd.DataFrame:
    return part[(part["metric"] == metric).to_numpy(bool)]


def _quantity(
    key: str, unit: str, parts: list[pd.DataFrame], about: str, metrics: tuple[str, ...], reason: str | None, most: bool = False
) -> Quantity:
    """Return a series per device, of the first of the metrics that it has."""
    result: list[Series] = []
    seen: set[str] = set()
    for metric in metrics:
        rows = [_of(part, metric) for part in parts]
        for device in sorted({str(name) for part in rows for name in part["device"].dropna().unique()} - seen):
            seen.add(device)
            name = _TITLES.get(metric, "{device}").format(device=device)
            result.append(_lines(parts, name, [part[(part["device"] == device).to_numpy(bool)] for part in rows], most))
    return _or_reason(Quantity(key, unit, about, result), reason or f"no {key} was sampled")


def _or_reason(result: Quantity, reason: str) -> Quantity:
    result.unavailable = None if result.series else reason
    return result


def _lines(parts: list[pd.DataFrame], name: str, rows: list[pd.DataFrame], most: bool = False) -> Series:
    """Return one series of all parts, one after another, with breaks between them."""
    result, offset = Series(name), 0
    for part, mine in zip(parts, rows, strict=True):
        mine = mine.sort_values("elapsed_ns", kind="stable")
        time, value = _thinned(mine["elapsed_ns"].to_numpy(np.int64), mine["value"].to_numpy(float), MOST // len(parts), most)
        if len(time) and result.time_ns:
            result.time_ns.append(offset)
            result.value.append(None)
        result.time_ns += (time + offset).tolist()
        result.value += value.tolist()
        offset += int(part["whole_ns"].iloc[0]) if "whole_ns" in part and len(part) else 0
    return result


def _thinned(time: Int, value: Float, count: int, most: bool) -> tuple[Int, Float]:
    """Return at most `count` points of values in order of time, from equal parts of the time.

    most: take each part's largest and last value, at their times; else the mean of the part.
    """
    known = np.isfinite(value)
    time, value = time[known], value[known]
    if len(time) <= count:
        return time, value
    if most:
        chosen = largest_and_last(time, value, count)
        return time[chosen], value[chosen]
    _, number, sizes = np.unique(_parts(time, count), return_inverse=True, return_counts=True)
    means = (np.bincount(number, weights=values) / sizes for values in ((time - time[0]).astype(float), value))
    times, values = means
    return times.round().astype(np.int64) + time[0], values


def largest_and_last(time: Int, value: Int | Float, count: int) -> Int:
    """Return the places of at most `count` values in order of time: the largest and the last of each equal part of the time."""
    if len(time) <= count:
        return np.arange(len(time), dtype=np.int64)
    part = _parts(time, count // 2)
    order = np.lexsort((-value, part))
    largest = order[np.unique(part[order], return_index=True)[1]]
    last = np.flatnonzero(np.append(part[1:] != part[:-1], True))
    return np.union1d(largest, last)


def _parts(time: Int, count: int) -> Int:
    """Return in which of `count` equal parts of the whole each time lies."""
    return np.asarray((time - time[0]) * (count - 1) // max(int(time[-1] - time[0]), 1), dtype=np.int64)


# --- power ------------------------------------------------------------------------------------------------------------------


def _power_of_run(run: Run, clean: list[pd.DataFrame]) -> Quantity:
    """Return the power of the energy pass, or else the clean pass's samples of it."""
    try:
        return _power_of_energy_pass(run)
    except EvidenceError as error:
        result = _quantity("power", "W", clean, CLEAN, POWER, None)
        entry = run.record.get("passes", {}).get("clean", {})
        sources = (entry.get("sampling") or {}).get("sources", [])
        reasons = [str(source["unavailable"]) for source in sources if source.get("unavailable")]
        return _or_reason(result, "; ".join([*reasons, _without_place(run, error)]))


def _power_of_energy_pass(run: Run) -> Quantity:
    """Return power over the energy pass: a GPU's own readings; for other sources, the energy counter's rise between updates."""
    result = recording(run)
    origin = int(result.samples["time_ns"].min())
    series = []
    for source in result.sources():
        readings = result.readings("gpu_power_w", source.device)
        if len(readings):
            time, watts = readings["time_ns"].to_numpy(np.int64), readings["value"].to_numpy(float)
        else:
            counter = source.counter
            ends = counter.update_ns
            time, watts = ends[1:].round().astype(np.int64), np.diff(counter.update_j) / np.maximum(np.diff(ends), 1) * 1e9
        time, watts = _thinned(time - origin, watts, MOST, most=False)
        series.append(Series(source.name, time.tolist(), [*watts.tolist()]))
    spans = [(start - origin, end - origin) for start, end in result.spans("window")]
    about = "energy pass: time since its first reading; shaded: the measured windows"
    return _or_reason(Quantity("power", "W", about, series, spans), "its counters did not change")


# --- the allocator ----------------------------------------------------------------------------------------------------------


def _allocator(events: pd.DataFrame, steps: pd.DataFrame) -> Quantity:
    """Return the memory in use by the framework's allocator, by device: its own count, or the sum since the recording began."""
    if events.empty:
        return Quantity("allocator", "B", unavailable="the framework's trace holds no allocator events")
    origin = int(events["time_ns"].min())
    series = []
    for device, mine in events.sort_values("time_ns", kind="stable").groupby("device", observed=True, sort=True):
        known = mine["allocated_bytes"].notna().all()
        allocated = mine["allocated_bytes"] if known else mine["bytes"].cumsum()
        time = mine["time_ns"].to_numpy(np.int64) - origin
        time, value = _thinned(time, allocated.to_numpy(np.float64), MOST, most=True)
        series.append(Series(f"{device}{'' if known else ': since the recording began'}", time.tolist(), [*value.tolist()]))
    measured = steps[~steps["warmup"]]
    spans = [(int(a) - origin, int(b) - origin) for a, b in zip(measured["start_ns"], measured["end_ns"], strict=True)]
    about = "time since the first allocator event; many nearby events are shown as the one with the most memory and the last one"
    return Quantity("allocator", "B", about, series, spans[:1] if len(spans) > 40 else spans)
