"""Pages as Nsight Compute prints them, from values that tests choose."""

from __future__ import annotations

from collections.abc import Mapping

SPEED = "GPU Speed Of Light Throughput"
Rows = Mapping[str, tuple[str, str]]


def section(name: str, rows: Rows, headed: bool = True) -> str:
    """Return a section. rows: unit and value by metric. headed: whether the table has a head, as since 2021.2."""
    lines = [("Metric Name", "Metric Unit", "Metric Value"), *((metric, *rest) for metric, rest in rows.items())]
    widths = [max(len(line[place]) for line in lines) for place in range(3)]
    dashes = " ".join("-" * width for width in widths)
    body = [f"{line[0]:<{widths[0]}} {line[1]:>{widths[1]}} {line[2]:>{widths[2]}}" for line in lines]
    shown = [dashes, body[0], dashes, *body[1:], dashes] if headed else [dashes, *body[1:], dashes]
    return "\n".join(f"    {line}" for line in [f"Section: {name}", *shown]) + "\n"


def launch(name: str, *sections: str, grid: str = "(216, 1, 1)", block: str = "(256, 1, 1)", capability: str = "8.0") -> str:
    """Return a launch with its sections."""
    return "\n".join([f"  {name} {grid}x{block}, Context 1, Stream 7, Device 0, CC {capability}", *sections, ""])


def speed(
    took: str, sm: float, dram: float, l2: float, l1: float, memory: float | None = None, clock: str = "1.41",
    active: float | None = None,
) -> str:  # fmt: skip
    """Return the first section. took: the duration in ms. active: the share of the cycles in which multiprocessors are active.

    The others are percent of each unit's peak; that of the first-level cache is of the active cycles.
    """
    memory = max(dram, l2, l1) if memory is None else memory
    rows = {
        "SM Frequency": ("cycle/nsecond", clock), "Elapsed Cycles": ("cycle", "4,205,684"),
        "Memory Throughput": ("%", f"{memory:.2f}"), "DRAM Throughput": ("%", f"{dram:.2f}"),
        "Duration": ("msecond", took), "L1/TEX Cache Throughput": ("%", f"{l1:.2f}"), "L2 Cache Throughput": ("%", f"{l2:.2f}"),
        "Compute (SM) Throughput": ("%", f"{sm:.2f}"),
    }  # fmt: skip
    cycles = {} if active is None else {"SM Active Cycles": ("cycle", f"{4_205_684 * active:,.2f}")}
    return section(SPEED, rows | cycles)


def rule(kind: str, *lines: str) -> str:
    """Return what a rule says, as ncu prints it between sections. kind: OPT, WRN or INF."""
    return "\n".join(["", f"    {kind}   {lines[0]}", *(f"          {line}" for line in lines[1:]), "", ""])


def occupancy(theoretical: float, achieved: float) -> str:
    """Return the section on occupancy, in percent."""
    rows = {"Theoretical Occupancy": ("%", f"{theoretical:g}"), "Achieved Occupancy": ("%", f"{achieved:g}")}
    return section("Occupancy", rows)


def launched(registers: int, processors: int = 108, waves: float = 2.0) -> str:
    """Return the section on the launch."""
    rows = {
        "Registers Per Thread": ("register/thread", str(registers)), "Function Cache Configuration": ("", "CachePreferNone"),
        "Static Shared Memory Per Block": ("byte/block", "0"), "Dynamic Shared Memory Per Block": ("byte/block", "0"),
        "# SMs": ("SM", str(processors)), "Waves Per SM": ("", f"{waves:.2f}"),
    }  # fmt: skip
    return section("Launch Statistics", rows)
