"""Match the operators that a script queued on MXNet's engine with those that ran.

The k-th operator of a type that ran belongs to the step of the k-th one of that type that was queued, if equally many ran and
were queued. Within a step the engine may run later ones first: an operator that waits for nothing does not queue behind one
that waits. Its one worker takes what became ready first. So a step is replayed: each operator that ran is, of the queued ones
of its type whose sources have run, the one that became ready first. Steps that ran in the same order are replayed once.

A graph's nodes are queued one after another while the first of them already run. If the exact time of queueing decides which of
two ran, both are named: "conv2 or short".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError

Int = npt.NDArray[np.int64]

_COLUMNS = ("op", "name", "layer", "phase")
_MOST_NAMED = 3  # most layers that are named for an ambiguous operator


@dataclass(frozen=True)
class Queued:
    """What was queued. nodes: of all steps, in queueing order: op, name, layer, phase, step, position (in its step), and the
    earliest and latest time of queueing (queued_ns, until_ns; our clock). sources: for each step and position, the positions
    that it waits for.
    """

    nodes: pd.DataFrame
    sources: list[list[list[int]]]


def parse(record: dict[str, Any], path: Path) -> Queued:
    """Return what was queued, from the content of the file at `path`; raise EvidenceError if it is incomplete."""
    try:
        graphs = [pd.DataFrame(graph["nodes"], columns=[*_COLUMNS, "entry"]) for graph in record["graphs"]]
        sources = [[[int(place) for place in node["after"]] for node in graph["nodes"]] for graph in record["graphs"]]
        tables = []
        for number, step in enumerate(record["steps"]):
            table = graphs[step["graph"]]
            entry = table["entry"].to_numpy(np.int64)
            times = {name: np.asarray(step[name], dtype=np.int64)[entry] for name in ("queued_ns", "until_ns")}
            tables.append(table.assign(step=number, position=np.arange(len(table)), **times))
        nodes = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*_COLUMNS, "step", "position"])
        used = [sources[step["graph"]] for step in record["steps"]]
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise EvidenceError(f"{path}: incomplete record of queued operators ({error}); record the run again") from error
    return Queued(nodes, used)


def match(queued: Queued, names: pd.Series, start_ns: Int) -> tuple[Int, npt.NDArray[np.object_], int]:
    """Return each operator's row in `queued.nodes` (-1: unknown), its possible layers if there are several (else None), and
    how many operators ran before their sources.

    names, start_ns: of the operators that ran, by start.
    """
    result, either = np.full(len(names), -1, dtype=np.int64), np.full(len(names), None, dtype=object)
    nodes = queued.nodes
    known = nodes["op"].value_counts()
    ran = names.value_counts()
    whole = [name for name in known.index if ran.get(name, 0) == known[name]]
    rows = np.flatnonzero(names.isin(whole).to_numpy())
    if not len(rows):
        return result, either, 0
    kept = nodes[nodes["op"].isin(whole)]
    step = _by_rank(names.iloc[rows], kept)
    early = 0
    replayed: dict[tuple[Any, ...], tuple[list[int], list[str | None], int]] = {}
    for number in np.unique(step):
        mine, table = rows[step == number], kept[kept["step"] == number]
        order = names.iloc[mine].tolist()
        # how many operators had begun when each node was queued at the earliest and at the latest: the node is none of the
        # former
        begun, until = (np.searchsorted(start_ns[mine], table[name].to_numpy(np.int64)) for name in ("queued_ns", "until_ns"))
        key = (id(queued.sources[number]), tuple(order), tuple(begun), tuple(until))
        if key not in replayed:
            step_queue = _QueuedStep(table, begun.tolist(), until.tolist(), queued.sources[number])
            chosen = step_queue.replay(order)
            replayed[key] = chosen, [step_queue.either(row) for row in chosen], step_queue.early
        chosen, layers, violations = replayed[key]
        result[mine] = table.index.to_numpy(np.int64)[chosen]
        either[mine] = layers
        early += violations
    return result, either, early


def _by_rank(names: pd.Series, nodes: pd.DataFrame) -> Int:
    """Return the step of each operator: that of the node with the same rank among its type's."""
    ranked = nodes.assign(rank=nodes.groupby("op").cumcount())[["op", "rank", "step"]]
    mine = pd.DataFrame({"op": names.to_numpy(dtype=object), "rank": names.groupby(names.to_numpy(dtype=object)).cumcount()})
    return mine.merge(ranked, on=["op", "rank"], how="left")["step"].to_numpy(np.int64)


class _QueuedStep:
    """The queued operators of one step, as rows of a table. `early` counts operators that ran before their sources."""

    def __init__(self, table: pd.DataFrame, begun: list[int], until: list[int], sources: list[list[int]]):
        self.early = 0
        self._names = table["op"].tolist()
        self._layers = table["layer"].tolist()
        self._begun, self._until = begun, until
        self._waits = _waiting(sources, {int(position): row for row, position in enumerate(table["position"])})
        self._done: dict[int, int] = {}  # row -> when it ran
        self._unclear: dict[int, set[int]] = {}  # row -> rows that may have run in its place, and itself

    def replay(self, order: list[str]) -> list[int]:
        """Return, for each operator in running order, the row that it is, or most likely is."""
        waiting: dict[str, list[int]] = {}
        for row, name in enumerate(self._names):
            waiting.setdefault(name, []).append(row)
        chosen = []
        for now, name in enumerate(order):
            rows = waiting[name]
            ready = [row for row in rows if self._begun[row] <= now and all(source in self._done for source in self._waits[row])]
            best = min(ready or rows, key=lambda row: (max(self._begun[row], self._sources_end(row)), row))
            self.early += not ready
            self._doubt(best, ready)
            rows.remove(best)
            self._done[best] = now
            chosen.append(best)
        return chosen

    def either(self, row: int) -> str | None:
        """Return the possible layers of the operator that was matched with this row; None if it is certain."""
        layers = [self._layers[other] for other in sorted(self._unclear.get(row, ()))]
        if len(layers) > _MOST_NAMED:
            return f"{layers[0]} or {len(layers) - 1} other{'s' if len(layers) > 2 else ''}"
        return " or ".join(map(str, dict.fromkeys(layers))) or None

    def _sources_end(self, row: int) -> int:
        return max((self._done[source] + 1 for source in self._waits[row] if source in self._done), default=0)

    def _doubt(self, best: int, ready: list[int]) -> None:
        """Record the operators that may have run instead: queued before the best one, which may not have been queued yet."""
        others = [row for row in ready if row < best and self._until[best] > self._sources_end(row)]
        others = [row for row in others if self._layers[row] != self._layers[best]]
        if others:
            merged = set().union({best}, others, *(self._unclear.get(row, ()) for row in [best, *others]))
            self._unclear.update(dict.fromkeys(merged, merged))


def _waiting(sources: list[list[int]], row_of: dict[int, int]) -> list[list[int]]:
    """Return the rows that each row waits for; a source that did not run, and has no row, is replaced by its own sources."""
    closed: list[set[int]] = []
    for places in sources:
        reached: set[int] = set()
        for place in places:
            if place < len(closed):
                reached |= {row_of[place]} if place in row_of else closed[place]
        closed.append(reached)
    return [sorted(closed[position]) for position in row_of]
