"""The operators of a GPU's kernels, from XLA's compiled programs, where the profiler does not tell them.

The profiler names the kernels of a CUDA graph after the graph, and some after the whole function that was compiled. Which
instruction they are of is told by `schedules`.

Where XLA joined operators and left the fusion without a name, it has that of the last of them that is in a scope: its result.
Where it made an instruction itself, it has the name of the nearest one that uses its result.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.xplane import hlo
from kernelscope.analysis.formats.xplane.hlo import Instruction, Program
from kernelscope.analysis.formats.xplane.schedules import Schedule
from kernelscope.analysis.formats.xplane.tables import Plane, program_key
from kernelscope.analysis.trace.categories import translated

INTEGERS, TEXTS = ("program_id",), ("hlo_module",)  # the statistics that this needs besides hlo_op, tf_op and name
_NAMELESS = re.compile(r"^(?:XlaModule|Thunk)?:?$")
_PLAIN = re.compile(r"\b(?:transpose|jvp|vmap)\(|\)")
_FURTHEST = 40  # instructions that are looked at for the nearest one in a scope


def are_missing(plane: Plane) -> bool:
    """Return whether a plane has kernels of XLA's programs without their operator's name."""
    events = plane.events
    return len(events) > 0 and bool((events["stat_hlo_op"].notna() & _nameless(events)).any())


def _nameless(events: pd.DataFrame) -> pd.Series[bool]:
    """Return which events have no operator's name, or one that says no more than which function was compiled."""
    told = translated(events["stat_tf_op"], lambda text: None if _NAMELESS.match(text) else "yes").notna()
    named = translated(events["stat_name"], lambda text: "yes" if _in_scope(text) else None).notna()
    return ~told & ~named


def added(plane: Plane, contents: Mapping[str, bytes], source: str) -> Plane:
    """Return a GPU's plane with the instructions and operators of such kernels, where they are known.

    contents: the programs of the file, as `tables.read_programs` returns them. source: the file, for errors.
    """
    events = plane.events
    nameless = _nameless(events)
    program = events["stat_hlo_module"].astype("string") + "(" + events["stat_program_id"].astype("string") + ")"
    operation, operator, vague = (events[f"stat_{name}"].astype("object") for name in ("hlo_op", "tf_op", "name"))
    for name in program[nameless].dropna().unique():
        module, _, number = str(name)[:-1].rpartition("(")
        key = program_key(contents, module, number)
        if key is None:
            continue
        mine = events[(program == name).fillna(False).to_numpy(bool)].sort_values("start_ns", kind="stable")
        found = _Operators(hlo.parse(contents[key], source)).of_events(mine)
        found = found[nameless.loc[found.index].to_numpy(bool)]
        better = np.array([_in_scope(scope) for _, scope in found], dtype=bool) | vague.loc[found.index].isna().to_numpy(bool)
        found = found[better]
        operation.loc[found.index] = [instruction for instruction, _ in found]
        operator.loc[found.index] = [scope for _, scope in found]
        vague.loc[found.index] = None  # it would go before the operator
    texts = {"hlo_op": operation, "tf_op": operator, "name": vague}
    columns = {f"stat_{name}": column.astype("category") for name, column in texts.items()}
    return replace(plane, events=events.assign(**columns))


class _Operators:
    """The operators of one program's instructions."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._schedule = Schedule(program)
        self._names: dict[int, str] = {}
        self._users: dict[int, list[int]] = {}
        for instruction in program.instructions.values():
            for operand in instruction.operands:
                self._users.setdefault(operand, []).append(instruction.number)

    def of_events(self, events: pd.DataFrame) -> pd.Series:
        """Return (instruction, operator) by their names for those of a program's events, in order, of which they are known."""
        instructions = events["stat_hlo_op"].cat
        of_category = [self._schedule.place.get(str(name), -1) for name in instructions.categories]
        told = np.array([*of_category, -1], dtype=np.int64)[instructions.codes.to_numpy()]  # null is -1, the last
        places = self._schedule.places(events["name"], told)
        known = places >= 0
        used, row = np.unique(places[known], return_inverse=True)
        pairs = np.empty(len(used), dtype=object)
        pairs[:] = [(one.name, self._operator(one)) for one in (self._schedule.order[place] for place in used)]
        return pd.Series(pairs[row], index=events.index[known], dtype=object)

    def _operator(self, instruction: Instruction) -> str:
        number = instruction.number
        if number not in self._names:
            own = self._own(instruction)
            self._names[number] = own if _in_scope(own) else self._nearest(instruction) or own
        return self._names[number]

    def _own(self, instruction: Instruction) -> str:
        """Return the name of an instruction, else of the last that it joins and that is in a scope."""
        if _in_scope(instruction.op_name):
            return instruction.op_name
        inside = [one.op_name for one in self._program.inside(instruction) if _in_scope(one.op_name)]
        return inside[-1] if inside else instruction.op_name

    def _nearest(self, instruction: Instruction) -> str | None:
        """Return the name of the nearest instruction that uses the result, directly or not, and is in a scope."""
        waiting, seen = deque(self._users.get(instruction.number, ())), {instruction.number}
        while waiting and len(seen) < _FURTHEST:
            number = waiting.popleft()
            if number in seen:
                continue
            seen.add(number)
            name = self._own(self._program.instructions[number])
            if _in_scope(name):
                return name
            waiting.extend(self._users.get(number, ()))
        return None


def _in_scope(op_name: str) -> bool:
    """Return whether an operator's name says more than the function that was compiled: jit(step)/jvp()/mul does not."""
    return op_name.startswith("jit(") and any(_PLAIN.sub("", part) for part in op_name.split("/")[1:-1])
