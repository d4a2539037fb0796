"""Threads: how many there are, more threads than cores, and cores that idle during a step."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.idle import cores
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

CAUSE = "thread count"
IDLE_CAUSE = "cores idle"

# Busy cores below this share of the other side's: runs of the same program are scheduled differently by some percent
FEWER_CORES = 0.8
# Processor time of the slower side above this multiple of the faster side's means more work, not idle cores
MORE_WORK = 1.15

_REMEDIES = {
    "pytorch": "torch.set_num_threads, OMP_NUM_THREADS",
    "tensorflow": "tf.config.threading.set_intra_op_parallelism_threads and set_inter_op_parallelism_threads",
    "mxnet": "OMP_NUM_THREADS, MXNET_CPU_WORKER_NTHREADS",
    "onnxruntime": "SessionOptions.intra_op_num_threads",
    "cntk": "cntk.cntk_py.set_max_num_cputhreads, OMP_NUM_THREADS",
}


def _threads(side: Side) -> int | None:
    """Return how many threads an operator may use; TensorFlow's 0 stands for one per core; None if unknown."""
    settings: dict[str, Any] = side.facts.get("settings") or {}
    count = settings.get("threads")
    if count == 0:
        count = _cores(side)
    return int(count) if isinstance(count, (int, float)) else None


def _cores(side: Side) -> int | None:
    settings, machine = side.facts.get("settings") or {}, side.facts.get("machine") or {}
    return settings.get("cores") or machine.get("allowed_threads") or machine.get("threads")


def recorded(case: Case) -> list[Suspicion]:
    """The number of threads, how they wait, or where they run is set differently."""
    differing = evidence.owned(evidence.differing(case), "threads")
    counts = (_threads(case.a), _threads(case.b))
    if case.same_framework:
        if not differing:
            return []
        claimed = evidence.everything(case)
    else:
        # frameworks name their settings differently: only the number of an operator's threads can be compared
        fewer = min((case.a, case.b), key=lambda side: _threads(side) or 0)
        if None in counts or counts[0] == counts[1] or evidence.slower(case)[0] is not fewer:
            return []
        claimed = evidence.claims(evidence.computing(case))
    if None not in counts and counts[0] != counts[1]:
        title = f"{counts[0]} threads in {case.a.name}, {counts[1]} in {case.b.name}"
    else:
        title = f"threads are set differently: {evidence.stated(case, differing)}"
    return [
        Suspicion(
            CAUSE,
            title,
            claimed,
            "high" if evidence.only_difference(case, "threads") else "medium",
            [f"Recorded: {evidence.stated(case, differing) or title}.", *_use(case), *_oversubscribed(case)],
            f"give both sides the same number of threads: {_REMEDIES.get(str(case.b.framework), 'OMP_NUM_THREADS')}",
            precedence=0,
        )
    ]


def _use(case: Case) -> list[str]:
    """Give both sides' busy cores, if the clean pass has them."""
    busy = evidence.both(case, evidence.busy_cores)
    return [] if None in busy else [f"Cores kept busy on average: {evidence.pair(case, busy)}."]


def _oversubscribed(case: Case) -> list[str]:
    """Name each side with more threads than cores."""
    result = []
    for side in (case.a, case.b):
        threads, cores = _threads(side), _cores(side)
        if threads and cores and threads > cores:
            switches = evidence.clean_mean(side, "involuntary_switches")
            more = "" if switches is None else f" and {switches:,.0f} involuntary switches per step"
            result.append(f"{side.name} has {threads} threads on {cores} cores{more}.")
    return result


def idle_cores(case: Case) -> list[Suspicion]:
    """With the same threads and no more processor time, one side keeps fewer cores busy: parts of its step run on one thread."""
    slow, fast = evidence.slower(case)
    busy = evidence.known(evidence.both(case, evidence.busy_cores))
    used = evidence.known(evidence.both(case, lambda side: evidence.clean_mean(side, "user_ns", "system_ns")))
    if busy is None or used is None or _threads(slow) != _threads(fast) or _threads(slow) == 1:
        return []
    sign = 1 if slow is case.b else -1
    (fast_busy, slow_busy), (fast_used, slow_used) = (busy, used) if slow is case.b else (busy[::-1], used[::-1])
    if slow_busy > FEWER_CORES * fast_busy or slow_used > MORE_WORK * fast_used:
        return []
    # with as many busy cores as the other side, the same processor time would take less wall time
    waste = slow_used / slow_busy - slow_used / fast_busy
    return [
        Suspicion(
            IDLE_CAUSE,
            f"{slow.name} keeps fewer cores busy: parts of its step run on few threads",
            evidence.towards(case, sign * waste, evidence.computing(case)),
            "medium" if case.same_framework else "low",
            [
                f"Cores kept busy on average: {evidence.pair(case, busy)}; processor time per step: "
                f"{evidence.both_times(case, *used)}.",
                *_where_idle(slow),
            ],
            f"find what runs on one thread; {_REMEDIES.get(str(slow.framework), 'OMP_NUM_THREADS')}",
            precedence=2,
        )
    ]


def _where_idle(side: Side) -> list[str]:
    """Say where a side's cores idle, if its trace shows it."""
    use = cores(side, _threads(side))
    if use is None or use.inside_ns is None:
        return []
    outside, inside = evidence.duration(use.outside_ns), evidence.duration(use.inside_ns)
    return [f"Idle core time per step in {side.name}: {outside} outside kernels, {inside} inside them."]


RULES: tuple[Rule, ...] = (recorded, idle_cores)
