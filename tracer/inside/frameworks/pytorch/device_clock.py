"""When a GPU was done with each step, by events in its stream: the host may be many steps ahead, and tells its own pace.

An event is put behind a step's work when the step ends on the host. That waits for nothing; the events are read when all of the
work is done.
"""

from typing import Any, List, Optional

from kernelscope.tracer.inside.clock import now_ns


class DeviceClock(object):
    """Marks in the current stream of a GPU. torch: the module."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self._capturing = getattr(torch.cuda, "is_current_stream_capturing", bool)
        self._events: List[Any] = []

    def mark(self) -> None:
        """Note what is queued now as a step's work; raises nothing, for the program goes on in any case."""
        event = None
        try:
            if not self._capturing():  # an event would become a part of the program's graph
                event = self._cuda.Event(enable_timing=True)
                event.record()
        except Exception:
            event = None
        self._events.append(event)

    def ends(self, settled_ns: Optional[int] = None) -> List[int]:
        """Return when the device was done with each mark so far, in ns of our clock; [] where one is missing.

        settled_ns: when it was done with all, where it was waited for; else it is waited for now. Raises what torch does where
        marks are of several devices.
        """
        if settled_ns is None:
            self._cuda.synchronize()
            settled_ns = now_ns()
        if any(event is None for event in self._events):
            return []
        return [settled_ns - int(round(event.elapsed_time(self._events[-1]) * 1e6)) for event in self._events]
