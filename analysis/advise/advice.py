"""Advice on a recording as plain data: how long a step takes, where its time goes, and what to do, largest saving first."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import (
    ALL,
    COMMUNICATION,
    COMPUTE,
    COPY,
    GRAPH,
    IDLE,
    INTERRUPTED,
    KERNELS,
    OUTSIDE,
    account,
)
from kernelscope.analysis.advise import documentation, host_account, onnx_notes, words
from kernelscope.analysis.advise.model import LEAST_ON_DEVICE, LEAST_ON_HOST, Advice
from kernelscope.analysis.advise.notes import mostly_captures, notes
from kernelscope.analysis.advise.rules import (
    device_copies,
    generation,
    layouts,
    line_profiles,
    low_occupancy,
    onnx_graph,
    oversubscription,
    padding,
    page_faults,
    processor_tables,
    products,
    roofline,
    rules,
)
from kernelscope.analysis.advise.rules.host import untold_ns
from kernelscope.analysis.advise.subject import MEDIAN, STEPS, Subject, read
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.formats.torch_table.trace import NOT_COUNTED
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.trace import UNLISTED, intervals

SCHEMA = "kernelscope/advise/1"
_CALLS, _CALLED = 3, 0.05  # at most so many calls of the host are named, each with at least this share of the recording
_LONG = 0.2  # of a step: the answer names a kernel that takes at least this share
_LONG_OF_TOTALS = 0.1  # of totals, likewise: their kernels are what is known
_ENOUGH = 4  # steps: with fewer, all of them may be warm-up
_SAME = 0.8  # of a finding's time: if another finding already saves this share, it is the same finding
# These speed up all that computes, so other advice on the same time stays
_OF_ALL = (
    "mixed precision", "tensor cores", "threads", generation.TOPIC, oversubscription.TOPIC, padding.TOPIC, page_faults.TOPIC,
    products.TOPIC,
)  # fmt: skip
_HOWEVER_SMALL = (onnx_graph.TOPIC,)  # a setting that also speeds up what the estimate leaves out
_DEVICES = 256  # no machine has more; each needs an account of its own
# General advice on time between kernels, or on kernels of any kind: more specific causes of the same time come first
_GENERAL = (
    "gaps between kernels", "dispatch", "fusion", "python", "host-bound", "unknown copies", low_occupancy.TOPIC, roofline.TOPIC,
)  # fmt: skip

_BLIT = rf"\b__amd_rocclr_|{device_copies.COPIES}"  # kernels of AMD's runtime, operators of MXNet

_WAITING = 0.2  # of a step: if the device idles this long, shorter kernels may not make the step shorter
_COMPUTES = ("mixed precision", "tensor cores", "double precision", "alignment", "fusion", "optimizer")

GRAPHS = "in CUDA graphs"
EARLIER = "work from before the steps"
_ALONE = " alone"  # while nothing computes
_BUSY = {
    COMPUTE: "computing",
    GRAPH: GRAPHS,
    COMMUNICATION: "communication" + _ALONE,
    COPY: "copying" + _ALONE,
    OUTSIDE: EARLIER,
    INTERRUPTED: "another process has the device",
    layouts.WAITING: layouts.WAITING,
    layouts.CHANGING: layouts.CHANGING,
}
_IDLE = {
    idle_causes.FETCHING: "waiting for input", idle_causes.BETWEEN: "waiting for input",
    idle_causes.SYNCHRONISING: "synchronisation", idle_causes.COMPILING: "compiling", idle_causes.ALLOCATING: "allocating",
    idle_causes.COPYING: "waiting for copies", idle_causes.QUEUED: "between kernels",
    idle_causes.WARMING_UP: idle_causes.WARMING_UP, idle_causes.CAPTURING: idle_causes.CAPTURING,
    idle_causes.UNSEEN: "idle, unknown why",
}  # fmt: skip
_HOST = "waiting for the host"
_OVERHEAD, _DISPATCH = "dispatch and Python", "dispatch"
_WITHOUT_PYTHON = ("onnxruntime",)  # frameworks that run a whole step themselves
_UNRECORDED = "nothing recorded"
UNPRINTED = UNLISTED.strip("()")  # these rows may be kernels or copies
AROUND = "in operators around others, and views"  # of printed tables: nothing that computes by itself
IN_LINES = "in the program's lines"
IN_FUNCTIONS = "in functions"  # of Python, whatever they do: compute, read, wait
_OUTSIDE_OF_NODES = "outside of nodes"  # of ONNX Runtime
# Where no computation was recorded, host time cannot be called dispatch
_BY_PLACE = {
    idle_causes.OPERATOR: "in operators", idle_causes.RANGE: "in the program's ranges", idle_causes.PROGRAM: _UNRECORDED,
    idle_causes.LINE: IN_LINES, _OUTSIDE_OF_NODES: _OUTSIDE_OF_NODES,
}  # fmt: skip
# If only layers were recorded, computing cannot be separated from dispatch
_BY_LAYER = {idle_causes.OPERATOR: "between layers", idle_causes.RANGE: "in layers", idle_causes.PROGRAM: "outside of layers"}
_PREPARING = "preparing input"
PARTS = tuple(
    dict.fromkeys(
        [
            *_BUSY.values(),
            *_IDLE.values(),
            _HOST,
            _OVERHEAD,
            _DISPATCH,
            _PREPARING,
            IN_FUNCTIONS,
            *_BY_PLACE.values(),
            *_BY_LAYER.values(),
        ]
    )
)  # all names that a part of a step can have; totals can have UNPRINTED and AROUND, too


def advise(path: Path, request: Request | None = None) -> dict[str, Any]:
    """Return advice on one recording; raise EvidenceError if it cannot be read.

    Keys: schema, path, framework, device, hardware, step_ns, range_ns (the shortest and the longest step, if they differ much;
    else None), median_ns (of the steps; likewise), batch (samples of a step, None if unknown), batch_source, per, steps (how they
    were found), certain (whether what repeats is surely a step), program (whether the step is a whole program, which has no
    steps), few_steps (how many were measured, if few; else None), long_steps (count, of, ns, of_ns: how many steps are much
    longer than the others, of how many, and their time, of the time of all; None unless that is a large share), changed (first,
    before_ns, after_ns: see changing.Change; None if steps do not change for good), median (whether step_ns is the median of the
    steps, not their mean), windows (of a run's clean pass, of whose means step_ns is the median; None of a capture), recorded_ns
    (if the device is mostly idle: the time of the whole recording, while step_ns is that of the kernels; else None), unrecorded
    (why nothing that computes was recorded; else None), untraced (why only a run's layers were recorded; else None), ranges
    (name, ns: where the program spent most time, if unrecorded is set; else empty), devices (how many do work), other_devices
    (device, ns, parts: what the others do in the same steps), calls (name, ns: the host's longest calls, if recorded_ns is set),
    busy (cores, and others: how many of them other processes kept busy; None if unknown, or few), parts (what, ns; they add up to
    step_ns), recorded_parts (the same for recorded_ns; else empty), timeline (whether more than totals is known), iteration
    (which one totals are of, in words; None if they are of the whole recording), counted (what totals are of, if it is known:
    operators, kernels or functions of Python), untold_ns (see rules.host), longest (name and ns of the kernel or function, or on
    the host the kind of kernel, that takes a fifth of the step or more; else None), advice (see model.Advice; largest saving
    first), notes.
    """
    return of_subject(read(path, request))


def of_subject(subject: Subject) -> dict[str, Any]:
    """Return advice as plain data, see `advise`."""
    kept = _kept(subject)
    return {
        "schema": SCHEMA,
        "path": subject.path,
        "framework": subject.framework or None,
        "device": subject.device,
        "hardware": subject.hardware,
        "step_ns": subject.step_ns,
        "range_ns": subject.range_ns,
        "median_ns": int(np.median(subject.lengths)) if subject.range_ns else None,
        "batch": _batch(subject),
        "batch_source": subject.trace.info.get("batch_source"),
        "per": subject.per,
        "program": subject.program,
        "few_steps": _few(subject),
        "long_steps": subject.facts.get("long_steps"),
        "changed": asdict(subject.facts["changed"]) if subject.facts.get("changed") else None,
        "median": (subject.facts.get("clean_windows") or 0) >= MEDIAN and not subject.facts.get("spread"),
        "windows": subject.facts.get("clean_windows"),
        "steps": subject.steps,
        "certain": subject.certain,
        "recorded_ns": subject.recorded_ns,
        "unrecorded": subject.unrecorded,
        "untraced": subject.untraced,
        "ranges": _ranges(subject) if subject.unrecorded else [],
        "devices": int(subject.trace.kernels["device"].nunique()),
        "other_devices": _other_devices(subject),
        "calls": _calls(subject) if subject.recorded_ns else [],
        "busy": core_use.others(subject.foreign_cores, subject.cores),
        "parts": parts(subject),
        "recorded_parts": _recorded_parts(subject) if subject.recorded_ns else [],
        "timeline": subject.timeline,
        "iteration": subject.trace.info.get("iteration"),
        "counted": subject.trace.info.get("counted"),
        "untold_ns": untold_ns(subject),
        "longest": _longest(subject),
        "advice": [_plain(subject, one) for one in kept],
        "notes": notes(subject, kept),
    }


def _batch(subject: Subject) -> int | None:
    """Return the samples of a step; None if unknown, or if the only step says nothing about how many are computed in a second."""
    batch = subject.trace.info.get("batch")
    known = type(batch) is int and batch > 0 and subject.per == STEPS
    return batch if known and not onnx_notes.is_first_run(subject) else None


def _few(subject: Subject) -> int | None:
    """Return how many steps a run measured, if so few that the slow first steps are among them; else None."""
    count = subject.facts.get("clean_steps")
    return count if count and count < _ENOUGH and subject.per == STEPS else None


def _longest(subject: Subject) -> dict[str, Any] | None:
    """Return the kernel (on the host, the kind of kernel) that takes most of the step; None if none takes a large share."""
    kernels = subject.kernels()
    kernels = kernels[~_around(kernels)]
    kernels = kernels[~_copies(kernels) & ~_unprinted(kernels) & layouts.of_engine(subject, kernels).isna().to_numpy(bool)]
    if subject.on_host:  # preparing input is a part of its own
        kernels = kernels[(kernels["phase"] != "data").fillna(True).to_numpy(bool)]
        own = kernels.index.isin(processor_tables.outside(subject).index)
        kernels = kernels.assign(kind=kernels["kind"].astype("string").mask(own, processor_tables.OUTSIDE))
    by_kind = subject.on_host and subject.trace.info.get("counted") != "functions"
    first = _largest(kernels, "kind" if by_kind else "name", 1)
    if first and first[0]["name"] == "unknown":  # a kind that tells nothing; one kernel may
        first = _largest(kernels, "name", 1)
    least = _LONG if subject.timeline or subject.on_host else _LONG_OF_TOTALS
    if not first or first[0]["time_ns"] < least * subject.step_ns:
        return None
    return {"name": first[0]["name"], "ns": first[0]["time_ns"]}


def largest(subject: Subject, column: str, most: int) -> list[dict[str, Any]]:
    """Return the values of a column with the most time: name, count and time_ns per step. column: layer, or name for kernels.

    The optimizer and data loading are not layers; they are listed among these in parentheses.
    """
    rows = subject.rows
    if column == "layer":
        phase = rows["phase"].where(rows["phase"].isin(["optimizer", "data"]))
        rows = rows.assign(layer=rows["layer"].fillna("(" + phase + ")"))
    return _largest(rows, column, most)


def _largest(rows: pd.DataFrame, column: str, most: int) -> list[dict[str, Any]]:
    rows = rows[rows[column].notna().to_numpy(bool)]
    names = rows[column].map(words.kernel) if column == "name" else rows[column]
    executed = rows["count"].where(rows["part"] != IDLE, 0)  # the count of gaps depends on how they are cut
    sums = rows.assign(count=executed).groupby(names.astype("string"))[["count", "time_ns"]].sum().nlargest(most, "time_ns")
    return [{"name": str(name), "count": float(row["count"]), "time_ns": int(row["time_ns"])} for name, row in sums.iterrows()]


def parts(subject: Subject) -> list[dict[str, Any]]:
    """Return the parts of a step, longest first: what and ns; ns add up to the step."""
    sums: dict[str, int] = {}
    loading = (subject.rows["phase"] == "data").fillna(False).to_numpy(bool) & subject.on_host
    rows = subject.rows.assign(cause=subject.rows["cause"].mask(loading, idle_causes.FETCHING))
    rows["cause"] = rows["cause"].mask(rows.index.isin(onnx_notes.outside_of_nodes(subject).index), _OUTSIDE_OF_NODES)
    computes = (rows["part"] == COMPUTE).to_numpy(bool)
    rows["part"] = rows["part"].mask(computes & _around(rows), AROUND)
    of_engine = layouts.of_engine(subject, rows)
    rows["part"] = rows["part"].mask(computes & _copies(rows), COPY).mask(computes & _unprinted(rows), UNPRINTED)
    rows["part"] = rows["part"].mask(computes & of_engine.notna().to_numpy(bool), of_engine)
    for row in rows.groupby(["part", "cause"], dropna=False)["time_ns"].sum().reset_index().to_dict("records"):
        prepares = row["part"] == COMPUTE and row["cause"] == idle_causes.FETCHING
        busy = _PREPARING if prepares else AROUND if row["part"] == AROUND else _BUSY.get(row["part"], UNPRINTED)
        busy = IN_FUNCTIONS if busy == _BUSY[COMPUTE] and subject.trace.info.get("counted") == "functions" else busy
        what = _idle(subject, row["cause"]) if row["part"] == IDLE else busy
        if not subject.timeline or subject.unrecorded:  # these do not show what runs concurrently
            what = what.removesuffix(_ALONE)
        sums[what] = sums.get(what, 0) + int(row["time_ns"])
    return [{"what": what, "ns": ns} for what, ns in sorted(sums.items(), key=lambda item: -item[1]) if ns]


def _copies(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows are kernels by which a runtime copies or fills memory: they compute nothing."""
    return rows["name"].astype("string").str.contains(_BLIT).fillna(False).to_numpy(bool)


def _unprinted(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows stand for what a tool did not print."""
    return (rows["name"] == UNLISTED).fillna(False).to_numpy(bool)


def _around(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows stand for operators of a printed table that are around others, or only make views."""
    return (rows["name"] == NOT_COUNTED).fillna(False).to_numpy(bool)


def _idle(subject: Subject, cause: str) -> str:
    """Name time in which nothing computes; where no computation was recorded, name it by where the host was."""
    if cause == idle_causes.UNSEEN and (subject.on_host or subject.unrecorded):
        return _UNRECORDED
    by_place = _BY_PLACE if subject.unrecorded else _BY_LAYER if subject.untraced else {}
    found = by_place.get(cause) or idle_part(cause, subject.on_host)
    return _DISPATCH if found == _OVERHEAD and subject.framework in _WITHOUT_PYTHON else found


def _ranges(subject: Subject) -> list[dict[str, Any]]:
    """Return the ranges or lines with most time, in a recording without anything that computes: name and ns."""
    own = subject.rows["cause"].isin([idle_causes.RANGE, idle_causes.LINE])
    ranges = subject.rows["detail"].where(own).fillna(subject.rows["name"])
    sums = subject.rows.groupby(ranges)["time_ns"].sum().nlargest(_CALLS)
    return [{"name": str(name), "ns": int(ns)} for name, ns in sums.items() if ns > _CALLED * subject.step_ns]


def _recorded_parts(subject: Subject) -> list[dict[str, Any]]:
    """Return the parts of a whole recording without steps, named as in `parts`; ns add up to recorded_ns."""
    rows, _ = host_account.of_trace(subject.trace)
    return parts(replace(subject, rows=rows, timeline=True))


def _other_devices(subject: Subject) -> list[dict[str, Any]]:
    """Return what each other device does in the same steps: device, ns, and parts as for the main device."""
    if subject.on_host or subject.device == ALL or not subject.timeline or subject.recorded_ns:
        return []
    names = subject.trace.kernels["device"].dropna().astype("string").unique()
    if len(names) > _DEVICES:
        return []
    done = [account(subject.trace, str(name)) for name in sorted(names) if name != subject.device]
    known = [one for one in done if one.step_ns and one.basis != KERNELS]
    return [
        {"device": one.device, "ns": one.step_ns, "parts": parts(replace(subject, rows=one.rows, step_ns=one.step_ns))}
        for one in known
    ]


def idle_part(cause: str, on_host: bool = False) -> str:
    """Name time in which the device idles for this cause (of accounting.idle_causes).

    on_host: for a program that computes on the host's processors; nothing computes in that time.
    """
    return _IDLE.get(cause, _OVERHEAD if on_host else _HOST)


def _calls(subject: Subject) -> list[dict[str, Any]]:
    """Return the calls of the device's API that took a large share of the recording on the host, longest first."""
    first, last = subject.trace.extent() or (0, 0)
    window = np.array([first], dtype=np.int64), np.array([last], dtype=np.int64)
    calls = subject.trace.calls
    times = {}
    for name, mine in calls.groupby(calls["name"].astype("string")):  # threads may wait at the same time
        gaps_start, gaps_end = intervals.uncovered(*intervals.edges(mine), *window)
        times[str(name)] = last - first - int((gaps_end - gaps_start).sum())
    named = sorted(times, key=lambda name: -times[name])[:_CALLS]
    return [{"name": name, "ns": times[name]} for name in named if times[name] > _CALLED * (last - first)]


def _kept(subject: Subject) -> list[Advice]:
    """Return the advice that saves enough, largest saving first, without findings that others cover."""
    if subject.unrecorded and subject.step_ns:  # lines of the program are all that such a recording may tell
        return line_profiles.ranked(subject)
    if not subject.step_ns or mostly_captures(subject):  # all times may be zero
        return []
    least = (LEAST_ON_HOST if subject.on_host else LEAST_ON_DEVICE) * (subject.recorded_ns or subject.step_ns)
    found = [one for rule in rules() for one in rule(subject) if one.saves_ns > (0 if one.topic in _HOWEVER_SMALL else least)]
    if subject.untraced:  # all of that time may be computing
        found = [one for one in found if one.topic not in _GENERAL]
    kept: list[Advice] = []
    for one in sorted(found, key=lambda one: (one.topic in _GENERAL, -one.saves_ns)):
        mine = words.time_of(subject.rows[subject.rows.index.isin(one.rows)])
        same = [
            words.time_of(subject.rows[subject.rows.index.isin(one.rows & other.rows)]) > _SAME * mine
            for other in kept
            if other.topic not in _OF_ALL
        ]
        if not mine or not any(same):
            kept.append(one)
    return sorted(_beside_waiting(subject, sorted(kept, key=lambda one: -one.saves_ns)), key=lambda one: one.last)


def _beside_waiting(subject: Subject, kept: list[Advice]) -> list[Advice]:
    """Turn estimates into bounds where the device often waits for the host: faster kernels may only make it wait longer.

    When the first suggestion is chosen, such a saving counts less, by the share of the step that the device is idle.
    """
    waits = words.time_of(subject.rows[(subject.rows["part"] == IDLE).to_numpy(bool)])
    if subject.on_host or waits < _WAITING * subject.step_ns:
        return kept
    said = f"The device is idle for {waits / subject.step_ns:.0%} of the step: with faster kernels it may only wait longer."
    bounds = {one.topic for one in kept if one.modelled and one.topic in _COMPUTES}
    kept = sorted(kept, key=lambda one: -one.saves_ns * (1 - waits / subject.step_ns if one.topic in bounds else 1))
    kept = [*kept[:1], *sorted(kept[1:], key=lambda one: -one.saves_ns)]
    return [replace(one, modelled=False, evidence=[*one.evidence, said]) if one.topic in bounds else one for one in kept]


def _plain(subject: Subject, one: Advice) -> dict[str, Any]:
    return {
        "topic": one.topic, "title": one.title, "saves_ns": round(one.saves_ns), "at_most": not one.modelled,
        "estimate": one.estimate, "evidence": [*one.evidence, *words.uneven(subject, one.rows)], "remedy": one.remedy,
        "link": one.link or documentation.page(subject, one.topic),
    }  # fmt: skip
