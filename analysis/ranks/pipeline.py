"""A job that trains in a pipeline, recorded by its operations: how much longer it takes than with equal work.

The operations of a step depend on each other: a stage computes its micro-batches one after another, each when it has received
activations or gradients from the neighbouring stage; sends and receives end together; replicas exchange gradients at the end.
With these dependencies a step is replayed: as it was, without the gaps that no recorded dependency explains, and with equal work,
where every operation lasts as long as its kind does on average. The slowdown is the second time over the third.

The method is that of Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis, OSDI 2025: compute gets
the mean of its kind, communication the median of its transfers. If a stage holds several chunks of the model (interleaved
pipelines), the last stage sends to the next chunk of the first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import parquet_files
from kernelscope.analysis.ranks.replay import MOST_ERROR

SCHEMA = "kernelscope/pipeline/1"
COLUMNS = ("dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id", "mc")
FORWARD, BACKWARD = "forward-compute", "backward-compute"
_SENDS = {"forward": 1, "backward": -1}  # to which stage, relative to this one
_GATHER, _SCATTER = "params-all-gather", "grads-reduce-scatter"
_NORMS, _EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
_GC, _CLIP, _OPTIMIZER = "gc", "optimizer-clip-main-grad", "optimizer"
_COMPUTE = (FORWARD, BACKWARD, _GC, _OPTIMIZER)  # all others communicate
_OF_REPLICAS = (_GATHER, _SCATTER, _CLIP)  # all replicas take part in these together
_APART_S = 0.01  # by which a rank's clock may be ahead of another's: beyond it, negative times count as none

Float = npt.NDArray[np.float64]  # [replicas, steps]
Operation = tuple[str, int, int]  # kind, number in its stage, stage


@dataclass
class _Schedule:
    """What the operations of a step wait for. after: the operations before each. groups: operations that end together.

    chunks: the chunk of the model, counted over all stages, of each operation that has one. messages: the operations that send
    and receive each message, by direction, the lower of the two chunks, and the message's number between them.
    """

    chunks: Mapping[Operation, int]
    after: dict[Operation, list[Operation]] = field(default_factory=dict)
    groups: dict[Operation, list[Operation]] = field(default_factory=dict)
    messages: dict[tuple[str, int, int], list[Operation]] = field(default_factory=dict)

    def chain(self, operations: Iterable[Operation]) -> None:
        """Let each of these wait for the one before it."""
        last: list[Operation] = []
        for one in operations:
            self.after.setdefault(one, []).extend(last)
            last = [one]

    def together(self, operations: Sequence[Operation]) -> None:
        """Let these end together."""
        for one in operations:
            self.groups[one] = list(operations)


@dataclass(frozen=True)
class _Recorded:
    """The recorded operations, in seconds from the step's begin: start, duration (lasting), and transfer of those in groups."""

    start: dict[Operation, Float]
    lasting: dict[Operation, Float]
    transfer: dict[Operation, Float]


def is_recording(path: Path) -> bool:
    """Return whether a file records the operations of a pipeline."""
    try:
        names = parquet_files.schema(path).names if path.is_file() else []
    except (OSError, pyarrow.ArrowException):
        return False
    return set(COLUMNS) <= set(names)


