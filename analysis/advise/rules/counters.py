"""Kernels that use little of the device, according to hardware counters: what limits them, and what to change in their code.

A unit counts as busy from 60% of its peak, the mark that Nsight Compute's own rules use (Profiling Guide, "Speed of Light").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.device import counters, occupancy

TOPIC = "kernel efficiency"
_BUSY = 0.6  # of a unit's peak
_REACHED = 0.8  # of a unit's peak: what well-tuned kernels reach
_LARGE = 0.05  # of the step: shorter kernels are not looked at
_LOW = 0.5  # occupancy: a lower one hides few waits
_UNEVEN = 0.7  # of the theoretical occupancy
_DIVERGED = 24  # of 32 threads of a warp
_SPARE = 0.5  # of the busy cache's share: memory behind it that is less busy does not limit
_LINK = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"
_CACHES = ("l1_throughput", "l2_throughput")
_OF_CACHE = {
    "l1_throughput": "let neighbouring threads read neighbouring addresses (coalescing); keep what is read again in registers "
    "or in tiles in shared memory, and avoid bank conflicts there",
    "l2_throughput": "read less of it again: tiles in shared memory; fewer atomics to the same addresses",
}
_OF_LIMITER = {
    "registers": "use fewer registers a thread: smaller tiles, __launch_bounds__ or -maxrregcount (watch for spills)",
    "shared memory": "use less shared memory a block: smaller tiles, or fewer stages",
    "warps": "use other sizes of blocks: 128 to 256 threads",
    "blocks": "use larger blocks: 128 to 256 threads",
}
_MORE_BLOCKS = "launch more blocks: split the work further, or batch several problems into one launch"
_RECORD_ALL = "record it with `ncu --set full`, which shows how many warps are resident, and what they wait for"
_DIVERGENCE = "let threads of a warp take the same path: sort or group the work, or move the condition out of the kernel"
_BALANCE = "give all blocks and warps the same amount of work, or make blocks smaller"
_INDEPENDENT = (
    "let each thread have more independent work in flight: unroll loops, load ahead, use wider loads (float4); Nsight Compute's "
    "Warp State Statistics and Source Counters name the instructions that wait"
)


def inefficient(subject: Subject) -> list[Advice]:
    """Kernels that keep no unit busy, or only a cache."""
    if subject.trace.metrics.empty or subject.on_host:
        return []
    return [advice for row in _measured(subject) for advice in _of_kernel(subject, row)]


def notes(subject: Subject) -> list[str]:
    """Name the kernels that use the device's memory or arithmetic well: they get faster only if they do less."""
    if subject.trace.metrics.empty or subject.on_host:
        return []
    result = []
    for row in _measured(subject):
        for unit, less in (("dram_throughput", "fewer bytes"), ("sm_throughput", "fewer or cheaper instructions")):
            if (row[unit] or 0) >= _BUSY:
                name = words.kernel(row["kernel"])
                result.append(
                    f"{name} keeps {counters.UNITS[unit]} busy, {row[unit]:.0%} of its peak: only {less} make it faster"
                )
                break
    return result


def _measured(subject: Subject) -> list[dict[str, Any]]:
    """Return the large kernels whose counters are known, longest first; null values are None."""
    table = counters.table(subject.trace)
    table = table[(table["device"] == subject.device).fillna(False) & (table["duration_ns"] >= _LARGE * subject.step_ns)]
    table = table[table[list(counters.UNITS)].notna().any(axis=1).to_numpy(bool)]
    return [{str(key): None if pd.isna(value) else value for key, value in row.items()} for row in table.to_dict("records")]


