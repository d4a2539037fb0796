"""What limits a kernel, according to its hardware counters and its launch: a busy unit, or what keeps all units waiting.

Nsight Compute's "Compute (SM) Throughput" is the share of the busiest pipe of a multiprocessor, which may be that of loads and
stores: then it says nothing about arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kernelscope.analysis.device import counters, occupancy
from kernelscope.analysis.kernels.short_names import short
from kernelscope.analysis.trace import Trace

_BUSY = {"sm_throughput": 0.8, "dram_throughput": 0.6, "l2_throughput": 0.6, "l1_throughput": 0.6}  # of the unit's peak
_REACHED = 0.9  # of a unit's peak: the most that kernels reach
_HALF = 0.5  # of the time: what is saved if the counters do not show how busy arithmetic is
_LOW = 0.5  # occupancy: a lower one hides few waits
_UNEVEN = 0.7  # of the theoretical occupancy
_DIVERGED, _WARP = 24, 32  # threads of a warp
_SPARE = 0.7  # of the busy cache's share: with less, memory behind it does not limit
_FEW_BLOCKS = 8  # every GPU has more multiprocessors
_OF_UNIT = {
    "sm_throughput": "only fewer or cheaper instructions make it faster",
    "dram_throughput": "only fewer bytes make it faster",
    "l2_throughput": "read less of it again: tiles in shared memory; fewer atomics to the same addresses",
    "l1_throughput": "let neighbouring threads read neighbouring addresses (coalescing); keep what is read again in registers or "
    "in tiles in shared memory without bank conflicts; use wider loads (float4)",
}
_OF_LIMITER = {
    "registers": "use fewer registers a thread: smaller tiles, __launch_bounds__ or -maxrregcount (watch for spills)",
    "shared memory": "use less shared memory a block: smaller tiles, or fewer stages",
    "warps": "use other sizes of blocks: 128 to 256 threads",
    "blocks": "use larger blocks: 128 to 256 threads",
}
_MORE_BLOCKS = "launch more blocks: split the work further, or batch several problems into one launch"
_MORE_THREADS = "launch blocks of 128 to 256 threads, and more of them"
_RECORD_ALL = "record it with `ncu --set full`, which shows how many warps are resident, and what they wait for"
_DIVERGENCE = "let threads of a warp take the same path: sort or group the work, or move the condition out of the kernel"
_BALANCE = "give all blocks and warps the same amount of work, or make blocks smaller"
_ATOMICS = "add up within a warp or a block first, and use one atomic operation for each block"
_INDEPENDENT = (
    "let each thread have more independent work in flight: unroll loops, load ahead, use wider loads (float4); Nsight Compute's "
    "Warp State Statistics and Source Counters name the instructions that wait"
)


@dataclass(frozen=True)
class Limit:
    """What limits a kernel.

    title: in a sentence. saves: the share of its time that a remedy could save at most; 0 if it uses the device well. estimate:
    how that was worked out. evidence: sentences with numbers. remedy: what to do.
    """

    title: str
    remedy: str
    saves: float = 0.0
    estimate: str = ""
    evidence: list[str] = field(default_factory=list)


def of(trace: Trace, row: Mapping[str, Any]) -> Limit | None:
    """Return what limits a kernel, given its row of `counters.table`; None if the counters do not tell."""
    name = short(row["kernel"])
    busy = {unit: float(row[unit]) for unit in counters.UNITS if not pd.isna(row[unit])}
    tensor = 0.0 if pd.isna(row["tensor_pipe"]) else float(row["tensor_pipe"])
    if "sm_throughput" not in busy:
        return None
    pipe = busy["sm_throughput"]
    if not counters.arithmetic_is_known(row):
        busy.pop("sm_throughput")
    arithmetic = max(busy.get("sm_throughput", 0.0), tensor)
    unit = max(busy, key=busy.__getitem__) if busy else "sm_throughput"
    if arithmetic >= max(_BUSY["sm_throughput"], *(share for key, share in busy.items() if key != "sm_throughput"), 0.0):
        return Limit(f"{name} keeps arithmetic busy, {arithmetic:.0%} of its peak", _OF_UNIT["sm_throughput"])
    if busy and busy[unit] >= _BUSY[unit]:
        return _of_unit(name, unit, busy, arithmetic if "sm_throughput" in busy or tensor else None)
    most = max(pipe, tensor, _or_zero(row["memory_throughput"]), *busy.values())
    waits = _waits(trace, row)
    if waits is None or most >= _REACHED:
        return None
    saves = 1 - most / _REACHED
    idle = f"{name} keeps no unit busy" if most < min(_BUSY.values()) else f"{name} keeps its units only partly busy"
    return Limit(f"{idle}: {waits[0]}", waits[2], saves, f"if its busiest unit reached {_REACHED:.0%} of its peak", waits[1])


def _of_unit(name: str, unit: str, busy: Mapping[str, float], arithmetic: float | None) -> Limit:
    """Return the limit of a kernel that keeps the device's memory or a cache busy. arithmetic: its share, None if unknown."""
    what, share = counters.UNITS[unit], busy[unit]
    title = f"{name} keeps the {what} busy, {share:.0%} of its peak"
    others = max([arithmetic or 0.0, *(other for key, other in busy.items() if key not in (unit, "sm_throughput"))])
    if unit == "dram_throughput" or others >= _SPARE * share:
        return Limit(title, _OF_UNIT[unit])
    if arithmetic is None:
        return Limit(title, _OF_UNIT[unit], _HALF, "half of it, as the counters do not show how busy arithmetic is")
    saves, estimate = 1 - others / share, f"if the {what} were no busier than the next unit"
    return Limit(f"{title}, and little else", _OF_UNIT[unit], saves, estimate)


