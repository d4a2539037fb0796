"""Notes beside advice: what of a recording the account leaves out, what recording changed, and how steps were found."""

from __future__ import annotations

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import GRAPH
from kernelscope.analysis.advise import longest_gaps, words
from kernelscope.analysis.advise.model import LEAST_ON_DEVICE, Advice
from kernelscope.analysis.advise.rules import (
    copies,
    counters,
    first_executions,
    functions,
    host_calls,
    line_profiles,
    long_kernels,
    mapped,
    memory,
    onnx_graph,
    oversubscription,
    page_faults,
)
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.formats.nsys import RECORD_GRAPHS
from kernelscope.analysis.recordings import core_use

_SHORTER = 0.75  # times the clean step: recording adds time, so a recorded step this much shorter was of another kind
_ROUGH = 2.0  # times the clean step: recording cost as much as the step itself
_OTHER, _OTHER_NS = 20.0, 20_000_000  # times the clean step, and at least: no recording costs that, so it was of other steps
_COST = 0.1  # of the clean step: a larger cost of recording is noted
_ASIDE = 0.05  # of the time that a program was watched: left-out steps that took longer are noted
_LARGE = 0.05  # of the device's work: what runs outside of the steps and takes longer is noted
_OF_CAPTURE = "a graph is captured here, and nothing runs meanwhile: record its replays to see where steps spend their time"
_OF_STACKS = (
    "recorded with Python's functions (with_stack), which slows the host: record without them before you act on host times"
)
_OF_HOST = ("host-bound", "synchronisation", "input pipeline", "python")
_CAPTURED = 0.5  # of a recording: then there is no advice on its other half


def notes(subject: Subject, kept: list[Advice]) -> list[str]:
    """Return what a reader must know of a recording and of the advice on it; kept: the advice that is given."""
    result = [f"within layers, computing cannot be separated from dispatch: {subject.untraced}"] if subject.untraced else []
    result += [_OF_CAPTURE] if mostly_captures(subject) else []
    result += [_OF_STACKS] if _has_stacks(subject) and any(one.topic in _OF_HOST for one in kept) else []
    result += _of_recording(subject)
    result += _growing(subject)
    result += _left_out(subject)
    threads, cores = subject.setting("threads"), subject.cores
    busy = core_use.others(subject.foreign_cores, cores)
    if subject.on_host and busy and threads and cores and threads < cores and "threads" not in [one.topic for one in kept]:
        result.append(
            f"operators use {threads} of {cores} cores, and other processes kept {busy['others']:.2g} busy: what more threads "
            "would save is not known; record again while nothing else runs"
        )
    result += oversubscription.notes(subject)
    if subject.rows["part"].isin([GRAPH]).any():
        result.append(f"kernels inside CUDA graphs were not recorded, so no advice covers them; {RECORD_GRAPHS} records them")
    if page_faults.TOPIC not in [one.topic for one in kept]:
        result += page_faults.note(subject)
    if len(kept) > 1:
        result.append("each saving is estimated on its own; together they save less than their sum")
    if subject.steps and subject.per == STEPS and subject.device != "cpu":
        result.append(f"how steps were found: {subject.steps}")
    result += _of_no_steps(subject)
    result += _outside_of_steps(subject)
    if "host-bound" not in [one.topic for one in kept]:
        result += host_calls.tiny(subject)
    result += host_calls.first_use(subject)
    result += long_kernels.notes(subject, kept)
    result += longest_gaps.on_host(subject)
    result += copies.loading(subject)
    result += copies.sets(subject)
    result += first_executions.notes(subject)
    result += mapped.notes(subject)
    result += counters.notes(subject)
    result += onnx_graph.notes(subject)
    result += line_profiles.notes(subject)
    result += functions.notes(subject)
    if not subject.timeline and len(subject.trace.metrics):
        result += [str(note) for note in subject.trace.info.get("notes") or []]
    elif not subject.timeline and not subject.recorded_ns:
        result.append(f"the recording holds {_totals(subject)}: it does not show idle time, nor what runs concurrently")
        told = subject.trace.info.get("iteration") or subject.trace.info.get("counted") == "functions"
        result += [str(note) for note in subject.trace.info.get("notes") or []] if told else []
    return result


def _totals(subject: Subject) -> str:
    """Return what the totals of a recording are of."""
    iteration = subject.trace.info.get("iteration")
    return f"the layers of an iteration ({iteration})" if iteration else "totals of the whole program"


def mostly_captures(subject: Subject) -> bool:
    """Return whether most of a recording is the capture of a CUDA or HIP graph, in which nothing runs."""
    return words.time_of(subject.idle((idle_causes.CAPTURING,))) > _CAPTURED * subject.step_ns


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
    if traced_ns > max(_OTHER * subject.step_ns, _OTHER_NS) and not subject.program:
        return [
            f"steps took {traced} while recorded, {traced_ns / subject.step_ns:,.0f} times the clean step, {step}, which is more "
            "than recording costs: the parts seem to be of another loop of the program, and the time of the first; record each "
            "loop by itself with --steps A:B"
        ]
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


def _outside_of_steps(subject: Subject) -> list[str]:
    """Say what takes longest outside of the steps, if it takes much of the device's time: copies of one kind, or one kernel."""
    if subject.per != STEPS or subject.on_host or not subject.timeline:
        return []
    tables = []
    for table in (subject.trace.kernels, subject.trace.copies):
        mine = table["start_ns"].notna() & (table["device"] == subject.device).fillna(False)
        tables.append(table[mine.to_numpy(bool)])
    kernels, moves = (table[~device_steps.measured(subject.trace, table)] for table in tables)
    kernels = kernels[(kernels["kind"] != "communication").fillna(True).to_numpy(bool)]  # that waits for other ranks
    whole = float(sum(table["duration_ns"].sum() for table in tables))
    memory = moves["memory"].astype("string")
    moved = moves.groupby(moves["operation"].astype("string") + (", " + memory).fillna(""))["duration_ns"].sum()
    longest = kernels["duration_ns"].max() if len(kernels) else 0
    if max(longest, moved.max() if len(moved) else 0) <= _LARGE * whole:
        return []
    if len(moved) and moved.max() >= longest:
        what, ns = f"copies ({moved.idxmax()}) take", float(moved.max())
    else:
        row = kernels.iloc[int(kernels["duration_ns"].to_numpy(float).argmax())]
        what, ns = f"one execution of {words.kernel(row['name'])} takes", float(longest)
    return [f"outside of the steps, {what} {words.duration(ns)}, {ns / whole:.0%} of the device's work"]
