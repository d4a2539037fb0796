"""The cheapest possible ends of clean steps and of steps with layers: one or two readings of the clock.

A step may last a quarter of a millisecond; a hundredth of it is 2.5 us. If a step's end only has to be noted, it is noted here
and passed on later, at the next end that needs more work: the last of the pass, the first one half a second later, the end of
an unusual step or one with open ranges, or the end of a window after which queued work is awaited. An end that needs more work
slows the next step too, as it fills the processor's caches with our data. Reading the process's resource usage costs more than
everything else here (the kernel adds up its threads), so it is read at most every 5 ms and short steps share a reading.
"""

import resource
from typing import Any, List

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.ranges import Recorder

READ_NS = 5000000  # between two readings of the process's resource usage


class Ends(object):
    """The ends noted since the last end that was handled fully.

    `stamps` holds [end, resource usage or None if it was not read, beginning of the next step]. recorder: that of the pass,
    which counts the steps. key: the source of these ends, on the calling thread. count: how many may be noted. until: the time,
    in ns, after which none may be noted. queued: each step begins where the last one ends, since its work goes on. mark: called
    at each end if a device has a clock of its own.

    noted(key) notes an end and returns whether nothing else is needed. It is a closure, not a method: its variables lie
    together, while attributes are looked up in places that the step's own work has driven out of the caches.
    """

    def __init__(self, recorder: Recorder, key: Any, count: int, until: int, queued: bool, mark: Any = None) -> None:
        stamps: List[Any] = []
        self.stamps = stamps
        opened = recorder.open_ranges() if recorder.layers else None  # at most the step's own range
        thread, this, now, used, note = get_ident, get_ident(), now_ns, resource.getrusage, stamps.append
        process, pause = resource.RUSAGE_SELF, READ_NS
        due = now() + pause

        def noted(ended: Any) -> bool:
            nonlocal count, due
            if ended != key or thread() != this:
                return False
            end = now()
            if count <= 0 or end > until:
                return False
            if opened is not None:
                if len(opened) > 1:
                    return False
                recorder.step += 1  # for ranges from now on
            count -= 1
            if mark is not None:
                mark()
            usage = None
            if end >= due:
                usage = used(process)
                due = end + pause
            note((end, usage, end if queued else now()))
            return True

        self.noted = noted
