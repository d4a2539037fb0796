"""CNTK: steps end with Trainer.train_minibatch, a minibatch of a training session or a learner's update, or with evaluations.

One call of CNTK's library runs a whole minibatch, so layers come from the nodes: in the kernels pass, CNTK's profiler writes
the begin and end of each node, and the graph gives its layer. MKL primitives are registered when they are created, because a
running model's are created before anything is recorded; calls are timed in the kernels pass only.
"""

import ctypes
import weakref
from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside import interpose
from kernelscope.tracer.inside.frameworks.cntk.graph import Paths
from kernelscope.tracer.inside.frameworks.cntk.library import CALL, Library
from kernelscope.tracer.inside.frameworks.script import Base, Seen, network
from kernelscope.tracer.inside.ranges import Recorder

_NODE_TIMING = "_ZN9Microsoft3MSR4CNTK7Globals18m_enableNodeTimingE"  # a flag that the API can set but not clear
_LIBRARY = "libCntk.Math"


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "cntk"
    prints = False  # MKL calls are timed instead

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import cntk

        self.cntk = cntk
        self.library = Library(cntk)
        self._recorder: Any = None
        self._open: Any = None  # the range of a training session's minibatch
        self._reads = False  # whether a session's source is written in Python, which shows where reading ends
        self._trainers = Seen()  # trainers that were used
        self._sessions: Any = weakref.WeakKeyDictionary()  # training session -> weak reference to its trainer
        self._roots: Dict[Any, Any] = {}  # uid -> functions that were evaluated while ranges were recorded
        self._graph = Paths()
        self._folder: Any = None
        self.library.calls.know()

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch trainers, training sessions, learners and evaluations."""
        cntk, stepping = self.cntk, self.stepping
        self.searching.wrap(cntk.Trainer, "__init__", self.trained)
        stepping.wrap(cntk.Trainer, "train_minibatch", self._training)
        stepping.wrap(cntk.Trainer, "test_minibatch", self._testing)
        stepping.wrap(cntk.train.TrainingSession, "__init__", self._making_session)
        stepping.wrap(cntk.train.TrainingSession, "on_minibatch_end", self._session_ending)
        stepping.wrap(cntk.learners.Learner, "update", self._updating)
        for name in ("eval", "forward"):
            stepping.wrap(cntk.ops.functions.Function, name, self._evaluating)

    def _training(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def train_minibatch(trainer: Any, *arguments: Any, **keywords: Any) -> Any:
            result = original(trainer, *arguments, **keywords)
            self._trainers.add(trainer)
            self.recording.stepped(self, id(trainer))
            return result

        return train_minibatch

    def _testing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def test_minibatch(*arguments: Any, **keywords: Any) -> Any:
            self.recording.interrupted("the model was evaluated")
            return original(*arguments, **keywords)

        return test_minibatch

    def _making_session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def made(session: Any, trainer: Any, *arguments: Any, **keywords: Any) -> None:
            original(session, trainer, *arguments, **keywords)
            self._sessions[session] = weakref.ref(trainer)

        return made

    def _session_ending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the callback at a minibatch's end. The library runs the session: from one end to the next is one call of it."""

        def on_minibatch_end(session: Any, *arguments: Any) -> Any:
            self._close()
            result = original(session, *arguments)
            known = self._sessions.get(session, lambda: None)()
            if known is not None:
                self._trainers.add(known)
            self.recording.stepped(self, id(session))
            if self._recorder is not None and not self._reads:
                self._open = self._recorder.push("phase", CALL, None, "other")
            return result

        return on_minibatch_end

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the reading of a minibatch from a source that is written in Python; the library call continues after it."""

        def read(*arguments: Any, **keywords: Any) -> Any:
            self._close()
            self._reads = True
            number = self._recorder.push("data", "data", None, "data")
            try:
                return original(*arguments, **keywords)
            finally:
                self._recorder.close(number)
                self._open = self._recorder.push("phase", CALL, None, "other")

        return read

    def _close(self) -> None:
        if self._recorder is not None:
            self._recorder.close(self._open)
        self._open = None

    def _updating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(learner: Any, *arguments: Any, **keywords: Any) -> Any:
            result = original(learner, *arguments, **keywords)
            self.recording.stepped(self, id(learner))
            return result

        return update

    def _evaluating(self, original: Callable[..., Any]) -> Any:
        def ended(function: Any, arguments: Any, output: Any) -> None:
            if not self.recording.trains:
                if self._recorder is not None:
                    self._roots.setdefault(function.uid, function)
                self.recording.stepped(self, function.uid, training=False)

        return self.outermost(original, ended)

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around CNTK's calls. The nodes' layers come from the graph, after the pass."""
        io = self.cntk.io
        self._recorder = self.library.recorder = recorder
        self.library.range_calls(self.ranging, recorder)
        self.ranging.wrap(io.MinibatchSource, "next_minibatch", recorder.around("data", "next_minibatch", "data"))
        if hasattr(io.UserMinibatchSource, "_next_minibatch"):
            self.ranging.wrap(io.UserMinibatchSource, "_next_minibatch", self._reading)
        return {
            "layers": "CNTK's profiler with node timing; nodes mapped to layers through the graph" if kernels else "none",
            "phases": "direction of each node and the profiler's ranges",
            "mkl": "timed calls" if interpose.supported() else "none: calls cannot be timed on this platform",
        }

    def detach(self) -> None:
        """Remove the ranges and release the script's objects."""
        super(Adapter, self).detach()
        self._recorder = self.library.recorder = self._open = None
        self._roots = {}

    def start_operators(self, folder: str) -> None:
        """Switch node timing on, start timing MKL calls, and start CNTK's profiler."""
        self._folder = folder
        self.cntk.debugging.set_node_timing(True)
        self.library.timed_functions = self.library.calls.time()
        self.library.start_profiler(folder, synchronise=False)

    def stop_operators(self) -> List[str]:
        """Stop the profiler; write its timeline, the graph and the timed calls; return the names of the written files."""
        for trainer in self._trainers.alive():
            self._graph.add(trainer.loss_function, "loss")
            if trainer.evaluation_function is not None:
                self._graph.add(trainer.evaluation_function, "metric")
        for function in self._roots.values():
            self._graph.add(function)
        try:
            return self.library.stop_profiler(self._folder, self._graph.graph)
        finally:
            self.library.calls.untime(self.library.timed_functions)
            _stop_node_timing()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def settings(self) -> Dict[str, Any]:
        """Return the current settings."""
        self.library.trainers = self._trainers.alive()
        try:
            return self.library.settings()
        finally:
            self.library.trainers = []

    def described(self) -> Dict[str, Any]:
        """Return the samples of the last minibatch, the device, and the model's layers once the graph has been read."""
        trainers = self._trainers.alive()
        batch = int(trainers[-1].previous_minibatch_sample_count) if trainers else None
        types = self._graph.types
        known = network("model", [(name,) + kind for name, kind in types.items()]) if types else None
        return {"batch": batch or None, "device": "cpu", "network": known}


def _stop_node_timing() -> None:
    """Clear the flag if the library exports it; otherwise nodes stay timed, which costs some microseconds per minibatch."""
    path = interpose.loaded(_LIBRARY)
    if path is not None and hasattr(ctypes.CDLL(path), _NODE_TIMING):
        ctypes.c_bool.in_dll(ctypes.CDLL(path), _NODE_TIMING).value = False
