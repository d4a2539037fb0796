"""MXNet: steps end with Gluon's Trainer and Module's update, or with calls of the outermost block or module.

The engine is asynchronous: Python only queues work. So ranges tell what the host does, and whose an operator is follows from the
order in which operators were queued (see hooks.mxnet_queue). Every block is a layer, also inside of hybridized ones: names of a
graph's nodes begin with the prefix of the block that made them. While kernels are recorded operators run one by one
(see hooks.mxnet_separate).
"""

import functools
import json
import threading
import weakref

from kernelscope.tracer.inside.hooks import mxnet as hooks
from kernelscope.tracer.inside.hooks.mxnet_queue import Queue
from kernelscope.tracer.inside.hooks.mxnet_separate import Imperative, Separate
from kernelscope.tracer.inside.profiling.adapters import Base
from kernelscope.tracer.inside.profiling.patches import Patches

MOST_NUMBERED = 8  # calls of one block within one call of the model that have rows of their own; later ones share one
_SYNCHRONISING = ("asnumpy", "wait_to_read")


class Adapter(Base):
    """See the package's documentation for the order of calls."""

    framework = "mxnet"
    queues = True
    prints = False  # oneDNN reads once whether to print, and MXNet's library does not export what changes it later

    def __init__(self, recording):
        super(Adapter, self).__init__(recording)
        import mxnet

        self.mx = mxnet
        self.roots = []  # weak references to the outermost blocks and modules that were called, in order
        self.batch = None
        self._profiled = False  # whether the script uses mx.profiler itself
        self._searching = Patches()  # until it is known what ends a step
        self._stepping = Patches()  # for as long as steps are recorded
        self._calls = threading.local()
        self._layers = None
        self._hooks = hooks.Hooks({"pass": "kernels", "folder": None}, None)
        self._hooks.mx = mxnet

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self):
        """Watch trainers, modules and calls of outermost blocks."""
        mx, stepping = self.mx, self._stepping
        for name in ("step", "update"):
            stepping.wrap(mx.gluon.Trainer, name, self._stepper(training=True))
        for owner in _modules(mx):
            if "update" in vars(owner):
                stepping.wrap(owner, "update", self._stepper(training=True))
            if "forward" in vars(owner):
                stepping.wrap(owner, "forward", self._forwarding)
        stepping.wrap(mx.mod.BaseModule, "score", self._evaluating)
        stepping.wrap(mx.gluon.data.DataLoader, "__iter__", self._loading)
        stepping.wrap(mx.profiler, "set_state", self._giving_way)
        self._searching.wrap(mx.gluon.Trainer, "__init__", self._making)
        for owner in _modules(mx):
            if "init_optimizer" in vars(owner):
                self._searching.wrap(owner, "init_optimizer", self._making)
        self._searching.wrap(mx.gluon.Block, "__call__", self._looking)

    def _outermost(self, original, ended):
        """Return the method, calling ended(owner, arguments) after each call that is not inside of another."""
        calls = self._calls

        def called(owner, *arguments, **keywords):
            depth = getattr(calls, "depth", 0)
            calls.depth = depth + 1
            try:
                output = original(owner, *arguments, **keywords)
            finally:
                calls.depth = depth
            if depth == 0:
                ended(owner, arguments)
            return output

        return called

    def _stepper(self, training):
        def ended(owner, arguments):
            if arguments and isinstance(arguments[0], int):
                self.batch = arguments[0]
            self.recording.stepped(self, id(owner), training=training)

        return lambda original: self._outermost(original, ended)

    def _forwarding(self, original):
        """Modules that infer: a call with is_train False, or of a module that was bound for inference."""

        def ended(module, arguments):
            self._see(module)
            if self.batch is None and module.binded and module.data_shapes:
                self.batch = int(module.data_shapes[0][1][0])
            if not self.recording.trains:
                self.recording.stepped(self, id(module), training=False)

        return self._outermost(original, ended)

    def _looking(self, original):
        """Wrap the call of blocks: the outermost ones that have parameters are models."""
        recording, symbol = self.mx.autograd.is_recording, self.mx.sym.Symbol

        def ended(block, arguments):
            if any(isinstance(argument, symbol) for argument in arguments) or not self._is_model(block):
                return
            if not recording():
                self.recording.stepped(self, id(block), training=False)

        return self._outermost(original, ended)

    def _making(self, original):
        def made(*arguments, **keywords):
            self.recording.trains = True
            return original(*arguments, **keywords)

        return made

    def _evaluating(self, original):
        def evaluated(*arguments, **keywords):
            if self.recording.trains:
                self.recording.interrupted("the model was evaluated")
            return original(*arguments, **keywords)

        return evaluated

    def _loading(self, original):
        """Batches that are made in this process come from a generator, of which only a generator around it can tell the time."""

        def iterate(loader):
            batches = original(loader)
            while True:
                layers = self._layers
                number = None if layers is None else layers.recorder.push("data", "data", None, "data")
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                finally:
                    if number is not None:
                        layers.recorder.close(number)
                yield batch

        return iterate

    def _giving_way(self, original):
        def set_state(*arguments, **keywords):
            if not (self._layers and self._layers.setting):
                self._profiled = True
                self.recording.cut("the script uses mx.profiler itself, and there is only one")
            return original(*arguments, **keywords)

        return set_state

    def _is_model(self, block):
        if any(known() is block for known in self.roots):
            return True
        if not len(list(block.collect_params().keys())):
            return False
        self.roots.append(weakref.ref(block))
        return True

    def _see(self, module):
        if not any(known() is module for known in self.roots):
            self.roots.append(weakref.ref(module))

    def _known_roots(self):
        return [root for root in (known() for known in self.roots) if root is not None]

    def found(self, key):
        """Search no longer; where calls of a block are the steps, only its class's calls are watched."""
        self._searching.undo()
        block = self.mx.gluon.Block
        for root in self._known_roots():
            if not isinstance(root, block):
                continue
            if id(root) == key:
                self._watch_calls(root, lambda: self.recording.stepped(self, key, training=False))
            elif self.recording.trains:
                self._watch_calls(root, self._called_while_training)

    def _called_while_training(self):
        if not self.mx.autograd.is_training():
            self.recording.interrupted("the model was evaluated")

    def _watch_calls(self, root, ended):
        owner, known, base = type(root), weakref.ref(root), self.mx.gluon.Block
        original = owner.__call__

        def called(block, *arguments):
            output = original(block, *arguments)
            if block is known():
                ended()
            return output

        if owner is not base:
            self._stepping.set(owner, "__call__", functools.wraps(original)(called))

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder, kernels):
        """Put ranges around calls of models, backward, updates and waiting."""
        self._layers = Layers(self.mx, recorder, self._known_roots(), kernels)
        return self._layers.attach()

    def detach(self):
        """Take the ranges away; what is known of layers stays for `described`."""
        self._layers.detach()

    def start_operators(self, folder):
        """Have operators run one by one, and start mx.profiler."""
        if self._profiled:
            raise RuntimeError("the script uses mx.profiler itself, and there is only one")
        self._hooks.spec["folder"] = folder
        self._layers.start(self._hooks)

    def stop_operators(self):
        """Stop mx.profiler and write what it saw beside what was queued."""
        return self._layers.stop(self._hooks)

    def settle(self):
        """Wait for the engine."""
        self.mx.nd.waitall()

    def stop(self):
        """Take away everything."""
        self._searching.undo()
        self._stepping.undo()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def versions(self):
        """Return the versions of mxnet, numpy and oneDNN."""
        return self._hooks.versions()

    def settings(self):
        """Return the settings in force."""
        blocks = [root for root in self._known_roots() if hasattr(root, "_active")]
        flags = [(root, dict(root._flags) if root._active else None) for root in blocks]
        self._hooks.hybridized = [(weakref.ref(root), options) for root, options in flags]
        return self._hooks.settings()

    def described(self):
        """Return the batch as the trainer was told it, the device, and the model's layers."""
        layers = self._layers
        network = None
        if layers is not None and layers.names:
            network = {"name": layers.title, "title": layers.title, "parameters": layers.parameters, "layers": layers.table()}
        return {"batch": self.batch, "device": "cpu", "network": network}


