"""Advice on a recording as plain data: the answer, where the step's time goes, and what to do, what saves most first."""

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
from kernelscope.analysis.advise.rules import generation, memory, padding, page_faults, rules
from kernelscope.analysis.advise.rules.host import untold_ns
from kernelscope.analysis.advise.subject import STEPS, Subject, read
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.formats.nsys import RECORD_GRAPHS
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.trace import intervals

SCHEMA = "kernelscope/advise/1"
LEAST_ON_DEVICE = 0.02  # of a step: device work repeats well
LEAST_ON_HOST = 0.05  # of a step: as much as processes of one program differ by on a quiet machine
_CALLS, _CALLED = 3, 0.05  # calls of the host that are named, each of so much of the recording
_LONG = 0.2  # of a step: a kernel that takes so much is named in the answer
_SHORTER = 0.75  # times the clean step: a recorded one costs more, so that one which takes so much less was another kind
_ROUGH = 2.0  # times the clean step: recording took as long as the step itself
_COST = 0.1  # of the clean step: recording that cost more is told
_ENOUGH = 4  # steps: of fewer, none may be as warm ones are
_ASIDE = 0.05  # of the time that a program was watched: steps unlike the others that took so long are told
_SAME = 0.8  # of a finding's time that others of the list already save: then it is the same one
# Make whatever computes faster: what else can be done stands beside
_OF_ALL = ("mixed precision", "tensor cores", "threads", generation.TOPIC, padding.TOPIC, page_faults.TOPIC)
_DEVICES = 256  # of more no machine tells; each is accounted for by itself
# What can always be said of time between kernels: special causes of the same time come first
_GENERAL = ("gaps between kernels", "dispatch", "fusion", "python", "host-bound")

_WAITING = 0.2  # of a step: a device that is idle for so long may be no faster for shorter kernels
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
    idle_causes.WARMING_UP: idle_causes.WARMING_UP,
    idle_causes.UNSEEN: "idle, unknown why",
}  # fmt: skip
_HOST = "waiting for the host"
_OVERHEAD = "dispatch and Python"
_UNRECORDED = "nothing recorded"
IN_LINES = "in the program's lines"
# Where nothing tells what computes: dispatch is no word for what a thread does then
_BY_PLACE = {
    idle_causes.OPERATOR: "in operators", idle_causes.RANGE: "in the program's ranges", idle_causes.PROGRAM: _UNRECORDED,
    idle_causes.LINE: IN_LINES,
}  # fmt: skip
# Where layers alone were recorded: what computes is not told from what dispatches it
_BY_LAYER = {idle_causes.OPERATOR: "between layers", idle_causes.RANGE: "in layers", idle_causes.PROGRAM: "outside of layers"}
_PREPARING = "preparing input"
PARTS = tuple(
    dict.fromkeys([*_BUSY.values(), *_IDLE.values(), _HOST, _OVERHEAD, _PREPARING, *_BY_PLACE.values(), *_BY_LAYER.values()])
)  # what a step's time can be


def advise(path: Path, request: Request | None = None) -> dict[str, Any]:
    """Return what to do about one recording; raise EvidenceError for what cannot be read.

    Keys: schema, path, framework, device, hardware, step_ns, range_ns (the shortest and the longest step, where they differ
    much; else None), batch (samples of a step, None where not known), per, steps (what they were taken from), certain (whether
    what repeats is surely a step), program (whether it is a whole program, which has no steps), few_steps (how many were
    measured, where these are few; else None), long_steps (count, of, ns, of_ns: steps much longer than the others, of how many,
    where they take a good part of all steps' time; else None), median (whether step_ns is that of the steps, or their mean),
    recorded_ns (of a recording whose device mostly idles: all of its time, where step_ns is that of the kernels; else None),
    unrecorded (why nothing that computes was recorded; else None), untraced (why only layers were recorded of a run; else
    None), ranges (name, ns: where the program was longest, of such a recording; else empty), devices (how many do work),
    other_devices (device, ns, parts; what the others do in the same steps), calls (name, ns; what the host was in longest, of a
    recording with recorded_ns), busy (cores, and others: how many of them other processes kept busy; None where not known, or
    few), parts (what, ns; they add up to step_ns), recorded_parts (the same of recorded_ns; else empty), timeline (whether more
    than totals is known), untold_ns (see rules.host), longest (name and ns of the kernel, on the host the kind of kernels, that
    takes a good part of the step; else None), advice (see model.Advice; what saves most first), notes.
    """
    return of_subject(read(path, request))


