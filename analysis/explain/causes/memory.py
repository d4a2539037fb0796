"""Memory: heaps that are returned to the system and faulted in again, and calls of the device's allocator."""

from __future__ import annotations

from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.explain import again
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

FAULTS = "page faults"
ALLOCATOR = "allocator traffic"

# A hundred faults of 4 KiB are 0.4 MB and some 0.05 ms: fewer are from start-up and the interpreter
LEAST_FAULTS = 100
_ALLOCATING = r"malloc|free|Mem(?:Alloc|Create|Map|Unmap)"

_REMEDIES = {
    "pytorch": "keep memory between steps: PYTORCH_CUDA_ALLOC_CONF, and no torch.cuda.empty_cache() in the loop",
    "tensorflow": "TF_GPU_ALLOCATOR=cuda_malloc_async, or let TensorFlow take the memory at the start",
    "mxnet": "MXNET_GPU_MEM_POOL_TYPE and MXNET_GPU_MEM_POOL_RESERVE",
}
_HEAP = "MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456"


def recorded(case: Case) -> list[Suspicion]:
    """The C library's allocator is configured differently, and page faults differ with it."""
    differing = evidence.owned(evidence.differing(case), "memory")
    if not case.same_framework or not differing or not evidence.only_difference(case, "memory"):
        return []
    return [
        Suspicion(
            FAULTS,
            f"the heap is configured differently: {', '.join(differing)}",
            evidence.everything(case),
            "high",
            [f"Recorded: {evidence.stated(case, differing)}.", *_sentences(case)],
            _keeping(case),
            precedence=0,
        )
    ]


def _keeping(case: Case) -> str:
    """Say how to keep the heap; --steady is only an option of commands that record workloads of ours."""
    ours = all(again.recorded_by(side.facts) == again.RUN for side in (case.a, case.b))
    return f"keep the heap: {_HEAP}, {'or --steady, ' if ours else ''}or another allocator with LD_PRELOAD"


def _faults(case: Case) -> tuple[float, float] | None:
    return evidence.known(evidence.both(case, lambda side: evidence.clean_mean(side, "minor_faults")))


def _system(case: Case) -> tuple[float, float] | None:
    return evidence.known(evidence.both(case, lambda side: evidence.clean_mean(side, "system_ns")))


def _sentences(case: Case) -> list[str]:
    """Give both sides' page faults and system time, if the clean pass has them."""
    pages, system = _faults(case), _system(case)
    if pages is None or system is None:
        return []
    return [f"Page faults per step: {evidence.pair(case, pages)}; system time: {evidence.both_times(case, *system)}."]


def faults(case: Case) -> list[Suspicion]:
    """One side has more page faults: the step waits for its system time, divided by the busy threads.

    Processes of one program differ in this, so it takes several recordings of each side.
    """
    if case.account.floor:
        return []
    pages, system = _faults(case), _system(case)
    if pages is None or system is None:
        return []
    slow, sign = (case.b, 1) if pages[1] > pages[0] else (case.a, -1)
    busy = evidence.busy_cores(slow)
    amount = (system[1] - system[0]) / max(busy or 1.0, 1.0)
    if abs(pages[1] - pages[0]) < LEAST_FAULTS or amount * sign < evidence.worth_ns(case):
        return []
    return [
        Suspicion(
            FAULTS,
            f"{slow.name} returns memory to the system and faults it in again in each step",
            evidence.towards(case, amount),
            "medium",
            _sentences(case),
            _keeping(case),
            precedence=2,
        )
    ]


def _allocations(side: Side) -> float | None:
    """Return how often a step calls the device's allocator; None if calls were not recorded."""
    calls = side.trace.calls
    if calls.empty:
        return None
    mine = calls["name"].astype("string").str.contains(_ALLOCATING, case=False).fillna(False).to_numpy(bool)
    return evidence.per_step(side.trace, calls[mine])


def allocator(case: Case) -> list[Suspicion]:
    """The device idles while the host allocates or frees its memory."""
    rows = evidence.host(case, api.ALLOCATING)
    amount = evidence.noticed_ns(case, rows)
    if abs(amount) < evidence.worth_ns(case):
        return []
    slow = case.b if amount > 0 else case.a
    counts = (_allocations(case.a), _allocations(case.b))
    return [
        Suspicion(
            ALLOCATOR,
            f"{slow.name} allocates and frees device memory within its steps",
            evidence.claims(rows),
            "high",
            [
                f"Calls of the allocator per step: {evidence.pair(case, counts)}.",
                f"The device idles during them: {evidence.both_times(case, rows['a_ns'].sum(), rows['b_ns'].sum())}.",
            ],
            _REMEDIES.get(str(slow.framework), "a caching or asynchronous allocator (cudaMallocAsync)"),
        )
    ]


RULES: tuple[Rule, ...] = (recorded, faults, allocator)
