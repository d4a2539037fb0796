"""The host's time in calls of the device's API, in captures of totals: allocation in the loop, long launches."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.trace import UNLISTED

_MANY = 100  # calls: fewer may be start-up
_OFTEN, _LAUNCH_NS = 1000, 5000  # kernels; what a launch takes on the host, ns
_OFTEN_SHORT, _SHORT_NS, _PART_SHORT = 10_000, 10_000, 0.3  # executions; ns of each; of the time
_SHARE = 0.1  # of the sum of the device's work
_NAMED = 3
_NOTABLE = 0.02  # of the calls' time: longest calls that take more are told
_SET_UP = 0.5  # of the calls' time
_SETS_UP = f"{call_totals.ALLOCATIONS}|^(?:cuda|hip)SetDevice$|^cu(?:Ctx|DevicePrimaryCtx)"
_STARTS = r"^cuda(?:Malloc|SetDevice|StreamCreate|Launch)|^cu(?:MemAlloc|CtxCreate|DevicePrimaryCtxRetain|Launch|StreamCreate)"
_JIT_NS = 2_000_000_000  # of a device's first call: setting it up takes some tenths of a second
_BUILD = (
    "build for this device's architecture (nvcc -arch=sm_XX, CMAKE_CUDA_ARCHITECTURES), if its kernels are there as PTX only and "
    "the driver compiles them at the start; keep what it compiled (CUDA_CACHE_PATH, a larger CUDA_CACHE_MAXSIZE); load only "
    "kernels that run (CUDA_MODULE_LOADING=LAZY); with several devices or an idle driver, nvidia-persistenced"
)
_TAKES = r"(?i)^(?:cuda|hip)Malloc|^cuMemAlloc"
_UPLOADS = r"(?i)^cu(?:da)?MemcpyHtoD|^hipMemcpyHtoD", "host to device"
_DOWNLOADS = r"(?i)^cu(?:da)?MemcpyDtoH|^hipMemcpyDtoH", "device to host"
_UPLOADED = 0.5  # of the allocations: as many uploads, each into memory of its own
_FETCHED = 0.1  # of the uploads: a loop fetches as often
_WHOLE = 0.02  # of a whole number: a loop has as many uploads for each run of a kernel
_POOL = {"on an AMD GPU": "", "": "https://developer.nvidia.com/blog/using-cuda-stream-ordered-memory-allocator-part-1/"}
_GRAPHS = {"on an AMD GPU": "", "": "https://developer.nvidia.com/blog/cuda-graphs/"}
_GRAPH = {"on an AMD GPU": "HIP graphs", "": "CUDA graphs"}
_BESIDE = "the host's time in these calls, which may delay the device's work or overlap with it: totals do not show which"


def allocations(subject: Subject) -> list[Advice]:
    """Device memory is allocated and freed again and again."""
    title = "device memory is allocated again and again"
    if _is_loading(subject):
        return []
    pool = words.text(subject, {"on an AMD GPU": "hipMallocAsync", "": "cudaMallocAsync"})
    remedy = f"allocate once, before the loop, and reuse it; or take memory from a pool: {pool}, a caching allocator"
    return _again(subject, call_totals.ALLOCATIONS, "allocator", title, remedy, words.text(subject, _POOL))


def _is_loading(subject: Subject) -> bool:
    """Return whether most allocations go with uploads, one for each tensor, as when a model is loaded.

    In a loop results are fetched, too, or there are a whole number of uploads for each run of some kernel.
    """
    sums = call_totals.sums(subject.trace)
    taken = float(call_totals.named(sums, _TAKES)["count"].sum())
    uploads, downloads = (_copied(subject, sums, *names) for names in (_UPLOADS, _DOWNLOADS))
    if uploads < _UPLOADED * taken or uploads < _MANY or downloads > _FETCHED * uploads:
        return False
    runs = subject.kernels()["count"].to_numpy(float)
    times = uploads / runs[runs >= _MANY]
    return bool((np.abs(times - np.round(times)) > _WHOLE * np.round(times)).all())


def _copied(subject: Subject, sums: pd.DataFrame, pattern: str, operation: str) -> float:
    """Return how many copies of one direction there were, by the calls that name it, or the device's copies."""
    copies = subject.trace.copies
    of_device = copies["count"][(copies["operation"] == operation).fillna(False).to_numpy(bool)]
    return max(float(call_totals.named(sums, pattern)["count"].sum()), float(of_device.sum()))


def creations(subject: Subject) -> list[Advice]:
    """Streams, events or handles are created and destroyed again and again."""
    title, remedy = "streams or events are created again and again", "create them once, before the loop, and reuse them"
    return _again(subject, call_totals.CREATIONS, "host-bound", title, remedy, "")


def _again(subject: Subject, pattern: str, topic: str, title: str, remedy: str, link: str) -> list[Advice]:
    """Return the advice on calls that are made in the loop and take a noticeable time; none if there are no such calls."""
    calls = _calls(subject, pattern)
    calls = calls[(calls["count"] >= _MANY).to_numpy(bool)]
    ns = float(calls["later_ns"].sum())
    if ns < _SHARE * subject.step_ns or not len(calls):
        return []
    return [Advice(topic, title, ns, _BESIDE, [f"{_listed(calls)}."], remedy, link)]


