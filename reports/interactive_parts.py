"""Make the interactive parts of reports on runs and imported captures: timelines, flame graphs, rooflines, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kernelscope.analysis.device import ceilings
from kernelscope.analysis.device.roofline import roofline
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.timeline import over_time
from kernelscope.analysis.timeline.flame import flame
from kernelscope.analysis.timeline.lanes import MOST, timeline
from kernelscope.analysis.timeline.memory import memory_over_time
from kernelscope.analysis.trace import Trace
from kernelscope.reports import flame as flames
from kernelscope.reports import over_time as lines
from kernelscope.reports import timeline as timelines
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.memory import memory as memory_part
from kernelscope.reports.roofline import roofline as roofline_part

Source = TypeVar("Source")
Made = TypeVar("Made")
Known = Callable[[Any], Any]  # returns the best known ceilings for those in a run's record
Side = tuple[str, Mapping[str, Any] | str]  # its name, and what to draw or the reason why there is nothing


def of_runs(runs: Sequence[Run], known: Known) -> list[Interactive]:
    """Return the parts of one run or of several side by side."""
    return _of_runs([(run.name, run) for run in runs], known)


def beside(result: Mapping[str, Any], folder: Path, known: Known) -> list[Interactive]:
    """Return the parts of a recorded comparison, from the run folders beside it; a missing folder gives a reason."""
    return _of_runs([(name, _tried(partial(_run, folder), name)) for name in result["frameworks"]], known)


def of_capture(name: str, trace: Trace) -> list[Interactive]:
    """Return the non-empty parts of an imported capture."""
    parts = [*_of_traces([(name, trace)], True), *_memory([(name, trace)], True)]
    if len(trace.samples) or len(trace.memory):
        parts += lines.over_time(_sides([(name, trace)], over_time.of_trace))
    return [part for part in parts if part.data]


def _of_runs(runs: Sequence[tuple[str, Run | str]], known: Known) -> list[Interactive]:
    traces = [(name, run if isinstance(run, str) else _tried(type(run).trace, run)) for name, run in runs]
    both = [(run, trace) for (_, run), (_, trace) in zip(runs, traces, strict=True)]
    sampled = [run if isinstance(run, str) else over_time.of_run(run, trace) for run, trace in both]
    names = [name for name, _ in runs]
    parts = [*_of_traces(traces), *_memory(traces), *_rooflines(names, both, known)]
    return [*parts, *lines.over_time(list(zip(names, sampled, strict=True)))]


def _memory(traces: Sequence[tuple[str, Trace | str]], captured: bool = False) -> list[Interactive]:
    return memory_part(_sides(traces, memory_over_time), captured)


def _rooflines(names: Sequence[str], both: Sequence[tuple[Run | str, Trace | str]], known: Known) -> list[Interactive]:
    """Return the rooflines of runs if any has ceilings; else nothing."""
    if not any(has_ceilings(run) for run, _ in both if not isinstance(run, str)):
        return []
    made = [_tried(partial(_roofline, known), pair) for pair in both]
    return [roofline_part(list(zip(names, made, strict=True)))]


def has_ceilings(run: Run) -> bool:
    """Return whether a run's record holds ceilings of its device."""
    record = run.record.get("ceilings")
    return isinstance(record, dict) and bool(record.get("copies") or record.get("products"))


def _roofline(known: Known, pair: tuple[Run | str, Trace | str]) -> dict[str, Any]:
    run, trace = pair
    if isinstance(run, str) or isinstance(trace, str):
        raise EvidenceError(run if isinstance(run, str) else str(trace))
    against = ceilings.of_record(known(run.record["ceilings"]), "run.json") if has_ceilings(run) else None
    return roofline(trace, "kernel", against).as_dict()


def _of_traces(traces: Sequence[tuple[str, Trace | str]], captured: bool = False) -> list[Interactive]:
    drawn = partial(timeline, most=MOST // max(len(traces), 1), whole=True)
    return [timelines.timeline(_sides(traces, drawn)), flames.flame(_sides(traces, flame), captured)]


def _run(folder: Path, name: str) -> Run:
    """Open a run folder beside a comparison; raise EvidenceError if there is none."""
    # compare.json may be untrusted: no name in it may lead out of its folder
    if Path(name).name != name or kind_of(folder / name) is not Kind.RUN:
        raise EvidenceError("its run folder is not beside the comparison")
    return Run(folder / name)


def _sides(sources: Sequence[tuple[str, Source | str]], make: Callable[[Source], dict[str, Any]]) -> list[Side]:
    return [(name, source if isinstance(source, str) else _tried(make, source)) for name, source in sources]


def _tried(make: Callable[[Source], Made], source: Source) -> Made | str:
    """Return the result of `make`, or why the evidence does not allow it."""
    try:
        return make(source)
    except EvidenceError as error:
        return str(error)
