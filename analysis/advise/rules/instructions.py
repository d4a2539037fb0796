"""On processors: MKL that runs its code for old instructions, as it does on processors that it does not know."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_OLD = ("SSE", "SSSE")
_SAVED = 0.75


def old_instructions(subject: Subject) -> list[Advice]:
    """MKL's own line says that it runs code without AVX."""
    instructions = str(subject.trace.info.get("mkl_instructions") or "")
    rows = subject.kernels()
    rows = rows[(rows["library"] == "mkl").fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    if not instructions.startswith(_OLD) or not ns:
        return []
    return [
        Advice(
            "instructions",
            f"MKL runs its code for {instructions}, without AVX",
            _SAVED * ns,
            "three quarters of its time: AVX2 computes on twice as many numbers at once, and adds products in one instruction",
            [f"In MKL: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}."],
            "if the processor has AVX2 (lscpu), unset what limits MKL (MKL_ENABLE_INSTRUCTIONS, MKL_CBWR); on a processor that "
            "is not Intel's, use a newer MKL, OpenBLAS or AOCL-BLAS, as older versions of MKL choose this code there",
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (old_instructions,)
