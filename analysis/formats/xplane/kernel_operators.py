"""The operators of a GPU's kernels, from XLA's compiled programs, where the profiler does not tell them.

XLA launches most of a program's kernels as CUDA graphs, and the profiler names them all after the buffer (`command_buffer_4`).
Each has its name still, and that is its instruction's: input_reduce_fusion_201 of input_reduce_fusion.201. Equal fusions share
one kernel, named after the first of them, so that a name may stand for several instructions, of several layers. They run in the
order of the program's schedule, in which it lists its instructions: so the n-th execution of the kernel in each run of the
program is that of the n-th of the equal fusions. Where a recording holds no whole number of runs, nothing is said of those.

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
from kernelscope.analysis.formats.xplane.tables import Plane, program_key
from kernelscope.analysis.trace.categories import translated

INTEGERS, TEXTS = ("program_id",), ("hlo_module",)  # the statistics that this needs besides hlo_op, tf_op and name
_BUFFER = re.compile(r"^command_buffer(?:_|$)")
_NAMELESS = re.compile(r"^(?:XlaModule|Thunk)?:?$")
_PLAIN = re.compile(r"\b(?:transpose|jvp|vmap)\(|\)")
_COPY, _COPIES = "copy", re.compile(r"^(?:memcpy\d+(?:_\w+)?|MemcpyD2D)$")  # an instruction, and how the device does it
_UNSPOKEN = re.compile(r"[^0-9A-Za-z_]")
_FURTHEST = 40  # instructions that are looked at for the nearest one in a scope


def are_missing(plane: Plane) -> bool:
    """Return whether a plane has kernels of XLA's programs without their operator's name."""
    events = plane.events
    return len(events) > 0 and bool((events["stat_hlo_op"].notna() & _nameless(events)).any())


def _nameless(events: pd.DataFrame) -> pd.Series[bool]:
    told = translated(events["stat_tf_op"], lambda text: None if _NAMELESS.match(text) else "yes").notna()
    return ~told & events["stat_name"].isna()


def added(plane: Plane, contents: Mapping[str, bytes], source: str) -> Plane:
    """Return a GPU's plane with the instructions and operators of such kernels, where they are known.

    contents: the programs of the file, as `tables.read_programs` returns them. source: the file, for errors.
    """
    events = plane.events
    nameless = _nameless(events)
    program = events["stat_hlo_module"].astype("string") + "(" + events["stat_program_id"].astype("string") + ")"
    operation, operator = (events[f"stat_{name}"].astype("object") for name in ("hlo_op", "tf_op"))
    for name in program[nameless].dropna().unique():
        module, _, number = str(name)[:-1].rpartition("(")
        key = program_key(contents, module, number)
        if key is None:
            continue
        mine = events[(program == name).fillna(False).to_numpy(bool)].sort_values("start_ns", kind="stable")
        found = _Operators(hlo.parse(contents[key], source)).of_events(mine)
        found = found[nameless.loc[found.index].to_numpy(bool)]
        operation.loc[found.index] = [instruction for instruction, _ in found]
        operator.loc[found.index] = [scope for _, scope in found]
    columns = {"stat_hlo_op": operation.astype("category"), "stat_tf_op": operator.astype("category")}
    return replace(plane, events=events.assign(**columns))


class _Operators:
    """The operators of one program's instructions."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names: dict[int, str] = {}
        self._users: dict[int, list[int]] = {}
        for instruction in program.instructions.values():
            for operand in instruction.operands:
                self._users.setdefault(operand, []).append(instruction.number)

    def of_events(self, events: pd.DataFrame) -> pd.Series:
        """Return (instruction, operator) by their names for those of a program's events, in order, of which they are known."""
        by_name = self._program.by_name()
        of_category = np.array([*(by_name.get(str(name)) for name in events["stat_hlo_op"].cat.categories), None], dtype=object)
        told = pd.Series(of_category[events["stat_hlo_op"].cat.codes.to_numpy()], index=events.index)  # null, -1, is the last
        buffered = translated(events["stat_hlo_op"], lambda text: "yes" if _BUFFER.match(text) else None).notna()
        shared = _shared(events["name"], self._program)
        known = pd.concat([told[~buffered & told.notna()], shared[buffered.loc[shared.index].to_numpy(bool)]])
        return pd.Series([(one.name, self._operator(one)) for one in known], index=known.index, dtype=object)

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


def _shared(names: pd.Series, program: Program) -> pd.Series:
    """Return the instructions of a program's kernels, whose names are in the order of their start; without those not known."""
    scheduled = [program.instructions[number] for number in program.members[_entry(program)]]
    alike: dict[object, list[Instruction]] = {}
    key_of: dict[str, object] = {}
    for instruction in scheduled:
        if instruction.opcode == "fusion":
            key = _fingerprint(program, instruction)
            alike.setdefault(key, []).append(instruction)
            key_of[_UNSPOKEN.sub("_", instruction.name)] = key
        elif instruction.opcode == _COPY:
            alike.setdefault(_COPY, []).append(instruction)
    numbers = {key: number for number, key in enumerate(alike)}
    copies = numbers.get(_COPY)

    def number_of(text: str) -> str | None:
        number = numbers[key_of[text]] if text in key_of else copies if _COPIES.match(text) else None
        return None if number is None else str(number)

    known = translated(names.astype("category"), number_of)
    group = known.astype("string").astype("Int64").dropna().astype("int64")
    members = list(alike.values())
    size = np.array([len(one) for one in members], dtype=np.int64)
    place = group.groupby(group).cumcount().to_numpy()
    whole = np.bincount(group.to_numpy(), minlength=len(members)) % np.maximum(size, 1) == 0
    sure = whole[group.to_numpy()]
    chosen = [members[number][at % size[number]] for number, at in zip(group[sure], place[sure], strict=True)]
    return pd.Series(chosen, index=group.index[sure], dtype=object)


def _entry(program: Program) -> int:
    """Return the computation that no instruction runs: the program's own."""
    called = {number for instruction in program.instructions.values() for number in instruction.called}
    return max((number for number in program.members if number not in called), key=lambda number: len(program.members[number]))


def _fingerprint(program: Program, instruction: Instruction) -> object:
    """Return what equal fusions have in common: types and sizes of operands and result, and what they compute in which order."""
    operands = [program.instructions[number] for number in instruction.operands if number in program.instructions]
    whole = [*program.inside(instruction), *operands, instruction]
    return tuple((one.opcode if one not in operands else "", one.dtype, one.dimensions) for one in whole)
