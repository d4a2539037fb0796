"""Ends of clean steps, and of those with layers, at their cheapest: two readings of the clock and one of what the process used.

A step may last a quarter of a millisecond, and a hundredth of it is 2.5 us. So where all that is to be done at a step's end is to
note it, that is done here, and told to the pass later, at the next end that takes more: the last of the pass, the first that
comes half a second later, one of a step that is not like others or has ranges open, or of a window after which queued work is
waited for. What takes more costs the next step too, as it fills the processor's caches with ours.
"""

import resource

from kernelscope.tracer.inside.clock import now_ns

_USAGE, _SELF = resource.getrusage, resource.RUSAGE_SELF


class Ends(object):
    """The ends noted since the last one that was not; `stamps` holds [end, used by then, beginning of the next step].

    recorder: of the pass, which counts the steps. count: how many may be noted. until: when none may any more, in ns. queued:
    steps begin where the last one ends, since their work goes on.
    """

    def __init__(self, recorder, count, until, queued):
        self.stamps = []
        self._recorder = recorder
        self._open = recorder.open_ranges()  # at most that of the step itself
        self._left = count
        self._until = until
        self._queued = queued

    def noted(self):
        """Note an end; return whether that is all."""
        end = now_ns()
        if self._left <= 0 or end > self._until or len(self._open) > 1:
            return False
        self._left -= 1
        self._recorder.step += 1  # of ranges from now on
        self.stamps.append((end, _USAGE(_SELF), end if self._queued else now_ns()))
        return True
