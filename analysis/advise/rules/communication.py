"""Communication between devices that nothing hides."""

from __future__ import annotations

from kernelscope.analysis.accounting.device_account import COMMUNICATION
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_REMEDIES = {
    "pytorch": "overlap it with the backward pass: DistributedDataParallel(bucket_cap_mb=..., gradient_as_bucket_view=True, "
    "static_graph=True); fewer synchronisations with no_sync() and accumulation; gradients in bfloat16 (comm hooks)",
    "": "overlap it with the backward pass, send larger pieces, or send half-precision gradients",
}


def exposed(subject: Subject) -> list[Advice]:
    """Devices exchange data and compute nothing meanwhile."""
    rows = subject.part(COMMUNICATION)
    ns = words.time_of(rows)
    whole = float(rows["duration_ns"].sum())
    return [
        Advice(
            "communication",
            "communication between devices is not hidden behind computation",
            ns,
            "all of it, where it runs beside the backward pass; waiting for a slower rank is in it",
            [
                f"Nothing computes beside {words.share(subject, ns)} {subject.per} of {words.ms(whole)} of communication: "
                f"{words.kernels(rows)}."
            ],
            words.text(subject, _REMEDIES),
            "https://docs.pytorch.org/docs/stable/notes/ddp.html" if subject.framework == "pytorch" else "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (exposed,)
