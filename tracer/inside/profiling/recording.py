"""The passes of a run, within one process of somebody else's script: warm-up, clean steps, layers, kernels, lines, then off.

Adapters report where steps may end (`stepped`). All costs of changing passes (files, wrappers, a profiler's start) lie between
two steps. The files are those of a run folder's passes, so that the same analyses read them. Of all processes of a script, the
first one that steps is recorded; of several ranks, rank 0 or the requested ones, each into a folder of its own. A worker of
multiprocessing is not recorded unless it is a rank or marks its steps itself. Modules of the standard library that passes need
are loaded with this one, when the first framework has been imported: later the program's sys.path may be empty.

The specification is a JSON file: folder; mode: auto, train, infer or whole (the one step begins with the first import of a
framework and ends with the script); plan: [{"pass", "skip", "steps"}] in order, skip being the number of first steps that do
not count; warmup: {"steps", "settle"}; seconds: after which a pass of three steps ends; focus: functions to profile by line;
limit: bytes that may be held, in memory and on disk; sources: whether the program's own files are kept; ranks: "all", "0,7" or
null for rank 0; alone: whether the folder is a rank's own; changes: names of the changes to the program (see
tracer.inside.changes); end: whether the program ends with the last pass.
"""

import atexit
import contextlib
import errno
import shutil
import sys
from typing import Any, Callable, Dict, List, Optional, Set

from kernelscope.tracer.inside import annotations, changes, frameworks, interrupts, plan, steady
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks.script import Base
from kernelscope.tracer.inside.originals import dump, dumps, get_ident, load
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling import bound, faults, focus, host_lines, owner, parts, processes, ranks, sources
from kernelscope.tracer.inside.profiling.faults import quiet
from kernelscope.tracer.inside.profiling.passes import PART, Pass
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.profiling.reserve import Reserve
from kernelscope.tracer.inside.profiling.rounds import Rounds
from kernelscope.tracer.inside.profiling.step_times import StepTimes
from kernelscope.tracer.inside.profiling.steppers import AtThreadsEnd, Steppers

NOW_FILE = "now"  # [process, folder of the pass] while a pass is recorded
NOTES_FILE = "notes.jsonl"  # facts for readers of the run, one {"kind", "text"} per line
WARMUP_SECONDS = 30.0
FEWEST_STEPS = 3  # of a pass that takes too long
MOST_CUTS = 3  # by signal handlers, after which a pass does not begin again
MARKED = "a step that the script marked"
MARKING = "to mark each step yourself: `from kernelscope.tracer import step`, and `with step():` around it"
SEVERAL_THREADS = "several threads make steps, among which a framework's profiler can crash"
OF_ONE_THREAD = ("kernels", "lines")  # passes that watch only the thread in which they begin
NO_DESCRIPTORS = "the program used up its file descriptors, of which recording needs some: raise their limit (ulimit -n)"
_NOT_WRITTEN = "what was recorded could not be written (%s): record again, into a folder that can hold it (-o)"
_DISK_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_RECORDING = None


def of(path: str) -> "Recording":
    """Return this process's recording; the first call creates it from the specification at `path`."""
    global _RECORDING
    if _RECORDING is None:
        with open(path) as file:
            _RECORDING = Recording(load(file))
    return _RECORDING


def current() -> "Optional[Recording]":
    """Return this process's recording, or None."""
    return _RECORDING


def _never(key: Any) -> bool:
    """Note no end."""
    return False


