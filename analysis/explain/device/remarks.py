"""Remarks around the causes: what qualifies the answer, causes that hide each other, and notes on the captures."""

from __future__ import annotations

from kernelscope.analysis.accounting.device_account import TOTALS
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.explain.device import compiled, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.side import DeviceSide
from kernelscope.analysis.trace import MAIN

_OPPOSED = 0.5  # of the larger movement: an opposite one of at least this share is said to hide it
_STEPS, _TAIL = 3, 0.02  # least number of steps; share of a step that earlier work must take to be noted
_NOTHING = 0.1  # of a side's time, which rows that do not count may have
_GOOD_PART = 0.3  # of a side's time
_SETS = r"aten::(?:zeros|ones|full|empty|new_zeros|new_ones|new_full|zeros_like|ones_like|full_like|fill|zero)_?(?:_like)?"
RECORD_KERNELS = (
    "record the side without work with torch.profiler and ProfilerActivity.CUDA, or with nsys: these list kernels of the "
    "program's own, too"
)
_NUMBERS = 6  # causes that are listed


def other_ranks(case: DeviceCase) -> list[str]:
    """Return a sentence on the jobs' number of ranks if it differs."""
    sizes = [(side.facts.get("distributed") or {}).get("world_size") for side in (case.a, case.b)]
    return [f"{sizes[0]} ranks in A, {sizes[1]} in B"] if None not in sizes and sizes[0] != sizes[1] else []


def cut(case: DeviceCase) -> str | None:
    """Return a sentence if one side's totals were cut and show none of the other's products, convolutions and attentions."""
    main = case.all_kernels(MAIN)
    took = {key: float(main[f"{key}_ns"].sum()) for key in SIDES}
    for key, other in (SIDES, SIDES[::-1]) if case.totals else ():
        large = took[other] > _GOOD_PART * case.side(other).account.step_ns
        if case.is_cut(key) and not took[key] and large:
            kinds = words.listed(str(kind) for kind in main["kind"].unique())
            there = f"{words.duration(took[other])} in {other.upper()}"
            return f"{key.upper()}'s table was cut: it prints no {kinds} ({there}); print all rows"
    return None


def lists_no_work(case: DeviceCase) -> str | None:
    """Return a sentence if one side's table of operators lists only what sets memory, and the other's products and the like.

    The table of a profiler that lists operators alone lacks the kernels of a program's own extensions.
    """
    if not case.by_operators or case.on_cpu or case.on_cpus:
        return None
    rows, main = case.all_kernels(), case.all_kernels(MAIN)
    for key, other in (SIDES, SIDES[::-1]):
        there = rows[(rows[f"{key}_ns"] >= _NOTHING * case.side(key).account.step_ns).to_numpy(bool)]
        mine = there["name"].astype("string")
        took = float(main[f"{other}_ns"].sum())
        sets = len(mine) > 0 and bool(mine.str.fullmatch(_SETS).fillna(False).all())
        if sets and took > _GOOD_PART * case.side(other).account.step_ns:
            side = case.side(key).name
            return (
                f"{side}'s table prints no operator but those that set memory ({words.listed(mine)}): kernels of the program's "
                f"own extensions are in no such table, so {side}'s work is unknown, and the totals cannot be compared"
            )
    return None


def devices(case: DeviceCase) -> str | None:
    """Return a sentence if only one side computes on the CPU, or names of kernels alone tell of other devices."""
    if case.on_cpu is not None:
        return f"{case.a.name} computes on {case.a.computes_on}, {case.b.name} on {case.b.computes_on}"
    a, b = case.a.makers, case.b.makers
    if len(a) == len(b) == 1 and a != b and None in (case.a.hardware, case.b.hardware):
        made = f"{case.a.name} ran on a device of {min(a)}, {case.b.name} on one of {min(b)}"
        return f"other hardware: {made}, by the names of their kernels"
    return None


