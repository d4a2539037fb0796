"""Theoretical occupancy of GPU kernels: the warps that can be resident on a multiprocessor, their limit, and the last wave.

The rules are those of NVIDIA's occupancy calculator in CUDA 13.0 (cuda_occupancy.h): warps are allocated whole,
registers per warp in units of 256 within a sub-partition of the multiprocessor, shared memory per block in units of 128 or 256
bytes with 1 kB that the driver reserves from compute capability 8.0 on. Limits of warps, registers and shared memory: CUDA C++
Programming Guide, "Technical specifications per compute capability". The split between L1 cache and shared memory is taken to be
the driver's default: as much shared memory as possible.

Captures do not show, and so the rules leave out: thread block clusters, named barriers, other work on the multiprocessor, and
warps that wait or end early. Achieved occupancy needs hardware counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import pandas as pd

from kernelscope.analysis.trace import Trace, plain

WARP = 32
BLOCK_THREADS = 1024
REGISTER_UNIT = 256
THREAD_REGISTERS = 255  # no kernel with more can run
UNLIMITED = 1 << 31


@dataclass(frozen=True)
class Limits:
    """One compute capability: limits per multiprocessor unless noted; memory in bytes.

    block_registers, block_shared: the most that one block may have (shared memory beyond 48 kB needs the program's opt-in).
    """

    warps: int
    blocks: int
    registers: int
    shared: int
    block_shared: int
    partitions: int = 4
    block_registers: int = 65536
    reserved: int = 0
    shared_unit: int = 256


def _older(warps: int, blocks: int, shared_kb: int, block_kb: int = 48, **more: int) -> Limits:
    return Limits(warps, blocks, more.pop("registers", 65536), shared_kb * 1024, block_kb * 1024, **more)


def _newer(warps: int, blocks: int, shared_kb: int) -> Limits:
    """Return limits from compute capability 8.0 on: a block may have all shared memory but the 1 kB reserved for each block."""
    return Limits(warps, blocks, 65536, shared_kb * 1024, (shared_kb - 1) * 1024, reserved=1024, shared_unit=128)


LIMITS = {
    "3.0": _older(64, 16, 48), "3.2": _older(64, 16, 48, block_registers=32768), "3.5": _older(64, 16, 48),
    "3.7": _older(64, 16, 112, registers=131072),
    "5.0": _older(64, 32, 64), "5.2": _older(64, 32, 96), "5.3": _older(64, 32, 64, block_registers=32768),
    "6.0": _older(64, 32, 64, partitions=2), "6.1": _older(64, 32, 96), "6.2": _older(64, 32, 64, block_registers=32768),
    "7.0": _older(64, 32, 96, 96), "7.2": _older(64, 32, 96, 96), "7.5": _older(32, 16, 64, 64),
    "8.0": _newer(64, 32, 164), "8.6": _newer(48, 16, 100), "8.7": _newer(48, 16, 164), "8.9": _newer(48, 24, 100),
    "9.0": _newer(64, 32, 228),
    "10.0": _newer(64, 32, 228), "10.1": _newer(48, 24, 228), "10.3": _newer(64, 32, 228), "11.0": _newer(48, 24, 228),
    "12.0": _newer(48, 24, 100), "12.1": _newer(48, 24, 100),
}  # fmt: skip

# What limits the number of blocks; of several, the first one is named
LIMITERS = ("warps", "registers", "shared memory", "blocks")


@dataclass(frozen=True)
class Occupancy:
    """One launch. occupancy: resident warps over the most there can be, 0 to 1. blocks: resident on a multiprocessor.

    limiter: one of LIMITERS. waves: blocks of the grid over those resident on the whole device; tail: the share of the device
    that the last wave fills, 1 where it is full. mean_occupancy: what the grid can fill at most, spread over all
    multiprocessors, which is what PyTorch's profiler calls estimated achieved occupancy. The last three are None where the
    number of multiprocessors is not known.
    """

    occupancy: float
    blocks: int
    limiter: str
    waves: float | None = None
    tail: float | None = None
    mean_occupancy: float | None = None


def resident_blocks(limits: Limits, threads: int, registers: int, shared: int) -> dict[str, int]:
    """Return how many blocks each of LIMITERS lets a multiprocessor hold; 0 if a block cannot run at all."""
    warps = ceil(threads / WARP)
    if not 0 < threads <= BLOCK_THREADS:
        return dict.fromkeys(LIMITERS, 0)
    per_warp = ceil(registers * WARP / REGISTER_UNIT) * REGISTER_UNIT
    # a block's registers are checked as if its warps were spread over four sub-partitions, even if there are two (6.0)
    fits = per_warp * ceil(warps / 4) * 4 <= limits.block_registers and registers <= THREAD_REGISTERS
    parts = limits.partitions
    by_registers = limits.registers // parts // per_warp * parts // warps if per_warp else UNLIMITED
    allocated = ceil((shared + limits.reserved) / limits.shared_unit) * limits.shared_unit
    of_shared = 0 if shared > limits.block_shared else limits.shared // allocated if allocated else UNLIMITED
    return {
        "registers": by_registers if fits else 0,
        "shared memory": of_shared,
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
    }


def of_launch(
    capability: str, grid: tuple[int, ...], block: tuple[int, ...], registers: int, shared: int, multiprocessors: int | None
) -> Occupancy | str:
    """Return the occupancy of a launch, or in words why it is unknown. shared: a block's static and dynamic memory, in bytes."""
    limits = LIMITS.get(capability)
    if limits is None:
        return f"the limits of compute capability {capability} are unknown"
    threads, blocks = _product(block), _product(grid)
    limits_of = resident_blocks(limits, threads, registers, shared)
    resident = min(limits_of.values())
    if resident <= 0 or blocks <= 0:
        return f"by the limits of compute capability {capability} no such block can run"
    warps = ceil(threads / WARP)
    limiter = next(name for name in LIMITERS if limits_of[name] == resident)
    occupancy = resident * warps / limits.warps
    if not multiprocessors:
        return Occupancy(occupancy, resident, limiter)
    waves = blocks / (resident * multiprocessors)
    mean = min(blocks / multiprocessors, resident) * threads / (limits.warps * WARP)
    return Occupancy(occupancy, resident, limiter, waves, waves - ceil(waves) + 1, mean)


def _product(sizes: tuple[int, ...]) -> int:
    x, y, z = sizes
    return x * y * z


COLUMNS = (
    "device", "kernel", "grid", "block", "registers", "shared_memory", "count", "duration_ns", "occupancy", "blocks", "limiter",
    "waves", "tail", "mean_occupancy", "reason",
)  # fmt: skip
_KEYS = ["device", "name", "grid", "block", "registers", "shared_memory"]
_NEEDED = {"grid": "grid", "block": "block", "registers": "registers", "shared_memory": "shared memory"}


def table(trace: Trace) -> pd.DataFrame:
    """Return one row per kernel and launch geometry (COLUMNS), longest first; durations add up to those of all kernels.

    reason: why the occupancy of a row is unknown, else null. See Occupancy for the other columns.
    """
    kernels = trace.kernels
    sums = kernels.groupby(_KEYS, dropna=False, observed=True, sort=False)[["count", "duration_ns"]].sum().reset_index()
    devices = {str(entry["device"]): entry for entry in trace.info.get("devices") or []}
    rows = [_row(row, devices.get(str(row["device"]), {})) for row in plain.rows(sums)]
    result = pd.DataFrame(rows, columns=list(COLUMNS))
    return result.sort_values("duration_ns", ascending=False, kind="stable").reset_index(drop=True)


def _row(row: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    result = of_row(row, device)
    known = {name: getattr(result, name) for name in Occupancy.__dataclass_fields__} if isinstance(result, Occupancy) else {}
    return {**row, "kernel": row["name"], **known, "reason": result if isinstance(result, str) else None}


def of_row(row: dict[str, Any], device: dict[str, Any]) -> Occupancy | str:
    """Return the occupancy of a kernel, or in words why it is unknown.

    row: its device, grid, block, registers and shared_memory, None if unknown. device: its entry in a Trace's info.
    """
    if row["device"] is None or not str(row["device"]).startswith("cuda"):
        return "not a kernel of an NVIDIA GPU"
    missing = [name for column, name in _NEEDED.items() if row[column] is None]
    if missing:
        return f"the capture does not have the {' and '.join(missing)}"
    if not device.get("compute_capability"):
        return "the capture does not have the device's compute capability"
    grid, block = (tuple(int(size) for size in str(row[name]).split(",")) for name in ("grid", "block"))
    if len(grid) != 3 or len(block) != 3:
        return "grid or block does not have three sizes"
    shared, multiprocessors = int(row["shared_memory"]), device.get("multiprocessors")
    return of_launch(str(device["compute_capability"]), grid, block, int(row["registers"]), shared, multiprocessors)
