"""What limits a kernel, according to its hardware counters and its launch: a busy unit, or what keeps all units waiting.

Nsight Compute's "Compute (SM) Throughput" is the share of the busiest pipe of a multiprocessor, which may be that of loads and
stores: then it says nothing about arithmetic. Its "L1/TEX Cache Throughput" is of the cycles in which multiprocessors are active:
a grid that fills few of them is named before a cache that they keep busy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kernelscope.analysis.device import counters, launches, occupancy
from kernelscope.analysis.device.launches import many
from kernelscope.analysis.kernels.short_names import short
from kernelscope.analysis.trace import Trace

_BUSY = {"sm_throughput": 0.8, "dram_throughput": 0.6, "l2_throughput": 0.6, "l1_throughput": 0.6}  # of the unit's peak
_REACHED = 0.9  # of a unit's peak: the most that kernels reach
_HALF = 0.5  # of the time: what is saved if the counters do not show how busy arithmetic is
_LOW = 0.5  # occupancy: a lower one hides few waits
_NOTABLE = 0.4  # of the peak of the first-level cache, if it is the busiest unit
_SAME = 0.02  # of a share: shares that differ by less are of one unit
_UNEVEN = 0.7  # of the theoretical occupancy
_DIVERGED, _WARP = 24, 32  # threads of a warp
_NO_START_NS = 20_000  # of shorter kernels, starting and ending is a good part
_LITTLE = 0.5  # of their peaks: units that are busier are more than little
_FEW_THREADS = 64  # of a block: tiles of so few threads are read again often
_TILED = r"(?i)tile|tiling|shared|smem|_lds"  # in names of kernels that keep tiles in shared memory
_LARGER_TILES = (
    "its blocks of {0} are small, so tiles in shared memory are small, too, and each value is read again often: use larger tiles "
    "(16x16 or 32x32 threads), and let each thread compute several results from values in registers"
)
_MORE_IN_REGISTERS = (
    "let each thread compute several results from values in registers, so that it reads each value of its tiles less often; "
    "avoid bank conflicts of shared memory; use wider loads (float4)"
)
_SPARE = 0.7  # of the busy cache's share: with less, memory behind it does not limit
COALESCE = "let neighbouring threads read neighbouring addresses (coalescing)"
KEEP = "keep what is read again in registers or in tiles in shared memory without bank conflicts; use wider loads (float4)"
_OF_UNIT = {
    "sm_throughput": "only fewer or cheaper instructions make it faster",
    "dram_throughput": "only fewer bytes make it faster",
    "l2_throughput": "read less of it again: tiles in shared memory; fewer atomics to the same addresses",
    "l1_throughput": f"{COALESCE}; {KEEP}",
}
_OF_LIMITER = {
    "registers": "use fewer registers a thread: smaller tiles, __launch_bounds__ or -maxrregcount (watch for spills)",
    "shared memory": "use less shared memory a block: smaller tiles, or fewer stages",
    "warps": "use other sizes of blocks: 128 to 256 threads",
    "blocks": "use larger blocks: 128 to 256 threads",
}
_MORE_BLOCKS = "launch more blocks: split the work further, or batch several problems into one launch"
_MORE_THREADS = "launch blocks of 128 to 256 threads, and more of them"
_THEN_CACHE = f"Active multiprocessors keep the L1 cache busy, too: {_OF_UNIT['l1_throughput']}"
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
    how that was worked out. evidence: sentences with numbers. remedy: what to do. of_grid: whether it is launched too small.
    unclear: whether the counters do not tell why it waits.
    """

    title: str
    remedy: str
    saves: float = 0.0
    estimate: str = ""
    evidence: list[str] = field(default_factory=list)
    of_grid: bool = False
    unclear: bool = False


@dataclass(frozen=True)
class _Wait:
    """Why a kernel keeps no unit busy, in words, and what to do. of_grid, unclear: see Limit."""

    why: str
    remedy: str
    of_grid: bool = False
    unclear: bool = False


def of(trace: Trace, row: Mapping[str, Any]) -> Limit | None:
    """Return what limits a kernel, given its row of `counters.over_elapsed`; None if the counters do not tell."""
    name = called(row["kernel"])
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
    launch = launches.of(trace, row)
    starved = unit == "l1_throughput" and launch.is_too_small and (launch.active is None or launch.active < counters.OFTEN)
    if busy and busy[unit] >= _BUSY[unit] and not starved:
        known = arithmetic if "sm_throughput" in busy or tensor else None
        return _of_unit(name, unit, busy, known, _remedy(trace, unit, launch, row))
    if starved and launch.active is None:
        del busy["l1_throughput"]  # what it is of all cycles is unknown
    return _waiting(name, launch, row, busy, max(pipe, tensor))


