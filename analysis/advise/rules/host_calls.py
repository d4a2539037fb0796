"""What the host spends in calls of the device's API, in captures of totals: allocation in the loop, long launches."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.trace import UNLISTED

_MANY = 100  # calls: fewer may be of the program's start
_SHARE = 0.1  # of what the device's work adds up to
_NAMED = 3
_POOL = "https://developer.nvidia.com/blog/using-cuda-stream-ordered-memory-allocator-part-1/"
_GRAPHS = "https://developer.nvidia.com/blog/cuda-graphs/"
_BESIDE = "the time of these calls on the host, which passes beside the device's work or holds it up: totals do not tell which"


def allocations(subject: Subject) -> list[Advice]:
    """Memory of the device is allocated and freed again and again."""
    title = "memory of the device is allocated again and again"
    remedy = (
        "allocate once, before the loop, and use that again; or take memory from a pool: cudaMallocAsync, a caching allocator"
    )
    return _again(subject, call_totals.ALLOCATIONS, "allocator", title, remedy, _POOL)


def creations(subject: Subject) -> list[Advice]:
    """Streams, events or handles are made and thrown away again and again."""
    title, remedy = "streams or events are created again and again", "create them once, before the loop, and use them again"
    return _again(subject, call_totals.CREATIONS, "host-bound", title, remedy, "")


def _again(subject: Subject, pattern: str, topic: str, title: str, remedy: str, link: str) -> list[Advice]:
    """Return the advice on calls that are made in the loop and take a noticeable time, where there are such."""
    calls = _calls(subject, pattern)
    calls = calls[(calls["count"] >= _MANY).to_numpy(bool)]
    ns = float(calls["later_ns"].sum())
    if ns < _SHARE * subject.step_ns or not len(calls):
        return []
    return [Advice(topic, title, ns, _BESIDE, [f"{_listed(calls)}."], remedy, link)]


def launches(subject: Subject) -> list[Advice]:
    """Kernels are shorter than the calls that launch them."""
    calls = _calls(subject, call_totals.LAUNCHES)
    kernels = subject.kernels()
    kernels = kernels[(kernels["name"] != UNLISTED).fillna(True).to_numpy(bool)]
    count, ns = float(kernels["count"].sum()), float(kernels["duration_ns"].sum())
    launched, spent = float(calls["count"].sum()), float(calls["later_ns"].sum())
    if min(count, launched) < _MANY or spent / launched < ns / count:
        return []
    evidence = [
        f"{_listed(calls)}: {words.duration(spent / launched)} each on average, and a kernel takes {words.duration(ns / count)}."
    ]
    remedy = "launch all kernels of a step as one graph (CUDA graph, HIP graph), or make them fewer and larger"
    title = "kernels are shorter than the calls that launch them"
    return [Advice("host-bound", title, spent - ns, _BESIDE, evidence, remedy, _GRAPHS)]


def _calls(subject: Subject, pattern: str) -> pd.DataFrame:
    """Return the calls of that kind in totals; none of captures with a timeline, whose idle time tells more."""
    calls = call_totals.of_the_host(call_totals.sums(subject.trace))
    return call_totals.named(calls, pattern)[: 0 if subject.timeline or subject.on_host else None]


def _listed(calls: pd.DataFrame) -> str:
    """Return the calls that take longest, with their number and time, and without the longest of them."""
    longest = calls.sort_values("later_ns", ascending=False)[:_NAMED]
    numbers = zip(longest.index, longest["count"].tolist(), longest["later_ns"].tolist(), strict=True)
    return ", ".join(f"{count:,.0f} x {name} ({words.duration(ns)})" for name, count, ns in numbers)


RULES: tuple[Rule, ...] = (allocations, creations, launches)