def pipeline(path: Path) -> dict[str, Any]:
    """Return what a job loses to unequal work, as plain data; raise EvidenceError if it cannot be replayed.

    Keys: schema, path; replicas, stages, chunks (of the model, for each stage), steps, micro_batches; step_s (the mean measured
    step), played_s (replayed without gaps), equal_s (with equal work), error (of the replay with gaps, as a share of the measured
    time), slowdown (played_s over equal_s); by_stage, by_worker (replica and stage), by_kind: rows with the slowdown of a step
    with equal work in which only these operations keep their recorded times, slowest first; bubbles: for each stage the share of
    the step in which it does not compute, measured and with equal work; ideal_bubble: (stages - 1) / (stages - 1 + micro-batches
    * chunks).
    """
    table = _table(path)
    replicas, stages = (int(table[name].max()) + 1 for name in ("dp_rank", "stage"))
    schedule = _scheduled(table, stages, path)
    recorded = _recorded(table, schedule, path)
    gaps = _gaps(recorded, schedule)
    none = dict.fromkeys(gaps, np.float64(0.0))
    order = _ordered(schedule, path)
    measured = _step(recorded.start, recorded.lasting)
    played = _played(order, schedule, recorded.lasting, recorded.transfer, none)
    again = _played(order, schedule, recorded.lasting, recorded.transfer, gaps)
    error = float(again.mean() / measured.mean() - 1.0)
    if abs(error) > MOST_ERROR:
        raise EvidenceError(f"{path}: a replay of its steps is {abs(error):.0%} off the measured time; nothing is predicted")
    equal = _equal(recorded)
    ideal = _played(order, schedule, *equal, none)

    def slowdown(kind: str | None = None, stage: int | None = None, replica: int | None = None) -> float:
        """Return the slowdown of a step of equal work in which these operations keep their recorded times."""
        chosen = {one for one in order if kind in (None, one[0]) and stage in (None, one[2])}
        mine = np.ones((replicas, 1), bool) if replica is None else (np.arange(replicas) == replica)[:, None]
        mixed = [
            {one: np.where(mine, was[one], even[one]) if one in chosen else even[one] for one in even}
            for was, even in zip((recorded.lasting, recorded.transfer), equal, strict=True)
        ]
        return float(_played(order, schedule, mixed[0], mixed[1], none).mean() / ideal.mean())

    passes, chunks = max(one[1] for one in order if one[0] == FORWARD) + 1, int(table["mc"].max()) + 1
    workers = [(replica, stage) for replica in range(replicas) for stage in range(stages)]
    return {
        "schema": SCHEMA, "path": str(path), "replicas": replicas, "stages": stages, "chunks": chunks,
        "micro_batches": passes // chunks,
        "steps": int(measured.shape[-1]), "step_s": float(measured.mean()), "played_s": float(played.mean()),
        "equal_s": float(ideal.mean()), "error": error,
        "slowdown": float(played.mean() / ideal.mean()),
        "by_stage": _slowest({"stage": stage, "slowdown": slowdown(stage=stage)} for stage in range(stages)),
        "by_worker": _slowest(
            {"replica": replica, "stage": stage, "slowdown": slowdown(stage=stage, replica=replica)} for replica, stage in workers
        ),
        "by_kind": _slowest({"kind": kind, "slowdown": slowdown(kind=kind)} for kind in sorted({one[0] for one in order})),
        "bubbles": _bubbles(recorded, measured, equal[0], ideal, stages),
        "ideal_bubble": (stages - 1) / (stages - 1 + passes),
    }  # fmt: skip


# --- what was recorded ----------------------------------------------------------------------------------------------------------


def _table(path: Path) -> pd.DataFrame:
    try:
        table = parquet_files.frame(path, COLUMNS)
        table = table.astype({"start_ts": float, "duration": float})
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        raise EvidenceError(f"{path}: cannot be read as a recording of a pipeline: {error}") from error
    table["optype"] = table["optype"].astype(str)
    if table.empty or not {FORWARD, BACKWARD, _OPTIMIZER} <= set(table["optype"]):
        raise EvidenceError(f"{path}: holds no steps of a pipeline; name a recording with {FORWARD}, {BACKWARD}, {_OPTIMIZER}")
    chunks = table[table["optype"].isin([FORWARD, BACKWARD])].groupby("stage")["mc"].unique()
    if any(sorted(mine) != list(range(int(table["mc"].max()) + 1)) for mine in chunks):
        raise EvidenceError(f"{path}: stages hold different chunks of the model, or some are missing; nothing is predicted")
    if table.duplicated(["dp_rank", "step", "optype", "seq_id", "stage"]).any():
        raise EvidenceError(f"{path}: an operation is recorded twice in a step; nothing is predicted")
    return _sent(table)


