"""Timing of the script's lines: when each ran (kernels pass), and how often and how long in all (lines pass).

| pass | file | content |
|---|---|---|
| kernels | host_lines.json | every event of the watched functions, to find the line of each kernel and each gap |
| lines | lines.json | hits and time of each line, its calls included; by line_profiler if the script's environment has it |

Without line_profiler, the same numbers are added up from events. Steps that are not measured do not count.
"""

import sys
import types
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List, Optional

from kernelscope.tracer.inside import interrupts, lines
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.originals import dump
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling.focus import Focus, path_of, qualified
from kernelscope.tracer.inside.profiling.line_events import ENTERED, GOES_ON, LEFT, Events, Unavailable
from kernelscope.tracer.inside.ranges import native_thread_id

TIMELINE_FILE, TOTALS_FILE = "host_lines.json", "lines.json"
LEARNING_STEPS = 3  # after which we stop looking for the loop
OWN_TRACER = "the script set a tracer of its own (sys.settrace) meanwhile, and only one can be"
_NANOSECOND = 1e-9


class Lines(object):
    """Watches lines during a pass; in its first steps it learns which functions to watch."""

    watching = True
    _start: Callable[..., Any]  # in the subclasses below: begin with this frame's lines, take a step's, end, write
    _ended: Callable[..., Any]
    _stop: Callable[..., Any]
    _write: Callable[..., Any]

    def __init__(self, focus: Focus, folder: str) -> None:
        self.focus = focus
        self.folder = folder
        self.means: Optional[str] = None  # the source of the line events
        self.unavailable: Optional[str] = None
        self._events = Events(focus)
        self._learning = LEARNING_STEPS if focus.loop is None else 0
        self._started = False

    def begin(self) -> None:
        """Start watching before a step, unless it already goes on."""
        if self._started or self.unavailable is not None:
            return
        frame = _outside()
        self.focus.holds(_stack(frame))
        try:
            self._start(frame)
            self._started = True
        except Unavailable as error:
            self.unavailable = str(error)

    def end(self, counted: Any, start: int, end: int) -> None:
        """End a step that lasted from `start` to `end`. counted: whether it is measured."""
        if not self._started:
            return
        if self._lost():
            self._stop()
            self._started, self.unavailable = False, OWN_TRACER
            return
        self._ended(counted, start, end)
        more = self.focus.holds(_stack(_outside()), self._events.called)
        if more or self._learning:
            self._learning = 0 if self.focus.loop is not None else self._learning - 1
            self._stop()
            self._started = False  # the next step starts with what is known now

    def close(self) -> Dict[str, Any]:
        """Stop watching and write the file; return the entries for the pass's report."""
        if self._started:
            self._stop()
        self._started = False
        if self.unavailable is None:
            self._write()
        report = {"lines_by": self.means, "focus_missed": self.focus.missed()}
        if self.focus.watched:
            root = self.focus.loop if self.focus.loop in self.focus.watched else self.focus.watched[0]
            report["lines_root"] = qualified(root).rpartition(".")[2]
        return report

    def forked(self) -> None:
        """Watch nothing in a forked process."""
        if self._started:
            self._stop()

    def _lost(self) -> bool:
        """Return whether the script has replaced our source of line events with a tracer of its own."""
        return self._events.lost()

    @property
    def full(self) -> bool:
        """Whether there were too many events."""
        return self._events.full

    def held(self) -> int:
        """Return how many events are in memory."""
        return len(self._events.taken)

    def _functions(self) -> List[Any]:
        return [_described(code, self.focus.quotes) for code in self.focus.watched]

    def _save(self, name: str, content: Any) -> None:
        with open(os.path.join(self.folder, name), "w") as out:
            dump(content, out)


class Timeline(Lines):
    """Every event, to be aligned with the records of the framework and its libraries."""

    def __init__(self, focus: Focus, folder: str) -> None:
        super(Timeline, self).__init__(focus, folder)
        self._sessions: List[Any] = []
        self._thread: Optional[int] = None

    def _start(self, frame: FrameType) -> None:
        self._thread = native_thread_id()
        self._events.start(frame, called=self._learning > 0)
        self.means = self._events.means

    def _stop(self) -> None:
        self._events.stop()
        self._sessions.append((self._events.take(), now_ns()))

    def _ended(self, counted: Any, start: int, end: int) -> None:
        """Do nothing: the times show which steps count."""

    def _write(self) -> None:
        sessions = [
            dict(zip(("time_ns", "function", "line"), zip(*events)), end_ns=end) for events, end in self._sessions if events
        ]
        content = {"thread": self._thread, "means": self.means, "functions": self._functions(), "sessions": sessions}
        self._save(TIMELINE_FILE, content)


