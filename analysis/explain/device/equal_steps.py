"""Whether both sides run equally many steps, as their ranges tell: then work that runs more often does so within a step."""

from __future__ import annotations

import re

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase

# Ranges that run once a step or a known number of times, by how the programs' writers and PyTorch name them
_STEP = re.compile(
    r"(?i)(?:^|[\W_])(?:(?:train|training|inference|eval|model|profiler)[ _-]?step|step|iter(?:ation)?|epoch|batch)\b"
)
_OF_PYTORCH = re.compile(r"^ProfilerStep[#*]|^Optimizer\.step#")
_LEAST = 2  # of one step on each side nothing can be told


def told(case: DeviceCase) -> str | None:
    """Return a range that stands for a step, and how often it runs: train_step, 25 times each; None if there is none.

    None, too, if another such range runs more often on one side.
    """
    counts = [_of_steps(case, key) for key in SIDES]
    both = [name for name in counts[0] if name in counts[1]]
    if not both or any(counts[0][name] != counts[1][name] or counts[0][name] < _LEAST for name in both):
        return None
    first = min(both, key=lambda name: (counts[0][name], name))
    return f"{first}, {words.count(counts[0][first])} times each"


def _of_steps(case: DeviceCase, key: str) -> dict[str, float]:
    """Return how often a side runs each range that stands for a step."""
    totals = case.side(key).trace.totals
    ranges = totals[(totals["table"] == "ranges").fillna(False).to_numpy(bool)]
    sums = ranges.groupby(ranges["name"].astype(str))["count"].sum()
    counts = {str(name): float(count) for name, count in sums.items()}
    return {name: count for name, count in counts.items() if _OF_PYTORCH.search(name) or _STEP.search(name)}
