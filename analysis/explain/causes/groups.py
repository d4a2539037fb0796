"""The account by layer and phase, as rules about kernels look at it.

Sides are compared by what they execute at least every other step, never by which of two kernels takes longer: times vary from
run to run, what is executed does not.
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

MOVES = ("layout", "copy", "cast")  # data as it was, elsewhere or otherwise written

# Executions per step from which something belongs to the step: a straggler that attribution put elsewhere is rarer
ONCE = 0.5


@dataclass(frozen=True, slots=True)
class Kernel:
    """A cell of a kernel: what of partition.KEYS rules look at (None: unknown), executions per step, and share of the step."""

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
        """The operations of one execution, over all batch dimensions: twelve heads are twelve products. None where unknown."""
        described = KernelColumns(
            self.kind, self.library or "", self.kernel, self.operator, None, self.problem, self.dtype, self.algorithm,
            self.m, self.n, self.k, self.transpose,
        )  # fmt: skip
        return of_description(described).flops


@dataclass(frozen=True, eq=False)
class RowGroup:
    """One layer's (or named part's) rows of one phase, and what sides "a" and "b" execute in it.

    layer: the row's label. phase: "" where unknown. delta_ns: how much longer B takes. noticed: whether that is more than noise,
    as far as is known: other groups may not be named. table: the account's cells, and places: which of them are a side's.
    known: what has been asked before, as the rules ask the same again.
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
        """Whether it is a layer, and not a part of the step or what could not be attributed."""
        return not self.layer.startswith("(")

    def cells(self, side: str) -> pd.DataFrame:
        """Return the account's cells of a side, those of the host too."""
        return self.table.iloc[self.places[side]]

    def kernels(self, side: str, kinds: Collection[str] | None = None) -> pd.DataFrame:
        """Return the account's cells of a side's kernels, of these kinds only where any are given."""
        cells = self.cells(side)
        return cells[cells["kind"].notna() if kinds is None else cells["kind"].isin(list(kinds))]

    def of(self, side: str, kinds: Collection[str] | None = None) -> list[Kernel]:
        """Return a side's kernels as plain values, of these kinds only where any are given."""
        return self.made[side] if kinds is None else [kernel for kernel in self.made[side] if kernel.kind in kinds]

    def counts(self, side: str, column: str, kinds: Collection[str] | None = None) -> dict[str, float]:
        """Return how often per step a side's kernels are executed, by the values of a column; unknown values are left out."""
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
        """Return the values of a column that a side's kernels execute at least every other step; unknown ones are left out."""
        return {value for value, count in self.counts(side, column, kinds).items() if count >= ONCE}

    def computing(self, side: str) -> frozenset[str]:
        """Return the kinds that compute: of a side's kernels the main ones where it has any, else all that move no data."""
        kinds = self.executed(side, "kind")
        return frozenset(kinds & set(MAIN) or kinds - {*MOVES, "unknown"})

    def computed(self, side: str, column: str) -> set[str]:
        """Return the values of a column that a side's computing kernels execute at least every other step."""
        return self.executed(side, column, self.computing(side))

    def count(self, side: str, kinds: Collection[str] | None = None) -> float:
        """Return how many kernels a side executes per step."""
        return sum(kernel.count for kernel in self.of(side, kinds))

    def time_ns(self, side: str, kinds: Collection[str] | None = None) -> int:
        """Return the share of the step that a side's kernels have."""
        return sum(kernel.time_ns for kernel in self.of(side, kinds))


_latest: tuple[weakref.ref[Case], dict[str, Any]] | None = None


def once(case: Case, name: str, make: Callable[[Case], Any]) -> Any:
    """Return what a function makes of a case. The rules ask one after another about the same case, which is looked at once."""
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

    Within one framework a cause accounts for all the groups that it changes, whether or not each is out of the noise by itself;
    between frameworks each group has its own reasons, and only what is out of the noise needs one. What is computed to make a
    batch is the input pipeline's, whatever kernels it is.
    """
    return [group for group in groups(case) if group.phase != "data" and (group.noticed or case.same_framework)]


def _grouped(case: Case) -> list[RowGroup]:
    rows, cells = case.rows, case.account.cells
    # captures tell the phase of what has no layer for different parts of it, so that it is compared as a whole
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
        if not noticed and case.account.samples is not None:  # a sum can be sure though none of its parts is
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
    """Return all cells as plain values; those of the host have no kind."""
    columns = [
        cells[name].astype("object").where(cells[name].notna(), None).tolist() for name in (one.name for one in fields(Kernel))
    ]
    return [Kernel(*values) for values in zip(*columns, strict=True)]
