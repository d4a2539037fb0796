"""Advice on a recording as plain data: how long a step takes, where its time goes, and what to do, largest saving first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
from kernelscope.analysis.advise import host_account, words
from kernelscope.analysis.advise.model import Advice
from kernelscope.analysis.advise.rules import generation, host_calls, memory, padding, page_faults, rules
from kernelscope.analysis.advise.rules.host import untold_ns
from kernelscope.analysis.advise.subject import MEDIAN, STEPS, Subject, read
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.formats.nsys import RECORD_GRAPHS
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.trace import intervals

SCHEMA = "kernelscope/advise/1"
LEAST_ON_DEVICE = 0.02  # of a step: device work repeats well
LEAST_ON_HOST = 0.05  # of a step: processes of one program differ by as much on a quiet machine
_CALLS, _CALLED = 3, 0.05  # at most so many calls of the host are named, each with at least this share of the recording
_LONG = 0.2  # of a step: the answer names a kernel that takes at least this share
_SHORTER = 0.75  # times the clean step: recording adds time, so a recorded step this much shorter was of another kind
_ROUGH = 2.0  # times the clean step: recording cost as much as the step itself
_COST = 0.1  # of the clean step: a larger cost of recording is noted
_ENOUGH = 4  # steps: with fewer, all of them may be warm-up
_ASIDE = 0.05  # of the time that a program was watched: left-out steps that took longer are noted
_LARGE = 0.05  # of the device's work: what runs outside of the steps and takes longer is noted
_SAME = 0.8  # of a finding's time: if another finding already saves this share, it is the same finding
# These speed up all that computes, so other advice on the same time stays
_OF_ALL = ("mixed precision", "tensor cores", "threads", generation.TOPIC, padding.TOPIC, page_faults.TOPIC)
_OF_CAPTURE = "a graph is captured here, and nothing runs meanwhile: record its replays to see where steps spend their time"
_OF_STACKS = (
    "recorded with Python's functions (with_stack), which slows the host: record without them before you act on host times"
)
_OF_HOST = ("host-bound", "synchronisation", "input pipeline", "python")
_CAPTURED = 0.5  # of a recording: then there is no advice on its other half
_DEVICES = 256  # no machine has more; each needs an account of its own
# General advice on time between kernels: more specific causes of the same time come first
_GENERAL = ("gaps between kernels", "dispatch", "fusion", "python", "host-bound")

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
}
_IDLE = {
    idle_causes.FETCHING: "waiting for input", idle_causes.BETWEEN: "waiting for input",
    idle_causes.SYNCHRONISING: "synchronisation", idle_causes.COMPILING: "compiling", idle_causes.ALLOCATING: "allocating",
    idle_causes.COPYING: "waiting for copies", idle_causes.QUEUED: "between kernels",
    idle_causes.WARMING_UP: idle_causes.WARMING_UP, idle_causes.CAPTURING: idle_causes.CAPTURING,
    idle_causes.UNSEEN: "idle, unknown why",
}  # fmt: skip
_HOST = "waiting for the host"
_OVERHEAD = "dispatch and Python"
_UNRECORDED = "nothing recorded"
IN_LINES = "in the program's lines"
# Where no computation was recorded, host time cannot be called dispatch
_BY_PLACE = {
    idle_causes.OPERATOR: "in operators", idle_causes.RANGE: "in the program's ranges", idle_causes.PROGRAM: _UNRECORDED,
    idle_causes.LINE: IN_LINES,
}  # fmt: skip
# If only layers were recorded, computing cannot be separated from dispatch
_BY_LAYER = {idle_causes.OPERATOR: "between layers", idle_causes.RANGE: "in layers", idle_causes.PROGRAM: "outside of layers"}
_PREPARING = "preparing input"
PARTS = tuple(
    dict.fromkeys([*_BUSY.values(), *_IDLE.values(), _HOST, _OVERHEAD, _PREPARING, *_BY_PLACE.values(), *_BY_LAYER.values()])
)  # all names that a part of a step can have


def advise(path: Path, request: Request | None = None) -> dict[str, Any]:
    """Return advice on one recording; raise EvidenceError if it cannot be read.

    Keys: schema, path, framework, device, hardware, step_ns, range_ns (the shortest and the longest step, if they differ much;
    else None), median_ns (of the steps; likewise), batch (samples of a step, None if unknown), batch_source, per, steps (how
    they were found), certain (whether what repeats is surely a step), program (whether the step is a whole program, which has
    no steps), few_steps (how many were measured, if few; else None), long_steps (count, of, ns, of_ns: how many steps are much
    longer than the others, of how many, and their time, of the time of all; None unless that is a large share), median (whether
    step_ns is the median of the steps, not their mean), recorded_ns (if the device is mostly idle: the time of the whole
    recording, while step_ns is that of the kernels; else None), unrecorded (why nothing that computes was recorded; else None),
    untraced (why only a run's layers were recorded; else None), ranges (name, ns: where the program spent most time, if
    unrecorded is set; else empty), devices (how many do work), other_devices (device, ns, parts: what the others do in the same
    steps), calls (name, ns: the host's longest calls, if recorded_ns is set), busy (cores, and others: how many of them other
    processes kept busy; None if unknown, or few), parts (what, ns; they add up to step_ns), recorded_parts (the same for
    recorded_ns; else empty), timeline (whether more than totals is known), untold_ns (see rules.host), longest (name and ns of
    the kernel, or on the host the kind of kernel, that takes a fifth of the step or more; else None), advice (see model.Advice;
    largest saving first), notes.
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
        "median": (subject.facts.get("clean_windows") or 0) >= MEDIAN,
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
        "untold_ns": untold_ns(subject),
        "longest": _longest(subject),
        "advice": [_plain(one, words.uneven(subject, one.rows)) for one in kept],
        "notes": _notes(subject, kept),
    }


