"""Steps of a capture: those that the profiler marks, or those that are found in what repeats.

Tried in this order: the profiler's steps; ranges that repeat and hold the device's work; iterations of the input; calls and
ranges that occur once a step; the period of the kernel sequence itself. What is taken is said, with how sure it is. Only whole
steps count: warm-up, compilation, uploads and what is cut at the capture's ends are outside of steps.
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
_FEW, _MOMENT = 10, 0.01  # fewer steps, and a smaller share of the recording, are no steps of a loop
_FINDERS: tuple[Callable[[Trace, StreamWork], Iterator[DetectedSteps]], ...] = (
    ranges.find,
    inputs.find,
    calls.find,
    lambda _, work: period.find(work),
)


def candidates(trace: Trace, request: Request | None = None) -> list[DetectedSteps]:
    """Return what a capture's steps may be, the likeliest first; an empty list where nothing repeats.

    request: what to look for, where the user says so. Raises EvidenceError where that is not in the capture.
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
    """Return the likeliest steps, of these those with the numbers that the user asks for; raise EvidenceError for others."""
    if not found:
        raise EvidenceError(f"--steps {request.text}: the capture marks no steps and nothing in it repeats")
    numbers = found[0].table["step"]
    if not numbers.between(*only).any():
        raise EvidenceError(f"--steps {request.text}: the steps are {numbers.min()} to {numbers.max()}")
    return [replace(found[0], only=(max(only[0], int(numbers.min())), min(only[1], int(numbers.max()))))]


def beside_marked(trace: Trace, request: Request) -> list[DetectedSteps]:
    """Return what the steps may be beside those that the profiler marks; what the user asks for has none beside it."""
    if request.method is not None or markers.find(trace) is None:
        return []
    return _repeating(trace, request, work_of(trace, request.device))


def _repeating(trace: Trace, request: Request, work: StreamWork) -> list[DetectedSteps]:
    result = [ranges.without_warmup(trace, one, work) for finder in _FINDERS for one in finder(trace, work)]
    result = [one for one in result if not ranges.within_one_layer(trace, one)]
    if request.device is None:
        first, last = trace.extent() or (0, 0)
        moments = [_is_a_moment(one, last - first, work) for one in result]
        # a few steps that are alike in everything are no start-up where a part of theirs, such as a layer, is taken for a loop
        loop = not all(moments)
        result = [
            one for one, moment in zip(result, moments, strict=True)
            if not moment or (loop and one.method == "period" and period.is_exact(one))
        ]  # fmt: skip
    return sorted(result, key=lambda one: not _is_shorter(one, result[0]))


def _is_a_moment(steps: DetectedSteps, recorded_ns: int, work: StreamWork) -> bool:
    """Return whether these are few, and together next to nothing of what was recorded: a part of start-up that repeats."""
    mine = (work.at >= steps.table["start_ns"].min()) & (work.at < steps.table["end_ns"].max())
    lasted = int(work.end[mine].max() - work.start[mine].min()) if mine.any() else 0
    return len(steps.table) < _FEW and lasted < _MOMENT * recorded_ns


def _is_shorter(one: DetectedSteps, first: DetectedSteps) -> bool:
    """Return whether a period of kernels that are alike in everything is a part of what was found first: several of it are one.

    What a loop does now and then, such as waiting to print a loss, marks no steps. Ranges and inputs that are named as such do.
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
    """Return why what was asked for makes no steps."""
    if request.method == "period":
        return "the sequence of kernels does not repeat"
    what = "kernel" if request.method == "kernel" else "range"
    number = period.matching(work, request.pattern) if what == "kernel" else ranges.matching(trace, request.pattern)
    if not number:
        others = _names_that_repeat(trace) if what == "range" else ""
        return f"no {what} has that name" + (f"; ranges that repeat are {others}" if others else "")
    if number == 1:
        return f"only one such {what} is there, and steps go from one to the next; --range looks at what runs inside of a range"
    return f"{number} such {what}s are there, and what the device does from one to the next is not alike"


def find(trace: Trace, request: Request | None = None) -> DetectedSteps | None:
    """Return a capture's steps; None where there are none, or the whole was asked for."""
    return next(iter(candidates(trace, request)), None)


def named_by_program(trace: Trace) -> DetectedSteps | None:
    """Return the steps that the program marks by ranges named like steps; None where nothing is, or others are the steps."""
    if len(trace.steps) or not any(ranges.is_named(str(text)) for text in trace.ranges["name"].cat.categories):
        return None
    found = find(trace)
    return found if found is not None and found.method == "range" and ranges.is_named(found.source) else None


def _names_that_repeat(trace: Trace) -> str:
    """Return the names of some ranges that repeat."""
    return "; ".join(itertools.islice(dict.fromkeys(label for label, _ in ranges.labelled(trace)), 3))


def inside(trace: Trace, pattern: str) -> DetectedSteps:
    """Return the ranges of a name (* is any text, # a number) as steps, so that only what they hold is looked at.

    Raises EvidenceError where there are none.
    """
    result = ranges.inside(trace, pattern)
    if result is None:
        others = _names_that_repeat(trace)
        raise EvidenceError(
            f"--range {pattern}: no range has that name" + (f"; ranges that repeat are {others}" if others else "")
        )
    return result


def of_device(trace: Trace, device: str | None) -> Trace:
    """Return the trace with the work of this device only; all of it for None. Raises EvidenceError where nothing ran on it."""
    if device is None:
        return trace
    work_of(trace, device)
    tables = {name: getattr(trace, name) for name in device_steps.DEVICE_TABLES}
    return replace(
        trace,
        **{name: table[(table["device"] == device).to_numpy(bool)].reset_index(drop=True) for name, table in tables.items()},
    )


def applied(trace: Trace, steps: DetectedSteps | None) -> Trace:
    """Return the trace with these steps, and its device work assigned to them; without steps for None."""
    table = trace.steps.iloc[:0] if steps is None else steps.table
    if steps is not None and steps.method == "profiler" and len(trace.steps):  # those set aside have device work of their own
        table = trace.steps.assign(warmup=~trace.steps["step"].isin(steps.table["step"]))
    result = replace(trace, steps=table, **{name: getattr(trace, name).copy() for name in device_steps.DEVICE_TABLES})
    if steps is None:
        device_steps.assign(result)
    else:
        of_range = steps.method == "inside"
        device_steps.assign(result, on_device=steps.on_device, marked=steps.method == "profiler", ranges=of_range)
    if steps is not None and steps.method == "inside":
        result.info = {**trace.info, "inside": steps.source}
    if steps is not None and steps.only is not None:  # after: when a step ends on the device depends on the next one
        mine = result.steps["step"].between(*steps.only)
        result.steps = result.steps.assign(warmup=result.steps["warmup"] | ~mine)
    return result
