"""TensorFlow 2 scripts: steps end with calls of functions that compute gradients, with optimizer steps, or with model calls.

A `tf.function` trains if it computes gradients while it is traced: each of its outermost calls ends a step. (Keras's own
adapter knows where the steps of `fit` end; with `steps_per_execution` one call is several of the user's steps.) In eager loops,
`apply` of Keras's optimizers ends a step, or `GradientTape.gradient` if the loop updates variables itself. Without any of
these, calls of functions that read variables and calls of outermost Keras layers are inference steps. TensorFlow 1 session calls
work alike: those that train end steps, and if none does, those that return a value (see sessions).

Layers are identified by operator names in graphs (see graphs), and by ranges around calls in eager code (see eager).
"""

import sys
import threading
import weakref
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple, Union

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks.script import Base, network
from kernelscope.tracer.inside.frameworks.tensorflow.eager import Ranges
from kernelscope.tracer.inside.frameworks.tensorflow.graphs import BACKWARD, Calls, Graphs, LayerName, Owner, Table, rendered
from kernelscope.tracer.inside.frameworks.tensorflow.library import Library
from kernelscope.tracer.inside.frameworks.tensorflow.sessions import CALL, Fetches
from kernelscope.tracer.inside.frameworks.tensorflow.tracing import Tracings
from kernelscope.tracer.inside.originals import dump
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling import imports, printed
from kernelscope.tracer.inside.ranges import Recorder