def _of_kernel(subject: Subject, row: dict[str, Any]) -> list[Advice]:
    """Return what limits a kernel that keeps neither memory nor arithmetic busy; empty if one of them is, or if it is unknown."""
    rows = subject.kernels()
    rows = rows[(rows["name"] == row["kernel"]).fillna(False).to_numpy(bool)]
    busy = {unit: float(row[unit] or 0.0) for unit in counters.UNITS}
    busy["sm_throughput"] = max(busy["sm_throughput"], float(row["tensor_pipe"] or 0.0))
    if row["sm_throughput"] is None or rows.empty or max(busy["sm_throughput"], busy["dram_throughput"]) >= _BUSY:
        return []
    ns, name = words.time_of(rows), words.kernel(row["kernel"])
    used = f"Of their peaks it uses: {counters.shares(row)}."
    cache = max(_CACHES, key=busy.__getitem__)
    if busy[cache] >= _BUSY:
        next_most = max(share for unit, share in busy.items() if unit != cache)
        if next_most > _SPARE * busy[cache]:
            return []
        title = f"{name} keeps the {counters.UNITS[cache]} busy, and little else"
        saves, remedy = ns * (1 - next_most / busy[cache]), _OF_CACHE[cache]
        estimate = f"if the {counters.UNITS[cache]} were no busier than the next unit"
        return [_advice(subject, rows, title, saves, estimate, [used], remedy)]
    most = max(*busy.values(), float(row["memory_throughput"] or 0.0))
    if most >= _BUSY:
        return []
    why, said, remedy = _waits(subject, row)
    saves, estimate = ns * (1 - most / _REACHED), f"if its busiest unit reached {_REACHED:.0%} of its peak"
    return [_advice(subject, rows, f"{name} keeps no unit busy: {why}", saves, estimate, [used, *said], remedy)]


def _advice(
    subject: Subject, rows: pd.DataFrame, title: str, saves_ns: float, estimate: str, evidence: Sequence[str], remedy: str
) -> Advice:
    took = f"It takes {words.share(subject, words.time_of(rows))}."
    return Advice(TOPIC, title, saves_ns, estimate, [took, *evidence], remedy, _LINK, words.ids(rows))


def _waits(subject: Subject, row: dict[str, Any]) -> tuple[str, list[str], str]:
    """Return why a kernel keeps no unit busy, the numbers that show it, and what to do."""
    limit = _launch(subject, row)
    theoretical = row["theoretical_occupancy"] or (limit.occupancy if limit else None)
    achieved, threads = row["achieved_occupancy"], row["threads_per_warp"]
    waves = row["waves"] or (limit.waves if limit else None)
    said = [f"Warps that can be resident: {theoretical:.0%}{_limited(limit)}."] if theoretical else []
    said += [f"On average {achieved:.0%} are."] if achieved else []
    said += [f"Of 32 threads of a warp {threads:.3g} are active."] if threads and threads < _DIVERGED else []
    if waves and waves < 1:
        return "its grid is too small", [f"Its blocks fill {waves:.0%} of what the device can hold at once.", *said], _MORE_BLOCKS
    if theoretical and theoretical < _LOW and limit:
        return f"{limit.limiter} limit its warps to {theoretical:.0%}", said, _OF_LIMITER[limit.limiter]
    if threads and threads < _DIVERGED:
        return "threads of a warp take different paths", said, _DIVERGENCE
    if theoretical and achieved and achieved < _UNEVEN * theoretical:
        return "its blocks end at different times", said, _BALANCE
    if theoretical is None or achieved is None:
        return "what it waits for was not recorded", said, _RECORD_ALL
    return "its warps wait, for memory or for one another", said, _INDEPENDENT


def _limited(limit: occupancy.Occupancy | None) -> str:
    return f", limited by {limit.limiter}" if limit and limit.occupancy < 1 else ""


def _launch(subject: Subject, row: dict[str, Any]) -> occupancy.Occupancy | None:
    """Return the occupancy of the kernel's longest launches; None if unknown."""
    kernels = subject.trace.kernels
    mine = kernels[((kernels["name"] == row["kernel"]) & (kernels["device"] == subject.device)).fillna(False).to_numpy(bool)]
    devices = {str(entry["device"]): entry for entry in subject.trace.info.get("devices") or []}
    longest = mine.iloc[int(mine["duration_ns"].to_numpy(float).argmax())]
    fields = ("device", "grid", "block", "registers", "shared_memory")
    launch = {name: None if pd.isna(longest[name]) else longest[name] for name in fields}
    result = occupancy.of_row(launch, devices.get(subject.device, {}))
    return result if isinstance(result, occupancy.Occupancy) else None


RULES: tuple[Rule, ...] = (inefficient,)
