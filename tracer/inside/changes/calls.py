"""Shared by the changes of several frameworks: calls of whole models, silence, and placement on one NUMA node."""

import builtins
import glob
import io
import logging
import os
import threading
from typing import Any, Callable, Set

from kernelscope.tracer.inside.profiling.patches import Patches

NODES = "/sys/devices/system/node/node[0-9]*/cpulist"
VALUES = 5  # number of losses, or outputs, to note


def around_outermost(call: Callable[..., Any], outermost: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `call`: outermost(call, *arguments) for calls that are not nested in another of their thread."""
    state = threading.local()

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if getattr(state, "inside", False):
            return call(*arguments, **named)
        state.inside = True
        try:
            return outermost(call, *arguments, **named)
        finally:
            state.inside = False

    return wrapped


def silent(_: Any, patches: Patches, seen: Callable[[str], None]) -> None:
    """Print and log nothing: shows what remains of a step without that."""

    def nothing(name: str) -> Callable[..., Callable[..., None]]:
        def quiet(*arguments: Any, **named: Any) -> None:
            seen(name)

        return lambda _: quiet

    patches.wrap(builtins, "print", nothing("print"))
    patches.wrap(logging.Logger, "handle", nothing("logging"))


def one_node(_: Any, patches: Patches, seen: Callable[[str], None]) -> None:
    """Pin the process to one NUMA node, near its memory: the node with most of the CPUs that it may use."""
    nodes = []
    for path in glob.glob(NODES):
        with io.open(path, encoding="ascii") as file:
            nodes.append(_processors(file.read()) & os.sched_getaffinity(0))
    nodes = [node for node in nodes if node]
    if len(nodes) > 1:
        largest = max(nodes, key=len)
        os.sched_setaffinity(0, largest)
        seen("affinity")


def _processors(text: str) -> Set[int]:
    """Return the CPU numbers in one of Linux's lists: 0-3,8."""
    found: Set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found
