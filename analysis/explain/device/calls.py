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
_MAY_WAIT = ", of which waiting for the device may be a part"
_SLOW_ON_HOST = (
    "warm up before you record; if it stays as long, find which types or sizes the host computes in place of the device"
)
_WHERE = (
    "the printed operators and calls hold less than half of it; try: print "
    'key_averages().table(sort_by="self_cpu_time_total", row_limit=-1) of both, which shows where the host is; if one was '
    "recorded at the first use of the device, warm up first"
)
_SLOWER_HOST = (
    "in operators that both sides call equally often the host spends {0} times as long in {1} ({2}), so the processor or the "
    "profiler was slower there, besides any further calls; try: warm up, and record both again on an idle machine"
)
_OF_RANGE = 0.25  # of the host's extra time
_SEVERAL, _SLOWED = 5, 1.2  # operators; times as long
_WAITS, _NEARLY_ALL = r"(?i)synchronize", 0.8
_REMEDIES = (
    (r"(?i)malloc|free|alloc|register", "allocate once, before the loop, or from a pool (cudaMallocAsync, a caching allocator)"),
    (r"(?i)launch", "fewer, larger kernels, or a CUDA graph of them"),
    (r"(?i)create|destroy", "create streams, events and handles once, before the loop"),
)
_WHEN_COLD = (
    "as many launches take far longer in {0}, as at the first use, when kernels are loaded and memory is allocated; try: run the "
    "work several times before you record {0}, then compare again"
)
_AS_MANY = (
    "warm up before you record, and compare clocks and load of the processors: as many calls take longer in {0}; launches do so, "
    "too, if the device's queue is full"
)
_COLD, _QUEUED = 10.0, 1000  # times as long, for as many launches: of a queue that is full, with more launches, they wait


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
    host = _hosts(case)
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
    said = f"{more}, waits and the profiler's cost included: {words.change(case, *host)}"
    where = _first_use(case, longer) or _same_operators(case, longer)
    parts = [where] if where else [_own_of_range(case, longer), None if _is_printed(case, longer) else _WHERE]
    where = "; ".join(filter(None, parts))
    return f"{said}; {where}" if where else said


def _is_printed(case: DeviceCase, longer: int) -> bool:
    """Return whether rows of operators and calls hold a good part of the host's time on its longer side."""
    side = case.side(SIDES[longer])
    own = sum(float(one["ns"]) for one in (side.facts.get("host_own") or {}).values())
    printed = max(own + float(call_totals.sums(side.trace)["ns"].sum()), sum(map(float, _rows_of(side).values())))
    return printed >= _HALF * _hosts(case)[longer]


def _rows_of(side: DeviceSide) -> dict[str, int]:
    """Return the host's own time (ns) in the rows of a side's table that take most of it, by name."""
    rows: dict[str, int] = side.facts.get("host_rows") or {}
    return rows


def _first_use(case: DeviceCase, longer: int) -> str | None:
    """Return a sentence if most of the host's extra time is for what happens once, at the first use of the device; else None."""
    sides = [case.side(key) for key in SIDES]
    mine = call_totals.at_first_use(_rows_of(sides[longer]))
    once, there_too = sum(mine.values()), sum(_rows_of(sides[1 - longer]).get(name, 0) for name in mine)
    host = _hosts(case)
    if not mine or once < _HALF * host[longer] or once - there_too < _HALF * abs(host[1] - host[0]):
        return None
    named = ", ".join(f"{name} {words.duration(ns)}" for name, ns in mine.items())
    there = f"{words.duration(once)} of it in {sides[longer].name} are its first use of the device ({named}), which comes once"
    return f"{there}{_per_execution(case, host)}; try: warm up {sides[longer].name} before you record it, then compare again"


def _per_execution(case: DeviceCase, host: list[float]) -> str:
    """Return the host's time per execution as a part of a sentence, if both run one kernel alone, not equally often."""
    rows = case.all_kernels()
    counts = [float(rows[f"{key}_count"].sum()) for key in SIDES]
    if len(rows) != 1 or not all(counts) or counts[0] == counts[1]:
        return ""
    each = words.change(case, *(ns / number for ns, number in zip(host, counts, strict=True)))
    numbers = " and ".join(words.count(number) for number in counts)
    return f"; per execution of {words.kernel(rows['name'].iloc[0])} ({numbers}) the host takes {each}"


