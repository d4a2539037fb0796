"""Whatever is recorded at a path, as one object whose parts are made once, when first used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting.breakdowns import Breakdown, breakdown
from kernelscope.analysis.attribution import steps
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import archives, kinds, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.records import read_object


@dataclass(eq=False)
class Recording:
    """A run, an imported capture, a capture, a comparison, a sweep, or a folder of runs.

    path: where it is, unpacked if it was packed. kind: which of these it is. Properties raise EvidenceError, with one line that
    names file, place and remedy, for what cannot be read or was not recorded.
    """

    path: Path
    kind: Kind
    _breakdowns: dict[str, Breakdown] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def run(self) -> Run:
        """The run folder with its passes; raises EvidenceError if it is not one."""
        return Run(self.path)

    @cached_property
    def trace(self) -> Trace:
        """The Trace of the recording; for a run, that of its kernels pass."""
        return reading.read(self.path) if self.kind in (Kind.IMPORT, Kind.CAPTURE) else self.run.trace()

    @cached_property
    def _stepped(self) -> Trace:
        """The trace; if the profiler of a capture marks no steps, with steps from ranges that are named like steps."""
        named = steps.named_by_program(self.trace)
        return self.trace if named is None else steps.applied(self.trace, named)

    @property
    def steps(self) -> pd.DataFrame:
        """The steps that the profiler, or the program's ranges, mark: a table like Trace.steps; empty if nothing marks them."""
        return self._stepped.steps

    def breakdown(self, by: str = "layer") -> Breakdown:
        """Return where a step's time goes; by: a key of accounting.breakdowns.BY."""
        if by not in self._breakdowns:
            self._breakdowns[by] = breakdown(self._stepped, by)
        return self._breakdowns[by]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What is known besides its numbers: versions, settings, machine, command, warnings, as plain data."""
        marks = {kind: name for name, kind in kinds.MARKS.items()}
        if self.kind in marks:
            return read_object(self.path if self.path.is_file() else self.path / marks[self.kind])
        return dict(self.trace.info)

    @cached_property
    def runs(self) -> list[Recording]:
        """The runs of a comparison, a sweep or a folder of runs, by name; for anything else, only itself."""
        patterns = {Kind.COMPARISON: "*", Kind.RUNS: "*", Kind.SWEEP: "cells/*"}
        if self.kind not in patterns:
            return [self]
        folder = self.path.parent if self.path.is_file() else self.path
        result = sorted(file.parent for file in folder.glob(f"{patterns[self.kind]}/{kinds.RUN}"))
        return [Recording(path, Kind.RUN) for path in result]


def open_recording(path: str | Path) -> Recording:
    """Return the recording at a path; raise EvidenceError if there is nothing."""
    path = archives.folder(Path(path))
    if not path.exists():
        raise EvidenceError(f"{path}: no such file or folder; name a run folder, a capture or an archive of one")
    return Recording(path, kind_of(path))
