"""Page faults of unified memory, for which kernels wait."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.explain.device.causes.faults import groups, remedy
from kernelscope.analysis.trace import page_faults

TOPIC = "page faults"
_SHARE = 0.1  # of the kernels' time
_LINK = "https://developer.nvidia.com/blog/unified-memory-cuda-beginners/"


def waits(subject: Subject) -> list[Advice]:
    """Kernels wait for a good part of their time until pages are moved to their device or mapped there."""
    found = page_faults.of_device(subject.trace, subject.device)
    rows = subject.kernels()
    ns = words.time_of(rows)
    if found is None or not found.ns or found.ns < _SHARE * ns:
        return []
    within = "these waits included" if found.ns <= ns else "in which not all of that can be"
    of_cpu = [f"The CPU had {found.of_cpu:,} page faults."] if found.of_cpu else []
    return [
        Advice(
            TOPIC,
            "kernels wait for page faults of unified memory",
            min(found.ns, ns),
            "the time in which page faults are served, without the time that moving the pages ahead takes",
            [f"Page faults take {groups(found)}; kernels take {words.duration(ns)}, {within}.", *of_cpu],
            remedy(subject.trace),
            _LINK,
            words.ids(rows),
        )
    ]


def note(subject: Subject) -> list[str]:
    """Return that kernels wait for page faults, too little for advice; nothing where none are told."""
    found = page_faults.of_device(subject.trace, subject.device)
    if found is None or not found.ns or subject.on_host:
        return []
    return [f"kernels wait for page faults of unified memory, {groups(found)}: a small part of their time"]


RULES: tuple[Rule, ...] = (waits,)
