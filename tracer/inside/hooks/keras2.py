"""Keras 2: the hooks of its backend, told which layer is being called while a graph is written.

Its backends Theano, CNTK and MXNet write a graph when layers are called, once, and run it as a whole. So a layer's name is put
on what its call makes: on Theano's variables in the traces that Theano keeps (see theano_graph), on CNTK's functions as their
names, on MXNet's nodes as the beginning of theirs.
"""

import functools
import importlib
import json
import os

from kernelscope.tracer.inside.hooks import cntk, mxnet, theano

_LOSS = "loss"
_CALLS = ("train_on_batch", "predict_on_batch")


def environment(pass_name):
    """Return the variables of all backends: those of the others do no harm."""
    variables = {}
    for backend in (theano, cntk, mxnet):
        variables.update(backend.environment(pass_name))
    return variables


class Hooks(object):
    """What a pass records of Keras 2: the backend's hooks do it; see the package's documentation for the order of calls."""

    def __new__(cls, spec, recorder):
        """Return the hooks of the backend that the framework's name says."""
        return _HOOKS[spec["framework"].partition("-")[2]](spec, recorder)


class _OnBackend(object):
    """What is the same on every backend; comes before the backend's own class."""

    backend = None

    def import_keras(self):
        """Choose the backend, import Keras and return it."""
        os.environ["KERAS_BACKEND"] = self.backend
        return importlib.import_module("keras")

    def versions(self):
        """Return the backend's versions with Keras's first."""
        found = {"keras": self.import_keras().__version__}
        found.update(super(_OnBackend, self).versions())
        return found

    def settings(self):
        """Return the backend's settings with those that Keras has of its own."""
        keras, found = self.import_keras(), super(_OnBackend, self).settings()
        found.update(
            backend=self.backend,
            memory_format=keras.backend.image_data_format().replace("_", " "),
            default_dtype=keras.backend.floatx(),
        )
        return found

    def range_batches(self, program):
        """Put a range around the model's methods that run a batch."""
        for name in _CALLS:
            setattr(program.model, name, self.recorder.ranged(getattr(program.model, name), "phase", "call", "other"))

    def watch_layers(self, around):
        """Have around(name, call, arguments) make each call of a layer, and the loss's, which has the name of a layer."""
        layer = importlib.import_module("keras.engine.base_layer").Layer
        losses = importlib.import_module("kernelscope.workloads.keras2.losses")
        original, loss = layer.__call__, losses.loss

        @functools.wraps(original)
        def call(self, *arguments, **keywords):
            return around(self.name, functools.partial(original, self, **keywords), arguments)

        layer.__call__ = call
        losses.loss = functools.wraps(loss)(lambda labels, logits: around(_LOSS, loss, (labels, logits)))


class _OnTheano(_OnBackend, theano.Hooks):
    backend = "theano"
    methods = ("__call__",)
    modules = (
        ("kernelscope.workloads.keras2.losses", (_LOSS, "forward")),
        ("keras.engine.training", (_LOSS, "forward")),
        ("keras.optimizers", ("", "optimizer")),
    ) + theano.MODULES

    def layer_kind(self):
        """Import Keras and return the class of its layers."""
        self.import_keras()
        return importlib.import_module("keras.engine.base_layer").Layer

    def attach_layers(self, program):
        """Put ranges around the calls with a batch; return how layers are found."""
        self.range_batches(program)
        return super(_OnTheano, self).attach_layers(program)


