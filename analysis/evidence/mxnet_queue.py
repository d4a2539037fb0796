"""Which of the operators that a script queued on MXNet's engine is which of those that ran.

The k-th operator of a type that ran is in the step of the k-th of that type that was queued, where as many ran as were queued.
Within a step the engine may run what was queued later first: what waits for nothing does not stand behind what waits. Its one
worker takes what became ready first. So a step is replayed: at each operator that ran, of the queued ones of its type whose
sources have run, it is the one that was the first to be ready. Steps that ran in the same order are replayed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError

Int = npt.NDArray[np.int64]

_COLUMNS = ("op", "name", "layer", "phase")


@dataclass(frozen=True)
class Queued:
    """nodes: of all steps, in the order in which they were queued: op, name, layer, phase, step, position (in its step) and
    queued_ns (our clock). sources: of each step, for each of its positions, the positions that it waits for.
    """

    nodes: pd.DataFrame
    sources: list[list[list[int]]]


def parse(record: dict[str, Any], path: Path) -> Queued:
    """Return what the file at `path`, already read, says was queued; raise EvidenceError where it is not whole."""
    try:
        graphs = [pd.DataFrame(graph["nodes"], columns=[*_COLUMNS, "entry"]) for graph in record["graphs"]]
        sources = [[[int(place) for place in node["after"]] for node in graph["nodes"]] for graph in record["graphs"]]
        tables = []
        for number, step in enumerate(record["steps"]):
            table = graphs[step["graph"]]
            times = np.asarray(step["queued_ns"], dtype=np.int64)
            queued = times[table["entry"].to_numpy(np.int64)] if len(table) else times[:0]
            tables.append(table.assign(step=number, position=np.arange(len(table)), queued_ns=queued))
        nodes = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*_COLUMNS, "step", "position"])
        used = [sources[step["graph"]] for step in record["steps"]]
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise EvidenceError(f"{path}: no whole record of what was queued ({error}); record the run again") from error
    return Queued(nodes, used)


def match(queued: Queued, names: pd.Series, start_ns: Int) -> tuple[Int, int]:
    """Return the row of `queued.nodes` that each operator is, -1 for unknown, and how many ran before what they wait for.

    names, start_ns: of the operators that ran, by start.
    """
    found = np.full(len(names), -1, dtype=np.int64)
    nodes = queued.nodes
    known = nodes["op"].value_counts()
    ran = names.value_counts()
    whole = [name for name in known.index if ran.get(name, 0) == known[name]]
    rows = np.flatnonzero(names.isin(whole).to_numpy())
    if not len(rows):
        return found, 0
    kept = nodes[nodes["op"].isin(whole)]
    step = _by_rank(names.iloc[rows], kept)
    early = 0
    replayed: dict[tuple[Any, ...], tuple[list[int], int]] = {}
    for number in np.unique(step):
        mine, table = rows[step == number], kept[kept["step"] == number]
        order = names.iloc[mine].tolist()
        # how many operators had begun when each node was queued: it cannot be one of these
        begun = np.searchsorted(start_ns[mine], table["queued_ns"].to_numpy(np.int64), side="left")
        key = (id(queued.sources[number]), tuple(order), tuple(begun))
        if key not in replayed:
            replayed[key] = _replay(order, table, begun.tolist(), queued.sources[number])
        chosen, violations = replayed[key]
        found[mine] = table.index.to_numpy(np.int64)[chosen]
        early += violations
    return found, early


def _by_rank(names: pd.Series, nodes: pd.DataFrame) -> Int:
    """Return the step of each operator: that of the node with the same rank among its type's."""
    ranked = nodes.assign(rank=nodes.groupby("op").cumcount())[["op", "rank", "step"]]
    mine = pd.DataFrame({"op": names.to_numpy(dtype=object), "rank": names.groupby(names.to_numpy(dtype=object)).cumcount()})
    return mine.merge(ranked, on=["op", "rank"], how="left")["step"].to_numpy(np.int64)


def _replay(order: list[str], table: pd.DataFrame, begun: list[int], sources: list[list[int]]) -> tuple[list[int], int]:
    """Return for each operator of one step, in the order of running, which row of the table it is; and how many did not wait."""
    row_of = {int(position): row for row, position in enumerate(table["position"])}
    waits = _waiting(sources, row_of)
    waiting: dict[str, list[int]] = {}
    for row, name in enumerate(table["op"]):
        waiting.setdefault(name, []).append(row)
    done: dict[int, int] = {}  # row -> when it ran
    chosen, violations = [], 0
    for now, name in enumerate(order):
        rows = waiting[name]
        best = min(rows, key=lambda row: _readiness(row, now, waits[row], done, begun))
        violations += _readiness(best, now, waits[best], done, begun)[0]
        rows.remove(best)
        done[best] = now
        chosen.append(best)
    return chosen, violations


def _readiness(row: int, now: int, sources: Sequence[int], done: dict[int, int], begun: list[int]) -> tuple[bool, int, int]:
    """Return what decides between operators of a type, smallest first: is it still waiting, since when is it ready, its place."""
    if begun[row] > now or any(source not in done for source in sources):
        return True, 0, row
    return False, max([begun[row], *(done[source] + 1 for source in sources)]), row


def _waiting(sources: list[list[int]], row_of: dict[int, int]) -> list[list[int]]:
    """Return the rows that each row waits for; where a source has no row, because it did not run, those that it waits for."""
    closed: list[set[int]] = []
    for places in sources:
        reached: set[int] = set()
        for place in places:
            if place < len(closed):
                reached |= {row_of[place]} if place in row_of else closed[place]
        closed.append(reached)
    return [sorted(closed[position]) for position in row_of]