def _waits(trace: Trace, row: Mapping[str, Any]) -> tuple[str, list[str], str] | None:
    """Return why a kernel keeps no unit busy, numbers that show it, and what to do; None if a library's kernel is as built."""
    launch, limit = _launch(trace, row)
    blocks, threads = _size(launch["grid"]), _size(launch["block"])
    theoretical = _or_zero(row["theoretical_occupancy"]) or (limit.occupancy if limit else 0.0)
    achieved, active = _or_zero(row["achieved_occupancy"]), _or_zero(row["threads_per_warp"])
    waves = _or_zero(row["waves"]) or (limit.waves if limit and limit.waves else 0.0)
    said = (
        [f"Resident warps: at most {theoretical:.0%} of what a multiprocessor can hold{_limited(limit)}."] if theoretical else []
    )
    said += [f"On average {achieved:.0%} are resident."] if achieved else []
    said += [f"Of 32 threads of a warp {active:.3g} are active."] if active and active < _DIVERGED else []
    if 0 < blocks < _FEW_BLOCKS or 0 < waves < 1:
        much = [f"Its blocks fill {counters.percent(waves)} of what the device can hold at once."] if waves else []
        many = [f"It is launched in {_many(blocks, 'block')} of {_many(threads, 'thread')}."] if blocks and threads else []
        remedy = _MORE_THREADS if 0 < threads < _WARP else _MORE_BLOCKS
        return "its grid is too small", [*many, *much, *said], remedy
    if isinstance(launch["library"], str):
        return None
    if theoretical and theoretical < _LOW and limit:
        return f"{limit.limiter} limit its warps to {theoretical:.0%}", said, _OF_LIMITER[limit.limiter]
    if active and active < _DIVERGED:
        return "threads of a warp take different paths", said, _DIVERGENCE
    if "atomic" in str(row["kernel"]).lower():
        return "its atomic operations wait for one another", said, _ATOMICS
    if not theoretical or not achieved:
        return "what it waits for was not recorded", said, _RECORD_ALL
    if achieved < _UNEVEN * theoretical:
        return "its blocks end at different times", said, _BALANCE
    return "its warps wait, for memory or for one another", said, _INDEPENDENT


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _or_zero(value: Any) -> float:
    return 0.0 if pd.isna(value) else float(value)


def _limited(limit: occupancy.Occupancy | None) -> str:
    return f", limited by {limit.limiter}" if limit and limit.occupancy < 1 else ""


def _size(extent: Any) -> int:
    """Return the product of sizes such as 4,2,1; 0 if unknown."""
    result = 1
    for size in str(extent).split(",") if isinstance(extent, str) else ["0"]:
        result *= int(size)
    return result


def _launch(trace: Trace, row: Mapping[str, Any]) -> tuple[dict[str, Any], occupancy.Occupancy | None]:
    """Return the kernel's longest launch, and its occupancy, None if unknown."""
    kernels = trace.kernels
    mine = kernels[((kernels["name"] == row["kernel"]) & (kernels["device"] == row["device"])).fillna(False).to_numpy(bool)]
    longest = mine.iloc[int(mine["duration_ns"].to_numpy(float).argmax())]
    fields = ("device", "grid", "block", "registers", "shared_memory", "library")
    launch = {name: None if pd.isna(longest[name]) else longest[name] for name in fields}
    devices = {str(entry["device"]): entry for entry in trace.info.get("devices") or []}
    result = occupancy.of_row(launch, devices.get(str(row["device"]), {}))
    return launch, result if isinstance(result, occupancy.Occupancy) else None
