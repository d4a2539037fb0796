"""The interactive parts of reports: timelines, flame graphs and what was sampled over time, of runs and of imported captures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kernelscope.analysis.run import Run
    from kernelscope.analysis.trace import Trace
    from kernelscope.reports.interactive import Interactive

Source = TypeVar("Source")
Made = TypeVar("Made")
Side = tuple[str, Mapping[str, Any] | str]  # its name, and what there is to draw or the reason why there is nothing


def of_runs(runs: Sequence[Run]) -> list[Interactive]:
    """Return the parts of one run or of several side by side."""
    from kernelscope.analysis import over_time

    return _of_runs([(run.name, run) for run in runs], over_time.of_run)


def beside(result: Mapping[str, Any], folder: Path) -> list[Interactive]:
    """Return the parts of a recorded comparison, from the run folders beside it; of one that is gone, the reason."""
    from kernelscope.analysis import over_time

    return _of_runs([(name, _tried(partial(_run, folder), name)) for name in result["frameworks"]], over_time.of_run)


def of_capture(name: str, trace: Trace) -> list[Interactive]:
    """Return the parts of an imported capture."""
    from kernelscope.analysis import over_time
    from kernelscope.reports import over_time as samples

    parts = _of_traces([(name, trace)])
    return [*parts, *samples.over_time(_sides([(name, trace)], over_time.of_trace))] if len(trace.samples) else parts


def _of_runs(runs: Sequence[tuple[str, Run | str]], sampled: Callable[[Run], dict[str, Any]]) -> list[Interactive]:
    from kernelscope.reports import over_time

    traces = [(name, run if isinstance(run, str) else _tried(type(run).trace, run)) for name, run in runs]
    return [*_of_traces(traces), *over_time.over_time(_sides(runs, sampled))]


def _of_traces(traces: Sequence[tuple[str, Trace | str]]) -> list[Interactive]:
    from kernelscope.analysis.flame import flame
    from kernelscope.analysis.timeline import timeline
    from kernelscope.reports import flame as flames
    from kernelscope.reports import timeline as timelines

    return [timelines.timeline(_sides(traces, timeline)), flames.flame(_sides(traces, flame))]


def _run(folder: Path, name: str) -> Run:
    """Open a run folder beside a comparison; raise EvidenceError where there is none."""
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.analysis.run import Run

    # compare.json may be somebody else's: no name in it leads out of its folder
    if Path(name).name != name or not (folder / name / "run.json").is_file():
        raise EvidenceError("its run folder is not beside the comparison")
    return Run(folder / name)


def _sides(sources: Sequence[tuple[str, Source | str]], make: Callable[[Source], dict[str, Any]]) -> list[Side]:
    return [(name, source if isinstance(source, str) else _tried(make, source)) for name, source in sources]


def _tried(make: Callable[[Source], Made], source: Source) -> Made | str:
    """Return what `make` makes of a source, or why the evidence does not allow it."""
    from kernelscope.analysis.errors import EvidenceError

    try:
        return make(source)
    except EvidenceError as error:
        return str(error)
