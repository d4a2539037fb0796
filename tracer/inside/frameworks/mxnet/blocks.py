"""MXNet's blocks and modules in scripts: their names, the ranges around them, and what they queue on the engine.

An operator's layer follows from the order in which operators were queued (see queue). Every block is a layer, also inside
hybridized ones: the names of a graph's nodes begin with the prefix of the block that created them. While kernels are recorded,
operators run one by one (see separate).
"""

import json
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional

from kernelscope.tracer.inside.frameworks.mxnet.queue import Queue
from kernelscope.tracer.inside.frameworks.mxnet.separate import Imperative, Separate
from kernelscope.tracer.inside.frameworks.script import elements, network, numbered
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder


class Names(object):
    """The names of blocks, by identity and by the prefix of the nodes that they create. types: layer -> (type, parameters)."""

    def __init__(self, mx: Any, roots: Any) -> None:
        self.types: Dict[Any, Any] = {}
        self._mx = mx
        self._kept: List[Any] = []  # the blocks, kept alive so that no other one gets the same id
        self._names: Dict[Any, Any] = {}  # id of a block -> its layer
        self._prefixes: Dict[Any, Any] = {}  # prefix -> layer
        self._found: Dict[Any, Any] = {}  # node's name -> layer
        self._uses: Dict[Any, Any] = {}  # parameter of a symbol -> the node that takes it
        self._prefixed = len(roots) > 1
        for root in roots:
            self.add(root)

    def add(self, root: Any) -> None:
        """Name the model and all blocks in it. A block with several paths gets the first one."""
        loss = isinstance(root, self._mx.gluon.loss.Loss)
        own, number, title = None, 1, "loss" if loss else type(root).__name__
        while own is None or (own in self.types and not loss):
            own = title if number == 1 else "%s %d" % (title, number)
            number += 1
        self._visit(root, own, "" if not self._prefixed else own + ".")
        self._found = {name: layer for name, layer in self._found.items() if name == layer}  # others may be found anew

    def _visit(self, block: Any, name: str, before: Any) -> None:
        if id(block) in self._names:
            return
        self._names[id(block)] = name
        self._kept.append(block)
        own = block._params.values() if hasattr(block, "_params") else ()
        self.types.setdefault(name, (type(block).__name__, sum(_elements(parameter) for parameter in own)))
        if block.prefix:
            # of blocks that share a prefix, the outermost one gets it: the others are parts of it anyway
            self._prefixes.setdefault(block.prefix, name)
        for key, child in getattr(block, "_children", {}).items():
            self._visit(child, before + key, before + key + ".")

    def add_symbol(self, symbol: Any, shapes: Any) -> None:
        """Make every node of a module's symbol a layer under its own name. shapes: those of its parameters, by name."""
        nodes = json.loads(symbol.tojson())["nodes"]
        for node in nodes:
            if node["op"] == "null":
                continue
            own = [nodes[source[0]]["name"] for source in node["inputs"] if nodes[source[0]]["op"] == "null"]
            self._found[node["name"]] = node["name"]
            self._uses.update((name, node["name"]) for name in own if name in shapes)
            self.types[node["name"]] = (node["op"], sum(elements(shapes[name]) for name in own if name in shapes))

    def of_inputs(self, inputs: Iterable[str]) -> Optional[str]:
        """Return a fused node's layers, joined by " + ": those that use its parameters; None if it has no parameters."""
        layers = [self._uses[name] for name in inputs if name in self._uses]
        return " + ".join(dict.fromkeys(layers)) or None

    def of(self, block: Any) -> Optional[str]:
        """Return the block's layer, or None."""
        return self._names.get(id(block))

    def blocks(self) -> List[Any]:
        """Return all blocks."""
        return list(self._kept)

    def of_node(self, name: str) -> Optional[str]:
        """Return the layer of a graph's node, or None: the block with the longest prefix with which its name begins."""
        if name not in self._found:
            fitting = [prefix for prefix in self._prefixes if name.startswith(prefix)]
            self._found[name] = self._prefixes[max(fitting, key=len)] if fitting else None
        return self._found[name]


def _elements(parameter: Any) -> int:
    return elements(parameter.shape or (0,))