def _waiting(name: str, launch: launches.Launch, row: Mapping[str, Any], busy: Mapping[str, float], pipe: float) -> Limit | None:
    """Return the limit of a kernel that keeps no unit busy; None if its counters do not tell. pipe: the busiest pipe's share."""
    wait = _waits(launch, row)
    if wait is None:
        return None
    most, unit = _most(row, busy, pipe, without_cache=False), "its busiest unit"
    idle = f"{name} keeps no unit busy" if most < min(_BUSY.values()) else f"{name} keeps its units only partly busy"
    remedy = wait.remedy
    if wait.of_grid and _keeps_cache_busy(row, busy):
        most, remedy = _most(row, busy, pipe, without_cache=True), f"{remedy}. {_THEN_CACHE}"
        unit = "the busiest of its units other than the L1 cache"
    if most >= _REACHED:
        return None
    estimate = f"if {unit} reached {_REACHED:.0%} of its peak"
    evidence = _evidence(launch, row, wait.of_grid)
    return Limit(f"{idle}: {wait.why}", remedy, 1 - most / _REACHED, estimate, evidence, wait.of_grid, wait.unclear)


def _keeps_cache_busy(row: Mapping[str, Any], busy: Mapping[str, float]) -> bool:
    """Return whether the first-level cache is what active multiprocessors keep busy."""
    share = _or_zero(row.get("l1_active"))
    busiest = bool(busy) and max(busy, key=busy.__getitem__) == "l1_throughput"
    return share >= _BUSY["l1_throughput"] or (busiest and share >= _NOTABLE)


def _most(row: Mapping[str, Any], busy: Mapping[str, float], pipe: float, without_cache: bool) -> float:
    """Return the share of the busiest unit. without_cache: leave out the first-level cache, also as that of memory or pipes."""
    shares = [_or_zero(row["memory_throughput"]), pipe, *busy.values()]
    if not without_cache or "l1_throughput" not in busy:
        return max(shares)
    l1 = busy["l1_throughput"]
    return max((share for share in shares if abs(share - l1) > _SAME * max(share, l1)), default=0.0)


def called(kernel: object) -> str:
    """Return a kernel's short name for sentences; of a capture that has none, the kernel."""
    name = short(kernel)
    return "the kernel" if name.startswith("(kernel ") else name


def _is_tiled(trace: Trace, kernel: str) -> bool:
    """Return whether a kernel keeps data in shared memory, by its launches or its name."""
    used = trace.kernels["shared_memory"][(trace.kernels["name"] == kernel).fillna(False).to_numpy(bool)]
    return bool((used > 0).any()) or re.search(_TILED, kernel.split("(")[0]) is not None


def _remedy(trace: Trace, unit: str, launch: launches.Launch, row: Mapping[str, Any]) -> str:
    """Return what to do about a busy unit: a kernel that has tiles in shared memory already needs other ones."""
    if unit != "l1_throughput" or not _is_tiled(trace, str(row["kernel"])):
        return _OF_UNIT[unit]
    small = 0 < launch.threads <= _FEW_THREADS
    return _LARGER_TILES.format(many(launch.threads, "thread")) if small else _MORE_IN_REGISTERS


def _of_unit(name: str, unit: str, busy: Mapping[str, float], arithmetic: float | None, remedy: str) -> Limit:
    """Return the limit of a kernel that keeps the device's memory or a cache busy. arithmetic: its share, None if unknown."""
    what, share = counters.UNITS[unit], busy[unit]
    title = f"{name} keeps the {what} busy, {share:.0%} of its peak"
    others = max([arithmetic or 0.0, *(other for key, other in busy.items() if key not in (unit, "sm_throughput"))])
    if unit == "dram_throughput" or others >= _SPARE * share:
        return Limit(title, remedy)
    if arithmetic is None:
        return Limit(title, remedy, _HALF, "half of it, as the counters do not show how busy arithmetic is")
    saves, estimate = 1 - others / share, f"if the {what} were no busier than the next unit"
    title += ", and little else" if others < _LITTLE else f", while the next unit reaches {others:.0%}"
    return Limit(title, remedy, saves, estimate)


