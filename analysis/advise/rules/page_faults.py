"""Page faults of unified memory that kernels wait for."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.explain.device.causes import faults
from kernelscope.analysis.trace import page_faults

TOPIC = "page faults"
_SHARE = 0.1  # of the kernels' time
_LINK = "https://developer.nvidia.com/blog/unified-memory-cuda-beginners/"


def waits(subject: Subject) -> list[Advice]:
    """For a large share of their time, kernels wait until pages are moved to their device or mapped there."""
    found = page_faults.of_device(subject.trace, subject.device)
    rows = subject.kernels()
    ns = words.time_of(rows)
    if found is None or not found.ns or found.ns < _SHARE * ns:
        return []
    within = "which includes these waits" if found.ns <= ns else "which cannot include all of that"
    of_cpu = [f"The CPU had {found.of_cpu:,} page faults."] if found.of_cpu else []
    return [
        Advice(
            TOPIC,
            "kernels wait for page faults of unified memory",
            min(found.ns, ns),
            "the time spent serving page faults; it does not deduct the time to move the pages in advance",
            [f"Page faults take {faults.groups(found)}; kernels take {words.duration(ns)}, {within}.", *of_cpu],
            faults.remedy(subject.trace),
            _LINK,
            words.ids(rows),
        )
    ]


def migrations(subject: Subject) -> list[Advice]:
    """Pages of unified memory are moved to the device bit by bit, while kernels wait for them."""
    moves, rows = subject.migrations, subject.kernels()
    ns = 0.0 if moves.empty else float(moves["duration_ns"].sum())
    if moves.empty or ns < _SHARE * words.time_of(rows):
        return []
    count, moved = float(moves["count"].sum()), float(moves["bytes"].sum())
    each = words.size(moved / count) if moved else words.duration(ns / count)
    return [
        Advice(
            TOPIC,
            "kernels wait while pages of unified memory are moved to the device",
            min(ns, words.time_of(rows)),
            "the time of these moves, which are part of the kernels' time; in advance and in large pieces they take less",
            [
                f"{words.count(count)} moves of {each} on average take {words.duration(ns)} within the "
                f"{words.duration(words.time_of(rows))} of kernels: so many small ones answer page faults."
            ],
            faults.remedy(subject.trace),
            _LINK,
            words.ids(rows),
        )
    ]


def first_touch(subject: Subject) -> list[Advice]:
    """In totals, one execution of a kernel takes far longer than its others, where unified memory is allocated and not moved
    ahead; the recording must lack the page faults themselves.
    """
    found = page_faults.of_device(subject.trace, subject.device)
    calls = call_totals.sums(subject.trace)
    managed = len(call_totals.named(calls, faults.MANAGED)) and not faults.prefetches(subject.trace)
    if subject.timeline or found is None or found.groups or found.remote or not managed or len(subject.trace.copies):
        return []
    kernels = subject.trace.kernels
    known = kernels[((kernels["count"] > 1) & kernels["min_ns"].notna() & kernels["max_ns"].notna()).to_numpy(bool)]
    told = []
    for row in known.to_dict("records"):
        longest, shortest = float(row["max_ns"]), float(row["min_ns"])
        others = (float(row["duration_ns"]) - longest) / (float(row["count"]) - 1)
        if longest >= faults.OUTLIER * shortest and longest >= faults.OUTLIER * others:
            told.append(_of_first_touch(subject, str(row["name"]), longest, others))
    return told


def _of_first_touch(subject: Subject, name: str, longest: float, others: float) -> Advice:
    rows = subject.kernels()
    mine = rows[(rows["name"] == name).fillna(False).to_numpy(bool)]
    evidence = (
        f"The longest execution takes {words.duration(longest)}, the others {words.duration(others)} on average; the program "
        "calls cudaMallocManaged, and nothing that moves data ahead. Page faults were not recorded."
    )
    estimate = "what it takes longer than the others; it does not deduct the time to move the pages in advance"
    title = f"one execution of {words.kernel(name)} waits, as for page faults of unified memory at its first use"
    return Advice(TOPIC, title, longest - others, estimate, [evidence], faults.remedy(subject.trace), _LINK, words.ids(mine))


def apart(subject: Subject) -> tuple[float, list[str]]:
    """Return the share of the kernels' time that is not page faults, and say so if that is not all: only this part gets shorter
    with faster arithmetic.

    Totals do not tell which kernels wait, so all are taken to wait alike.
    """
    found = page_faults.of_device(subject.trace, subject.device)
    ns = words.time_of(subject.kernels())
    if found is None or not found.ns or found.ns < _SHARE * ns:
        return 1.0, []
    return max(1 - found.ns / ns, 0.0), [f"Of the kernels' time, {words.duration(found.ns)} are page faults, which stay as long."]


def note(subject: Subject) -> list[str]:
    """Note page faults that are too few for advice, and memory that stays on the host; nothing if there are neither."""
    found = page_faults.of_device(subject.trace, subject.device)
    if found is None or subject.on_host:
        return []
    notes = (
        [f"kernels wait for page faults of unified memory, {faults.groups(found)}: a small part of their time"]
        if found.ns
        else []
    )
    far = f"{found.remote:,} mapping{'' if found.remote == 1 else 's'} of memory that stays on the host"
    return notes + (
        [f"{far}: kernels that read it often are slow; cudaMemPrefetchAsync moves it to the device"] * bool(found.remote)
    )


RULES: tuple[Rule, ...] = (waits, migrations, first_touch)
