"""Keras scripts: callbacks of fit, evaluate and predict mark the ends of batches; the backend's adapter does the rest.

Every backend and every release since 2.x calls `CallbackList` when a batch begins and ends, even if a model has its own
train_step. A batch is a step, users' callbacks included (as are batches that one call executes together); so is a call of
train_on_batch, test_on_batch or predict_on_batch. If neither is used, calls of the outermost model end steps, unless the backend
is tracing them. A loop written against the backend itself is left to the backend's adapter.

Each backend may have a class of its own (`_SIDES`): watch(patches) finds more steps, outermost() tells whether a call is the
script loop's own, attach(recorder, kernels) puts ranges around layers. The backend's own adapter (`below`) records operators and
waits for them.
"""

import functools
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks import keras as own
from kernelscope.tracer.inside.frameworks.keras import layers, on_torch
from kernelscope.tracer.inside.frameworks.script import Base, Seen, network
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

_CALL = "call"  # key of a step that ends with a call of an outermost model
_BATCHES = ("train", "test", "predict")
_LOOPS = {"fit": "train", "evaluate": "test", "predict": "predict"}  # method -> its batches
_FRAMEWORKS = {"torch": "pytorch"}  # backend -> its framework, if the names differ


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "keras"
    rank = 1

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import keras

        self.keras = keras
        self.backend = keras.backend.backend()
        self.framework = "keras-" + self.backend
        self._below: Any = None
        self.recorder: Any = None  # while ranges are recorded
        self.models = Seen()
        self._called: Dict[Any, Any] = {}  # id of a CallbackList -> the range of its current batch
        self._ended: Dict[str, int] = {}  # kind of batch -> when the last one had ended, while ranges are recorded
        self.side = _SIDES.get(self.backend, Side)(self)

    @property
    def below(self) -> Base:
        """The backend's own adapter, looked up when first needed: tensorflow imports Keras during its own import."""
        if self._below is None:
            self._below = self.recording.adapter_of(_FRAMEWORKS.get(self.backend, self.backend))
        return self._below or Base(self.recording)

    @property
    def queues(self) -> bool:  # type: ignore[override]
        """Whether the backend's steps end while their work is still queued."""
        return self.below.queues

    @property
    def prints(self) -> bool:  # type: ignore[override]
        """Whether the backend's libraries print their calls."""
        return self.below.prints

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch batches begin and end, the *_on_batch calls, and calls of outermost models."""
        keras, patches = self.keras, self.stepping
        if not hasattr(keras.callbacks.CallbackList, "on_train_batch_begin"):
            self.recording.note("unavailable", "batches of Keras before 2.3: it does not tell them, its backend's steps count")
            return
        for kind in _BATCHES:
            patches.wrap(keras.callbacks.CallbackList, "on_%s_batch_begin" % kind, functools.partial(self._beginning, kind))
            patches.wrap(keras.callbacks.CallbackList, "on_%s_batch_end" % kind, functools.partial(self._ending, kind))
            owner = defining(keras.Model, kind + "_on_batch")
            if owner is not None:
                patches.wrap(owner, kind + "_on_batch", functools.partial(self._on_batch, kind))
        self.searching.wrap(keras.layers.Layer, "__call__", self._looking)
        self.side.watch(patches)

    def know(self, model: Any) -> int:
        """Remember a model; return its id."""
        if model is not None and self.models.add(model):
            self.side.know(model)
        return id(model)

    def known(self) -> List[Any]:
        """Return the models seen that are still alive, except those that are part of another."""
        models = self.models.alive()
        parts = {id(layer) for model in models for _, layer in layers.paths(model)[1:]}
        return [model for model in models if id(model) not in parts]

    def _beginning(self, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def begun(callbacks: Any, *arguments: Any, **keywords: Any) -> None:
            self._batch_begins(kind)
            original(callbacks, *arguments, **keywords)
            if self.recorder is not None:
                self._called[id(callbacks)] = self.recorder.push("phase", "call", None, "other")

        return begun

    def _ending(self, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def ended(callbacks: Any, *arguments: Any, **keywords: Any) -> None:
            recorder, number = self.recorder, self._called.pop(id(callbacks), None)
            if recorder is not None:
                recorder.close(number)
                number = recorder.push("phase", "callbacks", None, "other")
            original(callbacks, *arguments, **keywords)
            if recorder is not None:
                recorder.close(number)
            self._batch_ended(kind, getattr(callbacks, "model", None))
            if recorder is not None:
                self._ended[kind] = now_ns()

        return ended

    def _looping(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Put a range around a whole loop called within a step, or around the parts of a loop outside its batches' steps."""

        def looped(*arguments: Any, **keywords: Any) -> Any:
            recorder: Any = self.recorder
            if recorder is None:
                return original(*arguments, **keywords)
            self._ended.pop(_LOOPS[name], None)
            number = recorder.push("phase", name, None, "other")
            try:
                return original(*arguments, **keywords)
            finally:
                recorder.close_parts(number, self._ended.get(_LOOPS[name]), "end of " + name, "other")

        return looped

    def _on_batch(self, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(model: Any, *arguments: Any, **keywords: Any) -> Any:
            self._batch_begins(kind)
            recorder = self.recorder
            number = recorder.push("phase", "call", None, "other") if recorder is not None else None
            output = original(model, *arguments, **keywords)
            if recorder is not None:
                recorder.close(number)
            self._batch_ended(kind, model)
            return output

        return called

    def _batch_begins(self, kind: str) -> None:
        if kind == "test" and self.recording.trains:
            self.recording.interrupted("the model was evaluated", begins=True)

    def _batch_ended(self, kind: str, model: Any) -> None:
        key, training = (kind, self.know(model)), kind == "train"
        recording = self.recording
        if training and recording.spec["mode"] == "auto":
            recording.trains = True
        recording.stepped(self, key, training=training)

    def _looking(self, original: Callable[..., Any]) -> Any:
        """Wrap layer calls: calls of outermost models end steps if nothing else does."""

        def ended(layer: Any, arguments: Any, output: Any) -> None:
            symbolic = hasattr(output, "_keras_history")  # the model is being built into another one
            if isinstance(layer, self.keras.Model) and not symbolic and self.side.outermost():
                self.recording.stepped(self, (_CALL, self.know(layer)), training=False)

        return self.outermost(original, ended)

    def found(self, key: Any) -> None:
        """Stop searching, unless model calls are the steps."""
        if not isinstance(key, tuple) or key[0] != _CALL or self.recording.trains:
            super(Adapter, self).found(key)
        self.below.found(None)

    # --- layers and operators: the backend's -----------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around batches, loops that a step calls, and the backend's layers and phases."""
        self.recorder = recorder
        for name in _LOOPS:
            self.ranging.wrap(defining(self.keras.Model, name), name, functools.partial(self._looping, name))
        return self.side.attach(recorder, kernels)

    def detach(self) -> None:
        """Take the ranges away."""
        self.recorder = None
        self._called, self._ended = {}, {}
        super(Adapter, self).detach()
        self.side.detach()

    def ranged(self, owner: Any, name: str, category: str, title: str, phase: str, layer: Optional[str] = None) -> None:
        """Put a range around a function until ranges are removed; do nothing if this release lacks the function."""
        if owner is not None and hasattr(owner, name):
            self.ranging.wrap(owner, name, self.recorder.around(category, title, phase, layer))

    @property
    def compiled(self) -> Any:
        """What the backend has compiled or traced so far."""
        return self.below.compiled

    def start_operators(self, folder: str) -> None:
        """Start the backend's operator trace."""
        self.below.start_operators(folder)

    def part_operators(self) -> List[str]:
        """Write the trace so far if the backend can."""
        return self.below.part_operators()

    def stop_operators(self) -> List[str]:
        """Stop the backend's operator trace; return its files."""
        return self.below.stop_operators()

    def printing(self, on: bool) -> Dict[str, str]:
        """Switch the printing of the backend's libraries."""
        return self.below.printing(on)

    def settle(self) -> None:
        """Wait for the backend's device."""
        self.below.settle()

    def device_clock(self) -> Any:
        """Return the clock of the backend's device."""
        return self.below.device_clock()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def versions(self) -> Dict[str, Any]:
        """Return the versions of Keras and of its backend."""
        found = {"keras": self.keras.__version__}
        found.update(self.below.versions())
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the backend's settings with Keras's own."""
        return dict(self.below.settings() or {}, backend=self.backend, **own.settings(self.keras))

    def described(self) -> Dict[str, Any]:
        """Return the models' layers, and the device as the backend knows it."""
        found = self.below.described()
        functions = [row for row in (found["network"] or {}).get("layers", ()) if row["type"] == "function"]
        models = self.known()
        if models:
            rows = [row for model in models for row in layers.table(model, prefixed=len(models) > 1)]
            found["network"] = network(" + ".join(model.name for model in models), rows)
            found["network"]["layers"] += functions
        return found


class Side(object):
    """The part common to all backends; all there is for a backend without a class of its own."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    def watch(self, patches: Patches) -> None:
        """Find more steps; the patches are removed when recording is over."""

    def know(self, model: Any) -> None:
        """Note a model not seen before."""

    def outermost(self) -> bool:
        """Return whether a model call that has just ended is the script loop's own, with nothing being traced."""
        return False

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put the backend's ranges there; return how layers and phases are found."""
        return self.adapter.below.attach(recorder, kernels)

    def detach(self) -> None:
        """Remove the backend's ranges."""
        self.adapter.below.detach()


class OnJax(Side):
    """Layers come from the scopes that Keras opens around them; batches are made while the compiled step is called."""

    def watch(self, patches: Patches) -> None:
        """Watch iterators being made, because one lives as long as an epoch."""
        iterators = getattr(sys.modules.get("keras.src.backend.jax.trainer"), "JAXEpochIterator", None)
        if hasattr(iterators, "_get_iterator"):
            patches.wrap(iterators, "_get_iterator", self._iterating)

    def _iterating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **keywords: _Batches(original(*arguments, **keywords), self.adapter)

    def outermost(self) -> bool:
        """Return whether JAX is tracing nothing."""
        below = self.adapter.below
        return below.untraced() if hasattr(below, "untraced") else False


class _Batches(object):
    """The batches of an epoch, each made within a range while ranges are recorded."""

    def __init__(self, batches: Any, adapter: Any) -> None:
        self._batches = iter(batches)
        self._adapter = adapter

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        recorder = self._adapter.recorder
        if recorder is None:
            return next(self._batches)
        number = recorder.push("data", "data", None, "data")
        try:
            return next(self._batches)
        finally:
            recorder.close(number)


class OnTorch(Side):
    """Layers are calls of keras.layers.Layer, and their backward is found as for PyTorch's modules."""

    def __init__(self, adapter: Any) -> None:
        super(OnTorch, self).__init__(adapter)
        self._layers: Any = None

    def watch(self, patches: Patches) -> None:
        """Watch steps of Keras's optimizers, for loops other than Keras's."""
        optimizer = defining(self.adapter.keras.optimizers.Optimizer, "apply")
        if optimizer is not None:
            patches.wrap(optimizer, "apply", self._applying)

    def _applying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def applied(optimizer: Any, *arguments: Any, **keywords: Any) -> Any:
            output = original(optimizer, *arguments, **keywords)
            recording = self.adapter.recording
            recording.trains = recording.trains or recording.spec["mode"] == "auto"
            recording.stepped(self.adapter, ("optimizer", id(optimizer)), training=True)
            return output

        return applied

    def know(self, model: Any) -> None:
        """Pass the model to PyTorch's adapter, which tells by model parameters whether there is a GPU to wait for."""
        if hasattr(self.adapter.below, "roots"):
            self.adapter.below.roots.add(model)

    def outermost(self) -> bool:
        """Return True: nothing is traced."""
        return True

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around layers, losses, metrics, backward, the optimizer and the loading of data."""
        adapter, keras = self.adapter, self.adapter.keras
        self._layers = on_torch.Layers(adapter, recorder, kernels)
        found = self._layers.attach()
        adapter.ranged(defining(keras.optimizers.Optimizer, "apply"), "apply", "phase", "optimizer step", "optimizer")
        iterators = getattr(sys.modules.get("keras.src.trainers.epoch_iterator"), "EpochIterator", None)
        adapter.ranged(iterators, "__next__", "data", "data", "data")
        for owner, name in ((defining(keras.Model, "compute_metrics"), "compute_metrics"), (keras.metrics.Mean, "update_state")):
            adapter.ranged(owner, name, "layer", "metrics", "forward", "metrics")
        return found

    def detach(self) -> None:
        """Take the ranges away."""
        self._layers.detach()


_SIDES = {"jax": OnJax, "torch": OnTorch}


def defining(owner: Any, name: str) -> Any:
    """Return the class among an owner's bases that defines the attribute, or None."""
    return next((base for base in owner.__mro__ if name in vars(base)), None)
