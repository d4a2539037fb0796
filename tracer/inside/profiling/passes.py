"""One pass over a few steps of a script: what it switches on, and the files it leaves, those of a run folder's pass."""

import platform
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from kernelscope.tracer.inside import annotations, heap, interrupts, memory, plan, steady, streams, threads
from kernelscope.tracer.inside.clock import anchor, now_ns
from kernelscope.tracer.inside.frameworks.script import Base
from kernelscope.tracer.inside.originals import dump
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling import budget, host_lines, machine_use, parts
from kernelscope.tracer.inside.profiling.ends import Ends
from kernelscope.tracer.inside.profiling.focus import Focus
from kernelscope.tracer.inside.profiling.inputs import Inputs
from kernelscope.tracer.inside.profiling.printed import LOST, ONEDNN, UNTIMED, Printed, Unrecorded, lacks_disk
from kernelscope.tracer.inside.ranges import Recorder

FLUSH_NS = 500000000  # between two writes of clean steps: each takes some 100 us
FEWEST_STEPS = 3  # of a pass that takes too long
MOST_LINES = 200000  # of a whole program, if its operators are recorded too
LEAST_MEMORY = 1 << 30  # bytes that must stay free during a pass over a whole program
OVER, PART = "over", "part"  # what ends with a step: the pass, or a part of it, as much as is held at a time


