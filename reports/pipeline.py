"""Render a pipeline-parallel job: what unequal work costs, and whose work is unequal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.reports import answered, units
from kernelscope.reports.ranks import head
from kernelscope.reports.table import Table, of_rows
from kernelscope.reports.trimmed import Trimmed

Result = Mapping[str, Any]
_LITTLE = 0.01  # of a step: smaller effects are not mentioned
_MOSTLY = 0.5  # of a stage's loss: tells whether one of its workers causes it, or all do


def answer(result: Result) -> str:
    """Return the time of a step, what equal work would save, and whose work is unequal."""
    stages, replicas = result["stages"], result["replicas"]
    of = f"{units.counted(replicas, 'replica')} of {units.counted(stages, 'stage')}"
    of += f" with {units.counted(result['chunks'], 'chunk')} of the model each" if result["chunks"] > 1 else ""
    said = f"A step takes {_time(result['step_s'])} in a pipeline ({of}, {result['micro_batches']} micro-batches). "
    lost = result["played_s"] - result["equal_s"]
    if lost < _LITTLE * result["step_s"]:
        return said + "Work is shared equally: a better balance would save less than 1%."
    said += f"With equal work it would take {_time(lost)} less: it takes {result['slowdown']:.2f} times as long as necessary. "
    return said + _whose(result)


def _whose(result: Result) -> str:
    """Return which worker, or which stage of all replicas, is slower than the others, and in which operations."""
    stage, worker = result["by_stage"][0], result["by_worker"][0]
    if stage["slowdown"] - 1.0 < _LITTLE:
        return "No single stage is the reason."
    kind = result["by_kind"][0]["kind"]
    alone = worker["slowdown"] - 1.0 > _MOSTLY * (stage["slowdown"] - 1.0)
    if alone and result["replicas"] > 1 and not _alike(result, worker["stage"]):
        who, times = f"Stage {worker['stage']} of replica {worker['replica']}", worker["slowdown"]
    else:
        who, times = f"Stage {stage['stage']}{' of all replicas' if result['replicas'] > 1 else ''}", stage["slowdown"]
    return f"{who} is slower than the others: it alone makes a step {times:.2f} times as long, mostly by {kind}."


def _alike(result: Result, stage: int) -> bool:
    """Return whether a stage is about as slow in every replica."""
    mine = [row["slowdown"] - 1.0 for row in result["by_worker"] if row["stage"] == stage]
    return bool(min(mine) > _MOSTLY * max(mine))


def tables(result: Result) -> list[Table]:
    """Return the tables of stages, workers and kinds of operations."""
    workers = [
        {"a step takes, times": f"{row['slowdown']:.3f}", "replica": row["replica"], "stage": row["stage"]}
        for row in result["by_worker"]
    ]
    kinds = [{"a step takes, times": f"{row['slowdown']:.3f}", "operation": row["kind"]} for row in result["by_kind"]]
    slow = {row["stage"]: row["slowdown"] for row in result["by_stage"]}
    stages = [
        {"stage": row["stage"], "a step takes, times": f"{slow[row['stage']]:.3f}", "not computing": f"{row['measured']:.1%}",
         "with equal work": f"{row['equal']:.1%}"}
        for row in result["bubbles"]
    ]  # fmt: skip
    only = "A step with equal work except for this"
    return [
        of_rows("stages", stages, title=f"{only} stage, and the share of it in which the stage does not compute"),
        of_rows("workers", workers, title=f"{only} worker"),
        of_rows("operations", kinds, title=f"{only} kind of operation"),
    ]


def notes(result: Result) -> list[str]:
    """Return notes on the numbers."""
    gaps = result["step_s"] - result["played_s"]
    off = f"{abs(result['error']):.1%} off" if abs(result["error"]) >= 0.0005 else "what was measured"
    return [
        f"{units.counted(result['steps'], 'step')}, replayed: with the unexplained gaps before operations they take {off}; "
        f"without gaps, as in the comparison, {_time(gaps)} less",
        f"a pipeline of {result['stages']} stages and {result['micro_batches']} micro-batches is idle for "
        f"at least {result['ideal_bubble']:.1%} of its time",
    ]


def shown(result: Result) -> Trimmed:
    """Return it for a terminal."""
    return answered.shown(answer(result), map(head, tables(result)), notes(result))


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    return answered.markdown(answer(result), tables(result), notes(result))


def _time(seconds: float) -> str:
    return units.duration(round(seconds * 1e9))
