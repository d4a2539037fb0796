"""The host's own time in totals: far longer than the device's work, and what it is mostly spent on."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import host, host_calls, host_operators
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import call_totals

_FAR_LONGER = 2.0  # times the device's work: a host that takes this long does more than wait for it
_LONGER = 1.5  # likewise, if it launches many short kernels, as its own time holds each wait for the device once
_MANY, _SHORT_NS = 1000, 20_000  # launches, and their kernels' time on average
_MOST = 0.5  # of the host's time: of what takes more, nothing runs beside the other, so the shortest is inside all others
_MUCH = 0.2  # of the host's time
_LONG_CALL, _LONG_LAUNCH = 1_000_000, 100_000  # ns of a call, and for each kernel: launching takes neither
_STEPS = r"^ProfilerStep"
_SINGLE = r"::|Func(?:tion)?$"  # in names of operators, and of functions of autograd: no ranges around others
_TO_SEE_MORE = {
    "pytorch": "Record a few steps after warm-up (torch.profiler.schedule), and pass the file that export_chrome_trace() writes, "
    "to see more",
    "tensorflow": "Record the timeline of a step after warm-up (timeline.Timeline of its RunMetadata, tf.profiler) to see more",
    "": "Record a timeline of a few steps after warm-up to see more",
}
_IN_ALL = "the host's time less the device's work, if it includes no slow first step and no waiting for input"
_IN_STEPS = "the time of the steps on the device less its work; waits between steps are left out"
_SPAN = "On the device the steps (ProfilerStep) span {}, from the first kernel of each to its last."
_FIRST = (
    "run the program's work once before the part that you measure, then record again; a service does so before it takes requests"
)
_SETS_UP = r"^(?:cuda|hip)(?:Memset|Malloc|Free|HostAlloc|StreamCreate|SetDevice|DeviceGetStreamPriorityRange)"
_FEW, _SET_UP_NS = 50, 50_000_000  # calls, and ns of each: such calls take microseconds, or some ms at most
_TRAINS = r"(?i)optimizer|backward|_foreach_|multi_tensor|adam|sgd"
_FUSED = r"; fused optimizers(?: \([\w.]+\))?"  # in remedies
_WARM_UP = "warm up before you record: first calls load and compile kernels, and try algorithms; then: "


def takes_longer(subject: Subject) -> list[Advice]:
    """In totals, the host's own time is far longer than the device's work, so the device must have waited.

    Calls and operators that have advice of their own do not count.
    """
    host_ns = float(subject.trace.info.get("host_ns") or 0)
    others = [rule(subject) for rule in (host_calls.allocations, host_calls.creations, host_operators.on_the_host)]
    told_ns = sum(one.saves_ns for found in others for one in found)
    if subject.timeline or host_ns - told_ns < (_LONGER if _launches_much(subject) else _FAR_LONGER) * subject.step_ns:
        return []
    if once := _first_use(subject, host_ns, told_ns):
        return once
    spent, first = _spent(subject, host_ns)
    steps_ns = _steps_on_device(subject)
    within = max(steps_ns - subject.step_ns, 0.0) if steps_ns else np.inf
    waits = min(host_ns - told_ns - subject.step_ns, within)
    bounded = waits == within
    without = f" Other advice covers {words.duration(told_ns)} of it." if told_ns else ""
    return [
        Advice(
            "host-bound",
            "the device waits for the host",
            waits,
            _IN_STEPS if bounded else _IN_ALL,
            [
                f"The host's own time adds up to {words.duration(host_ns)}, {host_ns / subject.step_ns:.3g} times as long as "
                f"the device's work, {words.duration(subject.step_ns)}; it includes {_includes(subject)}.{without}",
                *([_SPAN.format(words.duration(steps_ns))] if bounded else []),
                f"{spent}. {words.text(subject, _TO_SEE_MORE)}.",
            ],
            (_WARM_UP if first else "") + _remedy(subject),
            words.text(subject, host.LINKS),
        )
    ]


def _first_use(subject: Subject, host_ns: float, told_ns: float) -> list[Advice]:
    """Return that most of the device's waiting is the first use of the device, of which this recording tells no more; empty if it
    is not.
    """
    rows: dict[str, int] = subject.trace.info.get("host_rows") or {}
    once = call_totals.at_first_use(rows) or _set_up(subject, rows)
    ns = float(sum(once.values()))
    if not once or ns < _MOST * (host_ns - told_ns - subject.step_ns):
        return []
    named = ", ".join(f"{name} {words.duration(part)}" for name, part in sorted(once.items(), key=lambda item: -item[1]))
    return [
        Advice(
            "host-bound",
            "the host's time is mostly the first use of the device, which comes once",
            ns,
            "all of that time, once for each start of the program",
            [
                f"The host's own time adds up to {words.duration(host_ns)}, the device's work to "
                f"{words.duration(subject.step_ns)}; {words.duration(ns)} of the host's time set up the device and load the code "
                f"of kernels: {named}. What later steps take, this recording does not show."
            ],
            _FIRST,
        )
    ]


def _set_up(subject: Subject, rows: dict[str, int]) -> dict[str, int]:
    """Return the host's time (ns) in few calls that each take far longer than such a call does, by name.

    Empty if the device's work is as long: then these calls may wait for it.
    """
    totals = subject.trace.totals
    calls = totals[(totals["table"] == "calls").fillna(False).to_numpy(bool)]
    counts = calls["count"].astype("Float64").groupby(calls["name"].astype("string")).sum()
    once = {
        name: rows[name]
        for name, count in counts.items()
        if name in rows and re.search(_SETS_UP, str(name)) and 0 < count <= _FEW and rows[name] >= _SET_UP_NS * count
    }
    return once if sum(once.values()) > _FAR_LONGER * subject.step_ns else {}


def _remedy(subject: Subject) -> str:
    """Return how to launch less, without what is of use to training only, if no row of the table is of an optimizer."""
    remedy = words.text(subject, host.REMEDIES)
    names = pd.concat([subject.trace.totals["name"], subject.trace.kernels["name"]]).astype("string")
    trains = names.str.contains(_TRAINS).fillna(False).any()
    return remedy if trains or subject.framework != "pytorch" else re.sub(_FUSED, "", remedy)


def _steps_on_device(subject: Subject) -> float:
    """Return how long the steps span on the device, from the first kernel of each to its last; 0 if unknown.

    A step of a single kernel spans that kernel, and tells nothing of the waits around it.
    """
    totals = subject.trace.totals
    steps = totals["count"][totals["name"].astype("string").str.contains(_STEPS).fillna(False).to_numpy(bool)]
    single = len(steps) and float(subject.kernels()["count"].sum()) <= float(steps.fillna(0).max())
    return 0.0 if single else float(subject.trace.info.get("device_steps_ns") or 0)


def _launches_much(subject: Subject) -> bool:
    """Return whether the host launches many kernels that are short on average."""
    launches = float(call_totals.named(call_totals.sums(subject.trace), call_totals.LAUNCHES)["count"].sum())
    return launches >= _MANY and subject.step_ns < _SHORT_NS * launches


def _includes(subject: Subject) -> str:
    """Return what else the host's time holds: TensorFlow's operators count their waits, and each of those side by side."""
    waits = subject.framework == "tensorflow"
    return "operators' waits, and each of those that ran side by side" if waits else "the profiler's own cost"


def _spent(subject: Subject, host_ns: float) -> tuple[str, bool]:
    """Say what the host's time is mostly spent on, and return whether it looks like a first run."""
    calls = _sums(subject)
    loads = call_totals.named(calls, call_totals.LOADS)
    if loads["ns"].sum() > _MUCH * host_ns:
        return f"The host loads the code of kernels, as in a first run: {_took(loads.nlargest(1, 'ns'), host_ns)}", True
    inner = calls[(calls["ns"] > _MOST * host_ns).to_numpy(bool)].nsmallest(1, "ns")
    if inner.empty:
        return "Totals do not show what the host does meanwhile", False
    first = _is_first(subject, inner, calls) and not inner.index.isin(host_operators.alone(subject).index).all()
    why = ", far longer than launching takes, as in a first run" if first else ""
    return f"The host is mostly in {_took(inner, host_ns)}, with all that it calls{why}", first


