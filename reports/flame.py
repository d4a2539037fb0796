"""Flame graphs of one or several runs: one part of a page, in which a reader chooses the run and the way of folding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.reports import units
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import WHOLE, printable

_HOW = (
    "A frame is as wide as the time that it took, with all that is inside of it; below it stand the frames inside of it, the "
    "longest first, not in order of time. Times are of recorded steps, which take longer than clean ones. Click a frame to fill "
    "the width with it, one above it to go back"
)
_COLUMNS = ("key", "title", "what", "per", "name", "frame", "depth", "total_ns", "count")


def flame(sides: Sequence[tuple[str, Mapping[str, Any] | str]]) -> Interactive:
    """Return the flame graphs of runs: what each is called, and what analysis.timeline.flame gives of it or why there is none."""
    found = [(name, side) for name, side in sides if not isinstance(side, str)]
    missing = [f"{name}: {side}" for name, side in sides if isinstance(side, str)]
    missing += [f"{name}: left out: {'; '.join(side['left_out'])}" for name, side in found if side["left_out"]]
    data = {"several": len(sides) > 1, "sides": [_side(name, side) for name, side in found]} if found else {}
    return Interactive(
        "flame", "Flame graph", "flame", data, _alternative(found), ". ".join([*([_HOW] if found else []), *missing])
    )  # fmt: skip


def _side(name: str, side: Mapping[str, Any]) -> dict[str, Any]:
    trees = [{key: tree[key] for key in _COLUMNS} for tree in side["trees"]]
    return {
        "name": printable(name), "steps": side["steps"], "names": [printable(text, WHOLE) for text in side["names"]],
        "frames": side["frames"], "trees": trees,
    }  # fmt: skip


def _alternative(found: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Say how long each run's whole is and what the largest frames directly below it are."""
    if not found:
        return "No flame graph."
    said = []
    for name, side in found:
        tree = side["trees"][0]
        rows = zip(tree["depth"], tree["name"], tree["total_ns"], strict=True)
        top = [f"{side['names'][text]} {units.duration(total)}" for depth, text, total in rows if depth == 1]
        said.append(f"{name} {units.duration(tree['total_ns'][0])}, of it {', '.join(top[:3])}")
    return f"Flame graph: {'; '.join(said)}. The same numbers are in the tables by layer and by kernel."
