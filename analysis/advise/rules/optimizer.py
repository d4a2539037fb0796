"""The optimizer: a kernel for each parameter and operation, although a few kernels would do."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.accounting.device_account import COMPUTE
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_MANY = 20  # kernels a step
_ONE_BY_ONE = "the optimizer updates parameters one by one"
_FUSED = re.compile(
    r"(?i)multi_tensor|_foreach_|_fused_|FusedOptimizer|fused_?adam|multi_\w*_update|multi_tensor_apply"
    r"|_fusion(?:_\d+)?\b|^triton_"  # compilers make one kernel of all operations on a parameter
)

# Gradients of lookups, which TensorFlow adds up by entry before the update: one for each table, not for each parameter
_OF_LOOKUPS = re.compile(r"UnsortedSegment|SparseSegment|IndexedSlices|ScatterNd")
# On processors, PyTorch's foreach functions compute tensor by tensor
_LISTED = r"_foreach_"
_ZEROING = ("aten::zero_", "aten::_foreach_zero_", "aten::fill_")
_STEP = r"^Optimizer\.step#(\w+)\.step$"  # the range that PyTorch's optimizers open
_TENSOR_BY_TENSOR = "foreach=True, which is on, computes tensor by tensor on processors"
# What updates of Adam and SGD consist of, with a parameter and its averages
_OF_UPDATES = [f"aten::{name}" for name in ("sqrt", "addcdiv_", "addcmul_", "mul_", "add_", "lerp_", "div_", "div", "add", "mul")]
_EACH = 2  # operators of a kind for each update, at least: one for each parameter
_MOSTLY = 0.5  # of the updates' time
_FUSABLE = ("Adagrad", "Adam", "AdamW", "SGD")

_REMEDIES = {
    "pytorch": "fused=True (or foreach=True) of torch.optim's optimizers",
    "tensorflow": "apply gradients inside tf.function, with the optimizer's jit_compile=True",
    "tensorflow 1": "XLA fuses the update's operators (global_jit_level in tf.ConfigProto)",
    "mxnet": "gluon.Trainer with an optimizer that aggregates (MXNET_OPTIMIZER_AGGREGATION_SIZE)",
    "": "an optimizer that updates all parameters in few kernels",
}
# If the update itself is few kernels: for what is done besides it
_BESIDE = {
    "pytorch": "clip_grad_norm_(..., foreach=True), and torch._foreach_* functions instead of loops over parameters; for an "
    "average of weights torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))",
    "": "operations on all parameters at once instead of loops over them",
}


def many_kernels(subject: Subject) -> list[Advice]:
    """The update of the parameters consists of many small kernels."""
    if str(subject.setting("execution") or "").startswith("graph"):
        return []  # the graph's executor launches these without Python
    rows = subject.rows[(subject.rows["phase"] == "optimizer").fillna(False).to_numpy(bool)]
    computing = rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    names = computing["name"].fillna("") + " " + computing["operator"].fillna("")
    listed = names.str.contains(_LISTED).to_numpy(bool) & subject.on_host
    fused = names.str.contains(_FUSED).to_numpy(bool) & ~listed
    loose = computing[~(fused | names.str.contains(_OF_LOOKUPS).to_numpy(bool))]
    number = float(loose["count"].sum())
    # next to an update in few kernels, many small ones are its step counters
    if number < _MANY or words.time_of(loose) < words.time_of(computing[fused]):
        return []
    passes = max(loose["name"].fillna(loose["operator"]).map(words.kernel).nunique(), 1)
    kernel_ns, host_ns = words.time_of(loose), words.time_of(rows) - words.time_of(computing)
    saves = kernel_ns * (1 - 1 / passes) + host_ns * (1 - passes / number)
    beside = bool(fused.any())
    return [
        Advice(
            "optimizer",
            "parameters are changed one by one, besides the optimizer's update" if beside else _ONE_BY_ONE,
            saves,
            f"one pass over memory instead of {passes} kernels for an update, and no launch for each parameter",
            [
                f"{words.count(number)} kernels {subject.per} take {words.share(subject, kernel_ns)}, and nothing computes for "
                f"{words.duration(host_ns)} around them: {words.kernels(loose)}."
            ],
            words.text(subject, _BESIDE if beside else {**_REMEDIES, **_of_class(subject, bool(listed.any()))}),
            "https://docs.pytorch.org/docs/stable/optim.html" if subject.framework == "pytorch" else "",
            words.ids(rows),
            modelled=True,
        )
    ]


def in_totals(subject: Subject) -> list[Advice]:
    """In a table of PyTorch's totals on processors, the update of the parameters takes long, operator by operator."""
    totals = subject.trace.totals
    updates = totals[totals["name"].astype("string").str.extract(_STEP)[0].notna().to_numpy(bool)]
    rows = subject.kernels()
    operators = rows["operator"].astype("string").fillna("")
    if subject.timeline or not subject.on_host or updates.empty or operators.str.contains(_FUSED).any():
        return []
    steps, ns = float(updates["count"].sum()), float(updates["duration_ns"].sum())
    rows = rows[(operators.isin(_OF_UPDATES) & (rows["count"] >= _EACH * steps)).to_numpy(bool)]
    most = words.time_of(rows)
    if most < _MOSTLY * ns:
        return []
    return [
        Advice(
            "optimizer",
            _ONE_BY_ONE,
            min(ns, most),
            "the update's operators; a fused update still passes once over the parameters",
            [
                f"{words.count(steps)} updates take {words.share(subject, ns)} in all. Operators such as an update's, which run "
                f"several times for each: {words.kernels(rows)}; some of them may be elsewhere."
            ],
            words.text(subject, {**_REMEDIES, **_of_class(subject, False)}),
            "https://docs.pytorch.org/docs/stable/optim.html",
            words.ids(rows),
        )
    ]