def _sums(subject: Subject) -> pd.DataFrame:
    """Return ns and count by name of all that the host ran, except waits for the device."""
    totals = subject.trace.totals
    mine = totals[totals["table"].isin(["operators", "ranges", "calls"]).to_numpy(bool)]
    table = mine[["count", "duration_ns"]].astype(float).rename(columns={"duration_ns": "ns"})
    sums = table.groupby(mine["name"].astype("string").to_numpy(object)).sum()
    sums.index = sums.index.astype("string")
    sums = call_totals.of_the_host(sums)
    return sums[~sums.index.str.contains(_STEPS).astype(bool)]


def _is_first(subject: Subject, one: pd.DataFrame, calls: pd.DataFrame) -> bool:
    """Return whether an operator takes so long a call, and for each kernel, that it does not only launch."""
    launched = float(call_totals.named(calls, call_totals.LAUNCHES)["count"].sum())
    kernels = max(float(subject.kernels()["count"].sum()), launched)
    ns, count = float(one["ns"].sum()), float(one["count"].sum())
    return bool(ns > max(_LONG_CALL * count, _LONG_LAUNCH * kernels) and one.index.str.contains(_SINGLE).all())


def _took(one: pd.DataFrame, host_ns: float) -> str:
    """Name one row of `_sums` with its time."""
    ns, count = float(one["ns"].sum()), float(one["count"].sum())
    each = f", {words.duration(ns / count)} a call in {words.count(count)} calls" if count > 1 else ""
    return f"{one.index[0]} ({words.duration(ns)}, {ns / host_ns:.0%} of its time{each})"


RULES: tuple[Rule, ...] = (takes_longer,)
