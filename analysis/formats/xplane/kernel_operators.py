"""The operators of a GPU's kernels, from XLA's compiled programs, if the profiler does not give them.

The profiler names the kernels of a CUDA graph after the graph, and some kernels after the whole compiled function. `schedules`
finds their instructions.

If XLA fused operators and left the fusion without a name, it takes the name of the last of them that is in a scope: its result.
An instruction that XLA made itself takes the name of the nearest instruction that uses its result.
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

INTEGERS, TEXTS = ("program_id",), ("hlo_module",)  # statistics needed here besides hlo_op, tf_op and name
_NAMELESS = re.compile(r"^(?:XlaModule|Thunk)?:?$")
_PLAIN = re.compile(r"\b(?:transpose|jvp|vmap)\(|\)")
_FURTHEST = 40  # instructions that are searched for the nearest one in a scope


def are_missing(plane: Plane) -> bool:
    """Return whether a plane has kernels of XLA programs without their operator's name."""
    events = plane.events
    return len(events) > 0 and bool((events["stat_hlo_op"].notna() & _nameless(events)).any())


def _nameless(events: pd.DataFrame) -> pd.Series[bool]:
    """Return which events have no operator name, or one that only names the compiled function."""
    by_type = translated(events["stat_tf_op"], lambda text: None if _NAMELESS.match(text) else "yes").notna()
    by_scope = translated(events["stat_name"], lambda text: "yes" if _in_scope(text) else None).notna()
    return ~by_type & ~by_scope


def added(plane: Plane, contents: Mapping[str, bytes], source: str) -> Plane:
    """Return a GPU's plane with the instructions and operators of nameless kernels added, where known.

    contents: the programs of the file, as `tables.read_programs` returns them. source: the file's name in errors.
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
        pairs = _Operators(hlo.parse(contents[key], source)).of_events(mine)
        pairs = pairs[nameless.loc[pairs.index].to_numpy(bool)]
        better = np.array([_in_scope(scope) for _, scope in pairs], dtype=bool) | vague.loc[pairs.index].isna().to_numpy(bool)
        pairs = pairs[better]
        operation.loc[pairs.index] = [instruction for instruction, _ in pairs]
        operator.loc[pairs.index] = [scope for _, scope in pairs]
        vague.loc[pairs.index] = None  # it would take precedence over the operator
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
        """Return the names (instruction, operator) of a program's events for which they are known; events: in order of starts."""
        instructions = events["stat_hlo_op"].cat
        of_category = [self._schedule.place.get(str(name), -1) for name in instructions.categories]
        recorded = np.array([*of_category, -1], dtype=np.int64)[instructions.codes.to_numpy()]  # null is -1, the last
        places = self._schedule.places(events["name"], recorded)
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
        """Return the name of an instruction, or, if it is not in a scope, of the last one inside it that is."""
        if _in_scope(instruction.op_name):
            return instruction.op_name
        inside = [one.op_name for one in self._program.inside(instruction) if _in_scope(one.op_name)]
        return inside[-1] if inside else instruction.op_name

    def _nearest(self, instruction: Instruction) -> str | None:
        """Return the name of the nearest instruction in a scope that uses the result, directly or not."""
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
    """Return whether an operator's name says more than the compiled function; jit(step)/jvp()/mul does not."""
    return op_name.startswith("jit(") and any(_PLAIN.sub("", part) for part in op_name.split("/")[1:-1])