def _own_of_range(case: DeviceCase, longer: int) -> str | None:
    """Return a sentence if a good part of the host's extra time is a range's own, outside of the operators in it; else None."""
    totals = [side.trace.totals for side in (case.a, case.b)]
    ranges = [set(one.loc[(one["table"] == "ranges").fillna(False).to_numpy(bool), "name"].astype(str)) for one in totals]
    both = [name for name in _rows_of(case.a) if name in _rows_of(case.b) and name in ranges[0] & ranges[1]]
    host = _hosts(case)
    extra, sign = abs(host[1] - host[0]), 1 if longer else -1
    more = {name: sign * (_rows_of(case.b)[name] - _rows_of(case.a)[name]) for name in both}
    name = max(more, key=lambda one: more[one], default=None)
    if name is None or more[name] < _OF_RANGE * extra:
        return None
    own = words.change(case, _rows_of(case.a)[name], _rows_of(case.b)[name])
    return f"{words.duration(more[name])} of that are the own time of {name}, outside of its operators: {own}"


def _hosts(case: DeviceCase) -> list[float]:
    """Return the sum of the host's own time on each side, ns; 0 where it is unknown."""
    return [float(case.side(key).facts.get("host_ns") or 0) for key in SIDES]


def leads(case: DeviceCase) -> bool:
    """Return whether the host's time says the opposite of the device's, by more: the side with less device work is slower."""
    host = _hosts(case)
    device = case.b.account.step_ns - case.a.account.step_ns
    return bool(case.totals and (host[1] - host[0]) * device < 0 and not _of_calls(case) and _of_all(case))


def faster(case: DeviceCase) -> str | None:
    """Return the key of the side with the shorter step; None if both are equal, or the host's time says the opposite by more."""
    delta = case.b.account.step_ns - case.a.account.step_ns
    return None if not delta or leads(case) else "b" if delta < 0 else "a"


def _same_operators(case: DeviceCase, longer: int) -> str | None:
    """Return a sentence if operators that both sides call equally often take the host far longer on one; else None.

    Nearly all of them must: a single one may compute on the host, with more data. longer: the number of the side on which the
    host takes longer.
    """
    both = _own_of(case.a).add_prefix("a_").join(_own_of(case.b).add_prefix("b_"), how="inner")
    both = both[(both["a_count"] == both["b_count"]).to_numpy(bool)]
    slow, fast = (SIDES[place] for place in (longer, 1 - longer))
    times = [float(both[f"{key}_ns"].sum()) for key in (slow, fast)]
    hosts = _hosts(case)
    if times[1] <= 0 or times[0] < _SAME * times[1] or times[0] - times[1] < _LEAST * abs(hosts[1] - hosts[0]):
        return None
    slowed = both[(both[f"{slow}_ns"] >= _SLOWED * both[f"{fast}_ns"]).to_numpy(bool)]
    if len(slowed) < _SEVERAL or float(slowed[f"{slow}_ns"].sum()) < _NEARLY_ALL * times[0]:
        return None
    first = both.iloc[int((both[f"{slow}_ns"] - both[f"{fast}_ns"]).to_numpy(float).argmax())]
    ratio, called = times[0] / times[1], f"{words.count(float(first['a_count']))} calls each"
    return _SLOWER_HOST.format(
        f"{ratio:.2g}", case.side(slow).name, f"{first.name}: {words.change(case, first['a_ns'], first['b_ns'])}, {called}"
    )


def _own_of(side: DeviceSide) -> pd.DataFrame:
    """Return the count and the host's own time (ns) of each operator, as far as both are known."""
    totals = side.trace.totals
    counts = totals[(totals["table"] == "operators").to_numpy(bool)].groupby("name")["count"].sum().astype(float)
    own = pd.Series({name: float(one["ns"]) for name, one in (side.facts.get("host_own") or {}).items()}, dtype=float)
    return pd.DataFrame({"count": counts, "ns": own}).dropna()


def of_waits(case: DeviceCase) -> list[str]:
    """Return a note if the host's time differs, and nearly all of that is in waits for the device."""
    host = _hosts(case)
    delta = host[1] - host[0]
    apart = abs(case.b.account.step_ns - case.a.account.step_ns)
    if not case.totals or not all(host) or abs(delta) < max(_FAR_MORE * apart, _LEAST * max(host)) or sentence(case):
        return []
    waits = [call_totals.named(call_totals.sums(case.side(key).trace), _WAITS) for key in SIDES]
    times = [float(one["ns"].sum()) for one in waits]
    if not all(times) or not _NEARLY_ALL <= (times[1] - times[0]) / delta <= 1 / _NEARLY_ALL:
        return []
    names = words.listed(sorted({str(name) for one in waits for name in one.index}))
    return [
        f"the host's own time adds up to {words.change(case, *host)}; that is waiting for the device ({names}: "
        f"{words.change(case, *times)}), and no work of the host"
    ]


