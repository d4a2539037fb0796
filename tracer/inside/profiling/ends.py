"""Ends of clean steps, at their cheapest: two readings of the clock and one of what the process used.

A step may last a quarter of a millisecond, and a hundredth of it is 2.5 us. So where all that is to be done at a step's end is to
note it, that is done here, and told to the pass later, at the next end that takes more: the last of the pass, the first that
comes half a second later, one of a step that is not like others, or of a window after which queued work is waited for.
"""

import resource

from kernelscope.tracer.inside.clock import now_ns

_USAGE, _SELF = resource.getrusage, resource.RUSAGE_SELF


class Ends(object):
    """The ends noted since the last one that was not; `stamps` holds [end, used by then, beginning of the next step].

    count: how many may be noted. until: when none may any more, in ns. queued: steps begin where the last one ends, since their
    work goes on.
    """

    def __init__(self, count, until, queued):
        self.stamps = []
        self._left = count
        self._until = until
        self._queued = queued

    def noted(self):
        """Note an end; return whether that is all."""
        end = now_ns()
        if self._left <= 0 or end > self._until:
            return False
        self._left -= 1
        self.stamps.append((end, _USAGE(_SELF), end if self._queued else now_ns()))
        return True