def of_subject(subject: Subject) -> dict[str, Any]:
    """Return what to do, as `advise` does."""
    kept = _kept(subject)
    return {
        "schema": SCHEMA,
        "path": subject.path,
        "framework": subject.framework or None,
        "device": subject.device,
        "hardware": subject.hardware,
        "step_ns": subject.step_ns,
        "range_ns": subject.range_ns,
        "batch": _batch(subject),
        "batch_source": subject.trace.info.get("batch_source"),
        "per": subject.per,
        "program": subject.program,
        "few_steps": _few(subject),
        "long_steps": subject.facts.get("long_steps"),
        "median": bool(subject.facts.get("clean_steps")),
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
    """Return the samples of a step; None where they are not known."""
    batch = subject.trace.info.get("batch")
    return batch if type(batch) is int and batch > 0 and subject.per == STEPS else None


def _few(subject: Subject) -> int | None:
    """Return how many steps a run measured, where these are so few that the first, slow ones are among them; else None."""
    count = subject.facts.get("clean_steps")
    return count if count and count < _ENOUGH and subject.per == STEPS else None


def _longest(subject: Subject) -> dict[str, Any] | None:
    """Return the kernel that takes most of the step, or on the host the kind of kernels; None where none takes much."""
    kernels = subject.kernels()
    if subject.on_host:  # what prepares input is a part of its own
        kernels = kernels[(kernels["phase"] != "data").fillna(True).to_numpy(bool)]
    first = _largest(kernels, "kind" if subject.on_host else "name", 1)
    if not first or first[0]["time_ns"] < _LONG * subject.step_ns:
        return None
    return {"name": first[0]["name"], "ns": first[0]["time_ns"]}


def largest(subject: Subject, column: str, most: int) -> list[dict[str, Any]]:
    """Return the values of a column that take longest: name, count and time_ns per step. column: layer, or name for kernels.

    The optimizer and loading are no layers, but stand among these, in brackets.
    """
    rows = subject.rows
    if column == "layer":
        phase = rows["phase"].where(rows["phase"].isin(["optimizer", "data"]))
        rows = rows.assign(layer=rows["layer"].fillna("(" + phase + ")"))
    return _largest(rows, column, most)


def _largest(rows: pd.DataFrame, column: str, most: int) -> list[dict[str, Any]]:
    rows = rows[rows[column].notna().to_numpy(bool)]
    names = rows[column].map(words.kernel) if column == "name" else rows[column]
    executed = rows["count"].where(rows["part"] != IDLE, 0)  # of gaps there are as many as they are cut into
    sums = rows.assign(count=executed).groupby(names.astype("string"))[["count", "time_ns"]].sum().nlargest(most, "time_ns")
    return [{"name": str(name), "count": float(row["count"]), "time_ns": int(row["time_ns"])} for name, row in sums.iterrows()]


def parts(subject: Subject) -> list[dict[str, Any]]:
    """Return what a step's time is, in a few words each, the longest first: what and ns; ns add up to the step."""
    sums: dict[str, int] = {}
    loading = (subject.rows["phase"] == "data").fillna(False).to_numpy(bool) & subject.on_host
    rows = subject.rows.assign(cause=subject.rows["cause"].mask(loading, idle_causes.FETCHING))
    for row in rows.groupby(["part", "cause"], dropna=False)["time_ns"].sum().reset_index().to_dict("records"):
        busy = _PREPARING if row["part"] == COMPUTE and row["cause"] == idle_causes.FETCHING else _BUSY.get(row["part"], "")
        what = _idle(subject, row["cause"]) if row["part"] == IDLE else busy
        if not subject.timeline or subject.unrecorded:  # which do not tell what runs side by side
            what = what.removesuffix(_ALONE)
        sums[what] = sums.get(what, 0) + int(row["time_ns"])
    return [{"what": what, "ns": ns} for what, ns in sorted(sums.items(), key=lambda item: -item[1]) if ns]


def _idle(subject: Subject, cause: str) -> str:
    """Return what time is called in which nothing computes; where nothing tells what does, by where the host was."""
    if cause == idle_causes.UNSEEN and (subject.on_host or subject.unrecorded):
        return _UNRECORDED
    by_place = _BY_PLACE if subject.unrecorded else _BY_LAYER if subject.untraced else {}
    return by_place.get(cause) or idle_part(cause, subject.on_host)


def _ranges(subject: Subject) -> list[dict[str, Any]]:
    """Return the ranges or lines in which most of a recording passed of which nothing tells what computes: name and ns."""
    own = subject.rows["cause"].isin([idle_causes.RANGE, idle_causes.LINE])
    ranges = subject.rows["detail"].where(own).fillna(subject.rows["name"])
    sums = subject.rows.groupby(ranges)["time_ns"].sum().nlargest(_CALLS)
    return [{"name": str(name), "ns": int(ns)} for name, ns in sums.items() if ns > _CALLED * subject.step_ns]


def _recorded_parts(subject: Subject) -> list[dict[str, Any]]:
    """Return what all of a recording is that has no steps, in the words of `parts`: ns add up to recorded_ns."""
    rows, _ = host_account.of_trace(subject.trace)
    return parts(replace(subject, rows=rows, timeline=True))


def _other_devices(subject: Subject) -> list[dict[str, Any]]:
    """Return what each other device does in the same steps: device, ns, and parts as of the one that computes longest."""
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
    """Return what time is called in which the device idles for such a cause (of accounting.idle_causes).

    on_host: of a program that computes on the host's processors, in which nothing computes then.
    """
    return _IDLE.get(cause, _OVERHEAD if on_host else _HOST)


def _calls(subject: Subject) -> list[dict[str, Any]]:
    """Return the calls of the device's interface that the host was in for a good part of a recording, the longest first."""
    first, last = subject.trace.extent() or (0, 0)
    window = np.array([first], dtype=np.int64), np.array([last], dtype=np.int64)
    calls = subject.trace.calls
    times = {}
    for name, mine in calls.groupby(calls["name"].astype("string")):  # threads wait side by side
        gaps_start, gaps_end = intervals.uncovered(*intervals.edges(mine), *window)
        times[str(name)] = last - first - int((gaps_end - gaps_start).sum())
    named = sorted(times, key=lambda name: -times[name])[:_CALLS]
    return [{"name": name, "ns": times[name]} for name in named if times[name] > _CALLED * (last - first)]


def _kept(subject: Subject) -> list[Advice]:
    """Return the advice that is worth its words, what saves most first, without what others already say."""
    if subject.unrecorded or not subject.step_ns:  # all times may be zero
        return []
    least = (LEAST_ON_HOST if subject.on_host else LEAST_ON_DEVICE) * (subject.recorded_ns or subject.step_ns)
    found = [one for rule in rules() for one in rule(subject) if one.saves_ns > least]
    if subject.untraced:  # what computes may be all of it
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
    return _beside_waiting(subject, sorted(kept, key=lambda one: -one.saves_ns))


def _beside_waiting(subject: Subject, kept: list[Advice]) -> list[Advice]:
    """Return the advice as it is where a device often waits for the host: what it computes sooner may only let it wait longer.

    So its savings are bounds, and weigh as much less as the device idles when it is decided what to do first.
    """
    waits = words.time_of(subject.rows[(subject.rows["part"] == IDLE).to_numpy(bool)])
    if subject.on_host or waits < _WAITING * subject.step_ns:
        return kept
    said = f"The device is idle for {waits / subject.step_ns:.0%} of the step: done sooner, it may only wait longer."
    bounds = {one.topic for one in kept if one.modelled and one.topic in _COMPUTES}
    kept = sorted(kept, key=lambda one: -one.saves_ns * (1 - waits / subject.step_ns if one.topic in bounds else 1))
    kept = [*kept[:1], *sorted(kept[1:], key=lambda one: -one.saves_ns)]
    return [replace(one, modelled=False, evidence=[*one.evidence, said]) if one.topic in bounds else one for one in kept]


def _plain(one: Advice, uneven: list[str]) -> dict[str, Any]:
    return {
        "topic": one.topic, "title": one.title, "saves_ns": round(one.saves_ns), "at_most": not one.modelled,
        "estimate": one.estimate,
        "evidence": [*one.evidence, *uneven], "remedy": one.remedy, "link": one.link or None,
    }  # fmt: skip


def _left_out(subject: Subject) -> list[str]:
    """Return what else the program did between steps like these, as far as it was watched: evaluate, save, compile."""
    known = subject.facts.get("left_out_steps") or {}
    took = {why: (count, ns) for why, (count, ns) in known.get("reasons", {}).items() if ns > _ASIDE * known["watched_ns"]}
    return [
        f"not in it: {count} of {known['steps']} steps in which {why}; they took {words.duration(ns)} of the "
        f"{words.duration(known['watched_ns'])} that were watched"
        for why, (count, ns) in sorted(took.items(), key=lambda item: -item[1][1])
    ]


def _took(subject: Subject, ns: float) -> str:
    took = f"took {words.duration(ns)} while"
    return f"the program {took} it was" if subject.program else f"steps {took} they were"


def _why_shorter(subject: Subject) -> str:
    """Return why the pass that records less can be the longer one."""
    if subject.program:
        return "the machine was busy, or the program does not do the same each time"
    return (
        "they are not of one kind, or the machine was busy, and the parts may not be this step's; "
        "`kernelscope breakdown --by step` shows each"
    )


def _rough(traced_ns: float, subject: Subject) -> str:
    """Return that parts are not well known, where recording took more than the step itself."""
    return "; as it cost so much, the parts are rough estimates" if traced_ns > _ROUGH * subject.step_ns else ""


def _step(subject: Subject) -> str:
    return "program" if subject.program else "step"


def _of_recording(subject: Subject) -> list[str]:
    """Return why the parts are not of a step that was recorded as it is without recording; none where they are."""
    traced_ns = subject.facts.get("traced_step_ns")
    if not traced_ns:
        return []
    step, traced = words.duration(subject.step_ns), words.duration(traced_ns)
    if subject.growth:
        return [
            f"steps get longer as the program goes on: the parts are those of later ones, which took {traced} while they were "
            f"recorded, as shares of the median step, {step}"
        ]
    if traced_ns < _SHORTER * subject.step_ns:
        what = "the program takes" if subject.program else "steps take"
        return [
            f"{what} {traced} in the pass that the parts come from, and {step} in the one that records nothing: "
            f"{_why_shorter(subject)}"
        ]
    if traced_ns > (1 + _COST) * subject.step_ns:
        return [
            f"{_took(subject, traced_ns)} recorded; the parts are without that cost, and add up to the {_step(subject)} that was "
            f"not recorded, {step}{_rough(traced_ns, subject)}"
        ]
    return []


def _growing(subject: Subject) -> list[str]:
    """Return that the steps of a capture get longer, which their mean does not tell."""
    found = None if subject.facts else subject.growth
    if found is None:
        return []
    first, last = words.duration(found.first_ns), words.duration(found.last_ns)
    return [
        f"steps get longer from one to the next, from {first} to {last} over {found.steps}: each works through more than the one "
        "before, such as a longer text, a cache or a history"
    ]


def _notes(subject: Subject, kept: list[Advice]) -> list[str]:
    notes = [f"what computes in the layers is not told from dispatching it: {subject.untraced}"] if subject.untraced else []
    notes += _of_recording(subject)
    notes += _growing(subject)
    notes += _left_out(subject)
    threads, cores = subject.setting("threads"), subject.cores
    busy = core_use.others(subject.foreign_cores, cores)
    if subject.on_host and busy and threads and cores and threads < cores and "threads" not in [one.topic for one in kept]:
        notes.append(
            f"operators use {threads} of {cores} cores, and other processes kept {busy['others']:.2g} busy: what more threads "
            "would save is not known; a recording while nothing else runs tells"
        )
    if subject.rows["part"].isin([GRAPH]).any():
        notes.append(f"kernels inside of CUDA graphs were not recorded, and no advice is on them; {RECORD_GRAPHS} records them")
    if page_faults.TOPIC not in [one.topic for one in kept]:
        notes += page_faults.note(subject)
    if len(kept) > 1:
        notes.append("savings are estimates of each remedy alone; together they save less than their sum")
    if subject.steps and subject.per == STEPS and subject.device != "cpu":
        notes.append(f"what a step is: {subject.steps}")
    if subject.recorded_ns:
        notes.append(
            "the device idles most of the time and nothing repeats as steps do: the account is of all that was recorded, and "
            "advice, if any, of its kernels alone"
        )
        overhead_ns = subject.trace.info.get("overhead_ns") or 0
        if overhead_ns > _ASIDE * subject.recorded_ns:
            notes.append(f"{words.duration(overhead_ns)} of it were taken by the profiler itself, by its own records")
    elif subject.steps is None and subject.per != "a step" and subject.timeline:
        known = "the program was recorded as a whole" if subject.program else "nothing in the recording repeats as steps do"
        notes.append(f"{known}: all of it counts, start-up included")
        once_ns = memory.taken_once(subject)
        if once_ns > LEAST_ON_DEVICE * subject.step_ns:
            taken = words.share(subject, once_ns)
            notes.append(f"allocating, {taken}, is memory that is taken once and kept: a start-up's, not a step's")
    if not subject.timeline and not subject.recorded_ns:
        notes.append("the recording holds totals of the whole program: idle time and what runs side by side are not in it")
    return notes
