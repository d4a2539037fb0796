"""Memory: the device's allocator within steps, and a heap that is given back and faulted in again."""

from __future__ import annotations

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_REMEDIES = {
    "pytorch": "no torch.cuda.empty_cache() in the loop; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; a smaller batch where "
    "the allocator retries",
    "tensorflow": "TF_GPU_ALLOCATOR=cuda_malloc_async, or let TensorFlow take the memory at the start",
    "tensorflow 1": "let TensorFlow take the memory at the start: tf.GPUOptions(allow_growth=False)",
    "mxnet": "MXNET_GPU_MEM_POOL_TYPE and MXNET_GPU_MEM_POOL_RESERVE",
    "": "a caching or asynchronous allocator (cudaMallocAsync)",
}


def taken_once(subject: Subject) -> int:
    """Return for how long, ns, the device idles while memory is taken that is kept, in a recording without steps; else 0.

    So it is where hardly any is given back: as when a program starts.
    """
    rows = subject.idle((idle_causes.ALLOCATING,))
    ns = words.time_of(rows)
    freed = rows["detail"].fillna("").str.contains("(?i)free|trim").to_numpy(bool)
    return ns if 2 * words.time_of(rows[freed]) < ns and subject.per != "a step" else 0


def allocator(subject: Subject) -> list[Advice]:
    """The device idles while its memory is taken or given back."""
    if taken_once(subject):
        return []
    rows = subject.idle((idle_causes.ALLOCATING,))
    ns = words.time_of(rows)
    return [
        Advice(
            "allocator",
            "device memory is taken and given back within the steps",
            ns,
            "all of it, where memory is kept",
            [f"The device idles {words.share(subject, ns)} {subject.per} in {words.largest(rows, 'detail')}."],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (allocator,)
