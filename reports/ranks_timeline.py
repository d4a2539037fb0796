"""The timeline of a job as an interactive part of a page: a lane for each rank, by corrected clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelscope.analysis.ranks.parts import TRANSFER, UNMATCHED, WAITING
from kernelscope.reports import units
from kernelscope.reports.colours import COMMUNICATION, COMPUTING
from kernelscope.reports.colours import UNMATCHED as UNMATCHED_COLOUR
from kernelscope.reports.colours import WAITING as LATE
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import printable
from kernelscope.reports.timeline import row_of

_COMPUTING = "computing"
_COLOURS = {_COMPUTING: COMPUTING, WAITING: LATE, TRANSFER: COMMUNICATION, UNMATCHED: UNMATCHED_COLOUR}
_TEXTS = ("name", "layer", "phase", "kind", "library", "problem", "launch")  # the texts of an event in the script


def timeline(made: Mapping[str, Any], caused: Sequence[Mapping[str, int]], ranks: int) -> Interactive:
    """Return the timeline of a job (analysis.ranks.job with its timeline).

    caused: waiting by step, which chooses the step shown first. ranks: number of ranks of the job.
    """
    lanes = made["lanes"]
    shown, step = _first(lanes, caused)
    parts = list(dict.fromkeys(part for lane in lanes for part in lane["part"]))
    keys = list(dict.fromkeys(key for lane in lanes for key in zip(lane["part"], lane["operation"], strict=True)))
    operations = list(dict.fromkeys(operation for _, operation in keys if operation is not None))
    empty = [-1] * len(keys)
    legend = [{"title": part, "of": "owners", "colour": _COLOURS[part]} for part in parts]
    of = f"{len(lanes)} of {ranks} ranks" if len(lanes) < ranks else f"{ranks} ranks"
    title = f"{of}, {units.duration(made['wall_ns'])}"
    side = {
        "name": "job",
        "title": title if shown is None else f"{title}; shown first: step {step}",
        "begins": 0,
        "shown": shown,
        "wall": made["wall_ns"],
        "texts": {"name": parts, "kind": [printable(operation) for operation in operations]}
        | {text: [] for text in _TEXTS if text not in ("name", "kind")},
        "labels": dict.fromkeys(_TEXTS, empty)
        | {
            "name": [parts.index(part) for part, _ in keys],
            "kind": [-1 if operation is None else operations.index(operation) for _, operation in keys],
        },
        "owners": [parts.index(part) for part, _ in keys],
        "colours": [parts.index(part) for part, _ in keys],
        "lanes": [_lane(lane, {key: place for place, key in enumerate(keys)}) for lane in lanes],
    }
    return Interactive(
        key="timeline",
        title="Timeline of the ranks",
        kind="timeline",
        data={"sides": [side], "legend": legend, "owned": "each rank: "},
        alternative=f"Timeline of {of} by corrected clocks: when each computes, transfers and waits. "
        "The sums are in the table of ranks.",
        note="By corrected clocks. White is time in which a rank neither computes nor communicates. "
        + ("It shows the ranks that others wait for most, and those that wait most." if len(lanes) < ranks else ""),
    )


def _first(lanes: Sequence[Mapping[str, Any]], caused: Sequence[Mapping[str, int]]) -> tuple[list[int] | None, int | None]:
    """Return start and end of the step with the most waiting on these ranks, and its number; None if there is only one step."""
    steps = min(len(lane["steps"][0]) for lane in lanes)
    if steps < 2:
        return None, None
    sums = np.zeros(steps, dtype=np.int64)
    for row in caused:
        sums[min(row["step"], steps - 1)] += row["ns"]
    step = int(sums.argmax())
    return [min(lane["steps"][0][step] for lane in lanes), max(lane["steps"][1][step] for lane in lanes)], step


def _lane(lane: Mapping[str, Any], labels: Mapping[Any, int]) -> dict[str, Any]:
    """Return a rank's lane as the script reads it."""
    waited = sum(ns for ns, part in zip(lane["duration_ns"], lane["part"], strict=True) if part == WAITING)
    label = [labels[key] for key in zip(lane["part"], lane["operation"], strict=True)]
    name = f"rank {lane['rank']}"
    rows = [row_of({"start_ns": lane["start_ns"], "duration_ns": lane["duration_ns"], "label": label, "events": None})]
    title = f"{name}: waits {units.duration(waited)} for ranks"
    return {"kind": "step", "name": name, "title": title, "thread": None, "quiet": False, "rows": rows}