def _batch(subject: Subject) -> int | None:
    """Return the samples of a step; None if unknown."""
    batch = subject.trace.info.get("batch")
    return batch if type(batch) is int and batch > 0 and subject.per == STEPS else None


def _few(subject: Subject) -> int | None:
    """Return how many steps a run measured, if so few that the slow first steps are among them; else None."""
    count = subject.facts.get("clean_steps")
    return count if count and count < _ENOUGH and subject.per == STEPS else None


def _longest(subject: Subject) -> dict[str, Any] | None:
    """Return the kernel (on the host, the kind of kernel) that takes most of the step; None if none takes a large share."""
    kernels = subject.kernels()
    if subject.on_host:  # preparing input is a part of its own
        kernels = kernels[(kernels["phase"] != "data").fillna(True).to_numpy(bool)]
    first = _largest(kernels, "kind" if subject.on_host else "name", 1)
    if not first or first[0]["time_ns"] < _LONG * subject.step_ns:
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
    for row in rows.groupby(["part", "cause"], dropna=False)["time_ns"].sum().reset_index().to_dict("records"):
        busy = _PREPARING if row["part"] == COMPUTE and row["cause"] == idle_causes.FETCHING else _BUSY.get(row["part"], "")
        what = _idle(subject, row["cause"]) if row["part"] == IDLE else busy
        if not subject.timeline or subject.unrecorded:  # these do not show what runs concurrently
            what = what.removesuffix(_ALONE)
        sums[what] = sums.get(what, 0) + int(row["time_ns"])
    return [{"what": what, "ns": ns} for what, ns in sorted(sums.items(), key=lambda item: -item[1]) if ns]


def _idle(subject: Subject, cause: str) -> str:
    """Name time in which nothing computes; where no computation was recorded, name it by where the host was."""
    if cause == idle_causes.UNSEEN and (subject.on_host or subject.unrecorded):
        return _UNRECORDED
    by_place = _BY_PLACE if subject.unrecorded else _BY_LAYER if subject.untraced else {}
    return by_place.get(cause) or idle_part(cause, subject.on_host)


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
    if subject.unrecorded or not subject.step_ns or _mostly_captures(subject):  # all times may be zero
        return []
    least = (LEAST_ON_HOST if subject.on_host else LEAST_ON_DEVICE) * (subject.recorded_ns or subject.step_ns)
    found = [one for rule in rules() for one in rule(subject) if one.saves_ns > least]
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


