"""Copies: how many bytes, from which memory, how fast, and how much other work hides."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.accounting import idle_causes as idle
from kernelscope.analysis.accounting.amounts import size
from kernelscope.analysis.accounting.device_account import COPY, is_host_timed
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.explain.device import calls, compiled, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.causes import faults, precision

BETWEEN = ("host to device", "device to host", "host to host", "unified memory")
UNTOLD = "other"  # in a table of operators: between host and device, in a direction that it does not show
_SAME = 0.1  # share within which durations and bytes are the same
_SAME_BYTES = 0.05
_PACE = 0.3  # share by which copies of the same bytes may differ from run to run
_PACE_OF_AS_MANY = 0.2  # likewise, of as many copies of unknown sizes
_PIN = {
    "pytorch": "DataLoader(pin_memory=True), and .to(device, non_blocking=True) on a stream of its own",
    "mxnet": "use the device once before the timed part, and see what is left; then gluon.data.DataLoader(pin_memory=True)",
    "tensorflow": "tf.data.experimental.prefetch_to_device",
    "": "pinned memory, asynchronous copies on a stream of their own, and data that stays on the device",
}
_COMPILER = (
    "see which tensors compiled code copies (TORCH_LOGS=output_code): mostly inputs that it changes in place, and tensors that "
    "enter or leave it in another layout"
)
_GATHER = "one large copy in place of many small ones: gather the values on the side where they are, or keep them there"
_TIMELINE = "record a timeline: nsys profile, or nvprof --print-gpu-trace; only copies that nothing hides make the step longer"
_PREFETCH = "cudaMemPrefetchAsync and cudaMemAdvise, so that data moves before it is needed and stays where it is used"
_AHEAD = 4.0  # times as many moves of pages: on page faults, where the other side moves them ahead in large pieces
_MOVED_AHEAD = (
    "{0} moves its data in few large pieces, as ahead of its use, and {1} on page faults, whose waits are part of its kernels' "
    "time: compare the sums; let {0} move data while kernels run, on a stream of its own"
)
_PREFETCHED = (
    "{0} moves data ahead already (cudaMemPrefetchAsync): move no more than kernels read, compute initial values on the device, "
    "and move data while other kernels run"
)
_PINNED_ALREADY = (
    "see that these copies use the pinned memory that {0} allocates already; then asynchronous copies on a stream of their own, "
    "and data that stays on the device"
)
_ELSEWHERE = (
    "compare the sums of kernels and copies: in {1} data also moves while kernels wait for it (page faults), which is part of "
    "their time; in {0}, copy while other kernels run, on a stream of its own"
)
_MANY, _TIMES, _SHORT_NS = 50, 2.0, 20_000  # so many copies, so many times the other side's, so short: their number counts
_FEWER = "let {0} copy no more than {1}: only data that the device does not have yet"
_NARROWER = ", in narrower types (f16 in place of f32)"
_KEEP = (
    "do not fetch results in each step (.numpy(), .item(), .cpu(), printing a loss): leave them on the device, and copy what is "
    "needed once, at the end"
)
_COPY, _MOVING = "aten::copy_", ("aten::to", "aten::_to_copy")
_FEW_OF_OTHER, _HOST_WAITS = 0.1, 0.5  # of a side's copies: the other side's time in them, and the host's own time
_MAKE_THERE = (
    "make these tensors on the device (torch.zeros(..., device=x.device) in place of .to(device)), or once, before the loop; "
    "else copy from pinned memory, with non_blocking=True"
)
_MORE = 1.25  # times the bytes: from here on fewer bytes help most
_FAR_LONGER = 4.0  # times as long, for as many copies: more than pinned memory makes of it
_IF_MORE = "if it is more bytes, which were not recorded, compare equal sizes, or copy less; if it is as many: {0}"
_OVERLAP = "asynchronous copies on a stream of their own, a batch ahead of the step, so that kernels hide them"


def between_host_and_device(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Copies between host and device take more of the step on one side."""
    left = case.left
    kinds = (*BETWEEN, UNTOLD) if case.by_operators else BETWEEN
    rows = left[((left["part"] == COPY) & left["kind"].isin(kinds)).to_numpy(bool)]
    if rows.empty:
        return
    if case.by_operators:
        yield _by_operators(case, rows)
        return
    rows = _directions_that_differ(case, rows)
    hidden, fills = _hidden_otherwise(case, rows), _fills(case)
    if hidden is None:
        rows = pd.concat([rows, case.idle([idle.COPYING]), *fills])
    if hidden is None and not _is_more_than_pace(rows):
        return
    slow, slower, _, faster = words.slower(case, rows)
    how, sure = (hidden, "high") if hidden else _why(case, rows, slow)
    directions = rows[(rows["part"] == COPY).to_numpy(bool)].groupby("kind")[["a_ns", "b_ns"]].sum()
    waits = [] if case.totals else [f"The step waits for them: {words.of_rows(case, rows)}; they take {_durations(case, rows)}."]
    sentences = [
        *waits,
        *_moved(case, rows),
        _by_direction(case, directions),
        *([_numbers(case, rows)] if case.totals else []),
    ]
    sentences = [*_of_narrower_types(case, rows), *sentences]
    if hidden is None and fills:
        waiting = "their times include waiting for one another and for the device"
        sentences = [f"These are operators that copy or set memory, timed by the host: {waiting}.", *_operators(case), *sentences]
    what = "memcpy " + " and ".join(
        {"host to device": "HtoD", "device to host": "DtoH"}.get(str(kind), str(kind)) for kind in directions.index
    )
    what_of = "of its step" if case.per == "a step" else "time"
    costs = f"add up to more in {slower} than in {faster}" if case.totals else f"cost {slower} more {what_of} than {faster}"
    title = f"copies between host and device ({what}) {costs}: {how}"
    yield DeviceFinding("copies between host and device", title, rows["row"].tolist(), sure, sentences, _remedy(case, rows, slow))


def _by_direction(case: DeviceCase, directions: pd.DataFrame) -> str:
    """Return the times of all directions in one sentence: figures of which some are missing do not add up."""
    said = "; ".join(f"{kind}: {words.change(case, one['a_ns'], one['b_ns'])}" for kind, one in directions.iterrows())
    return f"{said[:1].upper()}{said[1:]}."


def _numbers(case: DeviceCase, rows: pd.DataFrame) -> str:
    copies = rows[(rows["part"] == COPY).to_numpy(bool)]
    counts = [f"{words.count(float(copies[f'{key}_count'].sum()))} in {case.side(key).name}" for key in SIDES]
    return f"Number of copies: {', '.join(counts)}."


def _directions_that_differ(case: DeviceCase, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the copies of totals that differ, by direction; all of them if both or none do."""
    parts = [part for _, part in rows.groupby("kind") if case.stands_out(part)]
    return pd.concat(parts) if case.totals and parts else rows


def _by_operators(case: DeviceCase, rows: pd.DataFrame) -> DeviceFinding:
    """Return the finding on operators that copy; the other side's may stand beside conversions of types, in one row."""
    left = case.left
    alike = (left["name"] == "aten::copy_").fillna(False).to_numpy(bool)
    rows = pd.concat([rows, left[alike & ~left["row"].isin(rows["row"]).to_numpy(bool)]])
    _, slower, _, faster = words.slower(case, rows)
    title = f"copies between host and device add up to more in {slower} than in {faster}: {words.of_rows(case, rows)}"
    sentences = [
        f"Operators that copy: {words.executions_of(case, rows)}; tables of operators show neither bytes nor directions."
    ]
    return DeviceFinding(
        "copies between host and device",
        title,
        rows["row"].tolist(),
        "medium",
        sentences,
        _PIN["pytorch"] + "; send smaller types",
    )


def to_the_device(case: DeviceCase) -> Iterator[DeviceFinding]:
    """In tables of operators, one side alone copies tensors to another device or type, and the host waits for that."""
    if not case.by_operators:
        return
    rows = case.kernels(["copy"])
    rows = rows[(rows["name"] == _COPY).fillna(False).to_numpy(bool)]
    slow, slower, fast, faster = words.slower(case, rows)
    took, other = float(rows[f"{slow}_ns"].sum()), float(rows[f"{fast}_ns"].sum())
    side = case.side(slow)
    waited = float(((side.facts.get("host_own") or {}).get(_COPY) or {}).get("ns") or 0)
    totals = side.trace.totals
    moves = totals["name"].astype("string").isin(_MOVING) & (totals["table"] == "operators")
    if not took or other > _FEW_OF_OTHER * took or waited < _HOST_WAITS * took or not moves.fillna(False).any():
        return
    number = f"executed {words.count(float(rows[f'{slow}_count'].sum()))} x in {slower}"
    title = f"copies that {slower} makes ({_COPY}) and {faster} hardly does: {words.of_rows(case, rows)}, {number}"
    sentences = [
        f"They are called to move tensors to a device or to change their types (aten::to), and the host is in them for "
        f"{words.duration(waited)}: mostly, tensors that were made on the host are copied to the device."
    ]
    yield DeviceFinding("copies between host and device", title, rows["row"].tolist(), "medium", sentences, _MAKE_THERE)


def on_the_device(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Copies within or between devices, or memory sets, take more of the step on one side."""
    left = case.left
    for kinds, what, remedy in (
        (("device to device",), "copies on the device (DtoD)", "keep tensors in place: fewer clone(), contiguous() and copy_()"),
        (("peer to peer",), "copies between devices", "place data that is used together on one device"),
        (("set",), "memory sets (memset)", "fewer zero fills: zero_grad(set_to_none=True), empty() in place of zeros()"),
        (("other",), "other copies", "see which copies they are in `breakdown --by idle`"),
    ):  # fmt: skip
        rows = left[((left["part"] == COPY) & left["kind"].isin(kinds)).to_numpy(bool)]
        if rows.empty:
            continue
        slow, slower, _, faster = words.slower(case, rows)
        operators = compiled.launched_in(case, "copies", kinds[0], slow)
        counts = {key: words.count(float(rows[f"{key}_count"].sum())) for key in SIDES}
        number = f"{counts['a']} {case.per} in {case.a.name}, {counts['b']} in {case.b.name}"
        sentences = [
            f"Number: {number}; time that nothing hides: {words.of_rows(case, rows)}.",
            *_moved(case, rows),
            *(
                [f"Launched in {words.listed(f'{name} ({words.count(more)} more {case.per})' for name, more in operators)}."]
                if operators
                else []
            ),
        ]
        title = f"{what} take longer in {slower} than in {faster}: {number}"
        generated = operators and all(compiled.is_region(name) for name, _ in operators)
        advice = _COMPILER if generated else remedy
        yield DeviceFinding("copies on the device", title, rows["row"].tolist(), "high", sentences, advice)


def _hidden_otherwise(case: DeviceCase, copies: pd.DataFrame) -> str | None:
    """Return how much of the copies kernels hide if this changed and the copies did not; else None."""
    lasted = {key: float(copies[f"{key}_duration_ns"].sum()) for key in SIDES}
    if min(lasted.values()) <= 0 or abs(lasted["b"] - lasted["a"]) > _SAME * max(lasted.values()):
        return None
    hidden = {key: max(lasted[key] - float(copies[f"{key}_ns"].sum()), 0.0) for key in SIDES}
    if abs(hidden["b"] - hidden["a"]) < abs(lasted["b"] - lasted["a"]):
        return None
    return (
        "the copies last equally long on both sides, and kernels overlap (hide) "
        f"{words.duration(hidden['a'])} of them in {case.a.name}, {words.duration(hidden['b'])} in {case.b.name}"
    )


def _is_more_than_pace(rows: pd.DataFrame) -> bool:
    """Return whether more differs than the rate of copies of the same bytes from the same memory, which varies by itself."""
    copies = rows[(rows["part"] == COPY).to_numpy(bool)]
    moved = [float(copies[f"{key}_bytes"].sum()) for key in SIDES]
    times = [float(copies[f"{key}_ns"].sum()) for key in SIDES]
    if not any(moved) and (copies["a_count"] == copies["b_count"]).all():
        return abs(times[1] - times[0]) > _PACE_OF_AS_MANY * max(times)
    same = min(moved) > 0 and abs(moved[1] - moved[0]) <= _SAME_BYTES * max(moved)
    kinds = [set(copies.loc[(copies[f"{key}_bytes"] > _SAME_BYTES * max(moved)).to_numpy(bool), "name"]) for key in SIDES]
    return not same or kinds[0] != kinds[1] or abs(times[1] - times[0]) > _PACE * max(times)


def _fills(case: DeviceCase) -> list[pd.DataFrame]:
    """Return the operators that copy or set memory if operators stand for kernels: they wait for one another."""
    return [case.kernels(["copy"])] if any(is_host_timed(side.trace) for side in (case.a, case.b)) else []


def _operators(case: DeviceCase) -> list[str]:
    """Return a sentence per side on its operators that copy or set memory: their names and durations."""
    result = []
    for key in SIDES:
        operators = case.side(key).trace.operators
        names = operators["name"].astype("string")
        mine = operators[names.str.contains(r"(?i)copy|setvalue", regex=True).fillna(False).to_numpy(bool)]
        sums = (mine["end_ns"] - mine["start_ns"]).groupby(mine["name"].astype("string")).sum().sort_values(ascending=False)
        texts = [f"{name} ({words.duration(float(ns))})" for name, ns in sums.head(3).items()]
        result.append(f"{case.side(key).name}: {', '.join(texts) or 'none'}.")
    return result


def _why(case: DeviceCase, rows: pd.DataFrame, slow: str) -> tuple[str, str]:
    """Return why copies cost more on one side, and how sure that is."""
    copies = rows[(rows["part"] == COPY).to_numpy(bool)]
    lasted = {key: float(copies[f"{key}_duration_ns"].sum()) for key in SIDES}
    moved = {key: float(copies[f"{key}_bytes"].sum()) for key in SIDES}
    fast = "a" if slow == "b" else "b"
    if _are_small(copies, slow, fast):
        slower, faster = case.side(slow).name, case.side(fast).name
        return f"{_number(copies, slow)} in {slower}, {_number(copies, fast)} in {faster}", "high"
    pageable = {key: _pageable(copies, key) for key in SIDES}
    if pageable[slow] > 0.5 > 2 * pageable[fast] and moved[fast] > 0:
        return f"pageable memory in {case.side(slow).name}, pinned memory in {case.side(fast).name}", "high"
    if apart := _in_kernels(case):
        names = " and ".join(case.side(key).name for key in apart)
        return f"{words.change(case, lasted['a'], lasted['b'])}, without moves that kernels wait for in {names}", "medium"
    if min(moved.values()) > 0 and moved[slow] > (1 + _SAME) * moved[fast]:
        ratio = moved[slow] / moved[fast]
        return f"{ratio:.2g} times the bytes" if ratio >= 1.05 else "more bytes", "high"
    if case.on_cpu == fast and lasted[fast] <= 0:
        if is_host_timed(case.side(slow).trace):
            return (
                f"{case.side(fast).name} computes on the CPU and needs none; their time includes the first use of the device",
                "medium",
            )
        return f"{case.side(fast).name} computes on the CPU and needs none", "high"
    if min(lasted.values()) <= 0:
        return f"{case.side(fast).name} has none", "high"
    slower, faster = case.side(slow).name, case.side(fast).name
    both = f"they take {words.duration(lasted[slow])} in {slower} and {words.duration(lasted[fast])} in {faster}"
    return _by_calls(case, slow, fast, both) if case.totals else (both, "medium")


def _in_kernels(case: DeviceCase) -> list[str]:
    """Return the sides some of whose moves of unified memory are part of the kernels' time: bytes of the others say nothing."""
    outside = {key: case.side(key).account.outside for key in SIDES} if case.totals else {}  # else: outside of the steps
    return [key for key, one in outside.items() if len(one) and (one["part"] == COPY).any()]


def _by_calls(case: DeviceCase, slow: str, fast: str, both: str) -> tuple[str, str]:
    """Return a reason from the calls of totals, which only have the copies' times: pinned memory, or copies that may overlap."""
    slower, faster = case.side(slow).name, case.side(fast).name
    if calls.makes(case.side(fast), call_totals.PINNED) and not calls.makes(case.side(slow), call_totals.PINNED):
        return f"pinned memory in {faster}, which allocates it (cudaHostAlloc or similar), none in {slower}", "medium"
    if calls.makes(case.side(slow), call_totals.STREAMS):
        return f"{both}; they may overlap on several streams, and totals do not show which side is done sooner", "low"
    return both, "medium"


def _are_small(copies: pd.DataFrame, slow: str, fast: str) -> bool:
    """Return whether their number takes the time: many short copies on one side, far fewer on the other."""
    if set(copies["kind"]) == {"unified memory"}:
        return False  # pages move by themselves
    counts = {key: float(copies[f"{key}_count"].sum()) for key in SIDES}
    mean = float(copies[f"{slow}_duration_ns"].sum()) / max(counts[slow], 1.0)
    return counts[slow] >= _MANY and counts[slow] > _TIMES * counts[fast] and mean < _SHORT_NS


def _number(copies: pd.DataFrame, key: str) -> str:
    """Return the number of copies and their mean duration, in words."""
    count = float(copies[f"{key}_count"].sum())
    if not count:
        return "none"
    each = words.duration(float(copies[f"{key}_duration_ns"].sum()) / count)
    return f"{words.count(count)} copies of {each} on average"


def _remedy(case: DeviceCase, rows: pd.DataFrame, slow: str) -> str:
    """Return the remedy: pinning memory only if it is not pinned already."""
    copies = rows[(rows["part"] == COPY).to_numpy(bool)]
    moved, fast = {key: float(copies[f"{key}_bytes"].sum()) for key in SIDES}, "a" if slow == "b" else "b"
    if _are_small(copies, slow, fast):
        return _GATHER
    if set(copies["kind"]) == {"unified memory"}:
        counts = {key: float(copies[f"{key}_count"].sum()) for key in SIDES}
        ahead = 0 < _AHEAD * counts[slow] < counts[fast]
        if ahead:
            return _MOVED_AHEAD.format(case.side(slow).name, case.side(fast).name)
    if _in_kernels(case) == [fast]:
        return _ELSEWHERE.format(case.side(slow).name, case.side(fast).name)
    if set(copies["kind"]) == {"unified memory"}:
        return _PREFETCHED.format(case.side(slow).name) if faults.prefetches(case.side(slow).trace) else _PREFETCH
    if set(copies["kind"]) == {"device to host"} and not copies[f"{fast}_count"].sum() and copies[f"{slow}_count"].sum() > 1:
        return _KEEP
    if min(moved.values()) > 0 and moved[slow] > _MORE * moved[fast] and not _in_kernels(case):
        fewer = _FEWER.format(case.side(slow).name, case.side(fast).name)
        fewer += _NARROWER if case.side(slow).facts.get("framework") else ""
        return f"{fewer}; {words.remedy(case, _PIN, slow)}" if _pageable(copies, slow) > _SAME_BYTES else fewer
    if case.totals and calls.makes(case.side(fast), call_totals.PINNED) and calls.makes(case.side(slow), call_totals.STREAMS):
        return _TIMELINE
    times = [float(copies[f"{key}_duration_ns"].sum()) for key in (slow, fast)]
    if not any(moved.values()) and (copies["a_count"] == copies["b_count"]).all() and times[0] > _FAR_LONGER * times[1] > 0:
        return _IF_MORE.format(_pinning(case, slow))
    if (
        len(copies)
        and _pageable(copies, slow) < _SAME_BYTES
        and copies["name"].fillna("").str.contains("pinned", case=False).any()
    ):
        return _OVERLAP
    return _pinning(case, slow)


def _pinning(case: DeviceCase, slow: str) -> str:
    """Return that copies need pinned memory, or, if calls of totals allocate some already, that they use it."""
    if case.totals and calls.makes(case.side(slow), call_totals.PINNED):
        return _PINNED_ALREADY.format(case.side(slow).name)
    return words.remedy(case, _PIN, slow)


def _pageable(copies: pd.DataFrame, key: str) -> float:
    """Return the share of a side's bytes that come from or go to pageable memory."""
    moved = float(copies[f"{key}_bytes"].sum())
    mine = copies["name"].fillna("").str.contains("pageable", case=False).to_numpy(bool)
    return float(copies.loc[mine, f"{key}_bytes"].sum()) / moved if moved else 0.0


def _durations(case: DeviceCase, rows: pd.DataFrame) -> str:
    copies = rows[(rows["part"] == COPY).to_numpy(bool)]
    return words.change(case, float(copies["a_duration_ns"].sum()), float(copies["b_duration_ns"].sum()))


def _of_narrower_types(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence if the side that copies fewer bytes computes in narrower types."""
    moved = {key: float(rows[f"{key}_bytes"].sum()) for key in SIDES}
    narrow = precision.narrower(case.all_kernels())
    if narrow is None or moved[narrow] >= (1 - _SAME) * moved["b" if narrow == "a" else "a"]:
        return []
    return [f"{precision.types(case, case.all_kernels())}; the narrower type takes fewer bytes."]


def _moved(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence on the number of bytes copied, if known, of the sides that copy, with the rates if both are known."""
    if (not rows["a_bytes"].sum() and not rows["b_bytes"].sum()) or _in_kernels(case):
        return []
    copies = rows[(rows["part"] == COPY).to_numpy(bool)]
    there = [key for key in SIDES if copies[[f"{key}_count", f"{key}_duration_ns", f"{key}_bytes"]].to_numpy(float).any()]
    rates = {key: _rate(copies, key) for key in there}
    known = len(rates) == len(SIDES) and all(rates.values())
    said = [f"{_bytes(rows, key)} in {case.side(key).name}{f' ({rates[key]})' if known else ''}" for key in there]
    return [f"They move {', '.join(said)}."]


def _rate(copies: pd.DataFrame, key: str) -> str | None:
    """Return the bytes per second of a side's copies; None unless the bytes and the time of all of them are known."""
    mine = copies[(copies[f"{key}_count"] > 0).to_numpy(bool)]
    took, moved = mine[f"{key}_duration_ns"], mine[f"{key}_bytes"]
    if mine.empty or float(took.min()) <= 0 or float(moved.min()) <= 0:
        return None
    return f"{size(float(moved.sum()) / float(took.sum()) * 1e9)}/s"


def _bytes(rows: pd.DataFrame, key: str) -> str:
    moved = float(rows[f"{key}_bytes"].sum())
    return size(moved) if moved else "an unknown number of bytes"


RULES = (between_host_and_device, to_the_device, on_the_device)
