"""Ranges around steps, phases and layers, recorded in memory and, if a tool listens, emitted as NVTX.

A range belongs to the thread that opened it and nests in the ranges open on that thread. Categories are "step", "data",
"phase", "layer" and "sync"; `layer` and `phase` say what the time inside belongs to (see the Trace's documentation).
"""

import ctypes
import functools
import itertools
import platform
import resource
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.originals import dumps
from kernelscope.tracer.inside.own import open, os

_native_id: Any = getattr(threading, "get_native_id", None)  # as it was before the program could replace it
_SYS_GETTID = {"x86_64": 186, "aarch64": 178, "ppc64le": 207}


def native_thread_id() -> int:
    """Return the operating system's id of the calling thread (what profilers call tid)."""
    if _native_id is not None:
        return _native_id()
    number = _SYS_GETTID.get(platform.machine())
    return ctypes.CDLL(None).syscall(number) if number else threading.get_ident()


class Recorder(object):
    """Always collects steps, and ranges while `layers` is on; `flush` writes what was collected since the last flush.

    nvtx: an object with push(name) and pop(), or None. marker_fd: a file descriptor to which each range's begin and end are
    written as lines, so that a library's untimed output in the same stream can be placed between them. correlator: an object
    with push(number) and pop(number, name, thread, start, end), or None (see cupti).
    """

    def __init__(self, folder: str, layers: bool = False, nvtx: Any = None, marker_fd: Optional[int] = None) -> None:
        self.folder = folder
        self.layers = layers
        self.nvtx = nvtx
        self.marker_fd: Any = marker_fd
        self.correlator: Any = None
        self.window: Optional[int] = None
        self.step = -1
        self.in_step = False
        # set by hooks: waits at the end of a loop's last step for work that is still queued
        self.settle: Optional[Callable[[], Any]] = None
        self._begun = 0
        self._before: Any = None
        self._steps: List[Any] = []
        self._ranges: List[Any] = []  # flat: the RANGE_FIELDS of one range after the other
        self._numbers = itertools.count(1)
        self._local = threading.local()
        self._thread: Optional[int] = None  # the thread that steps, and its open ranges, outermost first
        self._open: List[Any] = []

    def _stack(self) -> List[Any]:
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            self._local.thread = native_thread_id()
            return self._local.stack

    def push(self, category: str, name: str, layer: Optional[str] = None, phase: Optional[str] = None) -> Optional[int]:
        """Open a range on the calling thread; return its number. Outside a step, or with ranges off, this does nothing."""
        if not self.layers or not self.in_step:
            return None
        try:
            stack = self._local.stack
        except AttributeError:
            stack = self._stack()
        if self.nvtx is not None:
            self.nvtx.push(name)
        number = next(self._numbers)
        if self.correlator is not None:
            self.correlator.push(number)
        start = now_ns()
        stack.append((start, category, name, layer, phase, number))
        if self.marker_fd is not None:
            self._mark(b"@kernelscope %d B %s\n" % (start, name.encode("utf8", "replace")))
        return number

    def pop(self) -> None:
        """Close the innermost range of the calling thread; ignored if none is open."""
        if not self.layers:
            return
        stack = self._stack()
        if stack:
            self._end(stack)

    def _end(self, stack: List[Any]) -> None:
        """Close the innermost range of the calling thread, whose stack this is."""
        start, category, name, layer, phase, number = stack.pop()
        if self.marker_fd is not None:
            # written before the range ends: the cost of marking belongs to the marked range, not to the one around it
            self._mark(b"@kernelscope %d E %s\n" % (now_ns(), name.encode("utf8", "replace")))
        end = now_ns()
        # no tuple for each: containers that stay make Python's garbage collector look at all objects
        self._ranges.extend((self._local.thread, start, end, category, name, layer, phase, self.step))
        if self.correlator is not None:
            self.correlator.pop(number, name, self._local.thread, start, end)
        if self.nvtx is not None:
            self.nvtx.pop()

    def _mark(self, line: bytes) -> None:
        """Write a mark into the libraries' output; stop marking if the disk is full or files may not grow."""
        try:
            os.write(self.marker_fd, line)
        except OSError:
            self.marker_fd = None

    def close(self, number: Optional[int]) -> None:
        """Close the range of this number, which `push` returned, and those opened in it; do nothing if it is closed already.

        For ranges that may extend beyond a step's end, which closes all ranges of its thread.
        """
        if number is None or not self.layers:
            return
        try:
            stack = self._local.stack
        except AttributeError:
            stack = self._stack()
        if stack and stack[-1][5] == number:  # as nearly always
            self._end(stack)
        elif any(entry[5] == number for entry in stack):
            while stack[-1][5] != number:
                self.pop()
            self.pop()

    def close_parts(self, number: Optional[int], since: Optional[int], name: str, phase: str) -> None:
        """Close the range of this number; if a step's end closed it, record its part in the present step, as `name`.

        since: when the last such step ended.
        """
        if number is None or not self.layers:
            return
        stack = self._stack()
        if any(entry[5] == number for entry in stack):
            self.close(number)
        elif since is not None and self.in_step and len(stack) == 1:
            self._ranges.extend((self._local.thread, since, now_ns(), "phase", name, None, phase, self.step))

    def innermost_layer(self) -> Optional[str]:
        """Return the layer of the innermost range of the calling thread that has one, else None."""
        for entry in reversed(self._stack()):
            if entry[3] is not None:
                return entry[3]
        return None

    def loading(self) -> bool:
        """Return whether the calling thread is loading a batch: its calls then belong to the input, not to a layer."""
        return any(entry[1] == "data" for entry in self._stack())

    def ranged(
        self, function: Callable[..., Any], category: str, name: str, phase: str, layer: Optional[str] = None
    ) -> Callable[..., Any]:
        """Return the function with a range around each call; no step may end within it."""
        push, pop = self.push, self.pop

        @functools.wraps(function)
        def inside(*arguments: Any, **keywords: Any) -> Any:
            push(category, name, layer, phase)
            try:
                return function(*arguments, **keywords)
            finally:
                pop()

        return inside

    def around(self, category: str, name: str, phase: str, layer: Optional[str] = None) -> Callable[..., Any]:
        """Return a decorator that puts a range around each call; a step may end within the call."""
        push, close = self.push, self.close

        def ranged(function: Callable[..., Any]) -> Callable[..., Any]:
            def inside(*arguments: Any, **keywords: Any) -> Any:
                number = push(category, name, layer, phase)
                try:
                    return function(*arguments, **keywords)
                finally:
                    close(number)

            return inside

        return ranged

    def steps(self, batches: Iterator[Any], count: int, warmup: bool = False) -> Iterator[Any]:
        """Yield `count` items of the iterator `batches`; a step lasts from the request for its batch to the next request.

        The last step ends when the loop asks for a batch that does not exist. So the loop's own work after the last batch is
        inside the step, and waiting between windows is outside every step.
        """
        for number in range(count):
            self.begin_step()
            self.push("data", "data", phase="data")
            item = next(batches)
            self.pop()
            yield item
            if number == count - 1 and self.settle is not None:
                self.settle()
            self.end_step(warmup)

    def begin_step(self, since: Optional[int] = None) -> None:
        """Begin a step on the calling thread. since: when it began, if the steps' work goes on between them."""
        self.step += 1
        self._open = self._stack()
        self._thread = self._local.thread
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        self._begun = now_ns() if since is None else since
        self.in_step = True
        self.push("step", "step %d" % self.step)

    def end_step(self, warmup: bool = False) -> Tuple[int, int]:
        """End the step and all ranges that are open on the calling thread; return when it began and ended."""
        stack = self._stack()
        while stack and self.layers:
            self.pop()
        self.in_step = False
        end = now_ns()
        after = resource.getrusage(resource.RUSAGE_SELF)
        self._steps.append((self.step, self.window, warmup, self._begun, end, self._before, after))
        return self._begun, end

    def ended(self, stamps: Sequence[Any], warmup: bool, windows: Sequence[Optional[int]]) -> None:
        """Take over ends of steps noted elsewhere: [end, usage by then or None, beginning of the next step], and each one's
        window. Steps without a reading at their end share the next one (see _used).

        With ranges on, they were counted in `step` when they were noted, and only the step's own range was open.
        """
        if not self.layers:
            self.step += len(stamps)
        for step, (end, after, begun), window in zip(itertools.count(self.step - len(stamps)), stamps, windows):
            self._steps.append((step, window, warmup, self._begun, end, self._before, after))
            if self._open:
                start, category, name, layer, phase, number = self._open[0]
                self._ranges.extend((self._thread, start, end, category, name, layer, phase, step))
                self._open[0] = begun, category, "step %d" % (step + 1), layer, phase, number
            self._begun, self._before = begun, after

    def move_boundary(self) -> int:
        """End the previous step, which is not written yet, and begin the current one now; return the time.

        Called within a step, on its own thread. Ranges of the current step that are closed by now become the previous step's.
        """
        now, before = now_ns(), resource.getrusage(resource.RUSAGE_SELF)
        step, window, warmup, begun, _, used, _ = self._steps[-1]
        self._steps[-1] = step, window, warmup, begun, now, used, before
        self._begun, self._before = now, before
        if self._open:
            self._open[0] = (now,) + self._open[0][1:]
            self._ranges = [value for row in _rows(self._ranges) for value in _of_last_step(row, step, now)]
        return now

    def flush(self) -> None:
        """Append what was recorded to steps.jsonl and ranges.jsonl in the pass's folder, then discard it."""
        thread = native_thread_id() if self._thread is None else self._thread
        with open(os.path.join(self.folder, "steps.jsonl"), "a") as out:
            for (step, window, warmup, start, end, _, _), used in zip(self._steps, _used(self._steps)):
                row = {
                    "step": step,
                    "window": window,
                    "warmup": warmup,
                    "thread": thread,
                    "start_ns": start,
                    "end_ns": end,
                }
                row.update(used)
                out.write(dumps(row) + "\n")
        with open(os.path.join(self.folder, "ranges.jsonl"), "a") as out:
            for row in self.ranges():
                out.write(dumps(dict(zip(RANGE_FIELDS, row))) + "\n")
        self._steps, self._ranges = [], []

    def open_ranges(self) -> List[Any]:
        """Return the open ranges of the thread that steps, outermost first: the live list itself."""
        return self._open

    def held(self) -> int:
        """Return how many ranges are in memory."""
        return len(self._ranges) // len(RANGE_FIELDS)

    def ranges(self) -> List[Any]:
        """Return the ranges since the last flush, in the order of their ends, as tuples of RANGE_FIELDS."""
        return sorted(_rows(self._ranges), key=lambda row: row[2])

    def busy_times(self) -> Dict[int, int]:
        """Return {step: its time without waiting, in ns} since the last flush: the shorter of its wall and its CPU time."""
        taken = {step[0]: step[4] - step[3] for step in self._steps}
        for step, used in zip(self._steps, _used(self._steps)):
            if used["user_ns"] is not None:
                taken[step[0]] = min(taken[step[0]], used["user_ns"] + used["system_ns"])
        return taken

    def step_times(self) -> List[int]:
        """Return the durations in ns of the steps since the last flush, in order."""
        return [row[4] - row[3] for row in self._steps]


RANGE_FIELDS = ("thread", "start_ns", "end_ns", "category", "name", "layer", "phase", "step")
_USAGE = {  # our name -> field of getrusage, how many of our units make one of its units
    "minor_faults": ("ru_minflt", 1),
    "major_faults": ("ru_majflt", 1),
    "user_ns": ("ru_utime", 1e9),
    "system_ns": ("ru_stime", 1e9),
    "voluntary_switches": ("ru_nvcsw", 1),
    "involuntary_switches": ("ru_nivcsw", 1),
}


def _rows(ranges: Sequence[Any]) -> Iterator[Any]:
    """Yield the ranges of a flat list as tuples of RANGE_FIELDS."""
    values = iter(ranges)
    return zip(*[values] * len(RANGE_FIELDS))


def _of_last_step(row: Any, step: int, now: int) -> Any:
    """Return a range after the end of this step moved to now: ranges of the next step become this one's."""
    thread, start, end, category, name, layer, phase, number = row
    if number == step and category == "step":
        end = now
    return thread, start, end, category, name, layer, phase, step if number == step + 1 else number


def _used(steps: Sequence[Any]) -> List[Dict[str, Any]]:
    """Return what the process used in each of these steps, as a list of {name: count or ns}.

    Steps without a reading between them share their total in proportion to their durations, so that it adds up. Usage is
    unknown (None) for steps after the last reading.
    """
    found, group = [], []
    for step in steps:
        group.append(step)
        if step[6] is not None:
            found += _shared(_between(group[0][5], step[6]), [max(1, end - start) for _, _, _, start, end, _, _ in group])
            group = []
    return found + [dict.fromkeys(_USAGE) for _ in group]


def _shared(used: Dict[str, int], durations: Sequence[int]) -> List[Dict[str, int]]:
    reached = [0] + list(itertools.accumulate(durations))
    parts = zip(reached, reached[1:])
    return [{name: used[name] * end // reached[-1] - used[name] * start // reached[-1] for name in used} for start, end in parts]


def _between(before: Any, after: Any) -> Dict[str, int]:
    """Return what the process used between two getrusage readings."""
    return {name: int((getattr(after, field) - getattr(before, field)) * scale) for name, (field, scale) in _USAGE.items()}
