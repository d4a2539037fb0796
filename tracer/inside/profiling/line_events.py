"""Line events of watched functions on one thread: where each function begins, each line, where it is left.

Python 3.12 and later have sys.monitoring, which costs nothing in functions that are not watched. Earlier versions need
sys.settrace, which slows down all Python code of the thread: by 8% of a step of 2.4 ms with five layers. Frames already running
when events start are watched from their present line.

An event is (time in ns, number of the function, line). line is ENTERED or LEFT where a call begins and ends, and GOES_ON - line
where one continues in the middle of a line: in frames that were running, and where a generator is resumed.
"""

import sys
from types import CodeType, FrameType
from typing import Any, List, Optional, Sequence, Set

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.profiling.focus import Focus

ENTERED, LEFT, GOES_ON = 0, -1, -1
MOST_EVENTS = 500000  # in memory, some 100 bytes each

_MONITORING: Any = getattr(sys, "monitoring", None)


class Unavailable(Exception):
    """Line events are not available, for this reason."""


class Events(object):
    """Collects the events of the functions that `focus` watches, from `start` to `stop`; `taken` holds those since the last
    `take`.
    """

    def __init__(self, focus: Focus) -> None:
        self.focus = focus
        self.taken: List[Any] = []
        self.called: Optional[Set[int]] = None  # ids of the code objects that were called since the last `start(called=True)`
        self.full = False
        self.fold: Any = None  # called to consume the events when there are too many to keep; without it no more are noted
        self._running = False
        self._thread: Any = None
        self._source = Monitoring(self) if hasattr(sys, "monitoring") else Tracing(self)

    @property
    def means(self) -> str:
        """The source of the events."""
        return self._source.means

    def start(self, frame: FrameType, called: bool = False) -> None:
        """Watch the calling thread; `frame` is the innermost frame that may be watched. Raises Unavailable."""
        self._thread = get_ident()
        self.called = set() if called else None
        self._source.begin()
        self._running = True
        running = [one for one in _stack(frame) if self.focus.decided(one)]
        for one in reversed(running):
            self.add(one.f_code, ENTERED)
            self.add(one.f_code, GOES_ON - one.f_lineno)
        self._source.watch(running)

    def stop(self) -> None:
        """Stop watching, also in functions that are still running."""
        if self._running:
            self._running = False
            self._source.end(get_ident() == self._thread)

    def lost(self) -> bool:
        """Return whether the program has replaced our tracer with its own on the watched thread."""
        return self.running() and self._source.lost()

    def take(self) -> List[Any]:
        """Return the events so far and forget them."""
        taken, self.taken = self.taken, []
        return taken

    def running(self) -> bool:
        """Return whether events are wanted on this thread."""
        return self._running and get_ident() == self._thread

    def add(self, code: CodeType, line: Optional[int]) -> None:
        """Note an event; if there are too many, note nothing more."""
        if len(self.taken) >= MOST_EVENTS:
            if self.fold is None:
                self.full = True
                return
            self.fold()
        self.taken.append((now_ns(), self.focus.number(code), line))


class Tracing(object):
    """Events by sys.settrace: local trace functions for watched frames, none for others."""

    means = "sys.settrace"

    def __init__(self, events: Any) -> None:
        self._events = events

    def begin(self) -> None:
        """Check that nobody else traces."""
        if sys.gettrace() is not None:
            raise Unavailable("the script is traced already (by a debugger or for coverage), and only one can")

    def watch(self, frames: Sequence[FrameType]) -> None:
        """Begin, with these frames already watched."""
        for frame in frames:
            frame.f_trace = self._local
        sys.settrace(self._called)

    def lost(self) -> bool:
        """Return whether the program has replaced our tracer with another one or none."""
        return sys.gettrace() != self._called

    def end(self, here: FrameType) -> None:
        """End tracing, unless it is by the program's own tracer. On a thread other than the traced one, tracing ends with that
        thread's next call.
        """
        if here:
            self._end_on_this_thread()
            for frame in _stack(sys._getframe()):
                if frame.f_trace == self._local:
                    frame.f_trace = None

    def _end_on_this_thread(self) -> None:
        if not self.lost():
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        events = self._events
        if not events.running():
            self._end_on_this_thread()
            return None
        if events.called is not None:
            events.called.add(id(frame.f_code))
        if not events.focus.decided(frame):
            return None
        events.add(frame.f_code, ENTERED)
        if frame.f_lasti >= 0 and frame.f_lineno != frame.f_code.co_firstlineno:
            events.add(frame.f_code, GOES_ON - frame.f_lineno)
        return self._local

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._events.add(frame.f_code, frame.f_lineno)
        elif event == "return":
            self._events.add(frame.f_code, LEFT)
        return self._local


