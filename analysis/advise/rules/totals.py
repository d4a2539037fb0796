"""PyTorch's totals, which do not show in what order kernels run: elementwise kernels that take most of it, and attention by
parts.
"""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import sequences, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import fusion, layouts
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.trace import EXECUTIONS

_MOST = 0.5  # of the recording
_NOTICEABLE = 0.05  # of these kernels' time
# No part of a chain, or fused already
_NO_STAGE = r"(?i)fill|zero|_foreach_|multi_tensor|_fused_|rand|dropout|distribution|::item\b|_local_scalar_dense"
_COMPILED = r"^triton_|_fusion"  # in names of kernels
_BATCHED = ("aten::bmm", "aten::baddbmm")
_PRODUCTS = 2  # for each softmax of attention
_LOSS = r"(?i)log_?softmax|nll|backward|cross_entropy"
_BESIDE = [f"aten::{name}{end}" for name in ("mul", "div", "add", "masked_fill", "where", "dropout") for end in ("", "_")]


def elementwise(subject: Subject) -> list[Advice]:
    """PyTorch's own elementwise kernels take most of the recording."""
    rows = subject.kernels(sequences.SMALL) if _is_eager(subject) else subject.rows.iloc[:0]
    operators, names = (rows[column].astype("string").fillna("") for column in ("operator", "name"))
    own = operators.str.startswith("aten::") | (rows["library"] == "aten").fillna(False)
    own &= ~operators.isin([layouts.COPY, layouts.CONVERSION])  # transfers, perhaps, or casts, which have advice of their own
    rows = _launching(subject, rows[(own & ~(names + operators).str.contains(_NO_STAGE)).to_numpy(bool)])
    ns = words.time_of(rows)
    stages = rows[(rows["time_ns"] > _NOTICEABLE * ns).to_numpy(bool)]
    if len(stages) < 2 or ns < _MOST * subject.step_ns:
        return []
    times = stages["time_ns"].to_numpy(float) / stages["count"].to_numpy(float)
    fused = float(times.max()) * float(stages["count"].min())
    return [
        Advice(
            "fusion",
            "most of the time are elementwise kernels, which each read and write memory",
            max(ns - fused, 0.0),
            f"if all of them are parts of one chain, which totals do not show: fused, it takes as long as its longest kernel, "
            f"{words.duration(times.max())}, each time",
            [f"They take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}."],
            words.text(subject, fusion.FUSE),
            "https://docs.pytorch.org/docs/stable/torch.compiler.html",
            words.ids(rows),
            last=True,
        )
    ]


def _launching(subject: Subject, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without operators that only call others, as aten::square calls aten::pow.

    They are known if fewer kernels were launched than operators have time on the device: the shortest ones launch none.
    """
    launched = float(call_totals.named(call_totals.sums(subject.trace), call_totals.LAUNCHES)["count"].sum())
    if not launched or subject.trace.info.get("counted") != "operators":
        return rows
    each = (rows["time_ns"] / rows["count"]).sort_values(ascending=False, kind="stable")
    executed = rows["count"].reindex(each.index).cumsum()
    return rows[rows.index.isin(executed.index[(executed <= launched).to_numpy(bool)])]


def attention(subject: Subject) -> list[Advice]:
    """There are batched products and softmaxes in the numbers that attention needs, and no fused attention kernel."""
    if not _is_table(subject) or len(subject.kernels(("attention",))):
        return []
    rows = subject.kernels(("softmax",))
    names = rows["operator"].astype("string").fillna("") + " " + rows["name"].astype("string").fillna("")
    rows = rows[~names.str.contains(_LOSS).to_numpy(bool)]
    number, products = float(rows["count"].sum()), _batched(subject)
    unknown = EXECUTIONS in (subject.trace.info.get("unavailable") or {})
    if not number or products < (1 if unknown else _PRODUCTS * number):
        return []
    small = subject.kernels(sequences.SMALL)
    beside = small[(small["operator"].isin(_BESIDE) & (small["count"] == number)).fillna(False).to_numpy(bool)]
    mine = pd.concat([rows, beside])
    ns = words.time_of(mine)
    softmaxes = f"{words.count(number)} softmax{'' if number == 1 else 'es'}"
    both = "Batched products and softmaxes" if unknown else f"{words.count(products)} batched products and {softmaxes}"
    return [
        Advice(
            "attention",
            "attention seems to be computed piece by piece, and its scores go through memory",
            ns,
            "the softmax, and elementwise operators that run as often: a fused kernel does that without memory traffic",
            [
                f"{both}, as attention needs, and no fused attention: "
                f"{words.share(subject, ns)} in {words.kernels(mine)}. Totals do not show their order."
            ],
            words.text(subject, fusion.ATTEND),
            words.text(subject, fusion.LINKS),
            words.ids(mine),
        )
    ]


def _is_table(subject: Subject) -> bool:
    """Return whether these are totals of a PyTorch program."""
    return subject.framework == "pytorch" and not subject.timeline


def _is_eager(subject: Subject) -> bool:
    """Return whether these are totals of a PyTorch program whose kernels no compiler made."""
    names = subject.rows["name"].astype("string")
    return _is_table(subject) and not names.str.contains(_COMPILED, na=False).any()


def _batched(subject: Subject) -> float:
    """Return how often batched products were called."""
    totals = subject.trace.totals
    mine = totals[((totals["table"] == "operators") & totals["name"].isin(_BATCHED)).fillna(False).to_numpy(bool)]
    return float(mine["count"].fillna(1).sum())


RULES: tuple[Rule, ...] = (elementwise, attention)