def _modules(mx):
    found = (getattr(mx.mod, name, None) for name in ("Module", "BucketingModule", "SequentialModule"))
    return [owner for owner in found if owner is not None]


class Names(object):
    """The names of blocks, by identity and by the prefix of what they make."""

    def __init__(self, mx, roots):
        self.types = {}  # layer -> (type, parameters)
        self._mx = mx
        self._kept = []  # the blocks, so that no id is given to another one
        self._names = {}  # id of a block -> its layer
        self._prefixes = {}  # prefix -> layer
        self._found = {}  # node's name -> layer
        self._uses = {}  # parameter of a symbol -> the node that takes it
        self._prefixed = len(roots) > 1
        for root in roots:
            self.add(root)

    def add(self, root):
        """Give the model and all blocks in it their names; of a block that has several paths the first one counts."""
        loss = isinstance(root, self._mx.gluon.loss.Loss)
        own, number, title = None, 1, "loss" if loss else type(root).__name__
        while own is None or (own in self.types and not loss):
            own = title if number == 1 else "%s %d" % (title, number)
            number += 1
        self._visit(root, own, "" if not self._prefixed else own + ".")
        self._found = {name: layer for name, layer in self._found.items() if name == layer}  # others may be found anew

    def _visit(self, block, name, before):
        if id(block) in self._names:
            return
        self._names[id(block)] = name
        self._kept.append(block)
        own = block._params.values() if hasattr(block, "_params") else ()
        self.types.setdefault(name, (type(block).__name__, sum(_elements(parameter) for parameter in own)))
        if block.prefix:
            # of blocks that share a prefix the outermost has it: what is inside of it is its own in any case
            self._prefixes.setdefault(block.prefix, name)
        for key, child in getattr(block, "_children", {}).items():
            self._visit(child, before + key, before + key + ".")

    def add_symbol(self, symbol, shapes):
        """Every node of a module's symbol is a layer under its own name. shapes: of its parameters, by name."""
        nodes = json.loads(symbol.tojson())["nodes"]
        for node in nodes:
            if node["op"] == "null":
                continue
            own = [nodes[source[0]]["name"] for source in node["inputs"] if nodes[source[0]]["op"] == "null"]
            self._found[node["name"]] = node["name"]
            self._uses.update((name, node["name"]) for name in own if name in shapes)
            self.types[node["name"]] = (node["op"], sum(_product(shapes[name]) for name in own if name in shapes))

    def of_inputs(self, inputs):
        """Return the layers of a node that was fused of several: those that use its parameters; None where it has none."""
        layers = [self._uses[name] for name in inputs if name in self._uses]
        return " + ".join(dict.fromkeys(layers)) or None

    def of(self, block):
        """Return the block's layer, or None."""
        return self._names.get(id(block))

    def blocks(self):
        """Return all blocks."""
        return list(self._kept)

    def of_node(self, name):
        """Return the layer of a graph's node: the block with the longest prefix that its name begins with."""
        if name not in self._found:
            fitting = [prefix for prefix in self._prefixes if name.startswith(prefix)]
            self._found[name] = self._prefixes[max(fitting, key=len)] if fitting else None
        return self._found[name]