class Monitoring(object):
    """Events by sys.monitoring: line events of watched code objects, the first call of each other function, and unwinding."""

    means = "sys.monitoring"

    def __init__(self, events: Any) -> None:
        self._events = events
        self._tool: Any = None
        self._local = 0
        self._watched: List[Any] = []

    def begin(self) -> None:
        """Register as a tool of the interpreter."""
        monitoring = _MONITORING
        free = [number for number in (2, 3, 4) if monitoring.get_tool(number) is None]  # 2 is for profilers
        if not free:
            raise Unavailable("all numbers of sys.monitoring's tools are taken")
        self._tool = free[0]
        monitoring.use_tool_id(self._tool, "kernelscope")
        kinds = monitoring.events
        self._local = kinds.LINE | kinds.PY_RETURN | kinds.PY_YIELD
        for kind, function in (
            (kinds.LINE, self._line),
            (kinds.PY_START, self._started),
            (kinds.PY_RESUME, self._resumed),
            (kinds.PY_THROW, self._thrown),
            (kinds.PY_RETURN, self._left),
            (kinds.PY_YIELD, self._left),
            (kinds.PY_UNWIND, self._unwound),
        ):
            monitoring.register_callback(self._tool, kind, function)

    def watch(self, frames: Sequence[FrameType]) -> None:
        """Begin, with these frames already watched."""
        monitoring = _MONITORING
        kinds = monitoring.events
        for code in self._events.focus.watched:
            self._watch(code)
        monitoring.restart_events()
        monitoring.set_events(self._tool, kinds.PY_START | kinds.PY_RESUME | kinds.PY_THROW | kinds.PY_UNWIND)

    def lost(self) -> bool:
        """Return False: the program's own tracer coexists with this one and does not replace it."""
        return False

    def _watch(self, code: CodeType) -> None:
        _MONITORING.set_local_events(self._tool, code, self._local)
        self._watched.append(code)

    def end(self, here: FrameType) -> None:
        """End monitoring."""
        monitoring = _MONITORING
        monitoring.set_events(self._tool, 0)
        for code in self._watched:
            monitoring.set_local_events(self._tool, code, 0)
        self._watched = []
        monitoring.free_tool_id(self._tool)

    def _started(self, code: CodeType, offset: int) -> Any:
        events = self._events
        if not events.running():
            return None
        if events.called is not None:
            events.called.add(id(code))
        frame: Any = sys._getframe(1)
        while frame.f_code is not code:  # called by another callback
            frame = frame.f_back
        if not events.focus.decided(frame):
            return _MONITORING.DISABLE
        if not any(code is one for one in self._watched):
            self._watch(code)
        events.add(code, ENTERED)
        return None

    def _resumed(self, code: CodeType, offset: int) -> Any:
        told = self._started(code, offset)
        if self._is_watched(code):
            self._events.add(code, GOES_ON - sys._getframe(1).f_lineno)
        return told

    def _thrown(self, code: CodeType, offset: int, error: Any) -> None:
        if self._is_watched(code):
            self._events.add(code, ENTERED)

    def _line(self, code: CodeType, line: int) -> None:
        if self._events.running():
            self._events.add(code, line)

    def _left(self, code: CodeType, offset: int, value: Any) -> None:
        if self._events.running():
            self._events.add(code, LEFT)

    def _unwound(self, code: CodeType, offset: int, error: Any) -> None:
        if self._is_watched(code):
            self._events.add(code, LEFT)

    def _is_watched(self, code: CodeType) -> bool:
        return self._events.running() and any(code is one for one in self._watched)


def _stack(frame: Optional[FrameType]) -> List[FrameType]:
    """Return the frames from this one to the outermost."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames
