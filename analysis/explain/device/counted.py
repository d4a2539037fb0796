"""What hardware counters say of kernels that differ: devices, launches, how busy each unit was, accesses, bytes and clocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kernelscope.analysis.device import counters, launches, limits
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.trace import Trace

_CLOCKS = 0.05  # of the faster clock: a larger difference is told
_BYTES = 0.1  # of the larger traffic: likewise
_SPREAD = 2.0  # times as much work of the first-level cache for each access: neighbours read addresses far apart
_SAME_ACCESSES = 1.5  # times as much work of the pipes: at most as many accesses as the other side's
_CACHED = 0.2  # of its peak: a cache that is less busy limits nothing
_MANY_HITS, _NO_HITS, _BUSY = 0.5, 0.05, 0.4  # hit rates of the first-level cache, and how busy shared memory keeps it
_MOVES, _GONE, _FEWER = 0.3, 0.1, 0.25  # of their peaks, memory or the L2 cache; of the slower kernel's traffic: what is left
_TILES = (
    "keep tiles that are read again in shared memory, as {0} does; then let each thread compute several results from values in "
    "registers"
)
_MOVE_LESS = (
    "move fewer bytes, as {0} does: keep what is used again in registers, shared or constant memory, and data in plain arrays in "
    "place of objects behind pointers"
)
_LINE = ",1,1"  # the end of sizes of one dimension
_KEY = "explain: hardware counters"
_TILE = re.compile(r"gemm[a-z0-9]{0,20}_(?:[a-z0-9]{1,12}_){0,12}?(?:tilesize)?(\d{2,3})x(\d{2,3})(?=[x_]|$)")
_NAME = 400  # characters of a name that are looked at
_DEVICES = {
    "compute_capability": "Different GPUs: compute capability {0} in {1}, {2} in {3}; so equal work takes other times, too.",
    "multiprocessors": "Different GPUs, or parts: {0} multiprocessors in {1}, {2} in {3}; so equal work takes other times, too.",
}
_OF_ENGINES = (
    "compare what the builder chose for these layers: trtexec --dumpLayerInfo --profilingVerbosity=detailed prints "
    "precision, formats and tactic of each"
)
_ON_ONE_DEVICE = "run both on one GPU to see what the programs themselves differ by"
_COALESCED = (
    "let neighbouring threads read neighbouring addresses (coalescing), as {0} seems to; in shared memory, avoid bank conflicts"
)


@dataclass(frozen=True)
class _Kernel:
    """A side's longest kernel among the rows of a finding: its counters (see counters.over_elapsed), launch and limit."""

    side: str
    trace: Trace
    row: dict[str, Any]
    launch: launches.Launch
    limit: limits.Limit | None
    kind: str | None

    @property
    def called(self) -> str:
        """Its short name, or it, if the capture has no name."""
        name = limits.called(self.row["kernel"])
        return "it" if name == "the kernel" else words.kernel(self.row["kernel"])

    @property
    def device(self) -> dict[str, Any]:
        """What the capture says of its device."""
        named = self.trace.info.get("devices") or []
        return next((entry for entry in named if entry.get("device") == self.row["device"]), {})

    def work(self, unit: str) -> float:
        """The time that a unit would take for its work at its peak, in ns; 0 if unknown."""
        share = self.row[unit]
        return 0.0 if pd.isna(share) else float(share) * self.row["duration_ns"] / self.row["count"]


