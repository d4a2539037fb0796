"""Keras 2: the hooks of its backend, which also learn which layer is being called while the graph is built.

The backends Theano, CNTK and MXNet build a graph once, when layers are called, and run it as a whole. So the nodes that a
layer's call creates are marked with its name: on Theano in the traces that Theano keeps with its variables (see theano.graph),
on CNTK as the functions' names, on MXNet as the prefix of the nodes' names.
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
    """The part shared by all backends; it precedes the backend's own class in the order of bases."""

    backend = ""

    def import_keras(self) -> Any:
        """Select the backend, import Keras and return it."""
        os.environ["KERAS_BACKEND"] = self.backend
        return importlib.import_module("keras")

    def versions(self) -> Dict[str, Any]:
        """Return the version of Keras, followed by the backend's versions."""
        found = {"keras": self.import_keras().__version__}
        found.update(super(_OnBackend, self).versions())
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the backend's settings and Keras's own."""
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
        """Route each layer's call through around(name, call, arguments); so is the loss's call, under the name "loss"."""
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
        """Import Keras and return its class Layer."""
        self.import_keras()
        return importlib.import_module("keras.engine.base_layer").Layer

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the calls that run a batch; return how layers are found."""
        self.range_batches(program)
        return super(OnTheano, self).attach_layers(program)


class OnCntk(_OnBackend, cntk.Hooks):
    """What a pass records of Keras on CNTK."""

    backend = "cntk"

    def configure(self) -> None:
        """Import CNTK and Keras, and name each function after the layer whose call creates it."""
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
        """Put ranges around the calls that run a batch and around CNTK's own calls; return how layers are found."""
        self.range_batches(program)
        found = super(OnCntk, self).attach_layers(program)
        # Keras calls forward; a user of CNTK calls eval
        Patches().wrap(self.cntk.ops.functions.Function, "forward", self.telling(self.saw_function))
        found["layers"] += ", whose functions are named after Keras's layers"
        return found


def _flat(values: Any) -> List[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, (list, tuple)) else [value])]


def _name_functions(function: Any, name: str, given: Any) -> None:
    """Name the unnamed functions from this one back to the given values, stopping at functions that have a name."""
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
        """Import MXNet and Keras, and prefix each node's name with the layer whose call creates it."""
        super(OnMxnet, self).configure()
        self.import_keras()
        names: Any = self.mx.name.NameManager
        layers: Set[str] = set()
        self._layers = layers

        class Scope(names):  # type: ignore[misc]
            """Prefixes the names that MXNet makes up with a layer's name; given names stay."""

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
        """Return MXNet's settings; Keras runs its model as a symbolic module."""
        found = super(OnMxnet, self).settings()
        found["execution"] = "symbolic module"
        return found

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the calls that run a batch, the module's phases, and waiting; return how layers are found."""
        self.net = program.model
        self.range_batches(program)
        module = self.mx.mod.BucketingModule
        self.ranged(module, "forward", "phase", "forward", "forward")
        self.ranged(module, "backward", "phase", "backward", "backward")
        self.ranged(module, "update", "phase", "optimizer step", "optimizer")
        self.range_waiting()
        return {
            "layers": "mx.profiler's operators in the order of the module's graph, whose nodes are named after Keras's layers",
            "phases": "the module's forward, backward and update; at the time of queueing, not of execution",
        }

    def graphs(self) -> List[Dict[str, Any]]:
        """Return the graph of the executor that ran, as [{"prefix", "nodes"}]."""
        module = self.net._module
        bucket = module._buckets[module._curr_bucket_key]
        nodes = parse_graph(bucket._exec_group.execs[0].debug_str())
        for node in nodes:
            node["phase"] = phase_of(node)
            layer = without_direction(node["name"]).partition("/")[0]
            node["layer"] = layer if layer in self._layers else _LOSS  # Keras weights the samples' losses outside layers
        return [{"prefix": "", "nodes": nodes}]
