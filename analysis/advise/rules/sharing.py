"""Another process that uses the same device."""

from __future__ import annotations

from kernelscope.analysis.accounting.device_account import INTERRUPTED
from kernelscope.analysis.accounting.interruptions import interruptions
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_REMEDY = (
    "give each process a device of its own (CUDA_VISIBLE_DEVICES); if they must share one, start NVIDIA's MPS "
    "(nvidia-cuda-mps-control -d)"
)


def interrupted(subject: Subject) -> list[Advice]:
    """Kernels last about one time slice longer than others of their kind: another process had the device."""
    rows = subject.part(INTERRUPTED)
    ns = words.time_of(rows)
    found = interruptions(subject.trace) if ns else None
    if found is None:
        return []
    return [
        Advice(
            "shared device",
            "another process uses the same device: kernels are interrupted",
            ns,
            "all of it, if no other process uses the device",
            [
                f"{words.share(subject, ns)} {subject.per}: {float(rows['count'].sum()):.3g} kernels were interrupted for about "
                f"{words.duration(found.usual_ns)} each, as long as a time slice; others of the same kernel and grid were not."
            ],
            _REMEDY,
            "https://docs.nvidia.com/deploy/mps/index.html",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (interrupted,)
