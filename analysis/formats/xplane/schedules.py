"""The instruction of XLA's compiled program behind each kernel of a CUDA graph, from the order in which the program runs them.

XLA launches most of a program's kernels as CUDA graphs, and the profiler gives all of them the graph as operation
(`command_buffer_4`). A kernel that XLA compiled still has its instruction's name: input_reduce_fusion_201 for
input_reduce_fusion.201. Equal fusions share a kernel, named after the first of them, so one name may stand for several
instructions, in several layers. They run in the program's order: the n-th execution of the kernel in each run of the program,
or in each round of a loop, belongs to the n-th of the equal fusions. If a recording does not hold a whole number of runs, they
stay unknown.

A library's kernel has its own name. It belongs to the call between the kernels that ran before and after it; if there are
several calls, they are matched in order if there are as many kernels between the two as calls, else they stay unknown. The same
rule finds the fusion of a kernel whose equal fusions are in several loops, or in a loop and outside, and the instruction of a
copy: a copy instruction, or a fusion without a kernel of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats.xplane.hlo import Instruction, Program
from kernelscope.analysis.trace.categories import translated

HOLDERS = ("while", "call", "conditional")  # instructions that only run others
_COPIES = re.compile(r"^(?:memcpy\d+(?:_\w+)?|MemcpyD2D)$")  # names of copies on the device
_NO_KERNEL = re.compile(r"^[Mm]em(?:set|cpy)")
_LIBRARY = re.compile(r"^__cu|cusolver|cublas|cudnn|cufft")  # targets of calls
_FOLLOWS = re.compile(r"splitK|split_k|reduce_kernel", re.IGNORECASE)  # a second kernel of one call
_DEEPEST = 50  # loops in loops
_UNSPOKEN = re.compile(r"[^0-9A-Za-z_]")

Integers = npt.NDArray[np.int64]


class Schedule:
    """A program's instructions in the order in which they run; those inside loops and branches precede these.

    order: the instructions. `places` returns positions in it.
    """

    def __init__(self, program: Program) -> None:
        self.order: list[Instruction] = []
        self._program = program
        self._loops: list[tuple[int, int]] = []  # first place and the one after the last, outer loops before inner ones
        self._loop_of: list[int] = []
        self._seen: set[int] = set()  # computations: each runs in one place, and a damaged program may contain itself
        self._append(_entry(program), self._new_loop(), 0)
        self.place = {instruction.name: place for place, instruction in enumerate(self.order)}
        self._calls = [place for place, one in enumerate(self.order) if _LIBRARY.search(one.target)]
        self._copies = [place for place, one in enumerate(self.order) if one.opcode == "copy"]
        self._groups = self._equal()
        loops = [len({self._loop_of[place] for place in places}) for places in self._groups]
        self._in_one_loop = np.array([*(count == 1 for count in loops), False])  # the last stands for no group (-1)

    def _new_loop(self) -> int:
        self._loops.append((len(self.order), len(self.order)))
        return len(self._loops) - 1

    def _append(self, computation: int, loop: int, depth: int) -> None:
        if computation in self._seen or depth > _DEEPEST:
            return
        self._seen.add(computation)
        for member in self._program.members.get(computation, []):
            instruction = self._program.instructions[member]
            if instruction.opcode in HOLDERS:
                inner = loop if instruction.opcode == "call" else self._new_loop()
                for called in instruction.called:
                    self._append(called, inner, depth + 1)
                self._loops[inner] = (self._loops[inner][0], len(self.order))
            self.order.append(instruction)
            self._loop_of.append(loop)
        self._loops[loop] = (self._loops[loop][0], len(self.order))

    def _equal(self) -> list[list[int]]:
        """Return the places of each group of equal fusions."""
        alike: dict[object, list[int]] = {}
        for place, instruction in enumerate(self.order):
            if instruction.opcode == "fusion":
                alike.setdefault(_fingerprint(self._program, instruction), []).append(place)
        return list(alike.values())

    def places(self, names: pd.Series, recorded: Integers) -> Integers:
        """Return the places of a program's kernels, given in order of starts; -1 if unknown.

        names: of the kernels. recorded: the places that the profiler recorded, else -1.
        """
        names = names.astype("category")
        group = self._group_of(names)
        known = np.where(recorded >= 0, recorded, self._in_order(group))
        result, unknown, anchors = known.copy(), known < 0, np.flatnonzero(known >= 0)

        def fill(mine: npt.NDArray[np.bool_], candidates: list[int], follows: re.Pattern[str] | None = None) -> None:
            rows = np.flatnonzero(unknown & mine)
            main = np.ones(len(rows), dtype=bool) if follows is None else ~_matching(names.iloc[rows], follows)
            gap = np.searchsorted(anchors, rows)
            inside = (gap > 0) & (gap < len(anchors))
            if candidates and inside.any():
                before, after = (known[anchors[gap[inside] - side]] for side in (1, 0))
                table = pd.DataFrame({"row": rows, "gap": gap, "main": main})[inside].assign(before=before, after=after)
                self._by_neighbours(result, table, candidates)

        for number in np.unique(group[unknown & (group >= 0)]).tolist():
            fill(group == number, self._groups[number])
        unseen = [place for number in set(range(len(self._groups))) - set(group.tolist()) for place in self._groups[number]]
        fill(_matching(names, _COPIES), sorted([*self._copies, *unseen]))
        fill((group < 0) & ~_matching(names, _NO_KERNEL), self._calls, _FOLLOWS)
        return result

    def _group_of(self, names: pd.Series) -> Integers:
        """Return the group of equal fusions with each kernel's name; -1 for libraries' kernels and copies."""
        places = [(place, str(number)) for number, group in enumerate(self._groups) for place in group]
        number_of = {_UNSPOKEN.sub("_", self.order[place].name): number for place, number in places}
        numbers = translated(names, number_of.get)
        return np.asarray(numbers.astype("string").astype("Int64").fillna(-1).to_numpy(np.int64))

    def _in_order(self, group: Integers) -> Integers:
        """Return the places of kernels whose group is in one loop and ran a whole number of times, else -1."""
        nth = pd.Series(group).groupby(group).cumcount().to_numpy(np.int64)
        size = np.array([*(len(places) for places in self._groups), 1], dtype=np.int64)
        first = np.cumsum(size) - size
        times = np.bincount(group[group >= 0], minlength=len(size))
        sure = (self._in_one_loop & (times % size == 0))[group]
        flat = np.array([*(place for places in self._groups for place in places), -1], dtype=np.int64)
        return np.where(sure, flat[np.where(sure, first[group] + nth % size[group], -1)], -1)

    def _by_neighbours(self, result: Integers, table: pd.DataFrame, candidates: list[int]) -> None:
        """Set the result of rows from the candidates that lie between the known places before and after them.

        table: row; gap: the number of known kernels before it; before, after: the places of the known kernels around it; main:
        whether it is not the second kernel of a call.
        """
        groups = table.groupby("gap")["main"]
        table = table.assign(nth=np.maximum(groups.cumsum() - 1, 0), count=groups.transform("sum"))
        for _, part in table.groupby(["before", "after", "count"]):
            before, after, count = part[["before", "after", "count"]].iloc[0].tolist()
            between = self._between(candidates, before, after)
            if len(between) in (1, count):
                result[part["row"].to_numpy()] = np.array(between)[np.minimum(part["nth"], len(between) - 1)]

    def _between(self, places: list[int], before: int, after: int) -> list[int]:
        """Return which of the places run after one place and before another, which may be one round later."""
        if before < after:
            return places[bisect_right(places, before) : bisect_left(places, after)]
        start, end = next(loop for loop in reversed(self._loops) if loop[0] <= after and before < loop[1])
        rest = places[bisect_right(places, before) : bisect_left(places, end)]
        return rest + places[bisect_left(places, start) : bisect_left(places, after)]


def _matching(names: pd.Series, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    return translated(names, lambda text: "yes" if pattern.search(text) else None).notna().to_numpy(bool)


def _entry(program: Program) -> int:
    """Return the computation that no instruction calls, the program's own; for a damaged program any, -1 if it has none."""
    called = {number for instruction in program.instructions.values() for number in instruction.called}
    free = [number for number in program.members if number not in called] or list(program.members)
    return max(free, key=lambda number: len(program.members[number]), default=-1)


def _fingerprint(program: Program, instruction: Instruction) -> object:
    """Return a key that equal fusions share: types and sizes of operands and result, and their operations in order."""
    operands = [program.instructions[number] for number in instruction.operands if number in program.instructions]
    whole = [*program.inside(instruction), *operands, instruction]
    return tuple((one.opcode if one not in operands else "", one.dtype, one.dimensions) for one in whole)
