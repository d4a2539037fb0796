"""Compiled regions of a program: how many each side runs per step, and which operators launch work."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.explain.device.side import DeviceSide
from kernelscope.analysis.trace import Trace, intervals

REGION = r"^(?:_?Xla(?:Launch|Run)|CompiledFunction(?:Backward)?|Torch-Compiled Region.*)$"
_REGION = re.compile(REGION)
_KERNEL = re.compile(r"^triton_")
_PREFIX = "autograd::engine::evaluate_function: "
_LEAST = 0.2  # share of the extra work that an operator must launch to be named
_LARGER = {
    "pytorch": "fewer, larger compiled regions: TORCH_LOGS=graph_breaks names what splits them; then mode='reduce-overhead'",
    "": "fewer, larger compiled regions: keep code that the compiler cannot handle out of the step, as it splits regions",
}


def regions(side: DeviceSide) -> dict[str, float]:
    """Return how often per step a side runs each compiled region, by name; all kernels that Triton compiled are one entry."""
    trace, steps = side.trace, max(len(side.account.lengths), 1)
    result: dict[str, float] = {}
    for table in (trace.operators, trace.ranges):
        names = [str(name) for name in table["name"].cat.categories if _REGION.search(str(name))]
        mine = table[table["name"].isin(names).to_numpy(bool)]
        counts = mine[in_steps(mine, trace).to_numpy(bool)]["name"].astype("string").value_counts() / steps
        result |= {str(name): float(count) for name, count in counts.items() if str(name) not in result}
    kernels = side.account.rows
    triton = kernels["name"].str.contains(_KERNEL).fillna(False).to_numpy(bool)
    number = float(kernels.loc[triton, "count"].sum())
    return result | ({"Triton kernel": number} if number else {})


def in_steps(rows: pd.DataFrame, trace: Trace) -> pd.Series[bool]:
    """Return which rows begin between the first measured step's start and the last one's end."""
    steps = trace.steps[~trace.steps["warmup"]]
    if steps.empty:
        return pd.Series(True, index=rows.index, dtype=bool)
    return rows["start_ns"].between(steps["start_ns"].min(), steps["end_ns"].max())


def note(case: DeviceCase) -> str | None:
    """Return a sentence if only one side runs compiled regions, and operators of both were recorded; else None."""
    found = {key: regions(case.side(key)) for key in SIDES}
    alone = [key for key in SIDES if found[key]]
    if len(alone) != 1 or not all(len(case.side(key).trace.operators) for key in SIDES):
        return None
    mine, other = (case.a, case.b) if alone == ["a"] else (case.b, case.a)
    return f"{mine.name} is compiled ({_listed(found[alone[0]])} {case.per}), {other.name} is not"


def sentences(case: DeviceCase) -> list[str]:
    """Return a sentence on the number of compiled regions if both sides run some."""
    found = [regions(case.side(key)) for key in SIDES]
    if not all(found):
        return []
    return [f"Compiled regions {case.per}: {_listed(found[0])} in {case.a.name}, {_listed(found[1])} in {case.b.name}."]


def remedy(case: DeviceCase, side: str) -> str | None:
    """Return what to do on a side that is already compiled; None if it is not."""
    return words.remedy(case, _LARGER, side) if regions(case.side(side)) else None


def launched_in(case: DeviceCase, table: str, operation: str, slow: str) -> list[tuple[str, float]]:
    """Return the operators that launch most of a side's extra work, and how much more per step each launches.

    table, operation: for example copies, device to device. Only outermost operators count: those that the program itself calls.
    """
    counts = [_by_operator(case.side(key), table, operation) for key in SIDES]
    more = (counts[1].sub(counts[0], fill_value=0.0)) * (1 if slow == "b" else -1)
    whole = float(more[more > 0].sum())
    most = more[more > _LEAST * whole].sort_values(ascending=False, kind="stable")
    return [(str(name), float(count)) for name, count in most.items()] if whole else []


def is_region(name: str) -> bool:
    """Return whether an operator is a compiled region."""
    return bool(_REGION.search(name))


def _by_operator(side: DeviceSide, table: str, operation: str) -> pd.Series:
    """Return how often per step each outermost operator launches this operation."""
    trace, rows, operators = side.trace, getattr(side.trace, table), _outermost(side.trace.operators)
    rows = rows[
        ((rows["operation"] == operation) & rows["launch_ns"].notna()).to_numpy(bool) & device_steps.measured(trace, rows)
    ]
    operators = operators[operators["thread"].notna().to_numpy(bool)]
    thread, at = (rows[column].to_numpy(np.int64, na_value=-1) for column in ("launch_thread", "launch_ns"))
    row = intervals.innermost(*intervals.spans(operators), thread, at)
    names = operators["name"].astype("string").str.removeprefix(_PREFIX).iloc[row[(row >= 0) & (thread >= 0)]]
    counts: pd.Series = names.value_counts() / max(len(side.account.lengths), 1)
    return counts


def _outermost(operators: pd.DataFrame) -> pd.DataFrame:
    """Return the operators that no other operator of their thread contains, sorted by start."""
    ordered = operators.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable")
    until = ordered.groupby("thread")["end_ns"].cummax().groupby(ordered["thread"]).shift(fill_value=-1)
    return ordered[(ordered["start_ns"] >= until).to_numpy(bool)]


def _listed(found: dict[str, float]) -> str:
    return words.listed(f"{words.count(count)} x {name}" for name, count in found.items())
