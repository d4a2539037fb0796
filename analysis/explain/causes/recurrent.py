"""Recurrent layers: run cell by cell on one side, by a fused kernel for the whole sequence on the other."""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

_FUSED = {
    "pytorch": "use torch.nn.LSTM, GRU or RNN for the whole sequence in place of LSTMCell in a loop",
    "tensorflow": "use keras.layers.LSTM with its default activations and no unroll; jit_compile=True fuses the rest",
    "mxnet": "use gluon.rnn.LSTM (operator RNN) in place of gluon.rnn.LSTMCell.unroll",
    "cntk": "use C.layers.optimized_rnnstack (GPU) in place of C.layers.Recurrence",
    "": "use the framework's layer for whole sequences, which calls a fused kernel",
}
_CELL = ("gemm", "elementwise", "activation")
_KINDS = ("gemm", "elementwise", "activation", "copy", "layout", "reduction")
_RECURRENT = ("lstm", "gru", "rnn", "recurrent")
LEAST_CELLS = 8.0  # products per step: fewer may be those of the layers around


def unrolled(case: Case) -> list[Suspicion]:
    """Layers that one side runs by a fused kernel and the other by many kernels for each time step."""
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
        title = f"{ev.name(case, slow)} runs {ev.layers(chosen)} cell by cell, {ev.name(case, fast)} by a fused kernel"
        result.append(Suspicion("recurrent layer cell by cell", title, claims, "high", sentences, ev.remedy(case, slow, _FUSED)))
    return result


def slower_cells(case: Case) -> list[Suspicion]:
    """Recurrent layers that two frameworks both run cell by cell, and one of them by slower or more kernels."""
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
        sentences.append(f"{ev.place(example)}, {ev.name(case, side)}: {ran}, {ev.ms(example.time_ns(side, _KINDS))}")
    title = (
        f"{ev.name(case, slow)} takes longer for the cells of {ev.layers(chosen)}; both run cell by cell, {' and '.join(texts)}"
    )
    remedy = ev.remedy(case, slow, _FUSED)
    return [Suspicion("recurrent layer cell by cell", title, claims, "medium", sentences, remedy)]


def _recurrent_labels(case: Case) -> set[str]:
    """Return the labels of layers that either side calls recurrent."""
    kinds = {layer.name for side in (case.a, case.b) for layer in side.layers if (layer.type or "").lower() in _RECURRENT}
    return {match.label for match in case.matches if kinds & {*match.a, *match.b}}


def _looped(group: ev.RowGroup, side: str) -> bool:
    """Return whether a side runs a group by many products and no fused kernel."""
    return group.count(side, ["gemm"]) >= LEAST_CELLS and group.count(side, ["recurrent"]) < ev.ONCE


RULES: tuple[Rule, ...] = (unrolled, slower_cells)
