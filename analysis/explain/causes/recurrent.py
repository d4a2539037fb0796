"""Recurrent layers: run cell by cell on one side, with a fused kernel for the whole sequence on the other."""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.layer_names import module_of
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

CAUSE = "recurrent layer cell by cell"

_FUSED = {
    "pytorch": "use torch.nn.LSTM, GRU or RNN for the whole sequence instead of LSTMCell in a loop",
    "tensorflow": "use keras.layers.LSTM with its default activations and no unroll",
    "mxnet": "use gluon.rnn.LSTM (operator RNN) instead of gluon.rnn.LSTMCell.unroll",
    "cntk": "use C.layers.optimized_rnnstack (GPU) instead of C.layers.Recurrence",
    "": "use the framework's layer for whole sequences, which calls a fused kernel",
}
_NO_KERNEL = (
    "PyTorch has a fused kernel for LSTM on processors (oneDNN) but none for GRU and RNN: use torch.nn.LSTM, or count this as "
    "the price of the change"
)
_CELL = ("gemm", "elementwise", "activation")
_KINDS = ("gemm", "elementwise", "activation", "copy", "layout", "reduction")
_CELL_CLASS = ("LSTMCell", "GRUCell", "RNNCell")
_RECURRENT = ("lstm", "gru", "rnn", "recurrent")
LEAST_CELLS = 8.0  # products per step: fewer may belong to the layers around them


def unrolled(case: Case) -> list[Suspicion]:
    """Layers that one side runs with a fused kernel and the other with many kernels for each time step."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if ev.unrolled(group) == (slow, fast)]
        claims = ev.merged(ev.claim(case, group, ("recurrent", *_KINDS)) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        loops = sum(group.count(slow, _CELL) for group in chosen)
        fused = sum(group.count(fast, ["recurrent"]) for group in chosen)
        example = ev.largest(chosen)
        sentences = [
            f"{ev.name(case, slow)}: {ev.number(loops)} products, activations and elementwise kernels per step in "
            f"{ev.layers(chosen)}, such as {ev.executions(example.kernels(slow, _CELL))}",
            f"{ev.name(case, fast)}: {ev.number(fused)} fused kernels, {ev.executions(example.kernels(fast, ['recurrent']))}",
        ]
        classes = {side: sorted({_class(case, side, group.layer) for group in chosen} - {""}) for side in SIDES}
        of = {side: f" ({' and '.join(classes[side])})" if classes["a"] != classes["b"] else "" for side in SIDES}
        other = f"{ev.name(case, fast)}{of[fast]} by a fused kernel"
        title = f"{ev.name(case, slow)} runs {ev.layers(chosen)}{of[slow]} cell by cell, {other}"
        unfused = ev.framework(case, slow) == "pytorch" and classes[slow] and {*classes[slow]} <= {"GRU", "RNN"}
        remedy = _NO_KERNEL if unfused else ev.remedy(case, slow, _FUSED)
        result.append(Suspicion(CAUSE, title, claims, "high", sentences, remedy))
    return result


def _class(case: Case, side: str, layer: str) -> str:
    """Return the class of the module that a layer is; empty if unknown."""
    modules = (case.a if side == "a" else case.b).trace.info.get("modules") or []
    return next((str(module["type"]) for module in modules if module["name"] == layer), "")


def loops(case: Case) -> dict[str, set[str]]:
    """Return, by side, the layers that are a recurrent cell called for each time step while the other side has a fused kernel.

    The layers with that kernel are included. Empty for a side that does not do this.
    """
    result: dict[str, set[str]] = {"a": set(), "b": set()}
    for slow, fast in (("b", "a"), ("a", "b")):
        side = case.a if slow == "a" else case.b
        cells = {str(one["name"]) for one in side.trace.info.get("modules") or [] if str(one["type"]).endswith(_CELL_CLASS)}
        called = {match.label for match in case.matches if cells & {module_of(name) for name in getattr(match, slow)}}
        fused = {
            group.layer
            for group in ev.groups(case)
            if group.count(fast, ["recurrent"]) >= ev.ONCE > group.count(slow, ["recurrent"])
        }
        if case.same_framework and called and fused:
            result[slow] = called | fused
    return result


def looped_cells(case: Case) -> list[Suspicion]:
    """A recurrent cell that one side calls for each time step, in place of a layer that the other runs with a fused kernel."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        labels = loops(case)[slow]
        chosen = [group for group in ev.candidates(case) if group.layer in labels]
        claims = ev.merged(ev.whole(group) for group in chosen)
        if not labels or ev.slower(claims, chosen) != (slow, fast):
            continue
        kernels = {side: sum(group.count(side, ("recurrent", *_KINDS)) for group in chosen) for side in SIDES}
        times = {side: sum(int(group.rows[f"{side}_ns"].sum()) for group in chosen) for side in SIDES}
        sentences = [
            f"{ev.name(case, side)}: {ev.number(kernels[side])} kernels per step, {ev.duration(times[side])} with the host's part"
            for side in (slow, fast)
        ]
        fused = ev.listed(sorted({group.layer.split(" = ")[0] for group in chosen if group.count(fast, ["recurrent"])}))
        other = f"{ev.name(case, fast)} runs {fused} by a fused kernel"
        title = f"{ev.name(case, slow)} calls a recurrent cell for each time step, {other}"
        result.append(Suspicion(CAUSE, title, claims, "high", sentences, ev.remedy(case, slow, _FUSED)))
    return result


def slower_cells(case: Case) -> list[Suspicion]:
    """Recurrent layers that two frameworks both run cell by cell, one of them with slower or more kernels."""
    if case.same_framework:
        return []
    labels = _recurrent_labels(case)
    chosen = [group for group in ev.candidates(case) if group.layer in labels and all(_looped(group, side) for side in SIDES)]
    claims = ev.merged({str(row): float(ns) for row, ns in group.rows["delta_ns"].items()} for group in chosen)
    sides = ev.slower(claims, chosen)
    if sides is None:
        return []
    slow = sides[0]
    example = ev.largest(chosen)
    texts, sentences = [], []
    for side in sides:
        count = round(sum(group.count(side, _KINDS) for group in chosen))
        texts.append(f"{ev.name(case, side)} by {count} kernels per step")
        ran = ev.executions(example.kernels(side, _KINDS))
        sentences.append(f"{ev.place(example)}, {ev.name(case, side)}: {ran}, {ev.duration(example.time_ns(side, _KINDS))}")
    title = (
        f"{ev.name(case, slow)} takes longer for the cells of {ev.layers(chosen)}; both run cell by cell, {' and '.join(texts)}"
    )
    remedy = ev.remedy(case, slow, _FUSED)
    return [Suspicion(CAUSE, title, claims, "medium", sentences, remedy)]


def _recurrent_labels(case: Case) -> set[str]:
    """Return the labels of layers that either side calls recurrent."""
    kinds = {layer.name for side in (case.a, case.b) for layer in side.layers if (layer.type or "").lower() in _RECURRENT}
    return {match.label for match in case.matches if kinds & {*match.a, *match.b}}


def _looped(group: ev.RowGroup, side: str) -> bool:
    """Return whether a side runs a group with many products and no fused kernel."""
    return group.count(side, ["gemm"]) >= LEAST_CELLS and group.count(side, ["recurrent"]) < ev.ONCE


RULES: tuple[Rule, ...] = (unrolled, looped_cells, slower_cells)
