"""Loops that a compiler made kernels of, by directives (OpenACC): one function from another line is its loops divided otherwise.

Such a kernel is named after its file, function and line: layers_c_forward_46_gpu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.causes import faults
from kernelscope.analysis.trace import page_faults

NAME = re.compile(r"^(?P<function>\w{1,400}?)_(?P<line>\d{1,7})_gpu(?P<part>__red)?$")
_SAME = "Compilers name such kernels after their source lines: it is one function, whose loops are divided otherwise."
_DIVIDE = (
    "in {0}: compare the directives at line {1} with those at line {2} of {3}: divide all independent outer loops together among "
    "gangs and vectors (collapse), and leave sequential what is short"
)
_KEEP = "; keep the data on the device (a data region, or cudaMemPrefetchAsync), so that no kernel waits for its pages"
_NOTED = 0.01  # of a side's time, in kernels that the other side lacks


@dataclass(frozen=True)
class _Kernel:
    """A kernel of one side. function: with its file; line: of the source; row: its row in the case."""

    function: str
    line: str
    row: pd.Series


def other_lines(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The only kernel of a function was compiled from another line on each side, and runs equally often."""
    for a, b in _pairs(case):
        rows = case.kernels()
        rows = rows[rows["row"].isin([a.row["row"], b.row["row"]]).to_numpy(bool)]
        if len(rows) == len(SIDES):
            yield _finding(case, {"a": a, "b": b}, rows)


def note(case: DeviceCase) -> list[str]:
    """Note which kernels of functions one side lacks: the processor may do their work, which is not counted."""
    if not _pairs(case) or any(map(case.is_cut, SIDES)):
        return []
    said = []
    for key, other in (SIDES, SIDES[::-1]):
        theirs = {one.function for one in _alone(case, other)}
        gone = [one for one in _alone(case, key) if one.function not in theirs]
        took = sum(float(one.row[f"{key}_ns"]) for one in gone)
        if took >= _NOTED * case.side(key).account.step_ns:
            names = words.listed(one.function for one in sorted(gone, key=lambda one: -float(one.row[f"{key}_ns"])))
            mine, its = case.side(key).name, case.side(other).name
            said.append(
                f"{its} has no kernel of {names}, which take {words.duration(took)} in {mine}: if {its}'s processor does their "
                "work, that is no saving, and its time is not counted here"
            )
    return said


def _pairs(case: DeviceCase) -> list[tuple[_Kernel, _Kernel]]:
    """Return the kernels of both sides that are the only one of their function, by another line, and run equally often."""
    if not case.totals or case.by_operators or not case.counts:
        return []
    sides = [_alone(case, key) for key in SIDES]
    known = [{one.function: one for one in mine if _is_only(one, mine)} for mine in sides]
    both = [(known[0][function], known[1][function]) for function in known[0] if function in known[1]]
    return [(a, b) for a, b in both if a.line != b.line and a.row["a_count"] == b.row["b_count"]]


def _is_only(one: _Kernel, kernels: list[_Kernel]) -> bool:
    return sum(other.function == one.function for other in kernels) == 1


def _alone(case: DeviceCase, key: str) -> list[_Kernel]:
    """Return the kernels of directives that a side has and the other has not."""
    rows, other = case.all_kernels(), SIDES[1 - SIDES.index(key)]
    rows = rows[((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)]
    found = [(NAME.search(str(row["name"])), row) for _, row in rows.iterrows()]
    return [_Kernel(match["function"] + (match["part"] or ""), match["line"], row) for match, row in found if match]


def _finding(case: DeviceCase, pair: dict[str, _Kernel], rows: pd.DataFrame) -> DeviceFinding:
    slow, slower, fast, faster = words.slower(case, rows)
    ratio = float(rows[f"{slow}_ns"].sum()) / max(float(rows[f"{fast}_ns"].sum()), 1.0)
    lines = f"line {pair['a'].line} in {case.a.name}, line {pair['b'].line} in {case.b.name}"
    title = (
        f"{pair[slow].function} ({lines}) takes {ratio:,.3g} times as long in {slower} as in {faster}: "
        f"{words.of_rows(case, rows)}, {words.executions_of(case, rows)}"
    )
    side = case.side(slow)
    found = page_faults.of_device(side.trace, side.account.device)
    waits = found is not None and 0 < found.ns <= float(rows[f"{slow}_ns"].sum())
    sentences = [_SAME]
    if found is not None and waits:
        sentences.insert(0, f"Its time in {slower} includes page faults of unified memory, up to {faults.groups(found)}.")
    remedy = _DIVIDE.format(slower, pair[slow].line, pair[fast].line, faster) + (_KEEP if waits else "")
    sentences += words.both(case, rows)
    return DeviceFinding("loops divided otherwise", title, rows["row"].tolist(), "medium", sentences, remedy, structural=True)


RULES = (other_lines,)
