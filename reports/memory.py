"""Memory over time by kind and by layer: the part of a page in which a reader clicks a moment to see which layers hold what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.device.memory import BEFORE
from kernelscope.reports import units
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import printable

_HOW = (
    "What the framework's allocator had handed out, by what it was for, as told by the operator that took it and by how long it "
    "was kept. Of the kernels pass; shaded: the measured steps. Click a moment, or move with the arrow keys, to see which layers "
    "hold what"
)


def memory(sides: Sequence[tuple[str, Mapping[str, Any] | str]]) -> list[Interactive]:
    """Return the part of a page: what each run is called, and what analysis.timeline.memory gives of it or why there is none.

    The device that holds most comes first. Nothing where no run has allocations with addresses.
    """
    shown = [
        (f"{name}: {use['device']}" if len(sides) > 1 else str(use["device"]), use)
        for name, side in sides if not isinstance(side, str) for use in side["devices"]
    ]  # fmt: skip
    if not shown:
        return []
    shown.sort(key=lambda one: -max(_totals(one[1])))
    data = {"devices": [_device(name, use) for name, use in shown]}
    return [Interactive("memory", "Memory by kind and layer", "memory", data, _alternative(shown), _HOW)]


def _device(name: str, use: Mapping[str, Any]) -> dict[str, Any]:
    kinds, layers = (
        [{"name": printable(text), "bytes": sizes, "before": text == BEFORE} for text, sizes in use[key].items()]
        for key in ("kinds", "layers")
    )
    return {"name": printable(name), "time_ns": use["time_ns"], "kinds": kinds, "layers": layers, "spans": use["spans"]}


def _totals(use: Mapping[str, Any]) -> list[int]:
    """Return the bytes in use at each time."""
    return [sum(sizes) for sizes in zip(*use["kinds"].values(), strict=True)]


def _alternative(shown: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Say the most that each device held, and of what that was."""
    said = []
    for name, use in shown:
        totals = _totals(use)
        at = max(range(len(totals)), key=totals.__getitem__)
        parts = sorted(((sizes[at], text) for text, sizes in use["kinds"].items()), reverse=True)
        of = ", ".join(f"{text} {units.size(size)}" for size, text in parts[:3] if size)
        said.append(f"{printable(name)} holds at most {units.size(totals[at])}: {of}")
    return f"Memory in use over time, by kind. {'; '.join(said)}."