def launches(subject: Subject) -> list[Advice]:
    """Kernels are shorter than the calls that launch them."""
    calls = _calls(subject, call_totals.LAUNCHES)
    kernels = subject.kernels()
    kernels = kernels[(kernels["name"] != UNLISTED).fillna(True).to_numpy(bool)]
    count, ns = float(kernels["count"].sum()), float(kernels["duration_ns"].sum())
    launched, spent = float(calls["count"].sum()), float(calls["later_ns"].sum())
    if min(count, launched) < _MANY or spent / launched < ns / count:
        return []
    each = f"{words.duration(spent / launched)} each on average"
    evidence = [f"{_listed(calls)}: {each}, and a kernel takes {words.duration(ns / count)}."]
    remedy = "launch all kernels of a step as one graph (CUDA graph, HIP graph), or use fewer and larger kernels"
    title = "kernels are shorter than the calls that launch them"
    return [Advice("host-bound", title, spent - ns, _BESIDE, evidence, remedy, words.text(subject, _GRAPHS))]


def compiled_at_start(subject: Subject) -> list[Advice]:
    """One call takes far longer than setting up a device, and than all that the device did, for which it might have waited."""
    calls = call_totals.sums(subject.trace)
    longest = (calls["ns"] - calls["later_ns"])[np.asarray(calls.index.str.contains(_STARTS), dtype=bool)].nlargest(1)
    if subject.timeline or longest.empty or longest.iloc[0] < max(_JIT_NS, 2 * subject.step_ns):
        return []
    ns = float(longest.iloc[0])
    return [
        Advice(
            "host-bound",
            "a call at the start takes far longer than setting up the device",
            ns,
            "all but some tenths of a second of it, once for each start of the program",
            [
                f"The longest {longest.index[0]} took {words.duration(ns)}, all kernels and copies "
                f"{words.duration(subject.step_ns)}: a program's first calls set up the device, and load or compile kernels."
            ],
            _BUILD,
            "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#just-in-time-compilation",
        )
    ]


def first_use(subject: Subject) -> list[str]:
    """Tell of a call that set up the device and took longer than all of its work."""
    if subject.timeline or compiled_at_start(subject):
        return []
    calls = call_totals.sums(subject.trace)
    longest = (calls["ns"] - calls["later_ns"])[np.asarray(calls.index.str.contains(_SETS_UP), dtype=bool)].nlargest(1)
    if longest.empty or longest.iloc[0] < max(subject.step_ns, _SET_UP * float(calls["ns"].sum())):
        return []
    ns = float(longest.iloc[0])
    return [
        f"the longest {longest.index[0]} took {words.duration(ns)}, all kernels and copies {words.duration(subject.step_ns)}: "
        "the first such call of a program sets up the device (its context), once"
    ]


def tiny(subject: Subject) -> list[str]:
    """Note that kernels of totals are about as short as a launch, if their calls were not recorded; nothing otherwise."""
    if subject.timeline or subject.on_host or len(_calls(subject, call_totals.LAUNCHES)):
        return []
    kernels = subject.kernels()
    count, ns = float(kernels["count"].sum()), float(kernels["duration_ns"].sum())
    if count < _OFTEN or ns > _LAUNCH_NS * count:
        return _many_short(subject, kernels)
    each = words.duration(ns / count)
    return [
        f"{count:,.0f} kernels take {each} each on average, about as long as a launch: the device may mostly wait for launches, "
        f"which totals do not show; fewer, larger kernels or {words.text(subject, _GRAPH)} help then"
    ]


def _many_short(subject: Subject, kernels: pd.DataFrame) -> list[str]:
    """Note that some of the kernels are hardly longer than a launch and take a large part of the time, in many executions."""
    counts, durations = kernels["count"].to_numpy(float), kernels["duration_ns"].to_numpy(float)
    copies = (kernels["kind"] == "copy").fillna(False).to_numpy(bool)
    short = kernels[(counts >= _OFTEN) & (durations <= _SHORT_NS * counts) & ~copies]
    count, ns = float(short["count"].sum()), words.time_of(short)
    if count < _OFTEN_SHORT or ns < _PART_SHORT * subject.step_ns:
        return []
    batched = " (products of the same sizes in one batched call)" if short["kind"].eq("gemm").any() else ""
    take, each = "takes" if len(short) == 1 else "take", words.duration(ns / count)
    return [
        f"{words.kernels(short)} {take} {words.share(subject, ns)}, {each} each on average, hardly longer than a launch: the "
        "device may wait between them, which totals do not show; fewer, larger kernels"
        f"{batched} or {words.text(subject, _GRAPH)} help then"
    ]


def _calls(subject: Subject, pattern: str) -> pd.DataFrame:
    """Return the calls of that kind in totals; none for captures with a timeline, whose idle time shows more."""
    calls = call_totals.of_the_host(call_totals.sums(subject.trace))
    return call_totals.named(calls, pattern)[: 0 if subject.timeline or subject.on_host else None]


def _listed(calls: pd.DataFrame) -> str:
    """List the calls that take longest, with their number and time, and what is left without the longest single ones."""
    longest = calls.sort_values("later_ns", ascending=False)[:_NAMED]
    numbers = zip(longest.index, longest["count"].tolist(), longest["ns"].tolist(), strict=True)
    listed = ", ".join(f"{count:,.0f} x {name} ({words.duration(ns)})" for name, count, ns in numbers)
    later = float(calls["later_ns"].sum())
    if later > (1 - _NOTABLE) * float(calls["ns"].sum()):
        return listed
    which = "of each, which may include" if len(calls) > 1 else "call, which may include"
    return f"{listed}; without the longest {which} the first use of the device, {words.duration(later)}"


RULES: tuple[Rule, ...] = (compiled_at_start, allocations, creations, launches)
