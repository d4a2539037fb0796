"""Ends of clean steps, and of those with layers, at their cheapest: one or two readings of the clock.

A step may last a quarter of a millisecond, and a hundredth of it is 2.5 us. So where all that is to be done at a step's end is to
note it, that is done here, and told to the pass later, at the next end that takes more: the last of the pass, the first that
comes half a second later, one of a step that is not like others or has ranges open, or of a window after which queued work is
waited for. What takes more costs the next step too, as it fills the processor's caches with ours. What the process used costs
more to read than all else here (the kernel adds up its threads): it is read after 5 ms, so that short steps share it.
"""

import resource
from typing import Any, List

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.ranges import Recorder

READ_NS = 5000000  # between two readings of what the process used


class Ends(object):
    """The ends noted since the last one that was not; `stamps` holds [end, used by then or None where it was not read,
    beginning of the next step].

    recorder: of the pass, which counts the steps. key: whose ends they are, on the calling thread. count: how many may be noted.
    until: when none may any more, in ns. queued: steps begin where the last one ends, since their work goes on. mark: called at
    each end, where a device has a clock of its own.

    noted(key) notes an end and returns whether that is all. It is a function of its own variables, not a method: those lie
    together, while attributes are looked up in places that the step's own work has driven out of the caches.
    """

    def __init__(self, recorder: Recorder, key: Any, count: int, until: int, queued: bool, mark: Any = None) -> None:
        stamps: List[Any] = []
        self.stamps = stamps
        opened = recorder.open_ranges() if recorder.layers else None  # at most that of the step itself
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
                recorder.step += 1  # of ranges from now on
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
