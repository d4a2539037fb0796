"""Eager against compiled execution, and what a framework does around each operator: bulk execution, tracing, profilers."""

from __future__ import annotations

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.attribution.frameworks import jax
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

CAUSE = "eager against graph"
_COMPILED = ("Torch-Compiled Region", "## Call CompiledFx")  # operators of PyTorch's traces that run compiled code

_MORE_SINGLE = 8.0  # operations a step that are called one by one: any loop has fewer than this

_REMEDIES = {
    "tensorflow": "decorate the step with @tf.function, or switch run_eagerly and tf.config.run_functions_eagerly off",
    "pytorch": "torch.compile(model)",
    "mxnet": "net.hybridize(static_alloc=True, static_shape=True)",
    "jax": "compile the step as one function: @jax.jit on what computes loss, gradients and updates together",
    "keras-torch": "model.compile(jit_compile=True), or the TensorFlow or JAX backend",
}
_SETTING_REMEDIES = {
    "bulk_execution_train": "leave MXNET_EXEC_BULK_EXEC_TRAIN at 1",
    "bulk_execution_inference": "leave MXNET_EXEC_BULK_EXEC_INFERENCE at 1",
    "bulk_size": "mx.engine.set_bulk_size, or the hybridize options forward_bulk_size and backward_bulk_size",
    "engine": "leave MXNET_ENGINE_TYPE at ThreadedEnginePerDevice; NaiveEngine is for debugging",
    "node_timing": "cntk.debugging.set_node_timing(False)",
    "profiler": "switch the profiler off: cntk.debugging.disable_profiler(), torch.profiler, mx.profiler",
    "trace_level": "cntk.logging.set_computation_network_trace_level(0)",
    "checked_mode": "cntk.debugging.set_checked_mode(False)",
    "anomaly_detection": "torch.autograd.set_detect_anomaly(False)",
    "xla_jit": "tf.config.optimizer.set_jit, or tf.function(jit_compile=True)",
}
_TITLES = {
    "execution": "",  # its values say it
    "bulk_execution_train": "bulk execution of operators",
    "bulk_execution_inference": "bulk execution of operators",
    "bulk_size": "bulk execution of operators",
    "node_timing": "tracing of nodes",
    "profiler": "a profiler that runs",
    "trace_level": "tracing of nodes",
    "checked_mode": "checks of every value",
    "anomaly_detection": "anomaly detection",
}


def recorded(case: Case) -> list[Suspicion]:
    """A recorded setting of how operators are executed differs between runs of the same framework."""
    differing = evidence.owned(evidence.differing(case), "execution")
    if not case.same_framework or not differing:
        return []
    alone = evidence.only_difference(case, "execution")
    first = min(differing, key=lambda name: (name not in _TITLES, list(_TITLES).index(name) if name in _TITLES else 0))
    what = _TITLES.get(first, first)
    a, b = evidence.differing(case)[first]
    sentences = [f"Recorded settings: {evidence.stated(case, differing)}."]
    if alone:
        sentences.append("Nothing else that is recorded differs.")
    counts = _operators(case)
    if counts:
        sentences.append(counts)
    remedy = _SETTING_REMEDIES.get(first) or _REMEDIES.get(str(case.a.framework), f"give both sides the same {first}")
    return [
        Suspicion(
            CAUSE if first == "execution" else "execution settings",
            f"{what}: {a} in {case.a.name}, {b} in {case.b.name}" if what else f"{case.a.name} runs {a}, {case.b.name} {b}",
            evidence.everything(case),
            "high",
            sentences,
            remedy,
            precedence=0,
        )
    ]


def _operators(case: Case) -> str | None:
    """Give both sides' operators per step, if recorded."""
    counts = evidence.both(case, lambda side: evidence.per_step(side.trace, side.trace.operators))
    return f"Operators per step: {evidence.pair(case, counts)}." if all(counts) else None


def _compiled_calls(side: Side) -> float | None:
    """Return how many compiled functions a step calls, from ranges of two frameworks or PyTorch's regions; None if unknown."""
    trace = side.trace
    if side.framework in ("tensorflow", "jax"):
        return evidence.per_step(side.trace, trace.ranges[trace.ranges["name"] == "call"]) if len(trace.ranges) else None
    if side.framework == "pytorch" and len(trace.operators):
        compiled = trace.operators["name"].astype("string").str.startswith(_COMPILED).fillna(False)
        return evidence.per_step(side.trace, trace.operators[compiled.to_numpy(bool)])
    return None


def _one_by_one(side: Side) -> float | None:
    """Return how many operations a step of JAX calls outside compiled functions; None if unknown."""
    operators = side.trace.operators
    if side.framework != "jax" or operators.empty:
        return None
    eager = (operators["layer"] == jax.EAGER) | (operators["attribution"] == jax.CALLED)
    return evidence.per_step(side.trace, operators[eager.to_numpy(bool)])