def _mostly_captures(subject: Subject) -> bool:
    """Return whether most of a recording is the capture of a CUDA or HIP graph, in which nothing runs."""
    return words.time_of(subject.idle((idle_causes.CAPTURING,))) > _CAPTURED * subject.step_ns


def _plain(one: Advice, uneven: list[str]) -> dict[str, Any]:
    return {
        "topic": one.topic, "title": one.title, "saves_ns": round(one.saves_ns), "at_most": not one.modelled,
        "estimate": one.estimate,
        "evidence": [*one.evidence, *uneven], "remedy": one.remedy, "link": one.link or None,
    }  # fmt: skip


def _left_out(subject: Subject) -> list[str]:
    """Describe the watched steps that were not like these: evaluation, saving, compilation."""
    known = subject.facts.get("left_out_steps") or {}
    took = {why: (count, ns) for why, (count, ns) in known.get("reasons", {}).items() if ns > _ASIDE * known["watched_ns"]}
    return [
        f"left out: {count} of {known['steps']} steps in which {why}; they took {words.duration(ns)} of the "
        f"{words.duration(known['watched_ns'])} watched"
        for why, (count, ns) in sorted(took.items(), key=lambda item: -item[1][1])
    ]


def _took(subject: Subject, ns: float) -> str:
    return f"{'the program' if subject.program else 'steps'} took {words.duration(ns)} while recorded"


def _why_shorter(subject: Subject) -> str:
    """Return why the clean pass may take longer than a recorded one."""
    if subject.program:
        return "the machine was busy, or the program does not do the same work each time"
    return (
        "steps differ in kind, or the machine was busy, so the parts may not be those of this step; "
        "`kernelscope breakdown --by step` shows each step"
    )


def _rough(traced_ns: float, subject: Subject) -> str:
    """Say that the parts are rough, if recording cost more than the step itself."""
    return "; as recording cost so much, the parts are rough estimates" if traced_ns > _ROUGH * subject.step_ns else ""


def _step(subject: Subject) -> str:
    return "program" if subject.program else "step"


def _of_recording(subject: Subject) -> list[str]:
    """Say how the recorded steps differ from the clean step; nothing if they do not."""
    traced_ns = subject.facts.get("traced_step_ns")
    if not traced_ns:
        return []
    step, traced = words.duration(subject.step_ns), words.duration(traced_ns)
    if subject.growth:
        return [
            f"steps get longer as the program runs: the parts come from later steps, which took {traced} while recorded, "
            f"scaled to the median step, {step}"
        ]
    if traced_ns < _SHORTER * subject.step_ns:
        what = "the program takes" if subject.program else "steps take"
        return [f"{what} {traced} in the pass that the parts come from, but {step} in the clean pass: {_why_shorter(subject)}"]
    if traced_ns > (1 + _COST) * subject.step_ns:
        return [
            f"{_took(subject, traced_ns)}; the parts leave that cost out and add up to the clean {_step(subject)}, "
            f"{step}{_rough(traced_ns, subject)}"
        ]
    return []


def _growing(subject: Subject) -> list[str]:
    """Say that the steps of a capture get longer, which their mean does not show."""
    found = None if subject.facts else subject.growth
    if found is None:
        return []
    first, last = words.duration(found.first_ns), words.duration(found.last_ns)
    return [
        f"steps get longer one after another, from {first} to {last} over {found.steps} steps: each processes more than the one "
        "before, such as a longer text, a cache or a history"
    ]


