"""Why no cause is named for a difference between two captures of device work, and what would show one."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.device_account import COPY
from kernelscope.analysis.explain import again
from kernelscope.analysis.explain.device import account_rows, by_kind, host_pace, words
from kernelscope.analysis.explain.device.case import PACE, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import UNLISTED

_SMALLEST = 0.015  # of a step: two runs of one program differ by as much
_CHANGED = 1.15  # times as long: kernels of one program differ by less from run to run
_ALL_ROWS = "print all rows of both"


def abstained(case: DeviceCase, findings: list[DeviceFinding]) -> tuple[str | None, str | None]:
    """Return why no cause is named, and what would show one; None if one is named."""
    a, b = case.a, case.b
    if a.path == b.path:
        return "both sides are the same recording", "name two different ones"
    if findings:
        return None, None
    if not case.comparable:
        return f"{by_kind.ways(case)}, and rows were not printed, so their rows cannot be compared", _all_rows(case)
    if alike(case):
        if parts := cancelled(case):
            return parts, again.OF_CAPTURES
        what = "the steps" if case.per == "a step" else "the two"
        small = _small(case)
        kernels = case.all_kernels()
        apart = case.totals and bool(((kernels["a_count"] > 0) != (kernels["b_count"] > 0)).any())  # their likeness is unknown
        also = f"; {small}" if small else "" if apart else ", and so does each part of them"
        return f"{what} differ by less than two runs of one program do{also}", None
    return _too_little(case)


def _all_rows(case: DeviceCase) -> str:
    """Return how to print all rows: as torch.profiler does it, if a side is its table."""
    formats = [str((side.facts.get("source") or {}).get("format")) for side in (case.a, case.b)]
    return f"{_ALL_ROWS}; of torch.profiler: key_averages().table(row_limit=-1)" if "torch-table" in formats else _ALL_ROWS


def _small(case: DeviceCase) -> str | None:
    """Return in words which kernel of totals takes longer, executed as often, and how little of the whole it is; else None."""
    sums = words.of_both(case.all_kernels())
    sums = sums[((sums["a_count"] == sums["b_count"]) & (sums[["a_ns", "b_ns"]].min(axis=1) > 0)).to_numpy(bool)]
    if not case.totals or not case.counts or sums.empty:
        return None
    one = sums.iloc[int(sums["delta_ns"].abs().to_numpy(float).argmax())]
    times = {key: float(one[f"{key}_ns"]) for key in "ab"}
    slow, fast = ("b", "a") if times["b"] > times["a"] else ("a", "b")
    if times[slow] < _CHANGED * times[fast]:
        return None
    share = times[slow] / case.side(slow).account.step_ns
    return (
        f"{one.name} alone takes {times[slow] / times[fast]:.3g} times as long in {case.side(slow).name} "
        f"({words.change(case, times['a'], times['b'])}), but it is {100 * share:.2g}% of the whole"
    )


def alike(case: DeviceCase) -> bool:
    """Return whether the steps differ by less than two runs of one program do."""
    steps = case.a.account.step_ns, case.b.account.step_ns
    return max(steps) - min(steps) < _SMALLEST * min(steps)


def only_pace(case: DeviceCase, findings: list[DeviceFinding]) -> bool:
    """Return whether the findings cancel out and are no more than processors' pace: the same work, here slower and there faster.

    On processors parts of one program trade time from run to run, with threads, caches and other load.
    """
    moves = [int(case.rows_of(one)["delta_ns"].sum()) for one in findings]
    rows = pd.concat([case.rows_of(one) for one in findings]) if findings else case.rows.iloc[:0]
    same = bool((rows["a_count"] == rows["b_count"]).all()) and all(not one.structural for one in findings)
    opposed = bool(moves) and min(moves) < 0 < max(moves)
    return case.totals and case.on_cpus and case.counts and alike(case) and opposed and same


def cancelled(case: DeviceCase) -> str | None:
    """Return in words that parts differ, the whole does not, and both sides do the same; None if no two parts are opposed."""
    if not case.totals or not case.on_cpus:
        return None
    same = ((case.rows["a_count"] == case.rows["b_count"]) & (case.rows["a_count"] > 0)).to_numpy(bool)
    sums = case.rows["delta_ns"][same].groupby(account_rows.labels(case)[same]).sum()
    sums = sums[(sums.abs() >= _SMALLEST * case.step_ns).to_numpy(bool)]
    if sums.empty or not sums.min() < 0 < sums.max():
        return None
    ends = sums.sort_values(ascending=False).iloc[[0, -1]]
    told = " and ".join(f"{name} ({words.signed(float(ns))})" for name, ns in ends.items())
    return (
        "the sides differ by less than two runs of one program do; parts that both execute equally often differ by more, such as "
        f"{told}, and cancel out, as they can from run to run on processors"
    )


def _too_little(case: DeviceCase) -> tuple[str, str]:
    """Return in words why the largest difference is no cause, and what would show more."""
    labels = account_rows.labels(case)
    largest = str(case.rows["delta_ns"].groupby(labels).sum().abs().idxmax())
    rows = case.rows[(labels == largest).to_numpy(bool)]
    delta, off = float(rows["delta_ns"].sum()), case.reach_ns(rows)
    what = f"{largest} {words.signed(delta)}"
    if largest == UNLISTED:
        return f"the largest difference is in rows that were not printed ({words.signed(delta)})", _all_rows(case)
    if largest == account_rows.ONE_SIDED:
        return f"the largest difference is in rows that are too short for the other side's list ({what})", _all_rows(case)
    return _no_cause(case, rows, what, (delta, off)), again.OF_CAPTURES


def _no_cause(case: DeviceCase, rows: pd.DataFrame, what: str, difference: tuple[float, float | None]) -> str:
    """Return why the rows of the largest difference, which were printed, are no cause. difference: theirs, and its reach (ns)."""
    delta, off = difference
    pace = host_pace.same_calls(case) if bool(rows["cause"].isin(PACE).any()) else None
    if pace is not None:
        return f"the largest difference is idle time for the host ({what}): {pace.sentence(case)}"
    if off is not None and abs(delta) <= off:
        return f"the largest difference ({what}) varies as much from step to step (95%: {words.duration(off)})"
    if case.totals and (rows["part"] == COPY).all() and (rows["a_count"] == rows["b_count"]).all():
        return f"the largest difference ({what}) is in as many copies on both sides, whose times vary from run to run"
    if case.stands_out(rows):
        return f"the largest difference ({what}) can have several causes, and the captures do not show which"
    return f"the largest difference ({what}) is no larger than two runs of one program can differ by"
