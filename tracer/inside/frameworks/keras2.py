"""Keras 2: the hooks of its backend, told which layer is being called while a graph is written.

Its backends Theano, CNTK and MXNet write a graph when layers are called, once, and run it as a whole. So a layer's name is put
on what its call makes: on Theano's variables in the traces that Theano keeps (see theano_graph), on CNTK's functions as their
names, on MXNet's nodes as the beginning of theirs.
"""

import functools
import importlib
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from kernelscope.tracer.inside.frameworks.cntk import workload as cntk
from kernelscope.tracer.inside.frameworks.mxnet import workload as mxnet
from kernelscope.tracer.inside.frameworks.mxnet.graph import parse_graph, phase_of, without_direction
from kernelscope.tracer.inside.frameworks.theano import workload as theano
from kernelscope.tracer.inside.frameworks.workload import Hooks
from kernelscope.tracer.inside.profiling.patches import Patches

_LOSS = "loss"
_CALLS = ("train_on_batch", "predict_on_batch")


class _OnBackend(Hooks):
    """What is the same on every backend; comes before the backend's own class."""

    backend = ""

    def import_keras(self) -> Any:
        """Choose the backend, import Keras and return it."""
        os.environ["KERAS_BACKEND"] = self.backend
        return importlib.import_module("keras")

    def versions(self) -> Dict[str, Any]:
        """Return the backend's versions with Keras's first."""
        found = {"keras": self.import_keras().__version__}
        found.update(super(_OnBackend, self).versions())
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the backend's settings with those that Keras has of its own."""
        keras, found = self.import_keras(), super(_OnBackend, self).settings()
        found.update(
            backend=self.backend,
            memory_format=keras.backend.image_data_format().replace("_", " "),
            default_dtype=keras.backend.floatx(),
        )
        return found

    def range_batches(self, program: Any) -> None:
        """Put a range around the model's methods that run a batch."""
        for name in _CALLS:
            self.ranged(program.model, name, "phase", "call", "other")

    def watch_layers(self, around: Callable[..., Any]) -> None:
        """Have around(name, call, arguments) make each call of a layer, and the loss's, which has the name of a layer."""
        layer = importlib.import_module("keras.engine.base_layer").Layer
        losses: Any = importlib.import_module("kernelscope.workloads.keras2.losses")
        original, loss = layer.__call__, losses.loss

        @functools.wraps(original)
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            return around(self.name, functools.partial(original, self, **keywords), arguments)

        layer.__call__ = call
        losses.loss = functools.wraps(loss)(lambda labels, logits: around(_LOSS, loss, (labels, logits)))


class OnTheano(_OnBackend, theano.Hooks):
    """What a pass records of Keras on Theano."""

    backend = "theano"
    methods: Tuple[str, ...] = ("__call__",)
    modules: Tuple[Any, ...] = (
        ("kernelscope.workloads.keras2.losses", (_LOSS, "forward")),
        ("keras.engine.training", (_LOSS, "forward")),
        ("keras.optimizers", ("", "optimizer")),
    ) + theano.MODULES

    def layer_kind(self) -> Any:
        """Import Keras and return the class of its layers."""
        self.import_keras()
        return importlib.import_module("keras.engine.base_layer").Layer

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the calls with a batch; return how layers are found."""
        self.range_batches(program)
        return super(OnTheano, self).attach_layers(program)


class OnCntk(_OnBackend, cntk.Hooks):
    """What a pass records of Keras on CNTK."""

    backend = "cntk"

    def configure(self) -> None:
        """Import CNTK and Keras; functions get the name of the layer whose call makes them."""
        super(OnCntk, self).configure()
        self.import_keras()
        self.watch_layers(self._named)

    def _named(self, name: str, call: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        output = call(*arguments)
        given = {value.uid for value in _flat(arguments) if hasattr(value, "uid")}
        for value in _flat([output]):
            if hasattr(value, "root_function"):
                _name_functions(value.root_function, name, given)
        return output

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the calls with a batch and CNTK's own calls; return how layers are found."""
        self.range_batches(program)
        found = super(OnCntk, self).attach_layers(program)
        # Keras calls forward, where a user of CNTK calls eval
        Patches().wrap(self.cntk.ops.functions.Function, "forward", self.telling(self.saw_function))
        found["layers"] += ", whose functions bear the names of Keras's layers"
        return found


def _flat(values: Any) -> List[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, (list, tuple)) else [value])]


def _name_functions(function: Any, name: str, given: Any) -> None:
    """Name the functions without a name from this one back to what was given, named or of another layer."""
    waiting, seen = [function], set()
    while waiting:
        function = waiting.pop()
        if function.uid in seen or function.uid in given or function.name:
            continue
        seen.add(function.uid)
        function.name = name
        inputs = [variable for variable in function.inputs if variable.is_output and variable.uid not in given]
        waiting += [variable.owner for variable in inputs]


class OnMxnet(_OnBackend, mxnet.Hooks):
    """What a pass records of Keras on MXNet."""

    backend = "mxnet"

    def configure(self) -> None:
        """Import MXNet and Keras; nodes are named after the layer whose call makes them."""
        super(OnMxnet, self).configure()
        self.import_keras()
        names: Any = self.mx.name.NameManager
        layers: Set[str] = set()
        self._layers = layers

        class Scope(names):  # type: ignore[misc]
            """Puts a layer's name before those that MXNet makes up; names that are given stay."""

            def __init__(self, layer: str) -> None:
                super(Scope, self).__init__()
                self.layer = layer
                self.around = names.current

            def get(self, name: Optional[str], hint: str) -> str:
                return name or "%s/%s" % (self.layer, self.around.get(None, hint).rpartition("/")[2])

        def scoped(name: Any, call: Any, arguments: Any) -> Any:
            layers.add(name)
            with Scope(name):
                return call(*arguments)

        self.watch_layers(scoped)

    def settings(self) -> Dict[str, Any]:
        """Return MXNet's settings; Keras's model runs as a module, which is a graph."""
        found = super(OnMxnet, self).settings()
        found["execution"] = "symbolic module"
        return found

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the calls with a batch, the module's parts, and what waits; return how layers are found."""
        self.net = program.model
        self.range_batches(program)
        module = self.mx.mod.BucketingModule
        self.ranged(module, "forward", "phase", "forward", "forward")
        self.ranged(module, "backward", "phase", "backward", "backward")
        self.ranged(module, "update", "phase", "optimizer step", "optimizer")
        self.range_waiting()
        return {
            "layers": "mx.profiler's operators in the order of the module's graph, whose nodes are named after Keras's layers",
            "phases": "the module's forward, backward and update; when queued, not when run",
        }

    def graphs(self) -> List[Dict[str, Any]]:
        """Return the graph of the executor that ran."""
        module = self.net._module
        bucket = module._buckets[module._curr_bucket_key]
        nodes = parse_graph(bucket._exec_group.execs[0].debug_str())
        for node in nodes:
            node["phase"] = phase_of(node)
            layer = without_direction(node["name"]).partition("/")[0]
            node["layer"] = layer if layer in self._layers else _LOSS  # Keras weights the samples' losses outside of layers
        return [{"prefix": "", "nodes": nodes}]