def hidden(case: DeviceCase, findings: list[DeviceFinding]) -> str | None:
    """Return a sentence if gains and losses hide each other; else None. Causes are given by their numbers in the result."""
    moves = {number: _explains(case, one) for number, one in enumerate(findings, 1) if not one.follows}
    up, down = sum(ns for ns in moves.values() if ns > 0), sum(ns for ns in moves.values() if ns < 0)
    if min(up, -down) < _OPPOSED * max(up, -down) or not up:
        return None
    gains, losses = ([number for number, ns in moves.items() if ns * sign > 0] for sign in (-1, 1))
    less, more = (
        f"{words.duration(abs(ns))} {case.per}" if case.per == "a step" else words.duration(abs(ns)) for ns in (down, up)
    )
    return (
        f"{case.b.name} saves {less} by {_numbered(gains)} below and loses {more} by {_numbered(losses)}: the difference of both "
        "sides is only what is left"
    )


def _explains(case: DeviceCase, finding: DeviceFinding) -> int:
    return int(case.rows_of(finding)["delta_ns"].sum())


def _numbered(numbers: list[int]) -> str:
    return f"cause{'' if len(numbers) == 1 else 's'} {words.listed(map(str, numbers), _NUMBERS)}"


def _earlier_work(side: DeviceSide) -> list[str]:
    """Return a sentence if the first step holds much work launched before it: it is less representative than the others."""
    lengths, trace = side.account.lengths, side.trace
    if len(lengths) < _STEPS:
        return []
    first = trace.steps[~trace.steps["warmup"]].sort_values("start_ns").iloc[:1]
    start, end = (int(edge[0]) for edge in device_steps.bounds(first))
    kernels = trace.kernels
    mine = kernels["step"].isna() & (kernels["device"] == side.account.device) & kernels["start_ns"].between(start, end - 1)
    tail = int((kernels["end_ns"] - kernels["start_ns"])[mine.fillna(False).to_numpy(bool)].sum())
    if tail < _TAIL * side.account.step_ns:
        return []
    others = round(float(lengths[1:].mean()))
    before = f"{words.duration(tail)} of its first step are kernels launched before it"
    return [f"{side.name}: {before}; other steps take {words.duration(others)} each"]


def notes(case: DeviceCase, interval: bool) -> list[str]:
    """Return notes on the captures: which is which, on what devices, what is left out, and what one recording cannot tell.

    interval: whether the difference has one.
    """
    one_sided = compiled.note(case)
    said = [one_sided] if one_sided else []
    for side in (case.a, case.b):
        steps = f": {side.detected.sentence()}" if side.detected else ""
        where = f" on {side.hardware}" if side.hardware else ""
        said.append(f"{side.label} is {side.path}{where}{steps}")
        if len(side.busy_ns) > 1:
            busy = ", ".join(f"{device} {words.duration(ns)}" for device, ns in side.busy_ns.items())
            said.append(f"{side.name}, busy time of each device per step: {busy}; {side.account.device} is explained")
        outside = side.account.outside
        lost = outside[outside["count"] > 0]
        if len(lost) and side.account.basis == TOTALS:
            moved, ns = int(lost["count"].sum()), int(lost["duration_ns"].sum())
            said.append(f"{side.name}: {moved:,} moves of unified memory ({words.duration(ns)}) are part of the kernels' time")
        elif len(lost):
            columns = (lost[name].tolist() for name in ("count", "part", "duration_ns"))
            parts = [f"{number} {part} ({words.duration(ns)})" for number, part, ns in zip(*columns, strict=True)]
            said.append(f"{side.name}, outside of steps: {', '.join(parts)}")
        said += _earlier_work(side)
    return [*said, *_recorded_once(case, interval)]


def _recorded_once(case: DeviceCase, interval: bool) -> list[str]:
    """Return a note if a side has a single process, which does not tell how processes differ."""
    once = [key.upper() for key, steps in zip(SIDES, case.processes, strict=True) if len(steps) < 2]
    if not once:
        return []
    unknown = "the interval does not include how much two runs of one program differ"
    unknown = unknown if interval else "how much two runs of one program differ is unknown"
    return [f"{'each side' if len(once) > 1 else once[0]} was recorded once: {unknown}"]