class Pass(object):
    """A pass from its opening, between two steps, to its closing.

    spec: see recording. wanted: {"pass", "skip", "steps"}; for a later part also "begun" (see rest); "more": how many extra
    steps to take if their times waver (see steady). known: facts already known, for the report. focus: which functions' lines
    are watched.
    """

    def __init__(self, spec: Dict[str, Any], adapter: Base, wanted: Dict[str, Any], known: Dict[str, Any], focus: Focus) -> None:
        self.name = wanted["pass"]
        self.adapter = adapter
        self._wanted = wanted
        self._seconds = spec["seconds"]
        self._whole = spec["mode"] == plan.WHOLE
        self._done = 0
        self._measured = 0
        self._times: List[int] = []  # of measured steps, ns
        self._begun: Any = wanted.get("begun")
        self._ended: Optional[int] = None  # when the last step ended, if the next one begins then
        self._last_counts = False  # whether that step is measured
        self._limit = spec["limit"]
        # in the kernels pass, after a first step: what profilers allocate up front is no trace
        self._resident: Optional[int] = None
        self._operator_files: List[str] = []  # parts of the framework's own trace written so far
        self._flushed = now_ns()
        self._full: Optional[str] = None  # why it cannot go on
        self._cut_short = False  # whether the current step lacks some of its kernels
        self.closed = threading.Event()
        self.folder = parts.new_folder(spec["folder"], self.name)
        self.report = {
            "pass": self.name,
            "python": platform.python_version(),
            "framework": adapter.framework,
            "anchors": [anchor()],
            "complete": False,
            "reason": "the process ended without notice",
            "odd_steps": {},
        }
        self.report.update(known)
        self.recorder = Recorder(self.folder, layers=self.name in ("layers", "kernels"))
        self._device: Any = None  # the device's clock, in clean steps
        self._settled_ns: Optional[int] = None  # when the device finished the last step
        self.printed: Any = None
        self.inputs = Inputs(self.recorder)
        self.lines = {"kernels": host_lines.Timeline, "lines": host_lines.Totals}.get(self.name, _NoLines)(focus, self.folder)
        self._start()
        self._use = machine_use.reading()
        self._compiled = adapter.compiled and adapter.compiled.mark()
        self._write_report()

    def _start(self) -> None:
        """Switch on what this pass records."""
        report, adapter = self.report, self.adapter
        self._tried("waiting for earlier steps", adapter.settle)  # else the first step would include their work
        if self.name == "clean":
            self._device = self._tried("the device's clock", adapter.device_clock)
        report["versions"] = self._tried("versions", adapter.versions) or {}
        if self.recorder.layers:
            annotations.record(self.recorder)
            report["methods"] = self._tried("layers", adapter.attach, self.recorder, self.name == "kernels") or {}
            self._tried("input", self.inputs.attach)
            left_out = self._wanted.get("left_out")
            if left_out is not None and adapter.keep(left_out["kept"], left_out["phases"]):
                self._leave_out(left_out)
        if self.name == "kernels":
            open(os.path.join(self.folder, streams.STDOUT_FILE), "a").close()
            if adapter.prints:
                self._tried("lines of libraries", self._start_printing)
            self._tried("operators", adapter.start_operators, self.folder)
            if self._whole:
                self._tried("warming up", adapter.warm_up)

    def _start_printing(self) -> None:
        """Let libraries print their calls, with descriptor 1 pointing at a file of ours; raise Unrecorded if that is not
        possible.
        """
        lacking = lacks_disk(self.folder)
        if lacking is not None:
            raise Unrecorded("what is printed would not fit: " + lacking)
        self.printed = Printed(self.folder, self._stdout_moves)
        self.recorder.marker_fd = self.printed.marker_fd
        missing = self.adapter.printing(True)
        if self.adapter.stamps and ONEDNN not in missing and not self.printed.timed():
            missing[ONEDNN] = UNTIMED
        for library, reason in missing.items():
            self._missing("lines of " + library, reason)

    def _missing(self, what: str, reason: str) -> None:
        self.report.setdefault("unavailable", {})[what] = reason

    def _stdout_moves(self) -> None:
        """Stop libraries from printing: the script is about to redirect or close descriptor 1.

        The kernels pass then keeps only the steps measured so far; if there are none, its steps lack the libraries' lines.
        """
        with interrupts.deferred():
            self._stop_printing()
            self._missing("lines of libraries", LOST)
            self._cut_short = not self._whole
            if self._measured:
                self._full = self._full or LOST

    def begin_step(self, number: int) -> None:
        """Begin the script's step with this number, counted from 0."""
        recorder = self.recorder
        recorder.step = number - 1
        recorder.window = max(0, self._measured) // plan.WINDOW_STEPS
        if self._begun is None:
            self._begun = now_ns()
        self._tried("lines", self.lines.begin)
        recorder.begin_step(self._ended)

    def end_step(self, odd: Optional[str]) -> Optional[str]:
        """End the step; return OVER, PART or None. odd: why the step is not measured, else None."""
        recorder, wanted = self.recorder, self._wanted
        if self._device is not None:
            self._device.mark()
        counts = odd is None and self._done >= wanted["skip"] and not self._cut_short
        self._cut_short = False
        last = self._measured + counts >= wanted["steps"] and not self._goes_on()
        settled = last or not self.adapter.queues or odd is not None or self._window_ends(counts)
        begins = self._done + 1 == wanted["skip"]  # the next step is the first measured one
        if last or begins or (self.adapter.queues and settled):
            self.adapter.settle()  # so measured steps contain only their own work on the device
        start, end = recorder.end_step(warmup=not counts)
        self._settled_ns = end if last else None
        self._ended = None if settled else end  # queued work runs on while we write: its time is the next step's
        self._tried("lines", self.lines.end, counts, start, end)
        if odd is not None:
            self.report["odd_steps"][odd] = self.report["odd_steps"].get(odd, 0) + 1
        self._done += 1
        self._measured += counts
        self._last_counts = counts
        if counts:
            self._times.append(end - start)
        if self.name == "layers" and self._done == wanted["skip"] and "left_out" not in wanted:
            self._tried("a budget for ranges", self._budget)
        printed = self.printed  # which another thread may clear, see _stdout_moves
        if printed is not None:
            drained = printed.drain()
            stopped = LOST if printed.lost else "much was printed in a step"
            self._full = self._full or (lacks_disk(self.folder) if drained else stopped)
        if now_ns() - self._flushed > FLUSH_NS and self._ended is None:  # an end that may still move is not written yet
            if not recorder.layers:
                recorder.flush()  # a killed process leaves its steps; ranges, being many, wait for the pass's end
            self._flushed = now_ns()
        if last or self._impatient():
            return OVER
        return PART if self._measured and self.name != "kernels" and self._held() > self._limit // parts.SHARES else None

    def end_earlier_work(self) -> Optional[int]:
        """Wait, within a step, for work queued by earlier steps and move the last step's end here. Return that end, or None."""
        if self._ended is None:
            return None
        self.adapter.settle()
        before, end = self._ended, self.recorder.move_boundary()
        self._ended = None
        if self._last_counts:
            self._times[-1] += end - before
        return end

    def _goes_on(self) -> bool:
        """Extend the pass if its steps' times waver: something else ran meanwhile."""
        wanted = self._wanted
        if not wanted.get("more") or not steady.wavers(self._times, plan.WINDOW_STEPS):
            return False
        few = min(wanted["more"], 2 * plan.WINDOW_STEPS)
        self._wanted = dict(wanted, steps=wanted["steps"] + few, more=wanted["more"] - few)
        return True

    def _budget(self) -> None:
        """Leave out ranges of layers if all of them cost too much, judging by the steps so far."""
        recorder, adapter = self.recorder, self.adapter
        costs = adapter.costs(budget.bare_ns(Recorder(self.folder, layers=True)))
        choice = budget.choose(recorder.ranges(), recorder.busy_times(), costs)
        if choice is not None and adapter.keep(choice.kept, choice.phases):
            kept = {way: sorted(layers) for way, layers in choice.kept.items()}
            self._leave_out({"layers": choice.left_out, "kept": kept, "phases": choice.phases, "text": choice.text()})

    def _leave_out(self, left_out: Any) -> None:
        self.report["left_out"] = left_out
        self.report["methods"]["layers pass"] = left_out["text"]
        if not left_out["phases"]:
            self.inputs.detach()

    def ends(self, key: Any) -> Optional[Ends]:
        """Return an Ends for the next steps that `key` ends, or None if each end needs more than a note."""
        left = self._wanted["steps"] - self._measured - 1
        if self.name == "kernels" or self.lines.watching or self._done < self._wanted["skip"]:
            return None
        if self.adapter.queues:
            left = min(left, plan.WINDOW_STEPS - self._measured % plan.WINDOW_STEPS - 1)
        until = min(self._flushed + FLUSH_NS, self._begun + int(self._seconds * 1e9))
        mark = None if self._device is None else self._device.mark
        return Ends(self.recorder, key, left, until, self.adapter.queues, mark) if left > 0 else None

    def noted(self, stamps: Sequence[Any]) -> None:
        """Take over noted ends, all of measured steps."""
        measured = self._measured
        self.recorder.ended(stamps, False, [(measured + n) // plan.WINDOW_STEPS for n in range(len(stamps))])
        self._times += self.recorder.step_times()[-len(stamps) :] if stamps else []
        self._done += len(stamps)
        self._last_counts = self._last_counts or bool(stamps)
        self._measured += len(stamps)
        self.recorder.window = self._measured // plan.WINDOW_STEPS
        if stamps and self.adapter.queues:
            self._ended = stamps[-1][0]

    def _held(self) -> int:
        """Return how many bytes are held, as far as known before they are written."""
        held = self.recorder.held() * parts.RANGE_BYTES + self.lines.held() * parts.EVENT_BYTES + self._done * parts.STEP_BYTES
        return held if self.name != "kernels" else 2 * (held + (self.printed.kept if self.printed else 0))

    def _lacks_room(self) -> Optional[str]:
        """Return why the kernels pass must end, or None. A framework's trace that has grown large is written and released."""
        if self._resident is None:
            self._resident = _resident()
        grown = _resident() - self._resident
        if grown * parts.WRITTEN > self._limit:
            files = self._tried("operators", self.adapter.part_operators)
            if not files:
                sizes = (grown // 10**6, grown * parts.WRITTEN // 10**6, self._limit // 10**6)
                return "the process grew by %d MB, of which up to %d MB of trace can come: --max-trace-size is %d MB" % sizes
            heap.trim()
            self._operator_files += files
            self._resident = None
        written = sum(os.path.getsize(os.path.join(self.folder, name)) for name in self._operator_files)
        return "more would not stay below --max-trace-size" if self._held() + written > self._limit else None

    def too_large(self) -> Optional[str]:
        """Return why a pass over a whole program must not go on, or None. May be called from any thread.

        The size of the trace is unknown: the growth of the process may be the program's own. But a program that runs very many
        lines can have as many operators, and such a trace takes minutes to write.
        """
        if self.name == "kernels" and self.lines.held() > MOST_LINES:
            return "more than %d lines ran, and a trace of as many operators would take minutes to be written" % MOST_LINES
        left = memory.available()
        return "no memory is left for it" if left is not None and left < LEAST_MEMORY else None

    def end_whole(self) -> None:
        """End the one step of a program recorded as a whole."""
        self.end_step(None)

    def rest(self) -> Dict[str, Any]:
        """Return the plan of the next part: the missing steps. For kernels these are all steps, as its parts are repeats."""
        measured = 0 if self.name == "kernels" else self._measured
        rest = dict(self._wanted, steps=self._wanted["steps"] - measured, begun=self._begun)
        if self._done >= self._wanted["skip"]:  # else it is not decided yet
            rest["left_out"] = self.report.get("left_out")
        return rest

    def _window_ends(self, counts: Any) -> bool:
        """Return whether the next step begins a window: work still queued would count as that window's."""
        measured = self._measured + counts
        return self._done + 1 == self._wanted["skip"] or (counts and measured % plan.WINDOW_STEPS == 0)

    def _impatient(self) -> bool:
        """Return whether the pass must end early: it takes too long, or its records grow too large."""
        full = self._full or ("many lines ran in a step" if self.lines.full else None)
        if full is None and self.name == "kernels":
            full = self._lacks_room()
        if full is not None:
            self.report["ended_early"] = full
            return self._measured > 0
        late = now_ns() - self._begun > self._seconds * 1e9 and self._measured >= FEWEST_STEPS
        if late:
            self.report["ended_early"] = "--seconds %g were over" % self._seconds
        return late

    def close(self, reason: Optional[str]) -> None:
        """Switch everything off and write what is left. reason: why the pass ends early, or None."""
        report, adapter = self.report, self.adapter
        if self._device is not None and reason is None:  # at the script's end the device may be gone
            report["device_ends_ns"] = self._tried("the device's clock", self._device.ends, self._settled_ns)
        report["anchors"].append(anchor())
        if adapter.compiled is not None and self._compiled is not None:  # it may have been found meanwhile
            report["compiled"] = adapter.compiled.since(self._compiled)
        report["foreign_cores"] = machine_use.foreign_cores(self._use, machine_use.reading())
        report.update(self._tried("lines", self.lines.close) or {})
        if self.lines.unavailable is not None:
            self._missing("lines", self.lines.unavailable)
        if self.name == "kernels":
            report["threads"] = self._tried("names of threads", threads.names) or {}
            report["operator_files"] = self._operator_files + (self._tried("operators", adapter.stop_operators) or [])
            self._stop_printing()
        if self.recorder.layers:
            annotations.record(None)
            self.inputs.detach()
            self._tried("layers", adapter.detach)
        self.recorder.flush()
        report["settings"] = self._tried("settings", adapter.settings)
        report.update(self._tried("the model", adapter.described) or {})
        report.update(self.inputs.batch_of_step(report), batches_by_workers=self.inputs.workers)
        report.update(memory=memory.resident(), losses=[], complete=reason is None, reason=reason, measured=self._measured)
        self._write_report()
        self.closed.set()

    def _stop_printing(self) -> None:
        self.recorder.marker_fd = None  # if the script itself ended the pass, ranges still open have no marks
        if self.printed is not None:
            self._tried("lines of libraries", self.adapter.printing, False)
            self._tried("lines of libraries", self.printed.close)
            if self.printed.lost:
                self._missing("lines of libraries", LOST)
            self.printed = None

    def _tried(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function; if it fails, note that in the report and carry on."""
        try:
            return function(*arguments)
        except Unrecorded as reason:
            self._missing(what, str(reason))
        except Exception as error:
            if interrupts.raised_by_a_handler(error):
                raise
            self._missing(what, "%s: %s" % (type(error).__name__, str(error).split("\n")[0]))
        return None

    def hand_on(self) -> None:
        """Forward what was printed so far to the script's output."""
        if self.printed is not None:
            self.printed.drain()

    def forked(self) -> None:
        """Let a forked process print to the script's output, and its libraries print nothing."""
        self.recorder.layers = False
        annotations.record(None)
        self.lines.forked()
        if self.printed is not None:
            self.printed.release()
            self.adapter.printing(False)

    def _write_report(self) -> None:
        with open(os.path.join(self.folder, "child.json"), "w") as out:
            dump(self.report, out, indent=1, sort_keys=True, default=str)  # a program may have set anything to any object


def _resident() -> int:
    """Return the process's resident bytes; 0 if the system does not tell."""
    return memory.resident().get("resident_bytes") or 0


class _NoLines(object):
    """Stands in for Lines in a pass that watches no lines."""

    full, unavailable, watching = False, None, False

    def held(self) -> int:
        """Return 0: nothing is held."""
        return 0

    def __init__(self, focus: Focus, folder: str) -> None:
        pass

    def begin(self) -> None:
        """Do nothing."""

    def end(self, counted: Any, start: int, end: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: there is nothing to report."""

    def forked(self) -> None:
        """Do nothing."""
