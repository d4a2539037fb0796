"""The events of torch.profiler's traces from which a Trace is made, by category, and the signs that identify such a trace.

Categories are named in pytorch/kineto libkineto/src/ActivityType.cpp.
"""

from __future__ import annotations

import re

from kernelscope.analysis.formats.kineto.groups import PAIR, EventGroup

# Names of categories; capitalised before PyTorch 1.10
_OPERATORS = frozenset({"cpu_op", "Operator", "collective_comm"})
_ANNOTATIONS = frozenset({"user_annotation", "gpu_user_annotation"})
CALLS = {
    "cuda_runtime": "runtime", "Runtime": "runtime", "cuda_driver": "driver", "xpu_runtime": "runtime", "xpu_driver": "driver",
    "mtia_runtime": "runtime", "glow_runtime": "runtime", "privateuse1_runtime": "runtime", "privateuse1_driver": "driver",
}  # fmt: skip
_KERNELS = frozenset({"kernel", "Kernel", "hpu_op", "mtia_ccp_events", "mtia_insight"})
_COPIES = frozenset({"gpu_memcpy", "Memcpy", "gpu_memset", "Memset"})
_SYNCS = frozenset({"cuda_sync", "xpu_sync"})
_FUNCTIONS = frozenset({"python_function"})  # those with a module's id are calls of nn.Modules
_INSTANTS = frozenset({"cpu_instant_event", ""})
_FORWARD_BACKWARD = frozenset({"fwdbwd", "fwd_bwd"})
# Complete events that are neither device work nor operators: the profiler's own
_NO_WORK = frozenset({
    "overhead", "Trace", "external_correlation", "cuda_event", "cuda_profiler_range", "gpu_pm_counter", "mtia_counters",
})  # fmt: skip
_TELLING = frozenset({
    *_OPERATORS, *_ANNOTATIONS, *CALLS, *_COPIES, *_SYNCS, *_FORWARD_BACKWARD, "Kernel", "mtia_ccp_events", "hpu_op",
    "cpu_instant_event", "python_function", "ac2g", "async_cpu_to_gpu", "cuda_profiler_range", "cuda_event", "gpu_pm_counter",
})  # fmt: skip

GROUPS = {
    "operators": EventGroup(
        _OPERATORS, arguments=("sequence", "forward_thread", "external_id", "shapes", "types", "strides", "arguments")
    ),
    "annotations": EventGroup(_ANNOTATIONS),
    "functions": EventGroup(_FUNCTIONS, arguments=("module",)),
    "calls": EventGroup(frozenset(CALLS), arguments=("correlation",)),
    "kernels": EventGroup(
        _KERNELS,
        arguments=(
            "correlation", "external_id", "device", "stream", "grid", "block", "registers", "shared_memory", "graph",
            "collective", "dtype", "direction", "bytes", "given", "received", "members", "group", "source", "target",
        ),
        open_ended=False,
    ),
    "copies": EventGroup(_COPIES, arguments=("correlation", "external_id", "device", "stream", "bytes"), open_ended=False),
    "syncs": EventGroup(_SYNCS, arguments=("correlation", "device", "stream", "sync_kind"), open_ended=False),
    "memory": EventGroup(
        _INSTANTS, frozenset("iI"), ("bytes", "allocated_bytes", "reserved_bytes", "device_type", "device_id", "address")
    ),
    "flows": EventGroup(_FORWARD_BACKWARD, frozenset("sf")),
    "plain": EventGroup(frozenset({""})),
    "labels": EventGroup(frozenset({"", "__metadata"}), frozenset("M"), ("labels",), timed=False),
}  # fmt: skip
_KNOWN = frozenset().union(*(group.categories or () for group in GROUPS.values()))
GROUPS["others"] = EventGroup(None, without=_KNOWN | _NO_WORK)  # events of categories in no other group
GROUPS["no work"] = EventGroup(_NO_WORK, PAIR)  # an end without a category may close one of them

_HEAD_CATEGORY = re.compile(rb'"cat"\s*:\s*"(\w+)"')
_HEAD_KEYS = re.compile(rb'"(?:baseTimeNanoseconds|deviceProperties|computeProperties|distributedInfo)"\s*:')
_HEAD_PLAIN = re.compile(rb'"pid"\s*:\s*"CPU [Ff]unctions"|"cat"\s*:\s*"kernel".*"correlation"\s*:', re.DOTALL)


def mentions_categories(content: bytes) -> bool:
    """Return whether a text begins as a chrome trace with PyTorch's categories, processes or top-level keys."""
    content = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not content.startswith((b"{", b"[")):
        return False
    if any(one.decode() in _TELLING for one in set(_HEAD_CATEGORY.findall(content))):
        return True
    if _HEAD_PLAIN.search(content):
        return True
    return content.startswith(b"{") and b'"schemaVersion"' in content and _HEAD_KEYS.search(content) is not None
