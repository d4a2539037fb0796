"""Steps of a capture: those that the profiler marks, or those that are found in what repeats.

Tried in this order: the profiler's steps; ranges that repeat and hold the device's work; iterations of the input; calls and
ranges that occur once a step; the period of the kernel sequence itself. What is taken is said, with how sure it is. Only whole
steps count: warm-up, compilation, uploads and what is cut at the capture's ends are outside of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps import calls, inputs, markers, period, ranges
from kernelscope.analysis.attribution.steps.model import Found, Work, work_of
from kernelscope.analysis.attribution.steps.request import Request, parse
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace

__all__ = ["Found", "Request", "applied", "candidates", "find", "parse"]

_FINDERS: tuple[Callable[[Trace, Work], Iterator[Found]], ...] = (
    ranges.find,
    inputs.find,
    calls.find,
    lambda _, work: period.find(work),
)


def candidates(trace: Trace, request: Request | None = None) -> list[Found]:
    """Return what a capture's steps may be, the likeliest first; an empty list where nothing repeats.

    request: what to look for, where the user says so. Raises EvidenceError where that is not in the capture.
    """
    request = request or Request()
    if request.method == "whole":
        return []
    marked = markers.find(trace)
    if marked is not None and request.method is None:
        return [marked]
    work = work_of(trace, request.device)
    if request.method is None:
        found = [one for finder in _FINDERS for one in finder(trace, work)]
        return [ranges.without_warmup(trace, one) for one in found]
    named = list(_named(trace, work, request))
    if not named:
        raise EvidenceError(
            f"--steps {request.text}: nothing of the kind occurs twice in the capture; see `kernelscope steps PATH`"
        )
    return named[:1]


def _named(trace: Trace, work: Work, request: Request) -> Iterator[Found]:
    if request.method == "period":
        yield from period.find(work)
    elif request.method == "kernel":
        yield from period.of_kernel(work, request.pattern)
    else:
        yield from ranges.of_name(trace, work, request.pattern)


def find(trace: Trace, request: Request | None = None) -> Found | None:
    """Return a capture's steps; None where there are none, or the whole was asked for."""
    return next(iter(candidates(trace, request)), None)


def applied(trace: Trace, found: Found | None) -> Trace:
    """Return the trace with these steps, and its device work tied to them; without steps for None."""
    table = trace.steps.iloc[:0] if found is None else found.table
    result = replace(trace, steps=table, **{name: getattr(trace, name).copy() for name in device_steps.DEVICE_TABLES})
    device_steps.assign(result, on_device=found is not None and found.on_device)
    return result
