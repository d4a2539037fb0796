"""Ends of clean steps, and of those with layers, at their cheapest: two readings of the clock and one of what the process used.

A step may last a quarter of a millisecond, and a hundredth of it is 2.5 us. So where all that is to be done at a step's end is to
note it, that is done here, and told to the pass later, at the next end that takes more: the last of the pass, the first that
comes half a second later, one of a step that is not like others or has ranges open, or of a window after which queued work is
waited for. What takes more costs the next step too, as it fills the processor's caches with ours.
"""

import resource

from kernelscope.tracer.inside.clock import now_ns


class Ends(object):
    """The ends noted since the last one that was not; `stamps` holds [end, used by then, beginning of the next step].

    recorder: of the pass, which counts the steps. count: how many may be noted. until: when none may any more, in ns. queued:
    steps begin where the last one ends, since their work goes on.

    noted() notes an end and returns whether that is all. It is a function of its own variables, not a method: those lie
    together, while attributes are looked up in places that the step's own work has driven out of the caches.
    """

    def __init__(self, recorder, count, until, queued):
        self.stamps = stamps = []
        opened = recorder.open_ranges() if recorder.layers else None  # at most that of the step itself

        def noted(now=now_ns, used=resource.getrusage, process=resource.RUSAGE_SELF, note=stamps.append):
            nonlocal count
            end = now()
            if count <= 0 or end > until:
                return False
            if opened is not None:
                if len(opened) > 1:
                    return False
                recorder.step += 1  # of ranges from now on
            count -= 1
            note((end, used(process), end if queued else now()))
            return True

        self.noted = noted
