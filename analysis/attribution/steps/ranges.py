"""Steps from ranges that repeat: NVTX ranges and annotations, from the start of one to the start of the next."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.steps.judging import covering, judged
from kernelscope.analysis.attribution.steps.model import LEAST, DetectedSteps, StreamWork
from kernelscope.analysis.trace import Trace, conform, intervals

_BEHIND = re.compile(r", (?:op_id|seq|sizes|inputs?) = .*", re.DOTALL)  # emit_nvtx writes: aten::mm, seq = 3, op_id = 7
_NUMBER = re.compile(r"\d+")
_STEP = re.compile(r"(?i)(?:^|[^a-z])(?:train(?:ing)?_?)?(?:step|iter(?:ation)?s?|(?:mini_?)?batch)(?:$|[^a-z])|^profilerstep")
_NO_STEP = re.compile(r"(?i)optimi[sz]er|zero_grad|scheduler|epoch|checkpoint|valid|eval|load|data|copy|next")
_WARMUP = re.compile(r"(?i)\bwarm[ _-]?ups?\b")
_MOST = 60  # labels that are tried
_HOLDS = 0.5  # least share of the device's time that ranges not named like steps must launch


def find(trace: Trace, work: StreamWork) -> Iterator[DetectedSteps]:
    """Yield the steps that ranges mark: those named like steps first, then by how alike they are, then by their number."""
    result = []
    for label, rows in labelled(trace):
        named = is_named(label)
        if not named and share_inside(rows, work) < _HOLDS:
            continue
        steps = of_rows(work, "range", label, rows)
        if steps is not None:
            result.append(((not named, -round(steps.likeness, 2), -len(steps.table)), steps))
    yield from (steps for _, steps in sorted(result, key=lambda pair: pair[0]))


def is_named(label: str) -> bool:
    """Return whether a range is named like a step."""
    return bool(_STEP.search(label)) and not _NO_STEP.search(label)


def without_warmup(trace: Trace, steps: DetectedSteps, work: StreamWork) -> DetectedSteps:
    """Drop the steps that begin inside a range named like a warm-up, unless too few would remain."""
    texts = trace.ranges["name"].cat.categories
    named = [str(text) for text in texts if _WARMUP.search(str(text))]
    rows = trace.ranges[trace.ranges["name"].isin(named).to_numpy(bool)]
    begins = steps.table["start_ns"].to_numpy(np.int64)
    inside = np.zeros(len(begins), dtype=bool)
    for start, end in zip(rows["start_ns"].tolist(), rows["end_ns"].tolist(), strict=True):
        inside |= (begins >= start) & (begins < end)
    if not inside.any() or int((~inside).sum()) < LEAST:
        return steps
    table = steps.table[~inside].reset_index(drop=True)
    covered = round(covering(work, *intervals.edges(table)), 4)
    return replace(steps, table=table, warmup=steps.warmup + int(inside.sum()), covered=covered)


def within_one_layer(trace: Trace, steps: DetectedSteps) -> bool:
    """Return whether one call of a layer holds all of the steps, which are then only parts of it."""
    layers = trace.ranges[(trace.ranges["category"] == "layer").to_numpy(bool)]
    begins = steps.table["start_ns"]
    around = (layers["start_ns"] <= begins.min()) & (layers["end_ns"] > begins.max())
    return bool(around.any())


def of_name(trace: Trace, work: StreamWork, pattern: str) -> Iterator[DetectedSteps]:
    """Yield the steps that ranges of a name mark; * is any text, # a number."""
    mine = _of_name(trace, pattern)
    if len(mine):
        rows = mine[mine["thread"] == mine["thread"].mode().iloc[0]].sort_values("start_ns")
        result = of_rows(work, "range", pattern, rows)
        if result is not None:
            yield result


