"""Memory: the device's allocator within steps, and a heap that is returned to the system and faulted in again."""

from __future__ import annotations

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_REMEDIES = {
    "pytorch": "no torch.cuda.empty_cache() in the loop; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; a smaller batch if "
    "the allocator retries",
    "tensorflow": "TF_GPU_ALLOCATOR=cuda_malloc_async, or let TensorFlow take the memory at the start",
    "tensorflow 1": "let TensorFlow take the memory at the start: tf.GPUOptions(allow_growth=False)",
    "mxnet": "MXNET_GPU_MEM_POOL_TYPE and MXNET_GPU_MEM_POOL_RESERVE",
    "": "a caching or asynchronous allocator (cudaMallocAsync)",
}
_PAGES = 1_000  # page faults in a step: fewer are the interpreter's own
_FAULT_NS = 2_500  # that a fault takes at most: some 1,600 ns were measured in a virtual machine
_MUCH = 0.05  # of a step
_KEEP = "keep the heap: MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 in the environment"
_HEAP = f"{_KEEP}, or use another allocator (LD_PRELOAD of jemalloc or tcmalloc); smaller temporary tensors, in-place operators"


def taken_once(subject: Subject) -> int:
    """Return how long the device idles while memory is allocated once and kept, in a recording without steps, in ns; else 0.

    Memory is kept if hardly any is freed, as when a program starts.
    """
    rows = subject.idle((idle_causes.ALLOCATING,))
    ns = words.time_of(rows)
    freed = rows["detail"].fillna("").str.contains("(?i)free|trim").to_numpy(bool)
    return ns if 2 * words.time_of(rows[freed]) < ns and subject.per != "a step" else 0


def allocator(subject: Subject) -> list[Advice]:
    """The device idles while its memory is allocated or freed."""
    if taken_once(subject):
        return []
    rows = subject.idle((idle_causes.ALLOCATING,))
    ns = words.time_of(rows)
    return [
        Advice(
            "allocator",
            "device memory is allocated and freed within the steps",
            ns,
            "all of it, if memory is kept",
            [f"The device idles {words.share(subject, ns)} {subject.per} in {words.largest(rows, 'detail')}."],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
        )
    ]


def heap(subject: Subject) -> list[Advice]:
    """On the host, large blocks are returned to the system and allocated anew: each of their pages is faulted in again."""
    clean = subject.facts.get("clean") or {}
    pages, system_ns = float(clean.get("minor_faults", 0.0)), float(clean.get("system_ns", 0.0))
    if not subject.on_host or subject.program or pages < _PAGES or not subject.used_ns:
        return []
    busy = max(subject.used_ns / max(subject.step_ns, 1), 1.0)
    ns = min(system_ns, pages * _FAULT_NS) / busy
    if ns < _MUCH * subject.step_ns:
        return []
    return [
        Advice(
            "heap",
            "memory is returned to the system in each step, and allocated anew",
            ns,
            "the time of the operating system's code, divided by the cores that are busy",
            [
                f"{words.count(pages)} pages are faulted in {subject.in_each}, and the operating system's code takes "
                f"{words.duration(system_ns)} of processor time, on {busy:.1f} cores."
            ],
            _HEAP,
            "https://www.gnu.org/software/libc/manual/html_node/Malloc-Tunable-Parameters.html",
        )
    ]


RULES: tuple[Rule, ...] = (allocator, heap)
