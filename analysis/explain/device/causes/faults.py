"""Unified memory: kernels wait for page faults that move or map the pages they touch, or read pages that stay on the host."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.accounting.amounts import size
from kernelscope.analysis.accounting.device_account import COMPUTE, COPY
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import Trace, page_faults
from kernelscope.analysis.trace.page_faults import PageFaults

CAUSE = "page faults of unified memory"
_SHARE = 0.5  # of the difference in kernel time, by which the time of page faults must differ
_NOTED = 0.1  # of the difference of the steps
_AS_OFTEN = 0.02  # by which counts of the same kernels may differ
_PREFETCH = "cudaMemPrefetchAsync"
_PREFETCHES = r"^(?:cuda|cu|hip)MemPrefetchAsync"
_REMEDY = f"{_PREFETCH} before the kernel (and after it for the host), cudaMemAdvise, or cudaMalloc with explicit copies"
_REST = f"{_PREFETCH} of all that the kernel touches, its results too; cudaMemAdvise, or cudaMalloc with explicit copies"
MANAGED = r"^(?:cuda|hip)MallocManaged|^cuMemAllocManaged"
_ON_DEVICE = (
    r"^(?:cuda|hip)(?:Malloc(?:Managed|Async|Pitch|3D\w*)?|MemAddressReserve)$|^cuMemAlloc(?:Managed|Pitch|Async)?$|^cuMemCreate$"
)
OUTLIER = 10.0  # times the shortest execution, as page faults of all data make of the first one
_TO_DEVICE = (
    "in {0}: cudaMalloc and a copy before the kernels, or cudaMallocManaged with cudaMemPrefetchAsync; memory of the host pays "
    "where each value is read once"
)
_FAR = 2.0  # times as long: kernels that wait for page faults
_MANY_MOVES, _MORE_MOVES = 20, 4.0  # pieces in which pages move on faults; times the other side's, which moves them ahead
_PART_OF_WAIT = 0.1  # of the kernels' extra time, that the moves must take
_MOSTLY = 0.5  # of a kernel's time
_EVICTED = 2 << 20  # bytes: the driver evicts pages to the host in blocks of this size
_MUCH = 0.5  # of the bytes moved to the device: if more move back, in blocks of about that size, the data does not fit
_FITS = "work on parts of the data that fit into the device's memory, one after the other: it is moved to the host and back"
_NEAR = (
    "keep the data on the device: no cudaMemAdviseSetPreferredLocation or cudaMemAdviseSetAccessedBy that leaves it on the host, "
    f"{_PREFETCH} to the device"
)


def longer_waits(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The same kernels take longer, and longer page faults of unified memory are a large part of it."""
    a, b = _of_sides(case)
    if a is None or b is None or a.ns == b.ns:
        return
    more = b.ns - a.ns
    rows = _moved(_touching(case), 1 if more > 0 else -1)
    if rows.empty or abs(more) < _SHARE * abs(int(rows["delta_ns"].sum())):
        return
    slow, slower, _, faster = words.slower(case, rows)
    title = f"kernels wait longer for page faults of unified memory in {slower} than in {faster}: {_both(case, a, b)}"
    kernels = rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    sentences = ["A kernel waits while its page faults are served, and this is part of its time.", *words.both(case, kernels)]
    sentences += _evicted(case, slow) + words.by_number(case, rows)
    if a.of_cpu or b.of_cpu:
        sentences.append(f"Page faults of the CPU: {a.of_cpu:,} in {case.a.name}, {b.of_cpu:,} in {case.b.name}.")
    yield DeviceFinding(CAUSE, title, rows["row"].tolist(), "medium", sentences, remedy(case.side(slow).trace))


def moving_pages(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The same kernels take far longer on the side whose pages move on page faults, of which the captures show only the moves.

    Such moves are many and small; the other side moves its data ahead, in large pieces, or copies it.
    """
    if not case.totals or any(one is None or one.groups for one in _of_sides(case)):
        return
    moved = {key: _moves(case.side(key).trace) for key in SIDES}
    slow = max(SIDES, key=lambda key: moved[key][0])
    fast = "b" if slow == "a" else "a"
    (number, took), (other, other_took) = moved[slow], moved[fast]
    rows = _moved(case.kernels(), 1 if slow == "b" else -1)
    rows = rows[((rows["a_count"] > 0) & (rows["b_count"] > 0) & (rows[f"{slow}_ns"] > _FAR * rows[f"{fast}_ns"])).to_numpy(bool)]
    more = abs(float(rows["delta_ns"].sum()))
    if number < _MANY_MOVES or number < _MORE_MOVES * other or rows.empty or took < _PART_OF_WAIT * more:
        return
    slower, faster = case.side(slow).name, case.side(fast).name
    names = words.listed(rows["name"].map(words.kernel))
    wait, number_of = "waits" if len(rows) == 1 else "wait", f", {words.executions_of(case, rows)}" if case.counts else ""
    title = f"{names} {wait} for page faults of unified memory in {slower}: {words.of_rows(case, rows)}{number_of}"
    ahead = f"in {other:,} pieces of {words.duration(other_took / other)}, as where it is moved ahead" if other else "not at all"
    sentences = [
        f"In {slower} unified memory moves to the device in {number:,} pieces of {words.duration(took / number)} on average, as "
        f"on page faults, for which kernels wait; in {faster} {ahead}.",
        *(words.changes(case, rows) if len(rows) > 1 else []),
    ]
    what = remedy(case.side(slow).trace)
    yield DeviceFinding(
        CAUSE, title, rows["row"].tolist(), "medium", sentences, f"in {slower}: {what}; {faster} does one of these"
    )


def first_touch(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One execution of a kernel takes far longer than the others where unified memory is not moved ahead: it touches it first.

    The capture must have its calls; page faults are in none of its tables.
    """
    if not case.totals or not case.counts or any(one is None or one.groups or one.remote for one in _of_sides(case)):
        return
    rows = case.kernels()
    for _, row in rows[((rows["a_count"] > 1) & (rows["a_count"] == rows["b_count"])).to_numpy(bool)].iterrows():
        slow, fast = ("b", "a") if row["delta_ns"] > 0 else ("a", "b")
        ends = _ends(case.side(slow).trace, str(row["name"]))
        trace, other = case.side(slow).trace, case.side(fast).trace
        if ends is None or not _calls(trace, MANAGED) or prefetches(trace) or len(trace.copies):
            continue
        if ends[1] < OUTLIER * ends[0] or ends[1] - ends[0] < _SHARE * abs(row["delta_ns"]):
            continue
        name, slower, faster = words.kernel(row["name"]), case.side(slow).name, case.side(fast).name
        mine = rows[(rows["row"] == row["row"]).to_numpy(bool)]
        title = (
            f"one execution of {name} waits in {slower}, as for page faults of unified memory at its first use: "
            f"{words.of_rows(case, mine)}, {words.executions_of(case, mine)}"
        )
        told = f"In {slower} the longest execution takes {words.duration(ends[1])}, the shortest {words.duration(ends[0])}"
        sentences = [f"{told}, and the program calls cudaMallocManaged; page faults were not recorded."]
        if prefetches(other):
            sentences.append(
                f"{faster} calls {_PREFETCH}: there the data is moved outside of kernels, which their sum leaves out."
            )
        as_there = f", as {faster} does" if prefetches(other) else ""
        remedy = f"in {slower}: {_PREFETCH} before the kernel{as_there}; or cudaMalloc with explicit copies"
        yield DeviceFinding(CAUSE, title, [str(row["row"])], "medium", sentences, remedy)


def on_the_host(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Each execution of a kernel takes far longer on the side that allocates memory on the host only, and copies none."""
    if not case.totals or not case.counts:
        return
    host = {key: _only_on_host(case.side(key).trace) for key in SIDES}
    if host["a"] == host["b"]:
        return
    slow, fast = ("a", "b") if host["a"] else ("b", "a")
    if not _calls(case.side(fast).trace, _ON_DEVICE):
        return
    rows = case.kernels()
    longer = (rows["a_count"] == rows["b_count"]) & (rows["a_count"] > 0) & (rows[f"{slow}_ns"] > _FAR * rows[f"{fast}_ns"])
    for _, row in rows[longer.to_numpy(bool)].iterrows():
        ends = _ends(case.side(slow).trace, str(row["name"]))
        if row[f"{slow}_count"] > 1 and (ends is None or ends[1] > _FAR * ends[0]):
            continue  # one execution alone takes long
        mine, slower = rows[(rows["row"] == row["row"]).to_numpy(bool)], case.side(slow).name
        title = (
            f"{words.kernel(row['name'])} seems to read memory that stays on the host in {slower}, over the bus: "
            f"{words.of_rows(case, mine)}, {words.executions_of(case, mine)}"
        )
        sentence = f"{slower} allocates memory on the host ({_calls(case.side(slow).trace, call_totals.PINNED)[0]}), none on the "
        sentence += "device, and copies nothing; each execution takes about as long."
        yield DeviceFinding("memory on the host", title, [str(row["row"])], "medium", [sentence], _TO_DEVICE.format(slower))


def _ends(trace: Trace, name: str) -> tuple[float, float] | None:
    """Return the shortest and the longest execution of a kernel, ns; None if they are unknown."""
    mine = trace.kernels[(trace.kernels["name"] == name).fillna(False).to_numpy(bool)]
    shortest, longest = mine["min_ns"].astype("Float64"), mine["max_ns"].astype("Float64")
    if mine.empty or shortest.isna().any() or longest.isna().any():
        return None
    return float(shortest.min()), float(longest.max())


def _calls(trace: Trace, pattern: str) -> list[str]:
    """Return the names of the calls in a capture's totals that match."""
    return [str(name) for name in call_totals.named(call_totals.sums(trace), pattern).index]


def _only_on_host(trace: Trace) -> bool:
    """Return whether the program allocates pinned memory of the host, none of the device, and copies nothing."""
    return bool(_calls(trace, call_totals.PINNED)) and not _calls(trace, _ON_DEVICE) and not len(trace.copies)


def within(case: DeviceCase, rows: pd.DataFrame) -> tuple[str, str] | None:
    """Return a sentence and a remedy if most of these kernels' time is page faults, whatever they differ by; else None.

    Faults are of the whole capture, so these kernels must be most of it, too.
    """
    _, slower, _, _ = words.slower(case, rows)
    covered, left = {}, {}
    for key, one in zip(SIDES, _of_sides(case), strict=True):
        mine, whole = (float(table[f"{key}_ns"].sum()) for table in (rows, case.all_kernels()))
        if one is not None and one.ns >= _MOSTLY * whole and mine >= _MOSTLY * whole:
            covered[case.side(key).name], left[case.side(key).name] = one, max(mine - one.ns, 0.0)
    if slower not in covered:
        return None
    told = ", ".join(f"{groups(one)} in {name}" for name, one in covered.items())
    rest = ", ".join(f"{words.duration(ns)} in {name}" for name, ns in left.items())
    sentence = f"Most of its time is page faults of unified memory: {told}; without them it would take about {rest}."
    where = "on both sides" if len(covered) > 1 else f"in {slower}"
    ahead = any(prefetches(side.trace) for side in (case.a, case.b) if side.name in covered)
    return sentence, f"{where}: {_REST if ahead else _REMEDY}; then compare again"


def _moves(trace: Trace) -> tuple[int, float]:
    """Return how many pieces of unified memory were moved to the device, and for how long (ns)."""
    copies = trace.copies
    mine = copies[
        ((copies["operation"] == page_faults.UNIFIED) & (copies["memory"] == "host to device")).fillna(False).to_numpy(bool)
    ]
    return int(mine["count"].sum()), float(mine["duration_ns"].sum())


def far_memory(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The same kernels take longer on the side whose device reads memory that stays on the host."""
    remote = [0 if one is None else one.remote for one in _of_sides(case)]
    if (remote[0] > 0) == (remote[1] > 0):
        return
    rows = _moved(_touching(case), 1 if remote[1] else -1)
    if rows.empty:
        return
    _, slower, _, faster = words.slower(case, rows)
    title = (
        f"kernels read memory that stays on the host in {slower}, over the bus, and none in {faster}: {words.of_rows(case, rows)}"
    )
    kernels = rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    sentences = [f"Mappings of host memory: {max(remote):,} in {slower}.", *words.changes(case, kernels)]
    yield DeviceFinding("memory on the host", title, rows["row"].tolist(), "medium", sentences, _NEAR)


def note(case: DeviceCase) -> list[str]:
    """Note that page faults or mappings differ by a good part of the difference; nothing if they do not."""
    a, b = _of_sides(case)
    apart = abs(case.b.account.step_ns - case.a.account.step_ns)
    if a is None or b is None or abs(b.ns - a.ns) < _NOTED * apart or a.ns == b.ns:
        return []
    return [f"page faults of unified memory are part of the kernels' time: {_both(case, a, b)}"]


def _of_sides(case: DeviceCase) -> list[PageFaults | None]:
    """Return the page faults of A and B; None if it is unknown which ones belong to a side's account."""
    return [page_faults.of_device(side.trace, side.account.device) for side in (case.a, case.b)]


def _touching(case: DeviceCase) -> pd.DataFrame:
    """Return the rows that may touch unified memory: kernels, and copies on the device."""
    left = case.left
    on_device = (left["part"] == COPY) & (left["kind"] == "device to device")
    return pd.concat([case.kernels(), left[on_device.to_numpy(bool)]])


def _evicted(case: DeviceCase, key: str) -> list[str]:
    """Return a sentence on pages that were evicted to the host, if the data does not fit into the device's memory."""
    moved = evicted(case.side(key).trace)
    said = f"In {case.side(key).name}, {size(moved)} were evicted to the host: more data than the device holds."
    return [said] if moved else []


def evicted(trace: Trace) -> int:
    """Return how many bytes were evicted to the host because the device's memory was full; 0 if the data seems to fit."""
    copies = trace.copies[(trace.copies["operation"] == page_faults.UNIFIED).fillna(False).to_numpy(bool)]
    sums = copies.groupby(copies["memory"].astype("string"))[["bytes", "count"]].sum()
    moved = {name: float(sums["bytes"].get(name, 0)) for name in ("host to device", "device to host")}
    mean = moved["device to host"] / max(float(sums["count"].get("device to host", 0)), 1.0)
    full = mean > _MUCH * _EVICTED and moved["device to host"] > _MUCH * moved["host to device"]
    return int(moved["device to host"]) if full else 0


def remedy(trace: Trace) -> str:
    """Return the remedy; if the program already prefetches, it is to prefetch all data."""
    if evicted(trace):
        return _FITS
    return _REST if prefetches(trace) else _REMEDY


def prefetches(trace: Trace) -> bool:
    """Return whether the program already moves unified memory ahead of its use."""
    names = pd.concat([trace.calls["name"].astype("string"), trace.totals["name"].astype("string")])
    return bool(names.str.contains(_PREFETCHES).fillna(False).any())


def groups(one: PageFaults) -> str:
    """Return the time and number of groups of page faults: 1.61 ms in 12 groups."""
    return f"{words.duration(one.ns)} in {one.groups:,} group{'' if one.groups == 1 else 's'}"


def _both(case: DeviceCase, a: PageFaults, b: PageFaults) -> str:
    said = [f"{groups(one) if one.ns else 'none'} in {side.name}" for one, side in ((a, case.a), (b, case.b))]
    return ", ".join(said)


def _moved(rows: pd.DataFrame, direction: int) -> pd.DataFrame:
    """Return the kernels whose time moves in a direction: each that both sides execute as often, and all others together.

    Others run on one side only. If each side has as many of them, they are the same work under other names. Kernels that each
    take longer count even if one side executes them more often.
    """
    one_sided = ((rows["a_count"] <= 0) != (rows["b_count"] <= 0)).to_numpy(bool)
    same, others = rows[~one_sided], rows[one_sided]
    often = (same["b_count"] - same["a_count"]).abs() <= _AS_OFTEN * same["a_count"]
    each = direction * (words.longer_each(same) - words.more_often(same)) > 0
    same = same[((often | each) & (direction * same["delta_ns"] > 0)).to_numpy(bool)]
    before, after = float(others["a_count"].sum()), float(others["b_count"].sum())
    as_many = abs(after - before) <= _AS_OFTEN * before and direction * int(others["delta_ns"].sum()) > 0
    return pd.concat([same, others]) if as_many else same


RULES = (longer_waits, moving_pages, far_memory, first_touch, on_the_host)
