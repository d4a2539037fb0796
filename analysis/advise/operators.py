"""PyTorch's operators in the measured steps: which call which, the kernels they run, and the subject's rows that they belong
to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import IDLE
from kernelscope.analysis.advise import sequences
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_DEEP = 16  # callers of an operator that are searched for the one that a kernel names
_KERNEL = ["kind", "name", "operator", "phase", "layer", "dtype", "problem", "grid"]
_HOST = ["operator", "phase", "layer"]


@dataclass(frozen=True)
class OperatorTree:
    """The operators with their parent (a position; -1 if none), the steps' kernels, and the operator of each kernel (-1 if
    unknown).
    """

    table: pd.DataFrame
    kernels: pd.DataFrame
    owner: Int

    @property
    def parent(self) -> Int:
        """The position of the operator that called each one; -1 if none."""
        return self.table["parent"].to_numpy(np.int64)

    def within(self, chosen: Bool) -> Bool:
        """Return which operators are chosen ones, or run inside of one."""
        return autograd.owners(chosen, self.parent) >= 0

    def around(self, chosen: Bool) -> Bool:
        """Return which operators are chosen ones, or have one inside."""
        marked = chosen.copy()
        level = self.parent[chosen]
        while len(level := np.unique(level[level >= 0])):
            level = level[~marked[level]]
            marked[level] = True
            level = self.parent[level]
        return marked


def read(subject: Subject) -> OperatorTree:
    """Return the operators of a subject's measured steps; they are computed once."""
    if "operators" not in subject.derived:
        subject.derived["operators"] = _read(subject)
    result: OperatorTree = subject.derived["operators"]
    return result


def _read(subject: Subject) -> OperatorTree:
    table = subject.inside_steps(subject.trace.operators).reset_index(drop=True)
    table = table.assign(parent=intervals.parents(*intervals.spans(table)))
    kernels = sequences.ordered(subject)
    return OperatorTree(table, kernels, _owners(table, kernels))


def _owners(table: pd.DataFrame, kernels: pd.DataFrame) -> Int:
    """Return the operator that runs each kernel: the one that the kernel names, among the innermost and its callers; else the
    innermost.
    """
    on_host = (kernels["device"] == "cpu").fillna(False).to_numpy(bool)
    middle = (intervals.whole(kernels["start_ns"]) + intervals.whole(kernels["end_ns"])) // 2
    at = np.where(on_host, middle, intervals.whole(kernels["launch_ns"]))
    thread = np.where(on_host, intervals.whole(kernels["thread"]), intervals.whole(kernels["launch_thread"]))
    innermost = intervals.innermost(*intervals.spans(table), thread, at)
    names = np.array([*table["name"].astype("object"), None], dtype=object)
    parent = np.append(table["parent"].to_numpy(np.int64), -1)
    wanted = kernels["operator"].astype("object").to_numpy()
    owner = innermost.copy()
    for _ in range(_DEEP):
        owner = np.where((owner < 0) | (names[owner] == wanted), owner, parent[owner])
    return np.where((owner >= 0) & (names[owner] == wanted), owner, innermost)


def taken(subject: Subject, operators: OperatorTree, chosen: Bool) -> pd.Series:
    """Return the share of each of the subject's rows that is kernels of the chosen operators, for rows with any."""
    inside = np.append(chosen, False)[operators.owner]
    return _shares(subject.kernels(), operators.kernels.assign(weight=operators.kernels["duration_ns"]), inside, _KERNEL)


def beside(subject: Subject, operators: OperatorTree, chosen: Bool) -> pd.Series:
    """Return the share of each row without computing that is the chosen operators' self time."""
    table = operators.table
    lasted = (table["end_ns"] - table["start_ns"]).to_numpy(float)
    called = operators.parent >= 0
    own = lasted - np.bincount(operators.parent[called], weights=lasted[called], minlength=len(table))
    rows = subject.rows[((subject.rows["part"] == IDLE) & subject.rows["operator"].notna()).to_numpy(bool)]
    return _shares(rows, table.assign(operator=table["name"], weight=own), chosen, _HOST)


def _shares(rows: pd.DataFrame, events: pd.DataFrame, chosen: Bool, keys: list[str]) -> pd.Series:
    """Return, for each row with any, the share of chosen events among all events with the row's keys, by weight."""
    weights = events["weight"].to_numpy(float)
    sums = events[keys].astype("string").assign(all=weights, mine=np.where(chosen, weights, 0.0))
    sums = sums.groupby(keys, dropna=False)[["all", "mine"]].sum().reset_index()
    found = rows[keys].astype("string").merge(sums[sums["mine"] > 0], on=keys, how="left").set_axis(rows.index)
    return (found["mine"] / found["all"]).dropna()


def time_of(subject: Subject, shares: pd.Series) -> float:
    """Return the time of these shares of rows in ns per step."""
    return float((subject.rows.loc[shares.index, "time_ns"] * shares).sum())