def inside(trace: Trace, pattern: str) -> DetectedSteps | None:
    """Return the ranges of a name, each from its start to its end, as steps; None if no measured step has one.

    If ranges of the name nest, the outer one counts; of several phases (forward, backward), the one that takes most time; of
    several threads, the one with most of the ranges.
    """
    mine, phase = _of_main_phase(_of_name(trace, pattern))
    measured = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    if len(measured):
        mine = mine[intervals.containing(mine["start_ns"].to_numpy(np.int64), *intervals.edges(measured)) >= 0]
    if mine.empty:
        return None
    rows = mine[(mine["thread"] == mine["thread"].mode().iloc[0]).to_numpy(bool)].sort_values("start_ns", kind="stable")
    begins, ends = intervals.edges(rows)
    outer = np.append(True, begins[1:] >= np.maximum.accumulate(ends)[:-1]) & (ends > begins)
    rows = rows[outer]
    table = rows[["thread", "start_ns", "end_ns"]].assign(step=range(len(rows)), warmup=False)
    name = f"{pattern} ({phase})" if phase else pattern
    return DetectedSteps("inside", name, conform("steps", table), 1.0, "high") if len(rows) else None


def _of_main_phase(mine: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Return the ranges of the phase that takes most time, and that phase; None if there is only one phase."""
    phases = mine["phase"].astype("string").fillna("other")
    if phases.nunique() < 2:
        return mine, None
    phase = str((mine["end_ns"] - mine["start_ns"]).groupby(phases).sum().idxmax())
    return mine[(phases == phase).to_numpy(bool)], phase


def matching(trace: Trace, pattern: str) -> int:
    """Return how many ranges have a name that matches as in `of_name`."""
    return len(_of_name(trace, pattern))


def _of_name(trace: Trace, pattern: str) -> pd.DataFrame:
    """Return the ranges whose text matches as it is, with # for its numbers, or without what PyTorch appends to a name."""
    ranges = trace.ranges
    names = [(text, _NUMBER.sub("#", text), _BEHIND.sub("", text)) for text in map(str, ranges["name"].cat.categories)]
    fits = [any(fnmatch.fnmatchcase(text, pattern) for text in forms) for forms in names]
    return ranges[np.append(fits, False)[ranges["name"].cat.codes.to_numpy()].astype(bool)]


def labelled(trace: Trace) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the labels that occur several times on one thread, most frequent first, with their ranges in order of time.

    A label is a range's text with # for its numbers, so that `step 1` and `step 2` are one.
    """
    ranges = trace.ranges[~trace.ranges["category"].isin(["layer", "sync"]).to_numpy(bool)]
    if ranges.empty:
        return
    texts = [_NUMBER.sub("#", str(text)[:200]).strip() for text in ranges["name"].cat.categories]
    codes, labels = pd.factorize(np.array([*texts, ""], dtype=object))
    label = codes[ranges["name"].cat.codes.to_numpy()]
    grouped = ranges.groupby([label, ranges["thread"].to_numpy()], sort=False)
    sizes = grouped.size()
    sizes = sizes[sizes > LEAST].sort_values(ascending=False)[:_MOST]
    for number, thread in sizes.index:
        yield str(labels[number]), grouped.get_group((number, thread)).sort_values("start_ns")


def of_rows(work: StreamWork, method: str, label: str, rows: pd.DataFrame) -> DetectedSteps | None:
    """Return the steps that begin where these sorted ranges begin; None if they do not repeat as steps do."""
    begins, ends = intervals.edges(rows)
    outer = np.append(True, begins[1:] >= np.maximum.accumulate(ends)[:-1])  # a range inside one of its own name begins no step
    outer &= np.append(True, np.diff(begins) > 0)
    result = judged(work, method, label, begins[outer], ends[outer], int(rows["thread"].iloc[0]))
    return result if result is not None and work.by_launch else None


def share_inside(rows: pd.DataFrame, work: StreamWork) -> float:
    """Return the share of the device's time that is launched inside these ranges, sorted by start."""
    if not len(work) or not work.by_launch:
        return 0.0
    begins, ends = intervals.edges(rows)
    inside = intervals.containing(work.at, begins, np.maximum.accumulate(ends)) >= 0
    lasted = work.end - work.start
    return float(lasted[inside].sum() / max(lasted.sum(), 1))
