"""Calls of the device's API in captures of totals: what they say about copies, and the host's time in them.

A capture of totals has no idle time, so the host's time appears nowhere in the account.
"""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.explain.device.side import DeviceSide

_MANY = 20  # calls: with fewer, most of the time is the first use of the device
_LEAST = 0.1  # of the device's time
_FAR_MORE = 2.0  # times the device's time: the host does not only wait for it
_GOOD_PART, _HALF = 0.3, 0.5  # of the device's time; of the host's extra time
_NAMED = 3
_SAME = 1.5  # times as long: as many calls of one name vary by as much from run to run
COPIES = r"^aten::(?:copy_|_to_copy|to|_local_scalar_dense|item)$"
_COPYING = (
    "find what triggers these copies: results that are fetched (.item(), .cpu(), print), tensors that are made on the host for "
    "each use, and types that the device lacks (float64), which the host converts; make such tensors once, on the "
    "device, in float32"
)
_SLOW_ON_HOST = (
    "warm up before you record; if it stays as long, find which types or sizes the host computes in place of the device"
)
_REMEDIES = (
    (r"(?i)malloc|free|alloc|register", "allocate once, before the loop, or from a pool (cudaMallocAsync, a caching allocator)"),
    (r"(?i)launch", "fewer, larger kernels, or a CUDA graph of them"),
    (r"(?i)create|destroy", "create streams, events and handles once, before the loop"),
)


def makes(side: DeviceSide, pattern: str) -> bool:
    """Return whether a side's totals hold calls whose names match."""
    return len(call_totals.named(call_totals.sums(side.trace), pattern)) > 0


def sentence(case: DeviceCase) -> str | None:
    """Return a sentence on the host's extra time on one side, with calls and a remedy; None if the device differs more.

    Calls that wait for the device are left out: their time is the device's.
    """
    return _of_calls(case) or _of_all(case) if case.totals else None


def _of_all(case: DeviceCase) -> str | None:
    """Return a sentence on the host's own time if it far exceeds the device's time and differs by more; else None."""
    host = [float(case.side(key).facts.get("host_ns") or 0) for key in SIDES]
    device = [float(case.side(key).account.step_ns) for key in SIDES]
    delta, longer = host[1] - host[0], host.index(max(host))
    apart = abs(device[1] - device[0])
    if not all(host) or abs(delta) < max(apart, _LEAST * host[longer]):
        return None
    name = _most_in(case, delta)
    waits = host[longer] < _FAR_MORE * device[longer]  # unless an operator does what it hardly does on the other side
    if waits and (name is None or abs(delta) < max(_FAR_MORE * apart, _GOOD_PART * max(device))):
        return None
    if name is not None:
        return _of_operator(case, name, host)
    more = f"the host's own time adds up to {words.duration(abs(delta))} more in {case.side(SIDES[longer]).name}"
    return f"{more}, waits and the profiler's cost included: {words.change(case, *host)}"


def _of_operator(case: DeviceCase, name: str, host: list[float]) -> str:
    """Return that most of the host's extra time is in one operator, with what to do. host: all of each side's own time (ns)."""
    facts = [(side.facts.get("host_own") or {}).get(name) or {} for side in (case.a, case.b)]
    own = [float(one.get("ns") or 0) for one in facts]
    longer = own.index(max(own))
    side, other = (case.a, case.b) if longer == 0 else (case.b, case.a)
    place = f", called at {facts[longer]['place']}" if facts[longer].get("place") else ""
    less = f", {words.duration(own[1 - longer])} in {other.name}" if own[1 - longer] else ""
    more = f"the host spends {words.duration(own[longer])} in {name} in {side.name}{place}{less}"
    remedy = _COPYING if re.search(COPIES, name) else _SLOW_ON_HOST
    return f"{more}: most of the difference of its own time ({words.change(case, *host)}, waits included); try: {remedy}"


def _most_in(case: DeviceCase, delta: float) -> str | None:
    """Return the operator with most of the host's own extra time, which hardly takes any on the other side; None if none has."""
    sides = (case.b, case.a) if delta > 0 else (case.a, case.b)
    mine, other = ({name: one["ns"] for name, one in (side.facts.get("host_own") or {}).items()} for side in sides)
    name = max(mine, key=lambda one: mine[one] - other.get(one, 0), default=None)
    if name is None or mine[name] < _HALF * abs(delta) or other.get(name, 0) > _LEAST * mine[name]:
        return None
    return str(name)


def _of_calls(case: DeviceCase) -> str | None:
    """Return a sentence on the calls that take the host longer, with a remedy; None if the device's time differs more."""
    a, b = (call_totals.of_the_host(call_totals.sums(case.side(key).trace)) for key in SIDES)
    if a.empty or b.empty:
        return None  # a side without calls did not record them
    both = a.add_prefix("a_").join(b.add_prefix("b_"), how="outer").fillna(0)
    pinned = both.index.str.contains(call_totals.PINNED).astype(bool) & ((both["a_count"] == 0) ^ (both["b_count"] == 0))
    both = both[((both[["a_count", "b_count"]].max(axis=1) >= _MANY) | pinned).to_numpy(bool)]
    both = both[~_is_first_use(both) & ~_as_before(both)]
    delta = both["b_ns"] - both["a_ns"]
    device = abs(case.b.account.step_ns - case.a.account.step_ns)
    if abs(delta.sum()) < max(_LEAST * case.step_ns, device):
        return None
    slower = case.b if delta.sum() > 0 else case.a
    mine = both[(delta * delta.sum() > 0).to_numpy(bool)]
    mine = mine.loc[(mine["b_ns"] - mine["a_ns"]).abs().sort_values(ascending=False).index[:_NAMED]]
    named = "; ".join(f"{name} {_change(case, row)}" for name, row in mine.iterrows())
    remedy = next((text for pattern, text in _REMEDIES if re.search(pattern, str(mine.index[0]))), None)
    more = words.duration(abs(float(delta.sum())))
    spent = f"the host spends {more} more in API calls in {slower.name}, apart from the device's work"
    return f"{spent}: {named}{f'; try: {remedy}' if remedy else ''}"


def _is_first_use(both: pd.DataFrame) -> pd.Series[bool]:
    """Return whether most of the calls' time is in a single one on each side that makes them, as the first use of a device is."""
    few = [(both[f"{key}_later_ns"] <= both[f"{key}_ns"] / 2) | (both[f"{key}_count"] == 0) for key in SIDES]
    return (few[0] & few[1]).astype(bool)


def _as_before(both: pd.DataFrame) -> pd.Series[bool]:
    """Return whether both sides make as many of the calls, in about the same time."""
    least, most = both[["a_ns", "b_ns"]].min(axis=1), both[["a_ns", "b_ns"]].max(axis=1)
    return ((both["a_count"] == both["b_count"]) & (most < _SAME * least)).astype(bool)


def _change(case: DeviceCase, row: pd.Series) -> str:
    sides = [
        f"{words.count(row[f'{key}_count'])} calls ({words.duration(row[f'{key}_ns'])}) in {case.side(key).name}" for key in SIDES
    ]
    return ", ".join(sides)