def zeroed(subject: Subject) -> list[Advice]:
    """Gradients are filled with zeros before each backward pass, which then adds to them."""
    rows = subject.rows[(subject.rows["phase"] == "optimizer").fillna(False).to_numpy(bool)]
    rows = rows[rows["operator"].isin(_ZEROING).to_numpy(bool)]
    ns = words.time_of(rows)
    if rows.empty or subject.framework != "pytorch":
        return []
    return [
        Advice(
            "zeroed gradients",
            "gradients are filled with zeros in each step",
            ns,
            "all of it: the backward pass writes a dropped gradient instead of adding to it",
            [f"Filling them takes {words.share(subject, ns)} {subject.per}."],
            "optimizer.zero_grad(set_to_none=True), which is the default since PyTorch 2.0",
            "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
            words.ids(rows),
        )
    ]


def _of_class(subject: Subject, listed: bool) -> dict[str, str]:
    """Return the remedy for the optimizer that the recording names; for any PyTorch optimizer if it names none, or several.

    listed: whether foreach is on, although it computes tensor by tensor.
    """
    tables = (subject.trace.ranges, subject.trace.operators, subject.trace.totals)
    names = pd.concat([pd.Series(table["name"].unique()) for table in tables])
    found = set(names.astype("string").str.extract(_STEP)[0].dropna())
    if len(found) != 1:
        return {"pytorch": f"fused=True of torch.optim's optimizers: {_TENSOR_BY_TENSOR}"} if listed else {}
    name = found.pop()
    if listed:
        remedy = f"torch.optim.{name}(..., fused=True)" if name in _FUSABLE else "torch.compile(optimizer.step)"
        return {"pytorch": f"{remedy}: {_TENSOR_BY_TENSOR}"}
    option = "fused=True (or foreach=True)" if name in _FUSABLE else "foreach=True"
    return {"pytorch": f"torch.optim.{name}(..., {option}), if it is PyTorch's own"}


RULES: tuple[Rule, ...] = (many_kernels, in_totals, zeroed)