def _sent(table: pd.DataFrame) -> pd.DataFrame:
    """Drop messages at the ends of the model, which were never sent: some recordings have one for each micro-batch."""
    parts = table["optype"].str.extract(r"^(?P<way>forward|backward)-(?P<what>compute|send|recv)$")
    rows = table.join(parts).assign(chunk=table["mc"] * (table["stage"].max() + 1) + table["stage"])
    keys = ["way", "stage", "seq_id"]
    chunk = rows[rows["what"] == "compute"].drop_duplicates(keys).set_index(keys)["chunk"]
    counts = rows.groupby(["way", "stage", "what"])["seq_id"].nunique().unstack()
    last = ((rows["way"] == "forward") == (rows["what"] == "send")).to_numpy(bool)
    end = np.where(last, chunk.max(), 0)
    own = rows[keys].merge(chunk.reset_index(), how="left", on=keys)["chunk"].to_numpy(float)
    each = pd.Series(False, index=rows.index)
    for what in ("send", "recv"):
        if what in counts:
            whole = counts.index[counts[what] == counts["compute"]]
            each |= (rows["what"] == what) & pd.MultiIndex.from_frame(rows[["way", "stage"]]).isin(whole)
    sent: pd.DataFrame = table.loc[~(each.to_numpy(bool) & (own == end))]
    return sent


def _recorded(table: pd.DataFrame, schedule: _Schedule, path: Path) -> _Recorded:
    """Return when operations began and how long they lasted, without steps that lack an operation somewhere."""
    index, columns = ["dp_rank", "step"], ["optype", "seq_id", "stage"]
    wide = table.pivot_table(index=index, columns=columns, values=["start_ts", "duration"])
    whole = wide.notna().all(axis=1).groupby("step").all()
    steps = whole.index[whole]
    wide = wide[wide.index.get_level_values("step").isin(steps)]
    if not len(steps) or len(wide) != len(steps) * table["dp_rank"].nunique():
        raise EvidenceError(f"{path}: no step has all operations of all replicas; nothing is predicted")
    begun = table.groupby("step")["start_ts"].min().loc[steps].to_numpy()
    start = {one: values - begun for one, values in _by_operation(pd.DataFrame(wide["start_ts"]), len(steps)).items()}
    lasting = _by_operation(pd.DataFrame(wide["duration"]), len(steps))
    return _Recorded(start, lasting, _transfers(start, lasting, schedule))


def _by_operation(wide: pd.DataFrame, steps: int) -> dict[Operation, Float]:
    """Return the columns of a table that has a row for each replica and step, by operation."""
    columns: list[Any] = wide.columns.to_list()
    values = wide.to_numpy()
    return {
        (str(kind), int(number), int(stage)): values[:, place].reshape(-1, steps)
        for place, (kind, number, stage) in enumerate(columns)
    }


def _transfers(
    start: Mapping[Operation, Float], lasting: Mapping[Operation, Float], schedule: _Schedule
) -> dict[Operation, Float]:
    """Return how long the operations of groups last after the last of the group has begun; 0 if one seems to end before."""
    found = {}
    for one, group in schedule.groups.items():
        transfer = start[one] + lasting[one] - _last(one, [start[other] for other in group])
        found[one] = np.where(transfer <= -_APART_S, 0.0, transfer)
    return found


def _last(one: Operation, starts: Sequence[Float]) -> Float:
    """Return when the last of a group begins, over all replicas if they take part together."""
    last = np.maximum.reduce(list(starts))
    return np.asarray(last.max(axis=0, keepdims=True) if one[0] in _OF_REPLICAS else last)


# --- what waits for what --------------------------------------------------------------------------------------------------------


