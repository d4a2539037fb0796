"""Kernels whose threads keep values in local memory, as their registers do not hold them, or as they index arrays."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_MUCH = 0.1  # of the step: kernels with less are no finding
_REMEDIES = {
    "on an AMD GPU": "let a thread hold fewer values at a time (smaller tiles, less unrolling, a split kernel), index arrays by "
    "constants only, and allow more registers: __launch_bounds__; -Rpass-analysis=kernel-resource-usage of clang names what "
    "each kernel uses",
    "": "let a thread hold fewer values at a time (smaller tiles, less unrolling, a split kernel), index arrays by constants "
    "only, and allow more registers: __launch_bounds__, -maxrregcount",
}


def spills(subject: Subject) -> list[Advice]:
    """A kernel of the program's own takes much of the time, and its threads have local memory."""
    kernels = subject.trace.kernels
    own = kernels[((kernels["local_memory"] > 0) & kernels["library"].isna()).fillna(False).to_numpy(bool)]
    if own.empty:
        return []
    names = own["name"].astype("string")
    size, registers = (own[column].groupby(names).max().fillna(0).astype("int64") for column in ("local_memory", "registers"))
    rows = subject.kernels()
    rows = rows[rows["name"].isin(size.index).fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    if ns < _MUCH * subject.step_ns or not ns:
        return []
    name = str(rows.nlargest(1, "time_ns")["name"].iloc[0])
    beside = f", beside {registers[name]} registers" if registers[name] else ""
    return [
        Advice(
            "local memory",
            f"{words.kernel(name)} keeps values in memory that its registers do not hold",
            ns,
            "its whole time is a bound: how much of it are accesses to local memory, only hardware counters tell",
            [f"It takes {words.share(subject, ns)}; each thread has {size[name]:,} bytes of local memory{beside}."],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
            last=True,
        )
    ]


RULES: tuple[Rule, ...] = (spills,)