def _elements(parameter):
    return _product(parameter.shape or (0,))


def _product(sizes):
    count = 1
    for size in sizes:
        count *= max(int(size), 0)  # -1 or 0 is a size that is not known yet
    return count


class Layers(object):
    """The ranges of one pass, from `attach` to `detach`, and what was queued meanwhile."""

    def __init__(self, mx, recorder, roots, kernels):
        self.mx = mx
        self.recorder = recorder
        self.setting = False  # whether it is us who set the profiler's state
        blocks = [root for root in roots if isinstance(root, mx.gluon.Block)]
        modules = [root for root in roots if root not in blocks]
        self.names = Names(mx, blocks)
        self.title = " + ".join(type(root).__name__ for root in roots) or "unknown"
        self.parameters = sum(_elements(value) for root in blocks for value in root.collect_params().values())
        for module in modules:
            known = getattr(module, "_arg_params", None) or {}
            self.names.add_symbol(module.symbol, {name: value.shape for name, value in known.items()})
            self.parameters += sum(_product(value.shape) for value in known.values())
        self._kernels = kernels
        self._patches = Patches()
        self._order = {}  # layer -> rank of its first call
        self._counts = {}  # layer -> calls within the present call of the model
        self._local = threading.local()
        self._imperative = Imperative(mx)
        self._separate = self._queue = None
        self._methods = {}

    def attach(self):
        """Put the ranges there; return how layers and phases are found."""
        mx, patches, ranged = self.mx, self._patches, self._ranged
        patches.wrap(mx.gluon.Block, "__call__", self._calling)
        backward = ranged("phase", "backward", "backward")
        patches.wrap(mx.nd.NDArray, "backward", lambda original: self._backwards(backward(original)))
        patches.wrap(mx.autograd, "backward", lambda original: self._backwards(backward(original)))
        update = ranged("phase", "optimizer step", "optimizer")
        for name in ("step", "update", "allreduce_grads"):
            patches.wrap(mx.gluon.Trainer, name, update)
        patches.wrap(mx.mod.Module, "update", update)
        patches.wrap(mx.mod.Module, "forward", ranged("phase", "forward", "forward"))
        patches.wrap(mx.mod.Module, "backward", backward)
        for name in _SYNCHRONISING:
            patches.wrap(mx.nd.NDArray, name, ranged("sync", name, "other"))
        patches.wrap(mx.nd, "waitall", ranged("sync", "waitall", "other"))
        told = "mx.profiler's operators in the order in which they were queued; graphs by the names of their nodes"
        self._methods = {
            "layers": told if self._kernels else "none: calls of blocks only queue work",
            "phases": "calls of the model, backward, updates; when queued, not when run",
            "kernels": "operators: MXNet's library exports no way to have oneDNN print its lines",
        }
        return self._methods

    def _ranged(self, category, name, phase):
        """Return what puts a range around each call of a function; the step may end within the call."""
        recorder = self.recorder

        def around(original):
            def called(*arguments, **keywords):
                number = recorder.push(category, name, None, phase)
                try:
                    return original(*arguments, **keywords)
                finally:
                    recorder.close(number)

            return called

        return around

    def detach(self):
        """Take the ranges away and let go of the script's objects."""
        self._patches.undo()
        self.names._kept = []

    def table(self):
        """Return the layers, in the order of their first calls as far as that is known, else of their making."""
        types = self.names.types
        ordered = sorted(types, key=lambda name: self._order.get(name, len(self._order)))
        return [{"name": name, "type": types[name][0], "parameters": types[name][1]} for name in ordered]

    # --- calls -----------------------------------------------------------------------------------------------------------

    def _calling(self, original):
        recorder, local, kernels = self.recorder, self._local, self._kernels
        symbol, loss = self.mx.sym.Symbol, self.mx.gluon.loss.Loss

        def called(block, *arguments):
            depth = getattr(local, "depth", 0)
            if depth and not kernels or not recorder.in_step or any(isinstance(argument, symbol) for argument in arguments):
                return original(block, *arguments)
            if depth == 0 and recorder.loading():
                return original(block, *arguments)
            layer = self._layer(block, depth == 0)
            around, local.layer, local.depth = getattr(local, "layer", None), layer, depth + 1
            phase = recorder.push("phase", "forward", None, "forward") if depth == 0 else None
            number = recorder.push("layer", layer, layer, "forward") if isinstance(block, loss) else None
            try:
                return original(block, *arguments)
            finally:
                recorder.close(number)
                recorder.close(phase)
                local.layer, local.depth = around, depth

        return called

    def _layer(self, block, outermost):
        """Return the layer that this call stands for; blocks that nobody knows are the caller's."""
        if outermost:
            self._counts.clear()
        name = self.names.of(block)
        if name is None:
            if not outermost:
                return self._local.layer
            self.names.add(block)
            name = self.names.of(block)
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count > 1:
            kind = self.names.types[name]
            name = "%s (%d)" % (name, count) if count <= MOST_NUMBERED else "%s (%d and later)" % (name, MOST_NUMBERED + 1)
            self.names.types.setdefault(name, (kind[0], 0))
        self._order.setdefault(name, len(self._order))
        return name

    def _backwards(self, original):
        def called(*arguments, **keywords):
            queue = self._queue
            if queue is None:
                return original(*arguments, **keywords)
            entry = queue.backward()
            try:
                return original(*arguments, **keywords)
            finally:
                queue.queued(entry)

        return called

    # --- operators -------------------------------------------------------------------------------------------------------

    def start(self, profiler):
        """Run operators one by one, write down what is queued, and start mx.profiler, with nothing queued before."""
        mx = self.mx
        mx.nd.waitall()
        self._separate = Separate(mx, self._imperative)
        self._separate.start(self.names.blocks())
        self._queue = Queue(mx, self._imperative, self.names, lambda: self.recorder.step)
        register = mx.ndarray.register
        self._patches.wrap(register, "_imperative_invoke", self._invoking)
        self._patches.wrap(mx.nd.CachedOp, "__call__", self._graph_calling)
        self._patches.wrap(mx.executor.Executor, "forward", self._executing("forward"))
        self._patches.wrap(mx.executor.Executor, "backward", self._executing("backward"))
        self._set(profiler.start_operators, None)

    def stop(self, profiler):
        """Stop mx.profiler and let operators run as before; return the names of the files."""
        trace = self._set(profiler.stop_profiler)
        self._separate.stop()
        queue, self._queue = self._queue, None
        files = [trace, queue.write(profiler.spec["folder"])]
        missing = sorted("%s: %s" % item for item in queue.missing.items())
        missing += [self._separate.missing] if self._separate.missing else []
        if missing:
            self._methods["not known"] = "; ".join(missing)
        return files

    def _set(self, function, *arguments):
        self.setting = True
        try:
            return function(*arguments)
        finally:
            self.setting = False

    def _invoking(self, original):
        queue, local, recording, loading = self._queue, self._local, self.mx.autograd.is_recording, self.recorder.loading

        def invoke(handle, arrays, keys, values, out, is_np, output_is_list):
            queue.opening()
            outputs = original(handle, arrays, keys, values, out, is_np, output_is_list)
            layer = getattr(local, "layer", None)
            phase = "forward" if layer is not None or recording() else "data" if loading() else "other"
            queue.operator(handle, arrays, keys, values, layer, phase, outputs)
            return outputs

        return invoke

    def _graph_calling(self, original):
        queue, local, symbols = self._queue, self._local, self._separate.symbols

        def called(graph, *arguments, **keywords):
            queue.opening()
            outputs = original(graph, *arguments, **keywords)
            known = symbols.get(id(graph))
            if known is not None:
                queue.graph(id(graph), known[1], arguments, getattr(local, "layer", None), outputs)
            return outputs

        return called

    def _executing(self, phase):
        queue, separate = self._queue, self._separate

        def executing(original):
            def called(executor, *arguments, **keywords):
                if phase == "forward":
                    separate.executor_called(executor)
                entry = queue.executor(executor, phase)
                try:
                    return original(executor, *arguments, **keywords)
                finally:
                    queue.queued(entry)

            return called

        return executing