def _of_no_steps(subject: Subject) -> list[str]:
    """Note what a recording without steps means for the account: start-up counts, and memory that is allocated once."""
    notes = []
    if subject.recorded_ns:
        notes.append(
            "the device is idle most of the time and nothing repeats as steps do: the account covers the whole recording, and "
            "any advice covers its kernels only"
        )
        overhead_ns = subject.trace.info.get("overhead_ns") or 0
        if overhead_ns > _ASIDE * subject.recorded_ns:
            notes.append(f"{words.duration(overhead_ns)} of it is the profiler's own overhead, according to its records")
    elif subject.steps is None and subject.per != "a step" and subject.timeline:
        known = "the program was recorded as a whole" if subject.program else "nothing in the recording repeats as steps do"
        notes.append(f"{known}: all of it counts, start-up included")
        once_ns = memory.taken_once(subject)
        if once_ns > LEAST_ON_DEVICE * subject.step_ns:
            taken = words.share(subject, once_ns)
            notes.append(f"allocating, {taken}, is for memory that is allocated once and kept: part of start-up, not of a step")
    return notes


def _has_stacks(subject: Subject) -> bool:
    """Return whether the host was slowed by recording Python's functions."""
    return (subject.trace.info.get("source") or {}).get("format") == "kineto" and len(subject.trace.host_lines) > 0


def outside_of_steps(subject: Subject) -> list[str]:
    """Say what takes longest outside of the steps, if it takes much of the device's time: copies of one kind, or one kernel."""
    if subject.per != STEPS or subject.on_host or not subject.timeline:
        return []
    tables = []
    for table in (subject.trace.kernels, subject.trace.copies):
        mine = table["start_ns"].notna() & (table["device"] == subject.device).fillna(False)
        tables.append(table[mine.to_numpy(bool)])
    kernels, copies = (table[~device_steps.measured(subject.trace, table)] for table in tables)
    kernels = kernels[(kernels["kind"] != "communication").fillna(True).to_numpy(bool)]  # that waits for other ranks
    whole = float(sum(table["duration_ns"].sum() for table in tables))
    memory = copies["memory"].astype("string")
    moved = copies.groupby(copies["operation"].astype("string") + (", " + memory).fillna(""))["duration_ns"].sum()
    longest = kernels["duration_ns"].max() if len(kernels) else 0
    if max(longest, moved.max() if len(moved) else 0) <= _LARGE * whole:
        return []
    if len(moved) and moved.max() >= longest:
        what, ns = f"copies ({moved.idxmax()}) take", float(moved.max())
    else:
        row = kernels.iloc[int(kernels["duration_ns"].to_numpy(float).argmax())]
        what, ns = f"one execution of {words.kernel(row['name'])} takes", float(longest)
    return [f"outside of the steps, {what} {words.duration(ns)}, {ns / whole:.0%} of the device's work"]


def _notes(subject: Subject, kept: list[Advice]) -> list[str]:
    notes = [f"within layers, computing cannot be separated from dispatch: {subject.untraced}"] if subject.untraced else []
    notes += [_OF_CAPTURE] if _mostly_captures(subject) else []
    notes += [_OF_STACKS] if _has_stacks(subject) and any(one.topic in _OF_HOST for one in kept) else []
    notes += _of_recording(subject)
    notes += _growing(subject)
    notes += _left_out(subject)
    threads, cores = subject.setting("threads"), subject.cores
    busy = core_use.others(subject.foreign_cores, cores)
    if subject.on_host and busy and threads and cores and threads < cores and "threads" not in [one.topic for one in kept]:
        notes.append(
            f"operators use {threads} of {cores} cores, and other processes kept {busy['others']:.2g} busy: what more threads "
            "would save is not known; record again while nothing else runs"
        )
    if subject.rows["part"].isin([GRAPH]).any():
        notes.append(f"kernels inside CUDA graphs were not recorded, so no advice covers them; {RECORD_GRAPHS} records them")
    if page_faults.TOPIC not in [one.topic for one in kept]:
        notes += page_faults.note(subject)
    if len(kept) > 1:
        notes.append("each saving is estimated on its own; together they save less than their sum")
    if subject.steps and subject.per == STEPS and subject.device != "cpu":
        notes.append(f"how steps were found: {subject.steps}")
    notes += _of_no_steps(subject)
    notes += outside_of_steps(subject)
    if "host-bound" not in [one.topic for one in kept]:
        notes += host_calls.tiny(subject)
    if not subject.timeline and not subject.recorded_ns:
        notes.append("the recording holds totals of the whole program: it does not show idle time, nor what runs concurrently")
    return notes