SCOPES_FILE = "operators.scopes.json"
TRAINS, INFERS = "trains", "infers"
LOSS: Owner = ("loss", "forward")
METRICS: Owner = ("metrics", "other")
OPTIMIZER: Owner = (None, "optimizer")
_GRADIENT = "GradientTape.gradient"
_SILENT = (
    "TensorFlow's own times of operators: oneDNN prints its calls only where ONEDNN_VERBOSE=1 and ONEDNN_VERBOSE_TIMESTAMP=1 are "
    "set from the beginning"
)
_INTERNAL = (os.path.join("tensorflow", "python", ""), os.path.join("keras", "src", ""))
_MODULES = (os.path.join("module", "module.py"), os.path.join("engine", "base_layer.py"))
# Keras 3: module -> (class, its methods, the method of Adapter that wraps them)
_KERAS = {
    "keras.src.layers.layer": (("Layer", ("__call__",), "_calling_layer"),),
    "keras.src.backend.tensorflow.core": (("name_scope", ("__enter__",), "_entering_scope"),),
    "keras.src.optimizers.base_optimizer": (("BaseOptimizer", ("apply",), "_optimizing"),),
    "keras.src.losses.loss": (("Loss", ("__call__",), "_losing"),),
    "keras.src.metrics.metric": (("Metric", ("__init__",), "_making_metric"),),
    "keras.src.backend.tensorflow.trainer": (
        ("TensorFlowTrainer", ("fit", "evaluate", "predict"), "_noting_batch"),
        ("TensorFlowTrainer", ("compute_metrics",), "_measuring"),
    ),
}


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "tensorflow"

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import tensorflow as tf

        self.tf = tf
        self.library = Library(tf)
        self.calls = Calls()
        self.graphs = Graphs(tf)
        self.ranges: Any = None  # Ranges while ranges are recorded
        self.batch: Any = None
        self._fetches = Fetches(tf.nest.flatten)
        self.compiled = Tracings(tf)
        self._functions: Any = weakref.WeakKeyDictionary()  # function -> (how often it was traced, TRAINS, INFERS or None)
        self._weighty: Any = weakref.WeakKeyDictionary()  # outermost layer -> whether it has weights
        self._gpus: Optional[int] = None  # their number, once queried
        self._together = 1  # batches executed by one call of a function
        # function, optimizer, looping: whether one is running; owner: of the current call; batch: a model's last one;
        # keras: whether a Keras scope is being entered; scopes, tapes: those that are open
        self._local = threading.local()
        self._folder: Any = None

    # --- what is watched -------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch calls of functions and gradients, and Keras's methods once Keras is imported."""
        tf, wrap = self.tf, self.stepping.wrap
        if not self.compiled.watch(self.stepping):
            self.compiled = None
        wrap(self.library.function_class, "__call__", self._calling)
        concrete = _concrete_function()
        if concrete is not None:
            wrap(concrete, "__call__", self._calling)
        session = next(cls for cls in tf.compat.v1.Session.__mro__ if "run" in vars(cls))  # also InteractiveSession's
        wrap(session, "run", self._running)
        wrap(tf.GradientTape, "gradient", self._differentiating)
        wrap(tf.GradientTape, "__enter__", self._entering_tape)
        wrap(tf.GradientTape, "__exit__", self._leaving("tapes"))
        wrap(tf.name_scope, "__enter__", self._entering_user_scope)
        wrap(tf.name_scope, "__exit__", self._leaving("scopes"))
        imports.watch(list(_KERAS), self._defined)

    def _defined(self, module: Any) -> None:
        """Wrap what an imported Keras module defines; an error here must not reach the script's import."""
        if self.recording.over or not _on_tensorflow():
            return
        try:
            for owner, names, wrapper in _KERAS[module]:
                for name in names:
                    self.stepping.wrap(getattr(sys.modules[module], owner), name, getattr(self, wrapper))
        except Exception as error:
            self.recording.note("unavailable", "%s: %s" % (module, error))

    def _losing(self, original: Callable[..., Any]) -> Any:
        return self._owned(original, "loss", LOSS)

    def _measuring(self, original: Callable[..., Any]) -> Any:
        return self._owned(original, "metrics", METRICS)

    def _making_metric(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap update_state of each metric class when its first metric is made, as each class has its own."""
        known = set()

        def made(metric: Any, *arguments: Any, **keywords: Any) -> Any:
            for cls in type(metric).__mro__:
                if cls not in known and "update_state" in vars(cls):
                    known.add(cls)
                    self.stepping.wrap(cls, "update_state", self._measuring)
            return original(metric, *arguments, **keywords)

        return made

    # --- steps -----------------------------------------------------------------------------------------------------------

    def _trains(self) -> None:
        self.recording.trains = self.recording.trains or self.recording.spec["mode"] == "auto"

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call of functions: the outermost ones run graphs."""
        local, eager = self._local, self.tf.executing_eagerly
        as_python = self.tf.config.functions_run_eagerly

        def called(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
            if not eager():
                return self._calling_within(original, function, arguments, keywords)
            if getattr(local, "function", False) or as_python():
                return original(function, *arguments, **keywords)
            local.function = True
            number = self.ranges.open("call") if self.ranges is not None else None
            compiled = self.compiled
            before, begun = compiled and compiled.count, now_ns()
            try:
                output = original(function, *arguments, **keywords)
            finally:
                local.function = False
                if compiled is not None:
                    compiled.timed(before, begun)
                if number is not None:
                    self.ranges.close(number)
            kind = self._kind(function)
            if kind is not None:
                if kind == TRAINS:
                    self._trains()
                self.recording.stepped(self, id(function), training=kind == TRAINS)
            return output

        return called

    def _calling_within(self, original: Callable[..., Any], function: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
        """Call a function while another one is traced: its work is part of the other one, even if it was traced before."""
        output = original(function, *arguments, **keywords)
        self._functions.setdefault(function, (-1, None))
        if self._found_out(function) == TRAINS:
            self.graphs.table().trains = True
        return output

    def _kind(self, function: Any) -> Optional[str]:
        """Return what a function's calls do: TRAINS, INFERS, or None if it uses no variables."""
        count = getattr(function, "experimental_get_tracing_count", int)()
        known = self._functions.get(function)
        if known is None or known[0] != count:
            known = self._functions[function] = (count, self._found_out(function))
        return known[1]

    def _found_out(self, function: Any) -> Optional[str]:
        graphs = [concrete.graph for concrete in _concretes(function)]
        tables = [table for table in map(self.graphs.of, graphs) if table is not None]
        if any(table.trains or BACKWARD in table.operators.values() for table in tables):
            self.batch = next((table.batch for table in tables if table.batch is not None), self.batch)
            return TRAINS
        return INFERS if any(len(graph.variables) for graph in graphs) else None

    def _running(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap session calls."""

        def ran(session: Any, fetches: Any, *arguments: Any, **keywords: Any) -> Any:
            output = original(session, fetches, *arguments, **keywords)
            end = self._fetches.step_end(session.graph, fetches)
            if end is not None:
                if end[1]:
                    self._trains()
                self.recording.stepped(self, *end)
            return output

        return ran

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, eager = self._local, self.tf.executing_eagerly

        def differentiated(tape: Any, *arguments: Any, **keywords: Any) -> Any:
            self._trains()
            if not eager():
                return self._noted(BACKWARD, original, tape, *arguments, **keywords)
            number = self.ranges.backward() if self.ranges is not None else None
            try:
                output = original(tape, *arguments, **keywords)
            finally:
                if number is not None:
                    self.ranges.close(number)
            if not getattr(local, "function", False):
                if not getattr(local, "looping", False):
                    self.batch = getattr(local, "batch", self.batch)
                self.recording.stepped(self, _GRADIENT)
            return output

        return differentiated

    def _optimizing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, eager = self._local, self.tf.executing_eagerly

        def applied(optimizer: Any, *arguments: Any, **keywords: Any) -> Any:
            if getattr(local, "optimizer", False):
                return original(optimizer, *arguments, **keywords)
            self._trains()
            local.optimizer = True
            number = self.ranges.optimizer() if self.ranges is not None and eager() else None
            try:
                output = self._noted(OPTIMIZER, original, optimizer, *arguments, **keywords)
            finally:
                local.optimizer = False
                if number is not None:
                    self.ranges.close(number)
            if eager() and not getattr(local, "function", False):
                self.recording.stepped(self, id(optimizer))
            return output

        return applied

    def _noting_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a Keras loop to note its batch size; Keras's own adapter knows where its batches end."""

        def looped(model: Any, *arguments: Any, **keywords: Any) -> Any:
            together = getattr(model, "steps_per_execution", None) or 1
            self.batch = (_batch(arguments, keywords) or 0) * together or self.batch
            self._together = together
            self._local.looping = True
            try:
                return original(model, *arguments, **keywords)
            finally:
                self._local.looping = False

        return looped

    def step_end(self, key: Any) -> str:
        """Say where a session's step ends; empty for other steps."""
        if isinstance(key, tuple):
            return "with a call of Session.run that trains"
        return "with a call of Session.run" if key == CALL else ""

    # --- layers ----------------------------------------------------------------------------------------------------------

    def _calling_layer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap layer calls: to name their scopes in graphs, with ranges in eager code."""
        calls, local, eager = self.calls, self._local, self.tf.executing_eagerly

        def called(layer: Any, *arguments: Any, **keywords: Any) -> Any:
            if arguments and type(arguments[0]).__name__ == "KerasTensor":
                return original(layer, *arguments, **keywords)  # a model is being built
            runs = eager()
            ranges: Any = self.ranges if runs else None
            outermost = calls.depth() == 0
            name = calls.enter(layer, runs)
            opened = ranges.layer(name, outermost) if ranges is not None else None
            output = None
            try:
                output = original(layer, *arguments, **keywords)
            finally:
                calls.leave()
                if opened is not None:
                    ranges.close(opened, output)
            if outermost:
                self._note_batch(arguments, runs)
            if outermost and runs and not getattr(local, "function", False) and self._is_model(layer):
                self.recording.stepped(self, id(layer), training=False)
            return output

        return called

    def _is_model(self, layer: Any) -> bool:
        known = self._weighty.get(layer)
        if known is None:
            known = self._weighty[layer] = bool(layer.weights)
        return known

    def _note_batch(self, arguments: Any, runs: bool) -> None:
        """Note the batch size of a model call; in a graph it may be unspecified."""
        shape: Any = getattr(arguments[0], "shape", None) if arguments else None
        try:
            batch = int(shape[0])
        except (TypeError, IndexError, ValueError):
            return
        if not runs:
            self.graphs.table().batch = batch
            return
        self._local.batch = batch
        if not self.recording.trains:
            self.batch = batch

    def _entering_scope(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap entering Keras's scopes: in graphs each belongs to the layer, optimizer or loss that opens it."""
        eager, calls, graphs, local = self.tf.executing_eagerly, self.calls, self.graphs, self._local

        def entered(scope: Any) -> Any:
            local.keras = True
            try:
                found = original(scope)
            finally:
                local.keras = False
            if not eager():
                owner = self._scope_owner(scope, calls)
                if owner is not None:
                    graphs.scope(owner)
            return found

        return entered

    def _scope_owner(self, scope: Any, calls: Any) -> Optional[Owner]:
        caller = getattr(scope, "caller", None)
        layer, name = calls.innermost()
        if caller is not None and caller is layer:
            return name, "forward"
        if getattr(self._local, "optimizer", False):
            return OPTIMIZER
        return getattr(self._local, "owner", None)

    def _entering_user_scope(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap entering scopes that the script or a tf.Module opens: outside Keras layers they count as layers."""
        local, eager = self._local, self.tf.executing_eagerly

        def entered(scope: Any) -> Any:
            found = original(scope)
            name = str(scope.name)
            if getattr(local, "keras", False) or self.calls.depth() or not name or _is_internal(sys._getframe(1)):
                return found
            stack = self._open("scopes")
            around = stack[-1][1] + "." if stack and not name.endswith("/") else ""
            path = around + name.strip("/").replace("/", ".")
            opened = None
            if not eager():
                self.graphs.scope((path, "forward"))
            elif self.ranges is not None:
                opened = self.ranges.named(path, (path, "forward"))
            stack.append((scope, path, opened))
            return found

        return entered

    def _entering_tape(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap entering tapes: eager work under a tape, outside layers, belongs to the function that opened it."""

        def entered(tape: Any) -> Any:
            found = original(tape)
            if self.ranges is not None and self.tf.executing_eagerly():
                name = sys._getframe(1).f_code.co_name
                name = "script" if name == "<module>" else name
                stack = self._open("tapes")
                stack.append((tape, name, self.ranges.tape(name, outermost=not stack)))
            return found

        return entered

    def _open(self, kind: str) -> List[Any]:
        stack = getattr(self._local, kind, None)
        if stack is None:
            stack = []
            setattr(self._local, kind, stack)
        return stack

    def _leaving(self, kind: str) -> Callable[..., Any]:
        """Return a wrapper for leaving tapes or scopes."""

        def leaving(original: Callable[..., Any]) -> Callable[..., Any]:
            def left(this: Any, *arguments: Any) -> Any:
                stack = getattr(self._local, kind, None)
                if stack and stack[-1][0] is this:
                    opened = stack.pop()[2]
                    if opened is not None and self.ranges is not None:
                        self.ranges.close(opened)
                return original(this, *arguments)

            return left

        return leaving

    def _owned(self, original: Callable[..., Any], label: str, owner: Owner) -> Callable[..., Any]:
        """Return a function whose work belongs to this owner, in graphs and in eager code."""
        local, eager = self._local, self.tf.executing_eagerly

        def called(*arguments: Any, **keywords: Any) -> Any:
            if getattr(local, "owner", None) is not None:
                return original(*arguments, **keywords)
            local.owner = owner
            number = self.ranges.named(label, owner) if self.ranges is not None and eager() else None
            try:
                return self._noted(owner, original, *arguments, **keywords)
            finally:
                local.owner = None
                if number is not None:
                    self.ranges.close(number)

        return called

    def _noted(self, owner: Owner, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call the function; in a graph, note that the operators it makes belong to the owner."""
        if self.tf.executing_eagerly():
            return original(*arguments, **keywords)
        begun = self.graphs.begin()
        output = original(*arguments, **keywords)
        self.graphs.end(begun, owner)
        return output

    # --- passes ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around eager layers and phases, calls of compiled functions, and tensor reads."""
        self.ranges = Ranges(self.library, recorder, self)
        self.ranges.attach()
        methods = {
            "layers": "in graphs by operators' names, whose scopes were noted when Keras opened them; in eager code by calls of "
            "Keras's layers",
            "phases": "in graphs by operators' names; in eager code by calls of GradientTape.gradient and of optimizers",
        }
        if kernels and not self.prints:
            methods["kernels"] = _SILENT
        if self._together > 1:
            methods["steps"] = "each is one call that executes %d of the script's (steps_per_execution)" % self._together
        return methods

    def detach(self) -> None:
        """Remove the ranges."""
        if self.ranges is not None:
            self.ranges.detach()
            self.ranges = None

    def label(self, name: Union[LayerName, str, None]) -> Optional[str]:
        """Return a layer's name, with its model's name if there are several models."""
        if name is None or isinstance(name, str):
            return name
        return rendered(name, len(self._models()) > 1)

    def _models(self) -> Set[str]:
        """Return the names of the models called eagerly or by functions of the script."""
        return self.calls.models.union(*(table.models for _, table in self._tables()))

    def _tables(self) -> Iterator[Tuple[Any, Table]]:
        """Yield (concrete function, its table) for all functions that were called."""
        for function in list(self._functions):
            for concrete in _concretes(function):
                table = self.graphs.of(concrete.graph)
                if table is not None:
                    yield concrete, table

    def start_operators(self, folder: str) -> None:
        """Start TensorFlow's profiler; it stops if the script starts its own."""
        self._folder = folder
        self.library.start_profiler(self._on_gpu())
        # only one can run: ours stops when the script starts its own
        for owner in (self.tf.profiler.experimental, sys.modules.get("tensorflow.python.profiler.profiler_v2")):
            if owner is not None:
                self.profiling.wrap(owner, "start", self.giving_way("TensorFlow's profiler"))

    def stop_operators(self) -> List[str]:
        """Stop the profiler; keep its trace, and write what its names stand for."""
        self.profiling.undo()
        files = self.library.stop_profiler(self._folder)
        if not files:
            return []
        with open(os.path.join(self._folder, SCOPES_FILE), "w") as out:
            dump(self._names(), out)
        return files + [SCOPES_FILE]

    def _names(self) -> Dict[str, Any]:
        """Return {"functions": {concrete function: {"function": name, ... as in graphs}}} of all functions called."""
        found, several = {}, len(self._models()) > 1
        for concrete, table in self._tables():
            found[_text(concrete.name)] = table.written(lambda layer: rendered(layer, several))
            found[_text(concrete.name)]["function"] = concrete.graph.name
        return {"functions": found}

    @property
    def prints(self) -> bool:  # type: ignore[override]
        """Whether the script's environment makes oneDNN print its calls with timestamps, without which they cannot be placed.

        oneDNN reads the environment once, and TensorFlow's copy has no other switch.
        """
        return printed.ONEDNN in printed.asked_for() and printed.stamped()

    @property
    def queues(self) -> bool:  # type: ignore[override]
        """Whether steps end while their work is still queued, as on a GPU."""
        return self._on_gpu()

    def _on_gpu(self) -> bool:
        if self._gpus is None:
            self._gpus = len(self.tf.config.list_physical_devices("GPU"))
        return self._gpus > 0

    def settle(self) -> None:
        """Wait for the GPU."""
        wait = getattr(getattr(self.tf.test, "experimental", None), "sync_devices", None)
        if wait is not None and self._on_gpu():
            wait()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def settings(self) -> Dict[str, Any]:
        """Return the settings in force."""
        if self._fetches.seen or any(kind == TRAINS for _, kind in self._functions.values()):
            self.library.eager["step"] = False
        elif not any(kind == INFERS for _, kind in self._functions.values()):
            self.library.eager["step"] = True
        return self.library.settings()

    def described(self) -> Dict[str, Any]:
        """Return the batch size, the device, and the layers that were called."""
        models, known = self._models(), None
        types = [(name, kind) for name, kind in self.calls.types.items() if name[0] in models]
        if types:
            title = " + ".join(dict.fromkeys(name[0] for name, _ in types))
            known = network(title, [(self.label(name),) + kind for name, kind in types])
        return {"batch": self.batch, "device": "cuda" if self._on_gpu() else "cpu", "network": known}


def _is_internal(frame: FrameType) -> bool:
    """Return whether a frame is TensorFlow's or Keras's own code; a tf.Module's or Keras 2 layer's scopes do not count."""
    while frame.f_back is not None and frame.f_code.co_filename.endswith("contextlib.py"):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return any(part in file for part in _INTERNAL) and not file.endswith(_MODULES)


def _on_tensorflow() -> bool:
    """Return whether Keras's backend is TensorFlow."""
    config = sys.modules.get("keras.src.backend.config")
    return config is not None and config.backend() == "tensorflow"


def _concrete_function() -> Any:
    """Return the class of concrete functions, whose module differs between versions."""
    for name in ("tensorflow.python.eager.polymorphic_function.concrete_function", "tensorflow.python.eager.function"):
        found = getattr(sys.modules.get(name), "ConcreteFunction", None)
        if found is not None:
            return found
    return None


def _concretes(function: Any) -> List[Any]:
    """Return a function's concrete functions, without the one that only created its variables."""
    listed = getattr(function, "_list_all_concrete_functions", None)
    if listed is None:
        return [function] if hasattr(function, "graph") else []
    found = list(listed())
    if len(found) > 1 and getattr(function, "_created_variables", None):
        making = getattr(function, "_concrete_variable_creation_fn", None)
        found = [concrete for concrete in found if concrete is not making]
    return found


def _text(name: Union[bytes, str]) -> str:
    return name.decode("utf8", "replace") if isinstance(name, bytes) else str(name)


def _batch(arguments: Any, keywords: Any) -> Optional[int]:
    """Return the batch size of a call of fit, evaluate or predict; None if its arguments do not give it."""
    said = keywords.get("batch_size")
    if isinstance(said, int):
        return said
    data = arguments[0] if arguments else keywords.get("x")
    for _ in range(8):  # batch, map, prefetch, ...
        size = getattr(data, "_batch_size", None)
        if size is not None:
            return int(size)
        data = getattr(data, "_input_dataset", None)
    return None
