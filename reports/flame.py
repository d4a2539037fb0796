"""Flame graphs of one or several runs: a part of a page where the reader chooses the run and how to fold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.reports import units
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import WHOLE, printable

_HOW = (
    "The width of a frame is its time, including the frames inside it, which are below it, longest first rather than in order "
    "of time. {times}Click a frame to fill the width with it, or one above it to go back"
)
_OF_RUNS = "Times are of the kernels pass, whose steps take longer than clean ones. "
_COLUMNS = ("key", "title", "what", "per", "name", "frame", "depth", "total_ns", "count")


def flame(sides: Sequence[tuple[str, Mapping[str, Any] | str]], captured: bool = False) -> Interactive:
    """Return flame graphs: (name, result of analysis.timeline.flame or the reason why there is none) of each side.

    captured: whether it is of a capture, which has no passes, not of runs.
    """
    found = [(name, side) for name, side in sides if not isinstance(side, str)]
    missing = [f"{name}: {side}" for name, side in sides if isinstance(side, str)]
    missing += [f"{name}: left out: {'; '.join(side['left_out'])}" for name, side in found if side["left_out"]]
    data = {"several": len(sides) > 1, "sides": [_side(name, side) for name, side in found]} if found else {}
    how = [_HOW.format(times="" if captured else _OF_RUNS)] if found else []
    return Interactive("flame", "Flame graph", "flame", data, _alternative(found), ". ".join([*how, *missing]))


def _side(name: str, side: Mapping[str, Any]) -> dict[str, Any]:
    trees = [{key: tree[key] for key in _COLUMNS} for tree in side["trees"]]
    return {
        "name": printable(name), "steps": side["steps"], "names": [printable(text, WHOLE) for text in side["names"]],
        "frames": side["frames"], "trees": trees,
    }  # fmt: skip


def _alternative(found: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the total time of each run and the largest frames directly below it, in words."""
    if not found:
        return "No flame graph."
    said = []
    for name, side in found:
        tree = side["trees"][0]
        rows = zip(tree["depth"], tree["name"], tree["total_ns"], strict=True)
        top = [f"{side['names'][text]} {units.duration(total)}" for depth, text, total in rows if depth == 1]
        said.append(f"{name} {units.duration(tree['total_ns'][0])}, of which {', '.join(top[:3])}")
    return f"Flame graph: {'; '.join(said)}. The same numbers are in the tables by layer and by kernel."
