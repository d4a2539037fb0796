"""Memory over time by kind and by layer: a part of a page; a click shows which layers hold memory at that moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.device.memory import BEFORE
from kernelscope.reports import units
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import printable

_HOW = (
    "Memory allocated by the framework, by purpose, which is derived from the operator that allocated it and from its lifetime. "
    "{source}he measured steps are shaded. Click a moment, or move with the arrow keys, to see which layers "
    "hold memory"
)


def memory(sides: Sequence[tuple[str, Mapping[str, Any] | str]], captured: bool = False) -> list[Interactive]:
    """Return the part of a page: (name, result of analysis.timeline.memory or the reason why there is none) for each run.

    The device with the highest peak comes first. Empty if no run has allocations with addresses. captured: whether it is of a
    capture, which has no passes.
    """
    shown = [
        (f"{name}: {use['device']}" if len(sides) > 1 else str(use["device"]), use)
        for name, side in sides if not isinstance(side, str) for use in side["devices"]
    ]  # fmt: skip
    if not shown:
        return []
    shown.sort(key=lambda one: -max(_totals(one[1])))
    data = {"devices": [_device(name, use) for name, use in shown]}
    how = _HOW.format(source="T" if captured else "From the kernels pass; t")
    return [Interactive("memory", "Memory by kind and layer", "memory", data, _alternative(shown), how)]


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
    """Return the peak of each device and its composition, in words."""
    said = []
    for name, use in shown:
        totals = _totals(use)
        at = max(range(len(totals)), key=totals.__getitem__)
        parts = sorted(((sizes[at], text) for text, sizes in use["kinds"].items()), reverse=True)
        of = ", ".join(f"{text} {units.size(size)}" for size, text in parts[:3] if size)
        said.append(f"{printable(name)} holds at most {units.size(totals[at])}: {of}")
    return f"Memory in use over time, by kind. {'; '.join(said)}."
