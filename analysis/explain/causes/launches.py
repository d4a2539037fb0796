"""Launch-bound steps: the device idles while the host prepares its next kernel."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

CAUSE = "launch overhead"

# Launches or operators per step must differ by this factor: frameworks count launches a little differently
MORE_LAUNCHES = 1.2

_REMEDIES = {
    "pytorch": "fewer, larger kernels: torch.compile(mode='reduce-overhead'), torch.cuda.graphs, foreach or fused optimizers",
    "tensorflow": "fewer, larger kernels: tf.function(jit_compile=True)",
    "mxnet": "fewer, larger kernels: net.hybridize(static_alloc=True, static_shape=True), bulk execution",
    "cntk": "larger minibatches; CNTK launches every node of its graph separately",
}


def _kernels(side: Side) -> tuple[float, float | None]:
    """Return how many kernels a step runs, and their mean duration in ns (None if there are none)."""
    kernels = side.trace.kernels[(side.trace.kernels["device"] != "cpu").to_numpy(bool)]
    count = evidence.per_step(side.trace, kernels[kernels["start_ns"].notna().to_numpy(bool)])
    return count, float(kernels["duration_ns"].mean()) if len(kernels) else None


def _started(side: Side) -> float:
    """Return how many launches a step has, counting a whole graph as one; on a CPU, how many operators."""
    calls = side.trace.calls
    names = [name for name in calls["name"].cat.categories if api.launches_kernels(name)]
    launching = calls[calls["name"].isin(names).to_numpy(bool)]
    return evidence.per_step(side.trace, launching if len(launching) else side.trace.operators)


def _gaps(case: Case) -> pd.DataFrame:
    """Return the rows in which the host prepares work and nothing computes, without layers that start as much on both sides.

    In those layers the host takes longer for the same operators, as when other work evicts its caches: launches do not explain
    that.
    """
    rows = evidence.host(case, api.LAUNCHING, api.LOADING, api.OTHER, levels.DISPATCH, levels.IN_OPERATOR)
    started = np.array(
        [
            [counts.get(key, 0.0) for key in zip(rows[layer], rows["phase"], strict=True)]
            for layer, counts in (("layer_a", _by_layer(case.a)), ("layer_b", _by_layer(case.b)))
        ]
    )
    least, most = started.min(axis=0), started.max(axis=0)
    kept: pd.DataFrame = rows[~((least > 0) & (most < MORE_LAUNCHES * least))]
    return kept


def _by_layer(side: Side) -> dict[tuple[str, str], float]:
    """Return how many operators a side starts per step, for each layer and phase."""
    operators = side.trace.operators
    steps = max(int((~side.trace.steps["warmup"]).sum()), 1)
    counts = operators[["layer", "phase"]].dropna().astype("object").value_counts()
    return {(str(key[0]), str(key[1])): number / steps for key, number in zip(counts.index, counts.tolist(), strict=True)}


def gaps(case: Case) -> list[Suspicion]:
    """One side launches more work per step, and computes for less of the time."""
    started = (_started(case.a), _started(case.b))
    rows = _gaps(case)
    amount = evidence.noticed_ns(case, rows)
    if abs(amount) < evidence.worth_ns(case) or not started[0] or not started[1]:
        return []
    slow, ratio = (case.b, started[1] / started[0]) if amount > 0 else (case.a, started[0] / started[1])
    if ratio < MORE_LAUNCHES:
        return []
    what = "launches" if len(slow.trace.calls) else "operators"
    sentences = [
        f"{what.capitalize()} per step: {evidence.pair(case, started)}.",
        f"Nothing computes while the host launches them: {evidence.both_times(case, rows['a_ns'].sum(), rows['b_ns'].sum())}.",
    ]
    (_, a_mean), (_, b_mean) = _kernels(case.a), _kernels(case.b)
    if a_mean is not None and b_mean is not None:
        sentences.append(f"Mean kernel: {evidence.pair(case, (a_mean / 1e3, b_mean / 1e3), ' µs')}.")
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} launches more, smaller pieces of work: its step is launch-bound",
            evidence.claims(rows),
            "medium",
            sentences,
            _REMEDIES.get(str(slow.framework), "fewer, larger kernels, or CUDA graphs"),
            precedence=2,
        )
    ]


RULES: tuple[Rule, ...] = (gaps,)
