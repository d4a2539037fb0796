"""When the GPU finished each step, by events in its stream: the host may be many steps ahead, and its times show its own pace.

An event is recorded behind a step's work when the step ends on the host. This does not wait; the events are read when all work
is done.
"""

from typing import Any, List, Optional

from kernelscope.tracer.inside.clock import now_ns


class DeviceClock(object):
    """Marks in a GPU's current stream. torch: the module."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self._capturing = getattr(torch.cuda, "is_current_stream_capturing", bool)
        self._events: List[Any] = []

    def mark(self) -> None:
        """Mark the end of a step's work behind everything queued so far; never raise, so that the program goes on."""
        event = None
        try:
            if not self._capturing():  # an event would become part of the program's graph
                event = self._cuda.Event(enable_timing=True)
                event.record()
        except Exception:
            event = None
        self._events.append(event)

    def ends(self, settled_ns: Optional[int] = None) -> List[int]:
        """Return when the device reached each mark so far, in ns of our clock; [] if a mark is missing.

        settled_ns: when it had finished everything, if that was already waited for; otherwise wait for it now. Raises what
        torch raises if the marks are on several devices.
        """
        if settled_ns is None:
            self._cuda.synchronize()
            settled_ns = now_ns()
        if any(event is None for event in self._events):
            return []
        return [settled_ns - int(round(event.elapsed_time(self._events[-1]) * 1e6)) for event in self._events]