class Recording(object):
    """This process's recording, from the first import of a framework to the last pass.

    trains: set by adapters as soon as an object is made that trains, so that calls which only infer end no steps.
    """

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.spec = spec
        self.folder = spec["folder"]
        self.trains = spec["mode"] == "train"
        asked = spec.get("ranks")
        self._rank, self._world = ranks.launched() if asked else (None, None)  # of a job
        self._whole = spec["mode"] == plan.WHOLE
        self.over = not ranks.wanted(self._rank, asked) or (not asked and os.environ.get("RANK", "0") not in ("", "0"))
        self.steps = StepTimes()  # of the script so far
        self.recording: Any = None  # the pass that is being recorded
        self._adapters: List[Base] = []
        self._adapter: Any = None  # whose steps count
        self._training: Optional[bool] = None  # whether those steps train
        self._rounds = Rounds()
        self._plan = list(spec["plan"])
        self._pid = os.getpid()
        self._thread: Optional[int] = None
        self._steppers = Steppers()
        self._busy = False
        self._started: Optional[int] = None
        self._patches = Patches()
        self._changes = Patches()  # which stay until the process ends
        self._noted_changes: Set[str] = set()
        self._cuts: Dict[str, int] = {}  # how often signal handlers have ended each pass
        self._reserve = Reserve(self.folder)
        self._threads_end: Any = None
        self._leaving = False
        self._claimed = False
        self._marked = False  # whether the script marks its steps itself
        self._found = False  # whether the adapter has been told what ends steps
        self._step_end = ""  # where that is, in words
        self._ends: Any = None  # ends that are only noted for now
        self._noted = _never  # notes an end if nothing else is needed (see Ends)
        self._focus: Any = None  # which functions' lines are watched, once passes begin
        annotations.listen(self.step_marked)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._forking, after_in_child=self._forked)

    # --- what others tell ------------------------------------------------------------------------------------------------

    def imported(self, name: str) -> None:
        """Take note that a framework's import has ended."""
        if self.over:
            return
        self._guarded(self._adapt, name)

    def stepped(self, adapter: Base, key: Any, training: bool = True) -> None:
        """Take note of what may be a step's end (see frameworks.script)."""
        try:
            if self._noted(key):
                return
            if self.over or self._whole or self._busy or os.getpid() != self._pid:
                return
            self._busy = True
            try:
                self._step_may_end(adapter, key, training)
            finally:
                self._busy = False
            if self._leaving:
                self._leave()
        except Exception as error:
            if interrupts.raised_by_a_handler(error):
                if not interrupts.raised_late(error):
                    self._cut_by_handler()
                raise
            self._failed(error)

    def step_marked(self) -> None:
        """Take note that the script itself marked the end of a step: from now on nothing else ends one."""
        if self._adapters and self.recording is None:
            self._marked = True
        if self._marked:
            adapter = max(self._adapters, key=lambda one: one.rank)
            self.stepped(adapter, MARKED, training=self.trains or self.spec["mode"] == "train")

    def adapter_of(self, framework: str) -> Optional[Base]:
        """Return the adapter of an imported framework, for one that runs on top of it; None if there is none."""
        return next((adapter for adapter in self._adapters if adapter.framework == framework), None)

    def interrupted(self, reason: str, begins: bool = False) -> None:
        """Mark the current step as unlike others: a model is evaluated, a checkpoint written. It is not measured.

        begins: the unusual work is still to come, so that work queued by earlier steps can be awaited first.
        """
        first = self.steps.interrupted(reason)
        self._noted = _never
        if begins and first and not self.steps.mostly_odd and self._thread == get_ident() and not self._busy:
            self._guarded(self._end_earlier_work)

    def _end_earlier_work(self) -> None:
        """Give earlier steps all of their work: the current one is not measured and would absorb what is left of it."""
        if self.recording is None:
            return
        if self._ends is not None:
            self._rounds.noted(len(self._ends.stamps))
        self._take_noted()
        ended = self.recording.end_earlier_work()
        if ended is not None:
            self.steps.begin(ended)

    def finish(self, reason: str) -> None:
        """Stop recording and write what was recorded."""
        if not self.over and os.getpid() == self._pid:
            with interrupts.deferred():
                self._finish(reason)

    def _finish(self, reason: str) -> None:
        self.over = True
        self._reserve.release()
        annotations.listen(None)
        if self._claimed and self.recording is not None:
            self._guarded(self._close_pass, reason)
        if self._claimed and self._focus is not None:
            self._guarded(self._keep_sources)
        self._guarded(self._summarise)
        for adapter in self._adapters:
            self._guarded(adapter.stop)
        self._guarded(self._patches.undo)

    def cut(self, reason: str) -> None:
        """End the current pass at once with what it has: the script needs something that the pass uses."""
        if self.recording is not None and os.getpid() == self._pid:
            self.recording.report["cut"] = reason  # the number of steps is not why it is incomplete
            self._guarded(self._close_pass, reason)

    def _cut_by_handler(self) -> None:
        """End the current pass, whose step ended halfway. It begins again with the next step, unless that happens often."""
        closing = self.recording
        self.cut("a signal's handler raised an exception while a step ended")
        if closing is not None and self.recording is None and not self.over:
            self._cuts[closing.name] = self._cuts.get(closing.name, 0) + 1
            if self._cuts[closing.name] <= MOST_CUTS:
                self._plan.insert(0, closing.rest())

    def note(self, kind: str, text: str) -> None:
        """Write a note for readers of the run."""
        with quiet(), open(os.path.join(self.folder, NOTES_FILE), "a") as out:  # the folder may be gone, or the disk full
            out.write(dumps({"kind": kind, "text": text}) + "\n")

    # --- steps -----------------------------------------------------------------------------------------------------------

    def _adapt(self, name: str) -> None:
        changes.apply(name, self.spec.get("changes", ()), self._changes, self._changed)
        adapter = frameworks.adapter(name)(self)
        self._adapters.append(adapter)
        if len(self._adapters) == 1:
            self._reserve.fill()
            self.note("imported", adapter.framework)
            atexit.register(self._ended, "the script ended")
            self._patches.wrap(sys.modules["os"], "_exit", self._exiting)  # the program's, not our own
        if self._whole:
            self._begin_whole(adapter)
        else:
            adapter.watch()

    def _begin_whole(self, adapter: Base) -> None:
        """Begin the one step of a program recorded as a whole, with the first framework that it imports.

        A framework that runs on another, such as Keras, does not count: its import can end before that of the other.
        """
        if self._adapter is not None or adapter.rank:
            return
        self._adapter, self._found = adapter, True
        self._claim()
        self._open_pass()
        self._begin_step()
        if self.recording is not None and self.spec["plan"][0]["pass"] != "clean":
            bound.watch(self.recording, self.spec["seconds"], self._give_up)

    def _give_up(self, reason: str) -> None:
        """Abandon a pass over the whole program that has grown too large: a part must not pass for the whole."""
        if self.recording is not None:
            self.recording.report["ended_early"] = reason
            self.recording.adapter.drop_operators()
            self.finish(reason)

    def _ended(self, reason: str) -> None:
        """End recording with the script, and with it the step of a program recorded as a whole. At most one interrupt gets in
        here.
        """
        with contextlib.suppress(KeyboardInterrupt), quiet(), interrupts.deferred():
            if self._whole and self.recording is not None and not self.over and os.getpid() == self._pid:
                self._guarded(self._end_whole)
            self.finish(reason)

    def _end_whole(self) -> None:
        reason = self.recording.too_large()
        if reason is not None:
            self._give_up(reason)
            return
        self.steps.count = 1
        self.recording.end_whole()
        self._close_pass(None)

    def _changed(self, name: str, what: str) -> None:
        """Note what was changed in the program, once for each kind."""
        text = dumps([name, what])
        if text not in self._noted_changes:
            self._noted_changes.add(text)
            self.note("change", text)

    def _leave(self) -> None:
        """End the program: it is no longer needed.

        It does not end its usual way: there, frameworks' threads that call Python can wait for the interpreter for ever.
        """
        self._leaving = False
        self.finish("the last pass ended")
        processes = sys.modules.get("multiprocessing")
        for process in processes.active_children() if processes else ():  # such as a loader's
            self._guarded(process.terminate)
        for stream in (sys.stdout, sys.stderr):
            self._guarded(stream.flush)
        os._exit(0)

    def _exiting(self, leave: Callable[[int], Any]) -> Callable[[int], None]:
        def leaving(status: int) -> None:
            self._ended("the script called os._exit")
            leave(status)

        return leaving

    def _step_may_end(self, adapter: Base, key: Any, training: bool) -> None:
        if self._marked and key is not MARKED:
            return
        if not self._counts(adapter, training):
            return
        if self._ends is not None:
            self._rounds.noted(len(self._ends.stamps))
        self._steppers.add(get_ident())
        if not self._rounds.ends(key):
            return
        if self._thread is None or self.recording is None:
            self._thread = get_ident()
        elif self._thread != get_ident():
            if self._steppers.beside or self.recording.name in OF_ONE_THREAD:
                return
            self._thread = get_ident()  # threads that take turns count as one
        with interrupts.deferred(), adapter.unseen():  # handlers may raise exceptions meant for the program
            self._end_step()
            if not self.over:
                self._begin_step()
                self._reserve.fill()

    def _counts(self, adapter: Base, training: bool) -> bool:
        """Return whether such ends are ends of steps; the highest framework takes precedence, and training over inference."""
        if self.spec["mode"] != "auto":
            if training != (self.spec["mode"] == "train"):
                return False
        elif not training and self.trains:
            return False
        if self._adapter is None or adapter.rank > self._adapter.rank or (training and not self._training):
            if self._adapter is not None:
                self._begin_again()
            self._adapter, self._training = adapter, training
        return adapter is self._adapter and training == self._training

    def _begin_again(self) -> None:
        """Start over: what counted as steps were none. Recorded passes are dropped, so that all passes are of one kind."""
        self._ends, self._noted = None, _never
        if self.recording is not None:
            self._close_pass("its steps were none")
        for entry in self.spec["plan"]:
            shutil.rmtree(os.path.join(self.folder, entry["pass"]), ignore_errors=True)
        self._plan, self._found = list(self.spec["plan"]), False
        self._rounds = Rounds()
        self._started = None if self._started is None else now_ns()
        self.steps = StepTimes()

    def _take_noted(self) -> None:
        """Pass the noted ends on to the pass, and stop noting."""
        noting, self._ends, self._noted = self._ends, None, _never
        if noting is None or not noting.stamps:
            return
        self.recording.noted(noting.stamps)
        for end, _, begun in noting.stamps:
            self.steps.ended(end, begun)

    def _end_step(self) -> None:
        now = now_ns()
        self._take_noted()
        odd = self.steps.end(now)
        if self.recording is None:
            if self._warm():
                self._open_pass()
            return
        ended = self.recording.end_step(odd)
        if ended is not None:
            closing = self.recording
            self._close_pass(None)
            if ended == PART:
                self._plan.insert(0, closing.rest())
            self._drop_old(closing.name)
            self._open_pass()

    def _begin_step(self) -> None:
        if self.recording is not None:
            self.recording.begin_step(self.steps.count)
            # without notice of forks, every end must check whether this is still the recorded process
            if hasattr(os, "register_at_fork"):
                self._ends = self.recording.ends(self._rounds.closing)
                self._noted = _never if self._ends is None else self._ends.noted
        self.steps.begin(now_ns())

    def _warm(self) -> bool:
        """Return whether warm-up is over: enough steps, and their times have settled or patience has run out."""
        wanted, done = self.spec["warmup"], len(self.steps.took)
        if self._started is None:
            self._started = now_ns()
            self._claim()
        if done + 1 < wanted["steps"]:  # the first step's beginning is unknown
            return False
        if not wanted["settle"] or done >= max(steady.LIMIT, wanted["steps"]):
            return True
        slow = now_ns() - self._started > WARMUP_SECONDS * 1e9 and done >= FEWEST_STEPS
        return slow or steady.settled(self.steps.took, wanted["steps"])

    def _claim(self) -> None:
        """Become the recorded process, or stop."""
        told = [rank for rank in (adapter.process_rank() for adapter in self._adapters) if rank is not None]
        rank = told[0] if told else self._rank
        if not ranks.wanted(rank, self.spec.get("ranks")):
            self.finish("another rank is recorded")
            return
        if rank is None and not self._marked and processes.started_by_multiprocessing() is not None:
            self.note("worker", self._adapter.framework)
            self.finish("a worker is not recorded")
            return
        if self.spec.get("ranks") and rank is not None:
            if not self.spec["alone"]:
                self._into_folder_of(rank)
            self.note("rank", dumps([rank, self._world]))
        self._claimed = owner.claim(self.folder)
        if not self._claimed:
            self.finish("another process is recorded")

    def _into_folder_of(self, rank: int) -> None:
        """Write into this rank's own folder from now on."""
        self.folder = os.path.join(self.folder, ranks.FOLDER % rank)
        os.makedirs(self.folder, exist_ok=True)
        self.spec = dict(self.spec, folder=self.folder)

    # --- passes ----------------------------------------------------------------------------------------------------------

    def _open_pass(self) -> None:
        if self.over:
            return
        self._reserve.release()
        if self._started is not None and self._adapter is not None and not self._found:
            self._found = True
            key = self._rounds.closing
            self._adapter.found(key)
            self._step_end = "with a block of step()" if key is MARKED else self._guarded(self._adapter.step_end, key)
        while self._steppers.several and self._plan and self._plan[0]["pass"] in OF_ONE_THREAD:
            self.note("left out", dumps([self._plan.pop(0)["pass"], SEVERAL_THREADS]))
        if not self._plan:
            self.finish("all passes are recorded")
            # ranks wait for each other: no rank of a job leaves early
            self._leaving = bool(self.spec.get("end")) and all(one.process_rank() is None for one in self._adapters)
            return
        settled = steady.settled(self.steps.took, self.spec["warmup"]["steps"])
        known = {"training": self._training, "warmup": {"steps": len(self.steps.took), "settled": settled}}
        if self._focus is None:
            quotes = self.spec.get("sources", True)
            self._focus = focus.Focus(self.spec.get("focus", []), focus.folders_of(frameworks.SCRIPTS), quotes, self._whole)
            self._keep_sources()
        self.recording = Pass(self.spec, self._adapter, self._plan.pop(0), known, self._focus)
        if self.recording.name in OF_ONE_THREAD:
            opened = self.recording
            self._threads_end = AtThreadsEnd(lambda: self._thread_over(opened))
        with open(os.path.join(self.folder, NOW_FILE), "w") as out:
            dump([os.getpid(), os.path.relpath(self.recording.folder, self.folder)], out)

    def _thread_over(self, opened: Any) -> None:
        """Cut the pass when its thread ends: a framework's profiler cannot be ended from another thread."""
        if self.recording is opened:
            self.cut("the thread that made the steps has ended")

    def _keep_sources(self) -> None:
        """Keep the program's own files, those of the modules loaded so far."""
        if not self._focus.quotes:
            return
        try:
            sources.keep(self.folder, self._focus, host_lines.shown)
        except OSError:
            pass  # the folder is gone or the disk full: the script goes on all the same

    def _drop_old(self, name: str) -> None:
        """Drop the oldest parts of a pass to make room for the next one."""
        dropped, size = parts.drop_old(self.folder, name, self.spec["limit"])
        if dropped:
            self.note("dropped", dumps([name, dropped]))
        if size > self.spec["limit"]:
            self.note("too large", dumps([name, size]))

    def _close_pass(self, reason: Optional[str]) -> None:
        self._take_noted()
        self._reserve.release()
        closing, self.recording = self.recording, None
        with interrupts.deferred():
            with quiet():
                os.unlink(os.path.join(self.folder, NOW_FILE))
            closing.close(reason)

    def _summarise(self) -> None:
        """Write down totals for the message at the end."""
        if not self._claimed and self._adapters and not self.steps.count:
            names = ", ".join(adapter.framework for adapter in self._adapters)
            self.note("no steps", "%s: %s" % (names, self._why_no_steps()))
            if self.trains:
                self.note("never stepped", names)
        elif self._claimed:
            left = [entry["pass"] for entry in self._plan]
            about = dict(self.steps.summary(now_ns()), training=self._training, left=left, end=self._step_end)
            about["replaced"] = self._guarded(self._adapter.replaced)
            self.note("steps", dumps(about))

    def _why_no_steps(self) -> str:
        made = "an optimizer was made and never stepped; --mode infer counts calls of the model"
        return "%s; %s" % (made if self.trains else "nothing stepped", MARKING)

    # --- faults ----------------------------------------------------------------------------------------------------------

    def _guarded(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function; our own exceptions become a note and end the recording, the script goes on. The script's own are
        raised.
        """
        try:
            return function(*arguments)
        except Exception as error:
            if interrupts.raised_by_a_handler(error):
                raise
            self._failed(error)
        return None

    def _failed(self, error: Exception) -> None:
        """Note an exception of ours and end recording. Further failures are suppressed: none may reach the script."""
        with quiet():
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                self.note("stopped", NO_DESCRIPTORS)
            elif isinstance(error, OSError) and error.errno in _DISK_ERRORS:
                self.note("stopped", _NOT_WRITTEN % os.strerror(error.errno))
            else:
                self.note("fault", "%s: %s" % (type(error).__name__, str(error).split("\n")[0]))
        faults.write(self.folder, error)
        with quiet():
            self.finish("a fault of kernelscope: %s" % type(error).__name__)
        self.over = True

    def _forking(self) -> None:
        """Forward what was printed so far before a fork: the forked process prints at once."""
        if self.recording is not None and os.getpid() == self._pid and not self._busy:
            with quiet():
                self.recording.hand_on()

    def _forked(self) -> None:
        """Record nothing in a forked process, and let it print to the script's output."""
        self.over = True
        self._reserve.release()
        self._ends, self._noted = None, _never
        annotations.listen(None)
        for adapter in self._adapters:
            with quiet():
                adapter.forked()
        if self.recording is not None:
            with quiet():
                self.recording.forked()