def sentences(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return sentences on each side's longest kernel among these rows; none without counters."""
    known = _kernels(case, rows)
    limited = [f"In {one.side}, {_title(one)}." for one in known if one.limit is not None]
    shares = [(one, counters.shares(one.row)) for one in known]
    busy = [f"Of their peaks {one.called} uses in {one.side}: {share}." for one, share in shares if share]
    if len(known) < len(SIDES):
        return [*limited, *busy, *_rules(known)]
    a, b = known
    devices = _devices(a, b) if case.same_device else []  # else the finding says so (see causes.hardware)
    before = [*devices, *_launches(a, b), *_products(a, b), *_clocks(a, b)]
    return [*before, *limited, *_accesses(a, b), *busy, *_bytes(a, b), *_rules(known)]


def conclusions(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return what follows from how the counters of both sides' longest kernels among these rows differ, in a sentence or none."""
    _, slower, _, faster = words.slower(case, rows)
    sides = {one.side: one for one in _kernels(case, rows)}
    if slower not in sides or faster not in sides:
        return []
    mine, other = sides[slower], sides[faster]
    if _tiles(mine, other):
        hits = ", ".join(f"{counters.percent(_hits(one) or 0.0)} in {side}" for side, one in sides.items())
        return [
            f"{faster} keeps tiles in shared memory: hardly any access finds data in the L1 cache (hit rate {hits}), as what "
            "is read again comes from shared memory, which counts as the cache's work."
        ]
    if _traffic(mine, other):
        units = [("device memory", "dram_throughput"), ("the L2 cache", "l2_throughput")]
        took = [f"{what} {words.change(case, *(sides[one.name].work(unit) for one in (case.a, case.b)))}" for what, unit in units]
        return [f"{faster} moves far fewer bytes. At their peaks the units would need for them: {'; '.join(took)}."]
    return []


def _hits(one: _Kernel) -> float | None:
    return counters.l1_hit_rate(one.trace, str(one.row["kernel"]))


def _tiles(mine: _Kernel, other: _Kernel) -> bool:
    """Return whether the faster kernel reads again from shared memory what the slower one finds in the first-level cache."""
    hits = [_hits(one) for one in (mine, other)]
    busy = other.row["l1_throughput"]
    if None in hits or pd.isna(busy) or _devices(mine, other):
        return False
    return float(hits[0] or 0.0) >= _MANY_HITS and float(hits[1] or 0.0) <= _NO_HITS and float(busy) >= _BUSY


def _traffic(mine: _Kernel, other: _Kernel) -> bool:
    """Return whether most of what the slower kernel moves to and from device memory and second-level cache is gone."""
    works = [[one.work(unit) for one in (mine, other)] for unit in ("dram_throughput", "l2_throughput")]
    shares = [mine.row[unit] for unit in ("dram_throughput", "l2_throughput")]
    if any(pd.isna(share) for share in shares) or pd.isna(other.row["dram_throughput"]) or pd.isna(other.row["l2_throughput"]):
        return False
    fewer = works[0][1] <= _GONE * works[0][0] and works[1][1] <= _FEWER * works[1][0]
    return bool(max(shares) >= _MOVES and fewer and not _devices(mine, other))


def remedy(case: DeviceCase, rows: pd.DataFrame) -> str | None:
    """Return what to do about what limits the slower side's longest kernel among these rows; None if its counters do not tell.

    TensorRT's layers have no counters: what its builder chose for them is what can be compared.
    """
    if all(side.facts.get("framework") == "tensorrt" for side in (case.a, case.b)):
        return _OF_ENGINES
    _, slower, _, faster = words.slower(case, rows)
    sides = {one.side: one for one in _kernels(case, rows)}
    if slower not in sides:
        return None
    mine, other = sides[slower], sides.get(faster)
    text = _remedy(mine, other)
    if other is not None and _devices(mine, other):
        return _ON_ONE_DEVICE if text is None else f"{_ON_ONE_DEVICE}; in {slower}: {text}"
    return None if text is None else f"in {slower}: {text}"


def _remedy(mine: _Kernel, other: _Kernel | None) -> str | None:
    """Return what to do about the slower kernel: about what differs from the faster one, if that is known."""
    if mine.limit is None or other is None:
        return None if mine.limit is None else mine.limit.remedy
    sizes = [(one.launch.blocks, one.launch.threads) for one in (mine, other)]
    if mine.limit.of_grid and sizes[0] != sizes[1] and other.launch.sizes:
        first, point, rest = mine.limit.remedy.partition(". ")
        return f"{first} ({other.side} has {other.launch.sizes}){point}{rest}"
    if _tiles(mine, other):
        return _TILES.format(other.side)
    if _traffic(mine, other):
        return _MOVE_LESS.format(other.side)
    if (mine.limit.of_grid or mine.limit.unclear) and _spread(mine, other):
        more = "; the grid is too small on both sides, too" if mine.limit.of_grid else ""
        return f"{_COALESCED.format(other.side)}{more}"
    alike = all(one.work(unit) for one in (mine, other) for unit in ("sm_throughput", "l1_throughput")) and not _spread(
        mine, other
    )
    return mine.limit.remedy.replace(f"{limits.COALESCE}; ", "") if alike and not _devices(mine, other) else mine.limit.remedy


def _kernels(case: DeviceCase, rows: pd.DataFrame) -> list[_Kernel]:
    """Return each side's longest kernel among these rows, if it has counters."""
    found = []
    for key in SIDES:
        times = rows.groupby("name")[f"{key}_ns"].sum()
        table, trace = _table(case, key), case.side(key).trace
        if times.empty or table.empty or times.max() <= 0:
            continue
        name = times.idxmax()
        mine = table[(table["kernel"] == name).fillna(False).to_numpy(bool)]
        if len(mine):
            row = counters.over_elapsed(trace, {str(column): value for column, value in mine.iloc[0].items()})
            kinds = rows.loc[(rows["name"] == name).fillna(False).to_numpy(bool), "kind"].dropna()
            kind = str(kinds.iloc[0]) if len(kinds) else None
            found.append(_Kernel(case.side(key).name, trace, row, launches.of(trace, row), limits.of(trace, row), kind))
    return found


def _table(case: DeviceCase, key: str) -> pd.DataFrame:
    """Return a side's counters by kernel, computed once."""
    derived = case.side(key).trace.derived
    if _KEY not in derived:
        derived[_KEY] = counters.table(case.side(key).trace)
    result: pd.DataFrame = derived[_KEY]
    return result


def _title(one: _Kernel) -> str:
    """Return what limits a kernel; it is called it if the capture has no name, as the finding's title names it."""
    title = one.limit.title if one.limit else ""
    return f"it{title.removeprefix('the kernel')}" if one.called == "it" else title


def _devices(a: _Kernel, b: _Kernel) -> list[str]:
    """Return a sentence if the devices differ, by their compute capability or number of multiprocessors."""
    for key, told in _DEVICES.items():
        values = [one.device.get(key) for one in (a, b)]
        if None not in values and values[0] != values[1]:
            return [told.format(values[0], a.side, values[1], b.side)]
    return []


def _launches(a: _Kernel, b: _Kernel) -> list[str]:
    """Return a sentence if grids or blocks differ."""
    if not a.launch.sizes or not b.launch.sizes:
        return []
    shapes = [(one.launch.grid, one.launch.block) for one in (a, b)]
    same_size = (a.launch.blocks, a.launch.threads) == (b.launch.blocks, b.launch.threads)
    if shapes[0] == shapes[1] or (same_size and any(None in shape for shape in shapes)):
        return []
    return [f"Launched in {_launched(a)} in {a.side}, in {_launched(b)} in {b.side}."]


def _launched(one: _Kernel) -> str:
    """Return a launch in words: 4,096 blocks of 256 threads (grid 64,64,1, block 16,16,1)."""
    grid, block = one.launch.grid, one.launch.block
    if not grid or not block or (grid.endswith(_LINE) and block.endswith(_LINE)):
        return one.launch.sizes
    return f"{one.launch.sizes} (grid {grid}, block {block})"


def _products(a: _Kernel, b: _Kernel) -> list[str]:
    """Return a sentence if two products may be of other sizes: a name tells a tile, and so with the grid how much is computed."""
    if not (a.kind == b.kind == "gemm"):
        return []
    tiles = {one.side: _elements(one) for one in (a, b)}
    if all(tiles.values()):
        told = ", ".join(f"{number:,} in {side}" for side, number in tiles.items())
        same = tiles[a.side] == tiles[b.side]
        return [] if same else [f"By their tiles and grids the products have at most so many elements: {told}."]
    for mine, other in ((a, b), (b, a)):
        threads = other.launch.blocks * other.launch.threads
        if tiles[mine.side] and threads and tiles[mine.side] != threads:
            ratio = tiles[mine.side] / threads
            return [
                f"Whether both compute the same product was not recorded: by its tile and grid, that in {mine.side} has at most "
                f"{tiles[mine.side]:,} elements, and {other.side} has {threads:,} threads; with one element a thread, that in "
                f"{other.side} would be {_times(ratio)}."
            ]
    return []


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times smaller" if ratio > 1 else f"{1 / ratio:.3g} times larger"


def _elements(one: _Kernel) -> int:
    """Return how many elements a product has at most, by the tile that its name tells and its number of blocks; 0 if unknown."""
    found = _TILE.search(str(one.row["kernel"])[:_NAME])
    return int(found[1]) * int(found[2]) * one.launch.blocks if found else 0


def _clocks(a: _Kernel, b: _Kernel) -> list[str]:
    """Return a sentence if the multiprocessors' clocks differ: then so do times of equal work."""
    fast = [counters.clock_hz(one.trace, str(one.row["kernel"])) for one in (a, b)]
    if not fast[0] or not fast[1] or abs(fast[0] - fast[1]) <= _CLOCKS * max(fast[0], fast[1]):
        return []
    return [f"The clocks differ: {fast[0] / 1e6:,.0f} MHz in {a.side}, {fast[1] / 1e6:,.0f} MHz in {b.side}."]


def _accesses(a: _Kernel, b: _Kernel) -> list[str]:
    """Return a sentence if one side's accesses keep the first-level cache busy for much longer than the other's."""
    for mine, other in ((a, b), (b, a)):
        if ratio := _spread(mine, other):
            return [
                f"For about as many instructions the L1 cache works {ratio:.3g} times as long in {mine.side} as in {other.side}: "
                "its threads access addresses that are further apart, or banks of shared memory that conflict."
            ]
    return []


def _spread(mine: _Kernel, other: _Kernel) -> float | None:
    """Return how many times as long accesses keep one kernel's first-level cache busy as another's; None if not for long.

    The work of the busiest pipe of the multiprocessors must not be more: then there would be more accesses.
    """
    pipes, cached = ([one.work(unit) for one in (mine, other)] for unit in ("sm_throughput", "l1_throughput"))
    busy = mine.row["l1_active"] or mine.row["l1_throughput"]
    if not all(pipes) or not all(cached) or busy < _CACHED or _devices(mine, other):
        return None
    ratio = cached[0] / cached[1]
    return ratio if ratio >= _SPREAD and pipes[0] <= _SAME_ACCESSES * pipes[1] else None


def _bytes(a: _Kernel, b: _Kernel) -> list[str]:
    """Return a sentence if one side moves more data between the device's memory and its cache."""
    moved = [one.row["dram_bytes"] for one in (a, b)]
    if any(pd.isna(count) for count in moved) or abs(moved[0] - moved[1]) <= _BYTES * max(moved):
        return []
    told = [f"{words.size(float(count))} in {one.side}" for count, one in zip(moved, (a, b), strict=True)]
    return [f"Data moved to and from the device's memory: {', '.join(told)}."]


def _rules(known: list[_Kernel]) -> list[str]:
    """Return what Nsight Compute itself says where counters do not tell, or of a grid that is too small."""
    said: list[str] = []
    for one in known:
        if one.limit is None or one.limit.unclear or one.limit.of_grid:
            said += [f"{text} (in {one.side})" for text in launches.rules(one.trace, str(one.row["kernel"]), 1)]
    return said
