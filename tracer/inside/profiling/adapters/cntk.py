"""CNTK: steps end with Trainer.train_minibatch, a minibatch of a training session or a learner's update, or with evaluations.

One call of CNTK's library runs a whole minibatch, so layers come from the nodes: its profiler writes begin and end of each while
kernels are recorded, and the graph says to which layer a node belongs. Primitives of MKL are known from their creation on, as
those of a model that runs are created before anything is recorded; calls are timed in the kernels pass only.
"""

import ctypes
import threading
import weakref

from kernelscope.tracer.inside import interpose
from kernelscope.tracer.inside.hooks import cntk as hooks
from kernelscope.tracer.inside.hooks import cntk_graph
from kernelscope.tracer.inside.profiling.adapters import Base
from kernelscope.tracer.inside.profiling.patches import Patches

CALL = "cntk call"  # the range around a call of CNTK's library: the timeline's events are tied to our clock by it
_NODE_TIMING = "_ZN9Microsoft3MSR4CNTK7Globals18m_enableNodeTimingE"  # a flag that the API can set and not clear
_LIBRARY = "libCntk.Math"


class Adapter(Base):
    """See the package's documentation for the order of calls."""

    framework = "cntk"
    prints = False  # calls of MKL are timed

    def __init__(self, recording):
        super(Adapter, self).__init__(recording)
        import cntk

        self.cntk = cntk
        self._searching = Patches()  # until it is known what ends a step
        self._stepping = Patches()  # for as long as steps are recorded
        self._ranges = Patches()  # while ranges are recorded
        self._local = threading.local()  # depth: how many calls are open on a thread
        self._recorder = None
        self._open = None  # the range of a training session's minibatch
        self._reads = False  # whether a session's source is written in Python, which tells where reading ends
        self._trainers = []  # weak references to those that were used
        self._sessions = weakref.WeakKeyDictionary()  # training session -> weak reference to its trainer
        self._graph = cntk_graph.Paths()
        self._hooks = hooks.Hooks({"pass": "kernels", "device": "cpu", "batch": None, "folder": None}, _Off())
        self._hooks.cntk = cntk
        self._hooks.calls.know()

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self):
        """Watch trainers, training sessions, learners and evaluations."""
        cntk, stepping = self.cntk, self._stepping
        self._searching.wrap(cntk.Trainer, "__init__", self._making)
        stepping.wrap(cntk.Trainer, "train_minibatch", self._training)
        stepping.wrap(cntk.Trainer, "test_minibatch", self._testing)
        stepping.wrap(cntk.train.TrainingSession, "__init__", self._making_session)
        stepping.wrap(cntk.train.TrainingSession, "on_minibatch_end", self._session_ending)
        stepping.wrap(cntk.learners.Learner, "update", self._updating)
        for name in ("eval", "forward"):
            stepping.wrap(cntk.ops.functions.Function, name, self._evaluating)

    def _making(self, original):
        def made(*arguments, **keywords):
            self.recording.trains = True
            return original(*arguments, **keywords)

        return made

    def _training(self, original):
        def train_minibatch(trainer, *arguments, **keywords):
            result = original(trainer, *arguments, **keywords)
            self._see(trainer)
            self.recording.stepped(self, id(trainer))
            return result

        return train_minibatch

    def _see(self, trainer):
        if all(known() is not trainer for known in self._trainers):
            self._trainers.append(weakref.ref(trainer))

    def _known_trainers(self):
        return [trainer for trainer in (known() for known in self._trainers) if trainer is not None]

    def _testing(self, original):
        def test_minibatch(*arguments, **keywords):
            self.recording.interrupted("the model was evaluated")
            return original(*arguments, **keywords)

        return test_minibatch

    def _making_session(self, original):
        def made(session, trainer, *arguments, **keywords):
            original(session, trainer, *arguments, **keywords)
            self._sessions[session] = weakref.ref(trainer)

        return made

    def _session_ending(self, original):
        """CNTK's library runs a session's minibatches and tells Python their ends: all in between is one call of the library."""

        def on_minibatch_end(session, *arguments):
            self._close()
            result = original(session, *arguments)
            known = self._sessions.get(session, lambda: None)()
            if known is not None:
                self._see(known)
            self.recording.stepped(self, id(session))
            if self._recorder is not None and not self._reads:
                self._open = self._recorder.push("phase", CALL, None, "other")
            return result

        return on_minibatch_end

    def _reading(self, original):
        """A session asks a source that is written in Python for its minibatch, and then goes on."""

        def read(*arguments, **keywords):
            self._close()
            self._reads = True
            number = self._recorder.push("data", "data", None, "data")
            try:
                return original(*arguments, **keywords)
            finally:
                self._recorder.close(number)
                self._open = self._recorder.push("phase", CALL, None, "other")

        return read

    def _close(self):
        if self._recorder is not None:
            self._recorder.close(self._open)
        self._open = None

    def _updating(self, original):
        def update(learner, *arguments, **keywords):
            result = original(learner, *arguments, **keywords)
            self.recording.stepped(self, id(learner))
            return result

        return update

    def _evaluating(self, original):
        local = self._local

        def evaluated(function, *arguments, **keywords):
            depth = getattr(local, "depth", 0)
            local.depth = depth + 1
            try:
                result = original(function, *arguments, **keywords)
            finally:
                local.depth = depth
            if depth == 0 and not self.recording.trains:
                if self._recorder is not None:
                    self._hooks.saw_function(function)
                self.recording.stepped(self, function.uid, training=False)
            return result

        return evaluated

    def found(self, key):
        """Search no longer."""
        self._searching.undo()

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder, kernels):
        """Open ranges around CNTK's calls; the nodes' layers come from the graph, when the pass is over."""
        cntk, library = self.cntk, self.cntk.cntk_py
        self._recorder = self._hooks.recorder = recorder
        self._ranged(cntk.Trainer, "train_minibatch", "phase", "other")
        self._ranged(cntk.ops.functions.Function, "eval", "phase", "other")
        self._ranged(cntk.train.trainer, "sanitize_var_map", "data", "data", "arguments")
        self._ranged(cntk.ops.functions, "sanitize_var_map", "data", "data", "arguments")
        self._ranged(cntk.io.MinibatchSource, "next_minibatch", "data", "data")
        if hasattr(cntk.io.UserMinibatchSource, "_next_minibatch"):
            self._ranges.wrap(cntk.io.UserMinibatchSource, "_next_minibatch", self._reading)
        for name in ("train_minibatch", "train_minibatch_overload_for_minibatchdata"):
            self._ranged(library.Trainer, name, "phase", "other", CALL)
        for name in ("_forward", "_backward"):
            self._ranged(library.Function, name, "phase", "other", CALL)
        return {
            "layers": "CNTK's profiler with node timing; nodes mapped to layers through the graph" if kernels else "none",
            "phases": "direction of each node and the profiler's ranges",
            "mkl": "timed calls" if interpose.supported() else "none: calls cannot be timed on this platform",
        }

    def _ranged(self, owner, name, category, phase, label=None):
        """Put a range around each call; the step may end within the call."""
        recorder, label = self._recorder, label or name

        def around(original):
            def called(*arguments, **keywords):
                number = recorder.push(category, label, None, phase)
                try:
                    return original(*arguments, **keywords)
                finally:
                    recorder.close(number)

            return called

        if hasattr(owner, name):
            self._ranges.wrap(owner, name, around)

    def detach(self):
        """Take the ranges away and let go of the script's objects."""
        self._ranges.undo()
        self._recorder, self._hooks.recorder, self._open = None, _Off(), None
        self._hooks.roots = {}

    def start_operators(self, folder):
        """Switch node timing on, time the calls of MKL, and start CNTK's profiler."""
        self._hooks.spec["folder"] = folder
        self.cntk.debugging.set_node_timing(True)
        self._hooks.timed_functions = self._hooks.calls.time()
        self._hooks.start_operators(None)

    def stop_operators(self):
        """Stop the profiler; write its timeline, the graph and the timed calls."""
        for trainer in self._known_trainers():
            self._graph.add(trainer.loss_function, "loss")
            if trainer.evaluation_function is not None:
                self._graph.add(trainer.evaluation_function, "metric")
        for function in self._hooks.roots.values():
            self._graph.add(function)
        try:
            return self._hooks.stop_profiler(dict(self._graph.graph))
        finally:
            self._hooks.calls.untime(self._hooks.timed_functions)
            _stop_node_timing()

    def stop(self):
        """Take away everything."""
        self._searching.undo()
        self._stepping.undo()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def versions(self):
        """Return the versions of cntk, numpy and MKL."""
        return self._hooks.versions()

    def settings(self):
        """Return the settings in force."""
        self._hooks.trainers = self._known_trainers()
        try:
            return self._hooks.settings()
        finally:
            self._hooks.trainers = []

    def described(self):
        """Return the last minibatch's samples, the device, and the model's layers once the graph was read."""
        trainers = self._known_trainers()
        batch = int(trainers[-1].previous_minibatch_sample_count) if trainers else None
        types = self._graph.types
        network = None
        if types:
            layers = [{"name": name, "type": kind, "parameters": count} for name, (kind, count) in types.items()]
            network = {
                "name": "model",
                "title": "model",
                "parameters": sum(row["parameters"] for row in layers),
                "layers": layers,
            }
        return {"batch": batch or None, "device": "cpu", "network": network}


class _Off(object):
    """What stands for a recorder between passes."""

    in_step = False


def _stop_node_timing():
    """Clear the flag where the library exports it; else nodes go on being timed, at some microseconds a minibatch."""
    path = interpose.loaded(_LIBRARY)
    if path is not None and hasattr(ctypes.CDLL(path), _NODE_TIMING):
        ctypes.c_bool.in_dll(ctypes.CDLL(path), _NODE_TIMING).value = False