def seen(case: Case) -> list[Suspicion]:
    """The traces show compiled functions on one side only, although no setting says so."""
    if not case.same_framework or evidence.owned(evidence.differing(case), "execution"):
        return []
    calls, single = (evidence.both(case, count) for count in (_compiled_calls, _one_by_one))
    if None in calls or bool(calls[0]) == bool(calls[1]):
        return []
    eager = case.a if not calls[0] else case.b
    title = f"{eager.name} runs eagerly what the other side compiles"
    if None not in single:
        title = _in_numbers(case, eager, single, calls)
    return [
        Suspicion(
            CAUSE,
            title,
            evidence.everything(case),
            "high",
            [f"Calls of compiled functions per step: {evidence.pair(case, calls)}."],
            _REMEDIES.get(str(eager.framework), "compile the step"),
            precedence=0,
        )
    ]


def _in_numbers(case: Case, eager: Side, single: evidence.Values, calls: evidence.Values) -> str:
    """Say how many operations one side runs one by one, and how many compiled functions the other calls in their place."""
    other = case.b if eager is case.a else case.a
    many, functions = (values[one is case.b] or 0.0 for one, values in ((eager, single), (other, calls)))
    few = "one compiled function" if round(functions) == 1 else f"{functions:,.3g} compiled functions"
    return f"{eager.name} runs {evidence.plain_number(many)} operations one by one, {other.name} as {few}"


def partly(case: Case) -> list[Suspicion]:
    """JAX: both sides call compiled functions, but one runs a part of the step outside them.

    Layers or phases of compiled functions that only the other side has show that it is the same work; operations that were only
    added have none.
    """
    calls, single = (evidence.both(case, count) for count in (_compiled_calls, _one_by_one))
    if not case.same_framework or None in single or not all(calls):
        return []
    a, b = (float(count or 0.0) for count in single)
    sign = 1 if b > a else -1
    rows, gone = case.rows, "a_ns" if b > a else "b_ns"
    moved = rows["cell"].str.startswith("(host") | rows["layer"].isin([jax.EAGER])
    left = ~moved & (rows["b_ns" if gone == "a_ns" else "a_ns"] == 0) & (rows[gone] > 0)
    claims = evidence.claims(rows[(moved | left).fillna(False).to_numpy(bool)])
    if abs(b - a) < _MORE_SINGLE or not left.any() or sum(claims.values()) * sign < evidence.worth_ns(case):
        return []
    eager, faster = (case.b, case.a) if b > a else (case.a, case.b)
    compiled = ", ".join(rows.loc[left, ["layer", "phase"]].agg(" ".join, axis=1).unique()[:3])
    return [
        Suspicion(
            CAUSE,
            _in_numbers(case, eager, single, calls),
            claims,
            "medium",
            [
                f"Operations outside compiled functions per step: {evidence.pair(case, single)}.",
                f"Compiled in {faster.name} only: {compiled}.",
            ],
            _REMEDIES["jax"],
            precedence=0,
        )
    ]


def _is_eager(side: Side) -> bool | None:
    """Return whether Python starts every operator; None if the side does not say."""
    execution = (side.facts.get("settings") or {}).get("execution")
    return None if execution is None else str(execution).startswith(("eager", "imperative"))


def across_frameworks(case: Case) -> list[Suspicion]:
    """One framework dispatches operators one by one, the other runs a graph: the host's time around operators."""
    if case.a.framework == case.b.framework or None in (_is_eager(case.a), _is_eager(case.b)):
        return []
    if _is_eager(case.a) == _is_eager(case.b):
        return []
    eager, other, sign = (case.a, case.b, -1) if _is_eager(case.a) else (case.b, case.a, 1)
    direct = str((other.facts.get("settings") or {}).get("execution")).startswith(("primitives", "calls"))
    rows = evidence.host(case, levels.IN_OPERATOR, levels.DISPATCH, levels.IN_LAYER, levels.IN_PHASE)
    amount = float(rows["delta_ns"].sum())
    if amount * sign < evidence.worth_ns(case):
        return []  # the eager side does not spend more around its operators
    a_ns, b_ns = int(rows["a_ns"].sum()), int(rows["b_ns"].sum())
    counts = _operators(case)
    return [
        Suspicion(
            CAUSE,
            f"{eager.name} starts every operator from Python; the other side "
            + ("calls the library directly" if direct else "runs a graph"),
            evidence.claims(rows),
            "medium",
            [f"Host time around operators per step: {evidence.both_times(case, a_ns, b_ns)}.", *([counts] if counts else [])],
            _REMEDIES.get(str(eager.framework), "compile the step"),
        )
    ]


RULES: tuple[Rule, ...] = (recorded, seen, partly, across_frameworks)
