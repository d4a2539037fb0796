"""The account by layer and phase, as rules on kernels see it.

Sides are compared by what they execute at least every other step, not by which of two kernels takes longer: times vary from run
to run, but what is executed does not.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any, cast

import pandas as pd

from kernelscope.analysis.accounting.cell_labels import NO_LAYER
from kernelscope.analysis.explain.causes import host_evidence
from kernelscope.analysis.explain.model import SIDES, Case
from kernelscope.analysis.kernels.work.descriptions import KernelColumns, of_description
from kernelscope.analysis.trace import MAIN

MOVES = ("layout", "copy", "cast")  # the same data in another place, order or type

# Executions per step from which something belongs to the step: kernels that attribution misplaced are rarer
ONCE = 0.5


@dataclass(frozen=True, slots=True)
class Kernel:
    """A cell of a kernel: the columns of partition.KEYS that rules use (None if unknown), executions per step, and time in the
    step.
    """

    kind: str
    kernel: str | None
    library: str | None
    operator: str | None
    dtype: str | None
    layout: str | None
    problem: str | None
    algorithm: str | None
    transpose: str | None
    m: int | None
    n: int | None
    k: int | None
    count: float
    time_ns: int

    @property
    def flops(self) -> int | None:
        """The operations of one execution over all batch dimensions: twelve heads are twelve products. None if unknown."""
        described = KernelColumns(
            self.kind, self.library or "", self.kernel, self.operator, None, self.problem, self.dtype, self.algorithm,
            self.m, self.n, self.k, self.transpose,
        )  # fmt: skip
        return of_description(described).flops


@dataclass(frozen=True, eq=False)
class RowGroup:
    """The rows of one layer (or named part) in one phase, and what sides "a" and "b" execute in it.

    layer: the row's label. phase: "" if unknown. delta_ns: how much longer B takes. noticed: whether that stands out from
    noise, as far as is known; other groups may not be named. table: the account's cells; places: which of them belong to each
    side. known: a cache of answers, as rules ask the same again.
    """

    layer: str
    phase: str
    rows: pd.DataFrame
    delta_ns: int
    noticed: bool
    made: dict[str, list[Kernel]]
    table: pd.DataFrame
    places: dict[str, list[int]]
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def is_layer(self) -> bool:
        """Whether it is a layer, not a part of the step or unattributed time."""
        return not self.layer.startswith("(")

    def cells(self, side: str) -> pd.DataFrame:
        """Return the account's cells of a side, including the host's."""
        return self.table.iloc[self.places[side]]

    def kernels(self, side: str, kinds: Collection[str] | None = None) -> pd.DataFrame:
        """Return the account's cells of a side's kernels, or only those of these kinds."""
        cells = self.cells(side)
        return cells[cells["kind"].notna() if kinds is None else cells["kind"].isin(list(kinds))]

    def of(self, side: str, kinds: Collection[str] | None = None) -> list[Kernel]:
        """Return a side's kernels as plain values, or only those of these kinds."""
        return self.made[side] if kinds is None else [kernel for kernel in self.made[side] if kernel.kind in kinds]

    def counts(self, side: str, column: str, kinds: Collection[str] | None = None) -> dict[str, float]:
        """Return how often per step a side executes kernels, by the values of a column; unknown values are left out."""
        key = (column, side, None if kinds is None else frozenset(kinds))
        if key not in self.known:
            sums: dict[str, float] = defaultdict(float)
            for kernel in self.of(side, kinds):
                value = getattr(kernel, column)
                if value is not None:
                    sums[value] += kernel.count
            self.known[key] = dict(sums)
        return cast(dict[str, float], self.known[key])

    def executed(self, side: str, column: str, kinds: Collection[str] | None = None) -> set[str]:
        """Return the values of a column in kernels that a side executes at least every other step, without unknown ones."""
        return {value for value, count in self.counts(side, column, kinds).items() if count >= ONCE}

    def computing(self, side: str) -> frozenset[str]:
        """Return the kinds that compute on a side: the main ones if there are any, else all that do not just move data."""
        kinds = self.executed(side, "kind")
        return frozenset(kinds & set(MAIN) or kinds - {*MOVES, "unknown"})

    def computed(self, side: str, column: str) -> set[str]:
        """Return the values of a column that a side's computing kernels execute at least every other step."""
        return self.executed(side, column, self.computing(side))

    def count(self, side: str, kinds: Collection[str] | None = None) -> float:
        """Return how many kernels a side executes per step."""
        return sum(kernel.count for kernel in self.of(side, kinds))

    def time_ns(self, side: str, kinds: Collection[str] | None = None) -> int:
        """Return the time of a side's kernels in the step."""
        return sum(kernel.time_ns for kernel in self.of(side, kinds))


_latest: tuple[weakref.ref[Case], dict[str, Any]] | None = None


def once(case: Case, name: str, make: Callable[[Case], Any]) -> Any:
    """Return what `make` returns for a case, computed once: the rules ask about the same case one after another."""
    global _latest
    if _latest is None or _latest[0]() is not case:
        _latest = (weakref.ref(case), {})
    made = _latest[1]
    if name not in made:
        made[name] = make(case)
    return made[name]


def groups(case: Case) -> list[RowGroup]:
    """Return the account's groups."""
    return cast(list[RowGroup], once(case, "groups", _grouped))


def candidates(case: Case) -> list[RowGroup]:
    """Return the groups in which a cause may be looked for.

    Within one framework a cause accounts for all groups that it changes, whether or not each stands out from noise. Between
    frameworks each group has its own reasons, and only those that stand out need one. Kernels that make a batch belong to the
    input pipeline.
    """
    return [group for group in groups(case) if group.phase != "data" and (group.noticed or case.same_framework)]


def _grouped(case: Case) -> list[RowGroup]:
    rows, cells = case.rows, case.account.cells
    # captures know the phase of different parts of what has no layer, so it is compared as a whole
    phase = rows["phase"].astype("string").fillna("").mask(rows["layer"].isin(NO_LAYER), "")
    number = rows.groupby([rows["layer"].astype("string"), phase], sort=False).ngroup()
    places: dict[tuple[int, str], list[int]] = defaultdict(list)
    made: dict[tuple[int, str], list[Kernel]] = defaultdict(list)
    kernels = _plain(cells)
    for place, (group, side) in enumerate(zip(cells["row"].map(number).tolist(), cells["side"].tolist(), strict=True)):
        places[group, side].append(place)
        if kernels[place].kind is not None:
            made[group, side].append(kernels[place])
    named = set(host_evidence.noticed(rows[rows["delta_ns"] != 0]).index)
    result = []
    for group, mine in rows.groupby(number, sort=False):
        noticed = not named.isdisjoint(mine.index)
        if not noticed and case.account.samples is not None:  # a sum can be certain although no part of it is
            noticed = host_evidence.noticed_ns(case, mine) != 0
        key = int(group)
        result.append(
            RowGroup(
                layer=str(mine["layer"].iloc[0]),
                phase=str(phase[mine.index[0]]),
                rows=mine,
                delta_ns=int(mine["delta_ns"].sum()),
                noticed=noticed,
                made={side: made[key, side] for side in SIDES},
                table=cells,
                places={side: places[key, side] for side in SIDES},
            )
        )
    return result


def _plain(cells: pd.DataFrame) -> list[Kernel]:
    """Return all cells as plain values; the host's have no kind."""
    columns = [
        cells[name].astype("object").where(cells[name].notna(), None).tolist() for name in (one.name for one in fields(Kernel))
    ]
    return [Kernel(*values) for values in zip(*columns, strict=True)]
