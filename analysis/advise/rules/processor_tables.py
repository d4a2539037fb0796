"""PyTorch's printed totals of a processor: the program's own code between operators, and products in float32."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.formats.torch_table.rows import MEMORY_CALLS
from kernelscope.analysis.trace import MAIN, UNLISTED

_MUCH = 0.2  # of the time
_MOST = 0.5  # likewise
_DISPATCH = 100_000  # ns outside of operators for each of them: Python calls a layer in less
_MANY = 50  # operators: fewer are no model
_HALF = 0.5  # bfloat16's peak rate is twice that of float32, or more
_WRAPS = 0.1  # of the longest execution: an operator that takes less itself only calls others
OUTSIDE = "the program's own code"
_BACKWARD = r"(?i)backward|^Optimizer\."
_ELSEWHERE = (
    "compute there with the tensors' own operators, on the device if they are there (torch.nonzero instead of numpy.argwhere), "
    "and copy no tensor to the host and back; record with_stack=True, or use line_profiler on the code in the range, to see its "
    "lines"
)
_COMPILE = {
    "pytorch, compiled": "what is outside of compiled code still runs in Python: TORCH_LOGS=graph_breaks shows where it breaks",
    "pytorch": "torch.compile(model), or torch.jit.freeze(torch.jit.script(model)) for inference: they run operators without "
    "Python and fuse small ones; torch.inference_mode()",
    "": "compile the program",
}
_BFLOAT16 = (
    "if the processor has bfloat16 instructions (lscpu: avx512_bf16, amx_bf16, bf16) and the results allow it: "
    "torch.autocast('cpu', dtype=torch.bfloat16); on Arm, DNNL_DEFAULT_FPMATH_MODE=BF16 in the environment does so without "
    "changing the program, unless it is set already"
)


def is_table(subject: Subject) -> bool:
    """Return whether a recording is a printed table of operators on a processor."""
    printed = (subject.trace.info.get("source") or {}).get("format") == "torch-table"
    return printed and subject.on_host and not subject.timeline


def outside(subject: Subject) -> pd.DataFrame:
    """Return the rows of a printed table that are ranges or functions: their time outside of operators."""
    rows = subject.kernels()
    if not is_table(subject):
        return rows.iloc[:0]
    totals = subject.trace.totals
    ranges = totals["name"][(totals["table"] == "ranges").fillna(False).to_numpy(bool)]
    return rows[((rows["kind"] == "unknown") & rows["name"].isin(ranges)).fillna(False).to_numpy(bool)]


def own_code(subject: Subject) -> list[Advice]:
    """Much of the time is in the program's own code, between operators."""
    rows = outside(subject)
    ns = words.time_of(rows)
    if ns < _MUCH * subject.step_ns or not ns:
        return []
    others = subject.kernels().drop(index=rows.index)
    calls = others["name"].astype("string").str.contains(MEMORY_CALLS).fillna(False).to_numpy(bool)
    listed = (others["name"] != UNLISTED).fillna(True).to_numpy(bool)
    called = float(others["count"][listed & ~calls].sum())
    small = called >= _MANY and ns <= _DISPATCH * called
    title = "much of the time is Python between many small operators" if small else _title(subject, ns)
    each = f"The table lists {words.count(called)} calls of operators, so this is {words.duration(ns / max(called, 1))} a call."
    copies = words.time_of(others[calls])
    return [
        Advice(
            "python",
            title,
            ns,
            "all of it, if the program spends no time between operators",
            [
                f"Outside of operators: {words.share(subject, ns)} in the program's ranges, {words.kernels(rows)}: Python, "
                "NumPy, other libraries.",
                each,
                *([f"The host copies to or from a device, or waits for it, for {words.share(subject, copies)}."] * bool(copies)),
            ],
            words.text(subject, _COMPILE) if small else _ELSEWHERE,
            "https://docs.pytorch.org/docs/stable/torch.compiler.html" if small else "",
            words.ids(rows),
        )
    ]


def _title(subject: Subject, ns: float) -> str:
    part = "most" if ns > _MOST * subject.step_ns else "much"
    return f"{part} of the time is the program's own, outside of PyTorch's operators"


def bfloat16(subject: Subject) -> list[Advice]:
    """Products take most of an inference on a processor; the table does not tell types, so the advice is conditional."""
    rows = subject.kernels(MAIN) if is_table(subject) else subject.rows.iloc[:0]
    ns = words.time_of(rows)
    names = pd.concat([subject.trace.totals["name"], subject.rows["name"]]).astype("string")
    if ns < _MOST * subject.step_ns or not ns or names.str.contains(_BACKWARD).fillna(False).any():
        return []
    each = rows["time_ns"] / rows["count"]
    rows = rows[(each >= _WRAPS * each.max()).to_numpy(bool)]
    ns = words.time_of(rows)
    return [
        Advice(
            "mixed precision",
            "products take most of the time; if they compute in float32, bfloat16 may halve it",
            ns * _HALF,
            "half of their time, if the processor computes in bfloat16 at twice the rate of float32",
            [f"Products: {words.share(subject, ns)}, {words.kernels(rows)}. The table does not tell their types."],
            _BFLOAT16,
            "https://docs.pytorch.org/docs/stable/amp.html",
            words.ids(rows),
            last=True,
        )
    ]


RULES: tuple[Rule, ...] = (own_code, bfloat16)
