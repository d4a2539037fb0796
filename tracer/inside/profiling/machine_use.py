"""How many cores other processes keep busy during a pass, from /proc; a machine in use by others makes steps longer."""

from typing import Any, Optional, Sequence, Tuple

from kernelscope.tracer.inside.agent.machine import core_times
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.own import os

_TICK_NS = 1000000000 // os.sysconf("SC_CLK_TCK")
_LEAST_NS = 3 * _TICK_NS  # shorter passes cannot be resolved in ticks


def reading() -> Tuple[int, int, int]:
    """Return (now, processor time of this process, busy time of the cores that it may use), in ns."""
    cores = core_times()
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else cores
    busy = sum(total - idle for core, (idle, total) in cores.items() if core in allowed)
    times = os.times()
    return now_ns(), int((times[0] + times[1]) * 1e9), busy * _TICK_NS


def foreign_cores(before: Any, after: Any) -> Optional[float]:
    """Return how many cores were busy with other work between two readings; None if the time is too short to tell."""
    wall, own, busy = (later - earlier for earlier, later in zip(before, after))
    return None if wall < _LEAST_NS else round(max(0.0, float(busy - own) / wall), 3)


def summed(spans: Sequence[Tuple[Any, Any]]) -> Tuple[Any, Any]:
    """Return two readings as far apart as all of these spans (before, after) together."""
    return (0, 0, 0), tuple(sum(after[place] - before[place] for before, after in spans) for place in range(3))