def _scheduled(table: pd.DataFrame, stages: int, path: Path) -> _Schedule:
    """Return the dependencies of the first replica's first step."""
    first = table[(table["dp_rank"] == table["dp_rank"].min()) & (table["step"] == table["step"].min())]
    first = first.sort_values(["start_ts", "seq_id", "optype"])
    columns = [first[name].tolist() for name in ("optype", "seq_id", "stage", "mc")]
    schedule = _Schedule(
        {(kind, number, stage): mc * stages + stage for kind, number, stage, mc in zip(*columns, strict=True) if mc >= 0}
    )
    by_stage = {
        stage: [(str(kind), int(number), stage) for kind, number in zip(rows["optype"], rows["seq_id"], strict=True)]
        for stage, rows in ((int(str(key)), rows) for key, rows in first.groupby("stage"))
    }
    if sorted(by_stage) != list(range(stages)):
        raise EvidenceError(f"{path}: stages are missing; nothing is predicted")
    for operations in by_stage.values():
        _compute(schedule, operations)
        for way in _SENDS:
            _messages(schedule, operations, way, path)
        _ends(schedule, operations)
    _groups(schedule, [one for operations in by_stage.values() for one in operations], stages)
    unknown = {other for others in schedule.after.values() for other in others} - set(schedule.after)
    schedule.after |= {one: [] for operations in by_stage.values() for one in operations if one not in schedule.after}
    if unknown - set(schedule.after):
        missing = sorted(unknown)[0]
        raise EvidenceError(f"{path}: operations that a step waits for are missing, such as {missing}; nothing is predicted")
    return schedule


def _of(operations: Iterable[Operation], *kinds: str) -> list[Operation]:
    return [one for one in operations if one[0] in kinds]


def _compute(schedule: _Schedule, operations: Sequence[Operation]) -> None:
    """Let a stage compute in its order; the first forward pass waits for the parameters."""
    computing = _of(operations, FORWARD, BACKWARD)
    schedule.chain(computing)
    schedule.chain(_of(operations, _GATHER, _SCATTER))
    forward = _of(computing, FORWARD)
    for one in _of(operations, _GATHER):
        mine = [other for other in forward if schedule.chunks.get(one) in (None, schedule.chunks[other])]
        for first in mine[:1]:
            schedule.after[first].append(one)


def _messages(schedule: _Schedule, operations: Sequence[Operation], way: str, path: Path) -> None:
    """Let a micro-batch wait for its receives, and its sends wait for it; receives come one after the other."""
    computing = _of(operations, FORWARD, BACKWARD)
    mine = sorted(_of(operations, f"{way}-compute"))
    sent, received = sorted(_of(operations, f"{way}-send")), sorted(_of(operations, f"{way}-recv"))
    schedule.chain(sent)
    schedule.chain(received)
    for compute, one in _matched(schedule, mine, sent, f"{way}-send", path):
        schedule.after[one].append(compute)
    for compute, one in _matched(schedule, mine, received, f"{way}-recv", path):
        schedule.after[compute].append(one)
        schedule.after[one].extend(mine[: mine.index(compute)][-1:])
    # a stage does not ask for gradients before the forward passes that precede them are under way
    first = next((place for place, one in enumerate(computing) if one[0] == BACKWARD), 0)
    if way == "backward" and first >= 2:
        for one in (*sent[:1], *received[:1]):
            schedule.after[one].append(computing[first - 2])


def _matched(
    schedule: _Schedule, mine: Sequence[Operation], messages: Sequence[Operation], kind: str, path: Path
) -> list[tuple[Operation, Operation]]:
    """Pair computing operations with the messages that they need or make, and note both ends of each message.

    Raises EvidenceError if the numbers differ.
    """
    way, _, end = kind.partition("-")
    towards = _SENDS[way] if end == "send" else -_SENDS[way]
    having = [one for one in mine if 0 <= schedule.chunks[one] + towards <= max(schedule.chunks.values())]
    if len(having) != len(messages):
        raise EvidenceError(f"{path}: a step has {len(messages)} {kind} where {len(having)} are needed; nothing is predicted")
    passed: Counter[int] = Counter()
    for one, message in zip(having, messages, strict=True):
        chunk = schedule.chunks[one]
        schedule.messages.setdefault((way, min(chunk, chunk + towards), passed[chunk]), []).append(message)
        passed[chunk] += 1
    return list(zip(having, messages, strict=True))


def _ends(schedule: _Schedule, operations: Sequence[Operation]) -> None:
    """Let the operations at the end of a step follow its last micro-batch."""
    last = _of(operations, FORWARD, BACKWARD)[-1:]
    for kind in (_GC, _NORMS, _EMBEDDING, _SCATTER, _CLIP, _OPTIMIZER):
        last += sorted(_of(operations, kind))
    schedule.chain(last)


