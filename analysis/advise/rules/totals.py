"""PyTorch's totals, which do not show in what order kernels run: elementwise kernels that take much of it, and attention by
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

_MUCH, _MOST = 0.3, 0.5  # of the recording
_NOTICEABLE = 0.05  # of these kernels' time
# No part of a chain, or fused already
_NO_STAGE = r"(?i)fill|zero|_foreach_|multi_tensor|_fused_|rand|dropout|distribution|::item\b|_local_scalar_dense"
_NATIVE = r"\bat::native::"  # in names of its own kernels
_COMPILED = r"^triton_|_fusion"  # in names of kernels
_EXP = r"\bexp_kernel"
_BATCHED = ("aten::bmm", "aten::baddbmm")
_SELECT, _MATRICES = "aten::select", 8  # matrices of a product, at least
_WITHOUT_PRODUCTS = "the softmax, and elementwise operators that run as often: a fused kernel does that without memory traffic"
_WITH_PRODUCTS = "all of it is a bound: a fused kernel multiplies, too, but not one by one; what it takes is not in the recording"
_PRODUCTS = 2  # for each softmax of attention
_LOSS = r"(?i)log_?softmax|nll|backward|cross_entropy"
_BESIDE = [f"aten::{name}{end}" for name in ("mul", "div", "add", "masked_fill", "where", "dropout") for end in ("", "_")]


def elementwise(subject: Subject) -> list[Advice]:
    """PyTorch's own elementwise kernels take much of the recording."""
    rows = subject.kernels(sequences.SMALL) if _is_eager(subject) else subject.rows.iloc[:0]
    operators, names = (rows[column].astype("string").fillna("") for column in ("operator", "name"))
    own = operators.str.startswith("aten::") | (rows["library"] == "aten").fillna(False) | names.str.contains(_NATIVE)
    own &= ~operators.isin([layouts.COPY, layouts.CONVERSION])  # transfers, perhaps, or casts, which have advice of their own
    rows = _launching(subject, rows[(own & ~(names + operators).str.contains(_NO_STAGE)).to_numpy(bool)])
    ns = words.time_of(rows)
    stages = rows[(rows["time_ns"] > _NOTICEABLE * ns).to_numpy(bool)]
    if len(stages) < 2 or ns < _MUCH * subject.step_ns:
        return []
    most = "most" if ns >= _MOST * subject.step_ns else "much"
    scores = _of_attention(subject)
    times = stages["time_ns"].to_numpy(float) / stages["count"].to_numpy(float)
    fused = float(times.max()) * float(stages["count"].min())
    return [
        Advice(
            "fusion",
            f"{most} of the time are elementwise kernels, which each read and write memory",
            max(ns - fused, 0.0),
            f"if all of them are parts of one chain, which totals do not show: fused, it takes as long as its longest kernel, "
            f"{words.duration(times.max())}, each time",
            [f"They take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}.", *scores],
            words.text(subject, fusion.FUSE)
            + (f"; if they are of attention: {words.text(subject, fusion.ATTEND)}" if scores else ""),
            "https://docs.pytorch.org/docs/stable/torch.compiler.html",
            words.ids(rows),
            last=True,
        )
    ]


def _of_attention(subject: Subject) -> list[str]:
    """Say that a softmax may be written out, as in attention by parts; nothing if the numbers of kernels do not fit one.

    Each has an exponential, two reductions (the maximum and the sum) and, in attention, two products around.
    """
    rows = subject.kernels(sequences.SMALL)
    number = float(rows["count"][rows["name"].astype("string").str.contains(_EXP).fillna(False).to_numpy(bool)].sum())
    reductions, products = (float(subject.kernels((kind,))["count"].sum()) for kind in ("reduction", "gemm"))
    if not number or min(reductions, products) < 2 * number or len(subject.kernels(("attention", "softmax"))):
        return []
    return [
        f"Among them are {words.count(number)} exponentials, beside {words.count(reductions)} reductions and "
        f"{words.count(products)} products: enough for attention computed piece by piece; totals do not show whether it is."
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
    if not products and _has_batched(subject):
        products, unknown = 1, True
    if not number or products < (1 if unknown else _PRODUCTS * number):
        return []
    small = subject.kernels(sequences.SMALL)
    beside = small[(small["operator"].isin(_BESIDE) & (small["count"] == number)).fillna(False).to_numpy(bool)]
    alone = _one_by_one(subject, products)
    mine = pd.concat([rows, beside, _products(subject).iloc[: None if alone else 0]])
    ns = words.time_of(mine)
    softmaxes = f"{words.count(number)} softmax{'' if number == 1 else 'es'}"
    both = "Batched products and softmaxes" if unknown else f"{words.count(products)} batched products and {softmaxes}"
    return [
        Advice(
            "attention",
            "attention seems to be computed piece by piece, and its scores go through memory",
            ns,
            _WITH_PRODUCTS if alone else _WITHOUT_PRODUCTS,
            [
                f"{both}, as attention needs, and no fused attention: "
                f"{words.share(subject, ns)} in {words.kernels(mine)}. Totals do not show their order.",
                *alone,
            ],
            words.text(subject, fusion.ATTEND),
            words.text(subject, fusion.LINKS),
            words.ids(mine),
        )
    ]


def _products(subject: Subject) -> pd.DataFrame:
    """Return the rows of batched products."""
    rows = subject.kernels(("gemm",))
    return rows[rows["operator"].isin(_BATCHED).fillna(False).to_numpy(bool)]


def _one_by_one(subject: Subject, products: float) -> list[str]:
    """Say so if a processor's batched products loop over their matrices: PyTorch then selects each of three tensors' matrices."""
    totals = subject.trace.totals
    chosen = ((totals["table"] == "operators") & (totals["name"] == _SELECT)).fillna(False).to_numpy(bool)
    selects = float(totals["count"][chosen].fillna(0).sum())
    each, rest = divmod(selects, 3 * products)
    if not subject.on_host or rest or each < _MATRICES:
        return []
    return [
        f"The batched products seem to multiply their matrices one by one, as PyTorch does in builds without MKL: {_SELECT} runs "
        f"{selects:,.0f} times, as for {each:,.0f} matrices of each of three tensors."
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


def _has_batched(subject: Subject) -> bool:
    """Return whether the device computed batched products, in a table that prints no calls of operators."""
    own: dict[str, dict[str, int]] = subject.trace.info.get("device_own") or {}
    return any(own.get(name, {}).get("ns") and not own[name]["calls"] for name in _BATCHED)


RULES: tuple[Rule, ...] = (elementwise, attention)