class Layers(object):
    """The ranges of one pass, from `attach` to `detach`, and what was queued meanwhile."""

    def __init__(self, library: Any, recorder: Recorder, roots: Any, kernels: bool) -> None:
        self.mx = mx = library.mx
        self._library = library
        self.recorder = recorder
        self.setting: bool = False  # whether we, and not the script, are setting the profiler's state
        blocks = [root for root in roots if isinstance(root, mx.gluon.Block)]
        modules = [root for root in roots if root not in blocks]
        self.names = Names(mx, blocks)
        self.title = " + ".join(type(root).__name__ for root in roots) or "unknown"
        self.parameters = sum(_elements(value) for root in blocks for value in root.collect_params().values())
        for module in modules:
            known = getattr(module, "_arg_params", None) or {}
            self.names.add_symbol(module.symbol, {name: value.shape for name, value in known.items()})
            self.parameters += sum(elements(value.shape) for value in known.values())
        self._kernels = kernels
        self._patches = Patches()
        self._order: Dict[Any, Any] = {}  # layer -> position of its first call
        self._counts: Dict[Any, Any] = {}  # layer -> calls within the current call of the model
        self._local = threading.local()
        self._imperative = Imperative(mx)
        self._separate: Any = None
        self._queue: Any = None
        self._methods: Dict[Any, Any] = {}

    def attach(self) -> Dict[str, Any]:
        """Put the ranges in place; return how layers and phases are found."""
        mx, patches, around = self.mx, self._patches, self.recorder.around
        patches.wrap(mx.gluon.Block, "__call__", self._calling)
        backward = around("phase", "backward", "backward")
        for owner in (mx.nd.NDArray, mx.autograd):
            patches.wrap(owner, "backward", lambda original: self._backwards(backward(original)))
        update = around("phase", "optimizer step", "optimizer")
        for name in ("step", "update", "allreduce_grads"):
            patches.wrap(mx.gluon.Trainer, name, update)
        patches.wrap(mx.mod.Module, "update", update)
        patches.wrap(mx.mod.Module, "forward", around("phase", "forward", "forward"))
        patches.wrap(mx.mod.Module, "backward", backward)
        self._library.range_waiting(patches, self.recorder)
        layers = "mx.profiler's operators in the order in which they were queued; graphs by the names of their nodes"
        self._methods = {
            "layers": layers if self._kernels else "none: calls of blocks only queue work",
            "phases": "calls of the model, backward, updates; at the time of queueing, not of execution",
            "kernels": "operators: MXNet's library exports no function that makes oneDNN print its calls",
        }
        return self._methods

    def detach(self) -> None:
        """Remove the ranges and release the script's objects."""
        self._patches.undo()
        self.names._kept = []

    def described(self) -> Dict[str, Any]:
        """Describe the models, with layers in the order of their first calls, then those not called, in the order of naming."""
        types = self.names.types
        ordered = sorted(types, key=lambda name: self._order.get(name, len(self._order)))
        return network(self.title, [(name,) + types[name] for name in ordered], self.parameters)

    # --- calls -----------------------------------------------------------------------------------------------------------

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder, local, kernels = self.recorder, self._local, self._kernels
        symbol, loss = self.mx.sym.Symbol, self.mx.gluon.loss.Loss

        def called(block: Any, *arguments: Any) -> Any:
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

    def _layer(self, block: Any, outermost: bool) -> Any:
        """Return the name of the layer for this call; an unknown block belongs to its caller's layer, or is a model itself."""
        if outermost:
            self._counts.clear()
        name: Any = self.names.of(block)
        if name is None:
            if not outermost:
                return self._local.layer
            self.names.add(block)
            name = self.names.of(block)
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count > 1:
            kind = self.names.types[name]
            name = numbered(name, count)
            self.names.types.setdefault(name, (kind[0], 0))
        self._order.setdefault(name, len(self._order))
        return name

    def _backwards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **keywords: Any) -> Any:
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

    def start(self, folder: str) -> None:
        """Make operators run one by one, record what is queued, and start mx.profiler once the queue is empty."""
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
        self._set(self._library.start_profiler, folder)

    def stop(self, folder: str) -> List[str]:
        """Stop mx.profiler and let operators run as before; return the names of the written files."""
        trace = self._set(self._library.stop_profiler, folder)
        self._separate.stop()
        queue, self._queue = self._queue, None
        files = [trace, queue.write(folder)]
        missing = sorted("%s: %s" % item for item in queue.missing.items())
        missing += [self._separate.missing] if self._separate.missing else []
        if missing:
            self._methods["not known"] = "; ".join(missing)
        return files

    def _set(self, function: Callable[..., Any], folder: str) -> Any:
        self.setting = True
        try:
            return function(folder)
        finally:
            self.setting = False

    def _invoking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        queue, local, recording, loading = self._queue, self._local, self.mx.autograd.is_recording, self.recorder.loading

        def invoke(handle: Any, arrays: Any, keys: Any, values: Any, out: Any, is_np: bool, output_is_list: bool) -> Any:
            queue.opening()
            outputs = original(handle, arrays, keys, values, out, is_np, output_is_list)
            layer = getattr(local, "layer", None)
            phase = "forward" if layer is not None or recording() else "data" if loading() else "other"
            queue.operator(handle, arrays, keys, values, layer, phase, outputs)
            return outputs

        return invoke

    def _graph_calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        queue, local, symbols = self._queue, self._local, self._separate.symbols

        def called(graph: Any, *arguments: Any, **keywords: Any) -> Any:
            queue.opening()
            outputs = original(graph, *arguments, **keywords)
            known = symbols.get(id(graph))
            if known is not None:
                queue.graph(id(graph), known[1], arguments, getattr(local, "layer", None), outputs)
            return outputs

        return called

    def _executing(self, phase: str) -> Callable[..., Any]:
        queue, separate = self._queue, self._separate

        def executing(original: Callable[..., Any]) -> Callable[..., Any]:
            def called(executor: Any, *arguments: Any, **keywords: Any) -> Any:
                if phase == "forward":
                    separate.executor_called(executor)
                entry = queue.executor(executor, phase)
                try:
                    return original(executor, *arguments, **keywords)
                finally:
                    queue.queued(entry)

            return called

        return executing