class Totals(Lines):
    """Hits and time of each line, in measured steps only."""

    def __init__(self, focus: Focus, folder: str) -> None:
        super(Totals, self).__init__(focus, folder)
        self._total: Dict[Any, Any] = {}  # (number of the function, line) -> [hits, ns]
        self._open: List[Any] = []  # calls of watched functions: [number of the function, line or None, since when]
        self._counter: Any = None  # line_profiler, once it counts
        self._tracer: Any = None  # what the interpreter calls for it
        self._before: Dict[Any, Any] = {}
        self._since = 0  # the time up to which events are added up
        if focus.whole:
            self._events.fold = self._fold

    def _start(self, frame: FrameType) -> None:
        profiler = None if self._learning else _line_profiler(self.focus.watched)
        if profiler is None:
            self._events.start(frame, called=self._learning > 0)
            self._added_up(0, 0)  # the calls that are open
            self._since = now_ns()
            self.means = self._events.means
        else:
            self._before = _counts(profiler)
            self._counter = profiler
            profiler.enable_by_count()
            self._tracer = sys.gettrace()
            self.means = "line_profiler " + sys.modules["line_profiler"].__version__

    def _stop(self) -> None:
        if self._counter is not None:
            tracer = sys.gettrace()
            self._counter.disable_by_count()
            if tracer is not self._tracer:  # the script's own, which line_profiler has removed
                sys.settrace(tracer)
            self._counter = None
        else:
            self._events.stop()
            self._events.take()
            self._open = []

    def _lost(self) -> bool:
        return super(Totals, self)._lost() if self._counter is None else sys.gettrace() is not self._tracer

    def _ended(self, counted: Any, start: int, end: int) -> None:
        start = max(start, self._since) if self.focus.whole else start
        found = self._counted() if self._counter is not None else self._added_up(start, end)
        if counted:
            self._add(found)

    def _add(self, found: Dict[Any, Any]) -> None:
        for key, (hits, time) in found.items():
            entry = self._total.setdefault(key, [0, 0])
            entry[0] += hits
            entry[1] += time

    def _fold(self) -> None:
        """Add up the events so far, in the middle of a step that is a whole program."""
        now = now_ns()
        self._add(self._added_up(self._since, now))
        self._since = now

    def _counted(self) -> Dict[Any, Any]:
        """Return line_profiler's counts since the last step's end."""
        now, before = _counts(self._counter), self._before
        self._before = now
        found = {key: (hits - before.get(key, (0, 0))[0], time - before.get(key, (0, 0))[1]) for key, (hits, time) in now.items()}
        return {key: both for key, both in found.items() if any(both)}

    def _added_up(self, start: int, end: int) -> Any:
        """Add up the step's events; lines already running when it began are timed from its start."""
        found: Dict[Any, Any] = {}
        calls = self._open
        for entry in calls:
            entry[2] = start
        for time, number, line in self._events.take():
            if line == ENTERED:
                calls.append([number, None, time])
                continue
            while calls and calls[-1][0] != number:  # a call whose end was not reported
                _spent(found, calls.pop(), time)
            if not calls:
                calls.append([number, None, time])
            _spent(found, calls[-1], time)
            if line == LEFT:
                calls.pop()
            elif line < LEFT:
                calls[-1][1:] = [GOES_ON - line, time]
            else:
                calls[-1][1:] = [line, time]
                found.setdefault((number, line), [0, 0])[0] += 1
        for entry in calls:
            _spent(found, entry, max(end, entry[2]))
        return found

    def _write(self) -> None:
        timings: Dict[Any, Any] = {}
        for (number, line), (hits, time) in sorted(self._total.items()):
            timings.setdefault(number, []).append([line, hits, time])
        functions = [
            dict(_described(self.focus.watched[number], self.focus.quotes), timings=rows)
            for number, rows in sorted(timings.items())
        ]
        if functions:
            self._save(TOTALS_FILE, {"unit_s": _NANOSECOND, "by": self.means, "functions": functions})


def _spent(found: Any, entry: Any, now: Any) -> None:
    """Add the time since a call's last event to the line it was in."""
    number, line, since = entry
    if line is not None:
        found.setdefault((number, line), [0, 0])[1] += now - since


def _line_profiler(codes: Any) -> Any:
    """Return a LineProfiler over these code objects; None if it is not available or cannot count them.

    line_profiler 5.1 and later replace the code of every function, which running calls do not notice; earlier versions do so
    only for functions whose code another function shares.
    """
    with interrupts.deferred():
        try:
            import line_profiler
        except Exception:  # not installed, or not for this interpreter
            return None
    if sys.gettrace() is not None:
        return None
    profiler: Any = line_profiler.LineProfiler()
    for code in codes:
        cells = tuple(_cell() for _ in code.co_freevars)
        function = types.FunctionType(code, {}, code.co_name, None, cells)  # the script's own must not be changed
        profiler.add_function(function)
        if function.__code__ is not code:
            return None
    profiler.kernelscope_codes = {(code.co_filename, code.co_firstlineno): number for number, code in enumerate(codes)}
    return profiler


def _cell() -> Any:
    value = None
    made: Any = lambda: value  # noqa: E731
    return made.__closure__[0]


def _counts(profiler: Any) -> Dict[Any, Any]:
    """Return the counts so far: {(number of the function, line): (hits, ns)}."""
    stats = profiler.get_stats()
    numbers = profiler.kernelscope_codes
    return {
        (numbers[file, first], line): (hits, int(round(time * stats.unit / _NANOSECOND)))
        for (file, first, _), timings in stats.timings.items()
        if (file, first) in numbers
        for line, hits, time in timings
    }


def _described(code: CodeType, quotes: bool) -> Dict[str, Any]:
    path = path_of(code)
    return {
        "file": shown(path),
        "function": qualified(code),
        "first_line": code.co_firstlineno,
        "source": _source(path, code) if quotes else [],
    }


def shown(path: str) -> str:
    """Return a path as users know it: relative to the script's folder, else to where packages are installed."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    roots = [os.path.dirname(os.path.abspath(main))] if main else []
    return lines.shortened(path, roots + [entry for entry in sys.path if entry and entry != os.sep])


def _source(path: str, code: CodeType) -> Any:
    """Return the function's lines; for a module, all of its lines."""
    return lines.source(path, code.co_firstlineno, whole=code.co_name == "<module>")


def _outside() -> Any:
    """Return the innermost frame that is not ours."""
    frame: Optional[FrameType] = sys._getframe(1)
    here = os.path.dirname(os.path.abspath(__file__))
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(here):
        frame = frame.f_back
    return frame


def _stack(frame: Optional[FrameType]) -> Any:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames
