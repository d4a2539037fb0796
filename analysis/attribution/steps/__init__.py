"""Steps of a capture: marked by the profiler, or found in what repeats.

Tried in this order: the profiler's steps; ranges that repeat and hold the device's work; iterations of the input; calls and
ranges that occur once a step; the period of the kernel sequence. The result names its method and its confidence. Only whole
steps count: warm-up, compilation, uploads and steps cut off at the capture's ends are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps import calls, inputs, markers, period, ranges
from kernelscope.analysis.attribution.steps.model import DetectedSteps, StreamWork, work_of
from kernelscope.analysis.attribution.steps.request import Request, parse
from kernelscope.analysis.attribution.steps.window import CUT, first_work, windowed
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace

__all__ = [
    "DetectedSteps", "Request", "applied", "beside_marked", "candidates", "find", "first_work", "inside", "named_by_program",
    "of_device", "parse", "windowed",
]  # fmt: skip

_SEVERAL = 1.8  # times as many steps
_FEW, _MOMENT = 10, 0.01  # fewer steps in a smaller share of the recording are no loop
_FINDERS: tuple[Callable[[Trace, StreamWork], Iterator[DetectedSteps]], ...] = (
    ranges.find,
    inputs.find,
    calls.find,
    lambda _, work: period.find(work),
)


def candidates(trace: Trace, request: Request | None = None) -> list[DetectedSteps]:
    """Return the candidates for a capture's steps, likeliest first; an empty list if nothing repeats.

    request: what the user asks for. Raises EvidenceError if the capture does not have it.
    """
    request = request or Request()
    work = work_of(trace, request.device)
    if request.method == "whole" or (request.method is None and trace.info.get(CUT)):
        return []
    marked = markers.find(trace)
    if request.method is None:
        found = [marked] if marked is not None else _repeating(trace, request, work)
        return found if request.only is None else _some(found, request, request.only)
    named = list(_named(trace, work, request))
    if not named:
        raise EvidenceError(f"--steps {request.text}: {_why_not(trace, work, request)}; see `kernelscope steps PATH`")
    return named[:1]


def _some(found: list[DetectedSteps], request: Request, only: tuple[int, int]) -> list[DetectedSteps]:
    """Return the likeliest steps, limited to the numbers that the user asks for; raise EvidenceError if none is among them."""
    if not found:
        raise EvidenceError(f"--steps {request.text}: the capture marks no steps and nothing in it repeats")
    numbers = found[0].table["step"]
    if not numbers.between(*only).any():
        raise EvidenceError(f"--steps {request.text}: the steps are {numbers.min()} to {numbers.max()}")
    return [replace(found[0], only=(max(only[0], int(numbers.min())), min(only[1], int(numbers.max()))))]


def beside_marked(trace: Trace, request: Request) -> list[DetectedSteps]:
    """Return alternatives to the steps that the profiler marks; none if the user asked for certain steps."""
    if request.method is not None or markers.find(trace) is None:
        return []
    return _repeating(trace, request, work_of(trace, request.device))


def _repeating(trace: Trace, request: Request, work: StreamWork) -> list[DetectedSteps]:
    result = [ranges.without_warmup(trace, one, work) for finder in _FINDERS for one in finder(trace, work)]
    result = [one for one in result if not ranges.within_one_layer(trace, one)]
    if request.device is None:
        first, last = trace.extent() or (0, 0)
        moments = [_is_a_moment(one, last - first, work) for one in result]
        # exact periods of a few steps are kept, unless everything that repeats is part of a start-up
        loop = not all(moments)
        result = [
            one for one, moment in zip(result, moments, strict=True)
            if not moment or (loop and one.method == "period" and period.is_exact(one))
        ]  # fmt: skip
    return sorted(result, key=lambda one: not _is_shorter(one, result[0]))


def _is_a_moment(steps: DetectedSteps, recorded_ns: int, work: StreamWork) -> bool:
    """Return whether these steps are few and together a tiny share of the recording: a repetition within start-up."""
    mine = (work.at >= steps.table["start_ns"].min()) & (work.at < steps.table["end_ns"].max())
    lasted = int(work.end[mine].max() - work.start[mine].min()) if mine.any() else 0
    return len(steps.table) < _FEW and lasted < _MOMENT * recorded_ns


def _is_shorter(one: DetectedSteps, first: DetectedSteps) -> bool:
    """Return whether an exact period of kernels divides the steps that were found first, so that several of it make up one.

    Occasional events in a loop, such as a wait to print a loss, do not mark steps. Ranges and inputs with such names do.
    """
    named = first.method == "input" or (first.method == "range" and ranges.is_named(first.source))
    return one.method == "period" and not named and period.is_exact(one) and len(one.table) > _SEVERAL * len(first.table)


def _named(trace: Trace, work: StreamWork, request: Request) -> Iterator[DetectedSteps]:
    if request.method == "period":
        yield from period.find(work)
    elif request.method == "kernel":
        yield from period.of_kernel(work, request.pattern)
    else:
        yield from ranges.of_name(trace, work, request.pattern)


def _why_not(trace: Trace, work: StreamWork, request: Request) -> str:
    """Return why the requested steps cannot be found."""
    if request.method == "period":
        return "the sequence of kernels does not repeat"
    what = "kernel" if request.method == "kernel" else "range"
    number = period.matching(work, request.pattern) if what == "kernel" else ranges.matching(trace, request.pattern)
    if not number:
        others = _names_that_repeat(trace) if what == "range" else ""
        return f"no {what} has that name" + (f"; ranges that repeat are {others}" if others else "")
    if number == 1:
        return f"there is only one such {what}, and a step lasts from one to the next; --range shows what runs inside a range"
    return f"there are {number} such {what}s, but the device work from one to the next is not alike"


def find(trace: Trace, request: Request | None = None) -> DetectedSteps | None:
    """Return a capture's steps; None if there are none, or if the whole capture was asked for."""
    return next(iter(candidates(trace, request)), None)


def named_by_program(trace: Trace) -> DetectedSteps | None:
    """Return the steps that ranges named like steps mark; None if there are no such ranges, or if other steps are likelier."""
    if len(trace.steps) or not any(ranges.is_named(str(text)) for text in trace.ranges["name"].cat.categories):
        return None
    found = find(trace)
    return found if found is not None and found.method == "range" and ranges.is_named(found.source) else None


def _names_that_repeat(trace: Trace) -> str:
    """Return the names of a few ranges that repeat."""
    return "; ".join(itertools.islice(dict.fromkeys(label for label, _ in ranges.labelled(trace)), 3))


def inside(trace: Trace, pattern: str) -> DetectedSteps:
    """Return the ranges of a name (* is any text, # a number) as steps, so that only the work inside them is analysed.

    Raises EvidenceError if there are none.
    """
    result = ranges.inside(trace, pattern)
    if result is None:
        others = _names_that_repeat(trace)
        raise EvidenceError(
            f"--range {pattern}: no range has that name" + (f"; ranges that repeat are {others}" if others else "")
        )
    return result


def of_device(trace: Trace, device: str | None) -> Trace:
    """Return the trace with only the work of this device; all of it for None. Raises EvidenceError if nothing ran on it."""
    if device is None:
        return trace
    work_of(trace, device)
    tables = {name: getattr(trace, name) for name in device_steps.DEVICE_TABLES}
    return replace(
        trace,
        **{name: table[(table["device"] == device).to_numpy(bool)].reset_index(drop=True) for name, table in tables.items()},
    )


def applied(trace: Trace, steps: DetectedSteps | None) -> Trace:
    """Return the trace with these steps and its device work assigned to them; without steps for None."""
    table = trace.steps.iloc[:0] if steps is None else steps.table
    if steps is not None and steps.method == "profiler" and len(trace.steps):  # warm-up steps keep their device work
        table = trace.steps.assign(warmup=~trace.steps["step"].isin(steps.table["step"]))
    result = replace(trace, steps=table, **{name: getattr(trace, name).copy() for name in device_steps.DEVICE_TABLES})
    if steps is None:
        device_steps.assign(result)
    else:
        of_range = steps.method == "inside"
        device_steps.assign(result, on_device=steps.on_device, marked=steps.method == "profiler", ranges=of_range)
    if steps is not None and steps.method == "inside":
        result.info = {**trace.info, "inside": steps.source}
    if steps is not None and steps.only is not None:  # last, as a step's end on the device depends on the next step
        mine = result.steps["step"].between(*steps.only)
        result.steps = result.steps.assign(warmup=result.steps["warmup"] | ~mine)
    return result
