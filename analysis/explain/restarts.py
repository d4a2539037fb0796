"""Several recordings of the same program form one side: each is a restart of it, like the repeats of one run.

One process never says all about a program (where its memory lies makes it slower or faster as a whole), and a profiled script
gives one process per recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kernelscope.analysis.accounting.statistics import median_step_ns
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import sides
from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.recordings.kinds import Kind, kind_of


def recordings(path: Path) -> list[Path]:
    """Return the run folders in a folder that is neither a run nor a comparison itself, by name; else an empty list."""
    if kind_of(path) is not Kind.RUNS:
        return []
    return sorted(inner for inner in path.iterdir() if kind_of(inner) is Kind.RUN)


def load(path: Path) -> Side:
    """Return the side at a path: as from sides.load, or a folder's recordings together.

    Raises EvidenceError if these did different work, or if one cannot be read.
    """
    result = recordings(path)
    return sides.load(path) if not result else merged([sides.load(one) for one in result], path.name)


def merged(restarts: Sequence[Side], name: str) -> Side:
    """Return one side made of several recordings of a program; facts other than times are the first one's."""
    first = restarts[0]
    for other in restarts[1:]:
        sides.refuse_different_work(first, other, "keep the recordings of one side in a folder of their own")
        if other.framework != first.framework:
            raise EvidenceError(
                f"{first.path} is from {first.framework} and {other.path} from {other.framework}: these are two sides"
            )
    _refuse_copies(restarts)
    windows, cells, before, rows = [], [], 0, 0
    for side in restarts:
        windows.append(side.windows.assign(restart=side.windows["restart"] + before))
        cells.append(side.cells.assign(window_row=side.cells["window_row"] + rows))
        before += int(side.windows["restart"].max())
        rows += len(side.windows)
    first.facts["restarts_created"] = [str(side.facts.get("created")) for side in restarts]
    known = [side.foreign_cores for side in restarts if side.foreign_cores is not None]
    first.foreign_cores = max(known, default=None)
    first.name = name
    first.windows = pd.concat(windows, ignore_index=True)
    first.cells = pd.concat(cells, ignore_index=True)
    first.clean = [steps for side in restarts for steps in side.clean]
    first.clean_ns = median_step_ns(first.clean) if first.clean else None
    return first


def _refuse_copies(restarts: Sequence[Side]) -> None:
    """Raise EvidenceError if a recording occurs twice: as two processes that agree so well, it would feign certainty."""
    known: dict[bytes, str] = {}
    for side in restarts:
        if side.clean:
            content = pd.concat(side.clean)[["start_ns", "end_ns"]].to_numpy().tobytes()
            if content in known:
                raise EvidenceError(f"{side.path} is a copy of {known[content]}: remove one, or record the program again")
            known[content] = side.path