def _waits(launch: launches.Launch, row: Mapping[str, Any]) -> _Wait | None:
    """Return why a kernel keeps no unit busy, and what to do; None if a library's kernel is as built."""
    limit = launch.occupancy
    theoretical, achieved, active = (
        _theoretical(launch, row),
        _or_zero(row["achieved_occupancy"]),
        _or_zero(row["threads_per_warp"]),
    )
    if launch.is_too_small:
        remedy = _MORE_THREADS if 0 < launch.threads < _WARP else _MORE_BLOCKS
        return _Wait(_small(launch), remedy, of_grid=True)
    if launch.library is not None:
        return None
    if theoretical and theoretical < _LOW and limit:
        return _Wait(f"{limit.limiter} limit its warps to {theoretical:.0%}", _OF_LIMITER[limit.limiter])
    if active and active < _DIVERGED:
        return _Wait("threads of a warp take different paths", _DIVERGENCE)
    if "atomic" in str(row["kernel"]).lower():
        return _Wait("its atomic operations wait for one another", _ATOMICS)
    if launch.is_uneven and row["duration_ns"] / row["count"] >= _NO_START_NS:
        return _Wait("its blocks end at different times", _BALANCE)
    if not theoretical or not achieved:
        return _Wait("what it waits for was not recorded", _RECORD_ALL, unclear=True)
    if achieved < _UNEVEN * theoretical:
        return _Wait("its blocks end at different times", _BALANCE)
    return _Wait("its warps wait, for memory or for one another", _INDEPENDENT)


def _small(launch: launches.Launch) -> str:
    """Say that a grid is too small, with the multiprocessors that it leaves idle, if they are known."""
    what = "its grid and its blocks are too small" if 0 < launch.threads < _WARP else "its grid is too small"
    if launch.idle_processors:
        left = f"{launch.idle_processors} of {launch.processors} multiprocessors idle"
        return f"{what} ({many(launch.blocks, 'block')}, {left})"
    rarely = launch.active is not None and launch.active < counters.OFTEN
    return f"{what} (multiprocessors are active in {counters.percent(launch.active or 0)} of the cycles)" if rarely else what


def _evidence(launch: launches.Launch, row: Mapping[str, Any], of_grid: bool) -> list[str]:
    """Return numbers that show why a kernel keeps no unit busy. of_grid: whether its grid is too small."""
    theoretical, achieved, active = (
        _theoretical(launch, row),
        _or_zero(row["achieved_occupancy"]),
        _or_zero(row["threads_per_warp"]),
    )
    said = []
    if of_grid:
        said += [f"It is launched in {launch.sizes}{_on(launch)}."] if launch.sizes else []
        said += [f"Its blocks fill {counters.percent(launch.waves)} of what the device can hold at once."] if launch.waves else []
    if counters.rarely_active(row) and (launch.idle_processors or not of_grid):
        said.append(f"Multiprocessors are active in {counters.percent(row['active'])} of the cycles, the mean of all.")
    said += _residence(theoretical, achieved, launch.occupancy)
    return [*said, *([f"Of 32 threads of a warp {active:.3g} are active."] if active and active < _DIVERGED else [])]


def _residence(theoretical: float, achieved: float, limit: occupancy.Occupancy | None) -> list[str]:
    """Say how many of the warps that a multiprocessor can hold are there at once: on average, and at most by the launch."""
    of = "of the warps that it can hold"
    could = f"its registers, shared memory and blocks allow {theoretical:.0%}{_limited(limit)}" if theoretical else ""
    if achieved:
        return [f"On average a multiprocessor holds {achieved:.0%} {of}{'; ' + could if could else ''}."]
    return [f"A multiprocessor holds at most {theoretical:.0%} {of}{_limited(limit)}."] if theoretical else []


def _on(launch: launches.Launch) -> str:
    return f" on {launch.processors} multiprocessors" if launch.processors else ""


def _theoretical(launch: launches.Launch, row: Mapping[str, Any]) -> float:
    return _or_zero(row["theoretical_occupancy"]) or (launch.occupancy.occupancy if launch.occupancy else 0.0)


def _or_zero(value: Any) -> float:
    return 0.0 if value is None or pd.isna(value) else float(value)


def _limited(limit: occupancy.Occupancy | None) -> str:
    return f", limited by {limit.limiter}" if limit and limit.occupancy < 1 else ""