def of_copies(case: DeviceCase) -> list[str]:
    """Return a note on an operator that copies, in which one side's host is, and the other's hardly."""
    host = _hosts(case)
    delta, device = host[1] - host[0], max(float(case.side(key).account.step_ns) for key in SIDES)
    if not case.totals or not all(host) or abs(delta) < max(_GOOD_PART * device, _LEAST * max(host)) or sentence(case):
        return []
    name = _most_in(case, delta)
    return [_of_operator(case, name, host, _MAY_WAIT)] if name is not None and re.search(COPIES, name) else []


def _of_operator(case: DeviceCase, name: str, host: list[float], caveat: str = ", waits included") -> str:
    """Return that most of the host's extra time is in one operator, with what to do. host: all of each side's own time (ns)."""
    facts = [(side.facts.get("host_own") or {}).get(name) or {} for side in (case.a, case.b)]
    own = [float(one.get("ns") or 0) for one in facts]
    longer = own.index(max(own))
    side, other = (case.a, case.b) if longer == 0 else (case.b, case.a)
    place = f", called at {facts[longer]['place']}" if facts[longer].get("place") else ""
    less = f", {words.duration(own[1 - longer])} in {other.name}" if own[1 - longer] else ""
    more = f"the host spends {words.duration(own[longer])} in {name} in {side.name}{place}{less}"
    remedy = _COPYING if re.search(COPIES, name) else _SLOW_ON_HOST
    return f"{more}: most of the difference of its own time ({words.change(case, *host)}{caveat}); try: {remedy}"


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
    every = a.add_prefix("a_").join(b.add_prefix("b_"), how="outer").fillna(0)
    pinned = every.index.str.contains(call_totals.PINNED).astype(bool) & ((every["a_count"] == 0) ^ (every["b_count"] == 0))
    both = every[((every[["a_count", "b_count"]].max(axis=1) >= _MANY) | pinned).to_numpy(bool)]
    both = both[~_is_first_use(both) & ~_as_before(both)]
    cold = _cold(both)
    both = pd.concat([both, _first_allocations(every.drop(both.index), cold)]) if cold else both
    delta = both["b_ns"] - both["a_ns"]
    device = abs(case.b.account.step_ns - case.a.account.step_ns)
    if abs(delta.sum()) < max(_LEAST * case.step_ns, device):
        return None
    slower = case.b if delta.sum() > 0 else case.a
    mine = both[(delta * delta.sum() > 0).to_numpy(bool)]
    mine = mine.loc[(mine["b_ns"] - mine["a_ns"]).abs().sort_values(ascending=False).index[:_NAMED]]
    named = "; ".join(f"{name} {_change(case, row)}" for name, row in mine.iterrows())
    more = words.duration(abs(float(delta.sum())))
    spent = f"the host spends {more} more in API calls in {slower.name}, apart from the device's work: {named}"
    if cold and case.side(cold) is slower:
        return f"{spent}; {_WHEN_COLD.format(slower.name)}"
    remedy = next((text for pattern, text in _REMEDIES if re.search(pattern, str(mine.index[0]))), None)
    if float(mine["a_count"].iloc[0]) == float(mine["b_count"].iloc[0]):
        remedy = _AS_MANY.format(slower.name)
    return f"{spent}{f'; try: {remedy}' if remedy else ''}"


def _cold(both: pd.DataFrame) -> str | None:
    """Return the side whose launches, as many as the other's, each take far longer, as when they load their kernels' code."""
    launches = call_totals.named(both, call_totals.LAUNCHES)
    launches = launches[((launches["a_count"] == launches["b_count"]) & (launches["a_count"] < _QUEUED)).to_numpy(bool)]
    a, b = (float(launches[f"{key}_ns"].sum()) for key in SIDES)
    if min(a, b) <= 0 or max(a, b) < _COLD * min(a, b):
        return None
    return "a" if a > b else "b"


def _first_allocations(others: pd.DataFrame, cold: str) -> pd.DataFrame:
    """Return the calls that allocate memory on the side that was recorded cold, and on no other: a warm one has its memory."""
    warm = "b" if cold == "a" else "a"
    return call_totals.named(others[(others[f"{warm}_count"] == 0).to_numpy(bool)], call_totals.ALLOCATIONS)


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
        f"{words.count(row[f'{key}_count'])} calls ({words.duration(row[f'{key}_ns'])})" if row[f"{key}_count"] else "none"
        for key in SIDES
    ]
    return f"{sides[0]} in {case.a.name}, {sides[1]} in {case.b.name}"