def _groups(schedule: _Schedule, operations: Sequence[Operation], stages: int) -> None:
    """Note which operations end together: a send with its receive, and collectives."""
    for both in schedule.messages.values():
        schedule.together(both)
    for one in _of(operations, _GATHER, _SCATTER):
        schedule.together([one])
    for kind, members in ((_EMBEDDING, {0, stages - 1}), (_CLIP, set(range(stages)))):
        schedule.together([one for one in _of(operations, kind) if one[2] in members])


def _ordered(schedule: _Schedule, path: Path) -> list[Operation]:
    """Return the operations in an order for the replay: those of a group follow everything that any of them waits for."""
    before = {
        one: {other for member in schedule.groups.get(one, [one]) for other in schedule.after[member]} for one in schedule.after
    }
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise EvidenceError(f"{path}: operations wait for each other in a cycle; nothing is predicted") from error


# --- playing --------------------------------------------------------------------------------------------------------------------


def _gaps(recorded: _Recorded, schedule: _Schedule) -> dict[Operation, Float]:
    """Return how much later each operation began than the last that it waits for ended."""
    found = {}
    for one, others in schedule.after.items():
        ends = [recorded.start[other] + recorded.lasting[other] for other in others]
        gap = recorded.start[one] - (np.maximum.reduce(ends) if ends else 0.0)
        found[one] = np.where(gap <= -_APART_S, 0.0, gap)
    return found


def _played(
    order: Sequence[Operation], schedule: _Schedule, lasting: Mapping[Operation, Any], transfer: Mapping[Operation, Any],
    gaps: Mapping[Operation, Any],
) -> Float:  # fmt: skip
    """Return the time of steps, [1, steps], with these durations, transfers and gaps."""
    start: dict[Operation, Any] = {}
    end: dict[Operation, Any] = {}
    for one in order:
        group = schedule.groups.get(one, [one])
        for member in group:
            if member not in start:
                ends = [end[other] for other in schedule.after[member]]
                start[member] = (np.maximum.reduce(np.broadcast_arrays(*ends)) if ends else 0.0) + gaps[member]
        if one in schedule.groups:
            starts = np.broadcast_arrays(*(np.atleast_2d(start[member]) for member in group))
            end[one] = _last(one, starts) + transfer[one]
        else:
            end[one] = start[one] + lasting[one]
    return _over(end[one] for one in order if one[0] == _OPTIMIZER)


def _over(ends: Iterable[Any]) -> Float:
    """Return when the last of these ends in each step: [1, steps]."""
    return np.asarray(np.maximum.reduce(np.broadcast_arrays(*map(np.atleast_2d, ends))).max(axis=0, keepdims=True))


def _step(start: Mapping[Operation, Float], lasting: Mapping[Operation, Float]) -> Float:
    return _over(start[one] + lasting[one] for one in start)


def _equal(recorded: _Recorded) -> tuple[dict[Operation, Float], dict[Operation, Float]]:
    """Return durations and transfers with equal work: a kind's mean if it computes, its median if it communicates."""
    made = []
    for values in (recorded.lasting, recorded.transfer):
        kinds: dict[str, list[Float]] = {}
        for one, value in values.items():
            kinds.setdefault(one[0], []).append(value)
        even = {kind: np.float64(np.mean(several) if kind in _COMPUTE else np.median(several)) for kind, several in kinds.items()}
        made.append({one: np.full_like(value, even[one[0]]) for one, value in values.items()})
    return made[0], made[1]


def _slowest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row["slowdown"])


def _bubbles(
    recorded: _Recorded, measured: Float, even: Mapping[Operation, Float], ideal: Float, stages: int
) -> list[dict[str, Any]]:
    """Return for each stage the share of the mean step in which it does not compute."""
    rows = []
    for stage in range(stages):
        mine = [one for one in recorded.lasting if one[2] == stage and one[0] in _COMPUTE]
        busy = [float(sum(values[one].mean() for one in mine)) for values in (recorded.lasting, even)]
        rows.append(
            {"stage": stage, "measured": 1.0 - busy[0] / float(measured.mean()), "equal": 1.0 - busy[1] / float(ideal.mean())}
        )
    return rows
