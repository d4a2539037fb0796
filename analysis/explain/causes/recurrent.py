"""Recurrent layers: run cell by cell on one side, by a fused kernel for the whole sequence on the other."""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import Case, Rule, Suspicion

_FUSED = {
    "pytorch": "use torch.nn.LSTM, GRU or RNN for the whole sequence in place of LSTMCell in a loop",
    "tensorflow": "use keras.layers.LSTM with its default activations and no unroll; jit_compile=True fuses the rest",
    "mxnet": "use gluon.rnn.LSTM (operator RNN) in place of gluon.rnn.LSTMCell.unroll",
    "cntk": "use C.layers.optimized_rnnstack (GPU) in place of C.layers.Recurrence",
    "": "use the framework's layer for whole sequences, which calls a fused kernel",
}
_CELL = ("gemm", "elementwise", "activation")


def unrolled(case: Case) -> list[Suspicion]:
    """Layers that one side runs by a fused kernel and the other by many kernels for each time step."""
    found = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if ev.unrolled(group) == (slow, fast)]
        kinds = ("recurrent", "gemm", "elementwise", "activation", "copy", "layout", "reduction")
        claims = ev.merged(ev.claim(case, group, kinds) for group in chosen)
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
        found.append(Suspicion("recurrent layer cell by cell", title, claims, "high", sentences, ev.remedy(case, slow, _FUSED)))
    return found


RULES: tuple[Rule, ...] = (unrolled,)