class _OnCntk(_OnBackend, cntk.Hooks):
    backend = "cntk"

    def configure(self):
        """Import CNTK and Keras; functions get the name of the layer whose call makes them."""
        super(_OnCntk, self).configure()
        self.import_keras()
        self.watch_layers(self._named)

    def _named(self, name, call, arguments):
        output = call(*arguments)
        given = {value.uid for value in _flat(arguments) if hasattr(value, "uid")}
        for value in _flat([output]):
            if hasattr(value, "root_function"):
                _name_functions(value.root_function, name, given)
        return output

    def attach_layers(self, program):
        """Put ranges around the calls with a batch and CNTK's own calls; return how layers are found."""
        self.range_batches(program)
        found = super(_OnCntk, self).attach_layers(program)
        self._watch_predictions()
        found["layers"] += ", whose functions bear the names of Keras's layers"
        return found

    def _watch_predictions(self):
        """Remember the functions of which Keras calls forward, where a user of CNTK calls eval."""
        kind = self.cntk.ops.functions.Function
        original = kind.forward

        @functools.wraps(original)
        def forward(function, *arguments, **keywords):
            self.saw_function(function)
            return original(function, *arguments, **keywords)

        kind.forward = forward


def _flat(values):
    return [one for value in values for one in (_flat(value) if isinstance(value, (list, tuple)) else [value])]


def _name_functions(function, name, given):
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


class _OnMxnet(_OnBackend, mxnet.Hooks):
    backend = "mxnet"

    def configure(self):
        """Import MXNet and Keras; nodes are named after the layer whose call makes them."""
        super(_OnMxnet, self).configure()
        self.import_keras()
        self._layers, names = set(), self.mx.name.NameManager
        layers = self._layers

        class Scope(names):
            """Puts a layer's name before those that MXNet makes up; names that are given stay."""

            def __init__(self, layer):
                super(Scope, self).__init__()
                self.layer = layer
                self.around = names.current

            def get(self, name, hint):
                return name or "%s/%s" % (self.layer, self.around.get(None, hint).rpartition("/")[2])

        def scoped(name, call, arguments):
            layers.add(name)
            with Scope(name):
                return call(*arguments)

        self.watch_layers(scoped)

    def settings(self):
        """Return MXNet's settings; Keras's model runs as a module, which is a graph."""
        found = super(_OnMxnet, self).settings()
        found["execution"] = "symbolic module"
        return found

    def attach_layers(self, program):
        """Put ranges around the calls with a batch, the module's parts, and what waits; return how layers are found."""
        self.net = program.model
        self.range_batches(program)
        ranged, module = self.recorder.ranged, self.mx.mod.BucketingModule
        module.forward = ranged(module.forward, "phase", "forward", "forward")
        module.backward = ranged(module.backward, "phase", "backward", "backward")
        module.update = ranged(module.update, "phase", "optimizer step", "optimizer")
        for owner, name in ((self.mx.nd.NDArray, "asnumpy"), (self.mx.nd.NDArray, "wait_to_read"), (self.mx.nd, "waitall")):
            setattr(owner, name, ranged(getattr(owner, name), "sync", name, "other"))
        self.recorder.settle = self.mx.nd.waitall
        return {
            "layers": "mx.profiler's operators in the order of the module's graph, whose nodes are named after Keras's layers",
            "phases": "the module's forward, backward and update; when queued, not when run",
        }

    def _write_graphs(self):
        """Write the graph of the executor that ran."""
        module = self.net._module
        bucket = module._buckets[module._curr_bucket_key]
        nodes = mxnet.parse_graph(bucket._exec_group.execs[0].debug_str())
        for node in nodes:
            base = node["name"][: -len("_backward")] if node["name"].endswith("_backward") else node["name"]
            node["phase"] = "backward" if base != node["name"] or node["op"].startswith("_backward") else "forward"
            layer = base.partition("/")[0]
            node["layer"] = layer if layer in self._layers else _LOSS  # Keras weights the samples' losses outside of layers
        with open(os.path.join(self.spec["folder"], mxnet.GRAPH_FILE), "w") as out:
            json.dump({"graphs": [{"prefix": "", "nodes": nodes}]}, out, indent=1)


_HOOKS = {"theano": _OnTheano, "cntk": _OnCntk, "mxnet": _OnMxnet}
