"""In PyTorch's totals, an operator that keeps the host far longer than the device works on it: copies, mostly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import host_totals
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.explain.device.calls import COPIES

_TIMES = 10.0  # times the device's work: an operator that only launches it, or waits for it alone, takes less
_MUCH = 0.2  # of the device's work, and of the host's time
_LONG_CALL = 1_000_000  # ns a call: dispatch and a launch take far less
_COPYING = (
    "find what triggers these copies: results that are fetched (.item(), .cpu(), .tolist(), print), tensors that the program "
    "makes on the host for each use, and types that the device lacks (float64), which the host converts; make such tensors once, "
    "on the device, in float32; pass with_stack=True, and print with group_by_stack_n=5, to see their lines"
)
_OTHER = "warm up before you record; if it stays as long, the host computes it: find which types or sizes the device lacks"


@dataclass(frozen=True)
class _Held:
    """An operator's own time on the host in ns, its calls, and its own work on the device in ns.

    place: the line that calls it, None if it was not printed.
    """

    name: str
    ns: float
    count: float
    device_ns: float
    place: str | None


def held_up(subject: Subject) -> list[Advice]:
    """An operator takes far longer on the host than its work on the device."""
    host_ns = float(subject.trace.info.get("host_ns") or 0)
    if subject.timeline or subject.on_host or subject.framework != "pytorch" or host_totals.takes_longer(subject):
        return []
    one = _longest(subject, host_ns)
    if one is None:
        return []
    saves = one.ns - one.device_ns
    of = f" of {words.duration(host_ns)}" if host_ns else ""
    return [
        Advice(
            "host-bound",
            f"the host is in {one.name} far longer than the device works on it",
            saves,
            "the operator's time on the host less its work on the device, if the device does nothing else meanwhile: totals do "
            "not show whether the host computes or only waits there for earlier work",
            [
                f"The host is in {one.name} for {words.duration(one.ns)}{of}, without what it calls, in {words.count(one.count)} "
                f"calls of {words.duration(one.ns / one.count)} on average; the device works on it for "
                f"{words.duration(one.device_ns)}.",
                *([f"It is called at {one.place}."] if one.place else []),
            ],
            _COPYING if re.search(COPIES, one.name) else _OTHER,
            "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
            last=one.ns < subject.step_ns,
        )
    ]


def _longest(subject: Subject, host_ns: float) -> _Held | None:
    """Return the operator that holds the host up longest, if its time is noticeable."""
    totals = subject.trace.totals
    mine = totals[((totals["table"] == "operators") & totals["count"].gt(0)).fillna(False).to_numpy(bool)]
    sums = mine.groupby(mine["name"].astype("string"))[["count", "duration_ns"]].sum().astype(float)
    found = [_held(subject, str(name), row) for name, row in sums.iterrows()]
    least = _MUCH * max(subject.step_ns, host_ns)
    kept = [one for one in found if one and one.ns > max(least, _TIMES * one.device_ns, _LONG_CALL * one.count)]
    return max(kept, key=lambda one: one.ns, default=None)


def _held(subject: Subject, name: str, sums: pd.Series) -> _Held | None:
    """Return an operator that has work on the device of its own; None if it has none, or if its own time was not printed.

    Others call operators, whose work on the device they also wait for. Calls that wait for the device have rows of their own.
    """
    rows = subject.rows[(subject.rows["operator"] == name).fillna(False).to_numpy(bool)]
    known: dict[str, Any] | None = (subject.trace.info.get("host_own") or {}).get(name)
    device_ns = float(words.time_of(rows)) or float((known or {}).get("device_ns") or 0)  # where kernels count, as printed
    if not known or not device_ns:
        return None
    return _Held(name, float(known["ns"]), float(sums["count"]), device_ns, known.get("place"))


RULES: tuple[Rule, ...] = (held_up,)
