"""MXNet in our workloads: ranges around phases, mx.profiler with the network's own graph, and the settings that matter.

MXNet's engine is asynchronous: Python only queues operators, threads of the engine run them, and a hybridized block's children
are not called at all. Python ranges therefore show what the host does (queueing a phase, waiting), and layers come from the
operators that mx.profiler saw run: an engine with one worker runs a graph's operators of one type in the graph's order, and
every node's name begins with the prefix of the block that created it. The graph, including the backward pass, is written next
to the trace.

By default the engine bulks several operators into one row. The kernels pass switches that off; the cost counts as its overhead.
"""

import functools
import json
import os
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside.frameworks.mxnet.graph import GRAPH_FILE, neighbour, parse_graph, phase_of, without_direction
from kernelscope.tracer.inside.frameworks.mxnet.library import Library
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder


def layer_prefixes(root: Any) -> List[Tuple[str, str]]:
    """Return [(prefix, layer)] of the blocks that count as layers under `root`: those without children or with parameters.

    A layer's name is its block's prefix without the prefixes of the blocks around it; longer prefixes come first.
    """
    found, start = [], root.prefix

    def visit(block: Any) -> None:
        children = list(block._children.values())
        if not children or list(block.params.values()):
            name = block.prefix[len(start) :] if block.prefix.startswith(start) else block.prefix
            found.append((block.prefix, name.rstrip("_") or type(block).__name__.lower()))
        for child in children:
            visit(child)

    visit(root)
    return sorted(found, key=lambda pair: -len(pair[0]))


def named_prefixes(root: Any, names: Sequence[str]) -> List[Tuple[str, str]]:
    """Return [(prefix, layer)] of layers whose names are known, longer prefixes first.

    Such a layer need not be a block: a concatenation, for example, is an operator of the block around it, with the layer's
    name.
    """
    return [(root.prefix + name + "_", name) for name in sorted(names, key=len, reverse=True)]


def name_layers(nodes: List[Dict[str, Any]], root: str, prefixes: Sequence[Tuple[str, str]]) -> List[Dict[str, Any]]:
    """Add "layer" and "phase" to the nodes, by their names' prefixes; return the nodes.

    A node of the root block itself, such as an addition, has no layer. A node that MXNet adds to the graph, such as zeros for a
    gradient, has no prefix: it gets the layer of the next node that uses it, or else of the one that feeds it.
    """
    for node in nodes:
        base = without_direction(node["name"])
        node["phase"] = phase_of(node)
        starting: List[Any] = [layer for prefix, layer in prefixes if (base + "_").startswith(prefix)]
        containing = [layer for prefix, layer in prefixes if prefix in base]
        node["layer"] = (starting or containing or [None])[0]
    for position, node in reversed(list(enumerate(nodes))):  # last first, because one may use another (sum_grad)
        if node["layer"] is None and not node["name"].startswith(root):
            found, uses = neighbour(nodes, position)
            if found is not None:
                node["layer"] = found["layer"]
                node["phase"] = found["phase"] if uses else node["phase"]
    return nodes


class Hooks(Base):
    """What a pass records of MXNet."""

    # oneDNN prints each primitive, and the engine runs each operator separately
    KERNELS_VARIABLES = {
        "DNNL_VERBOSE": "1",
        "MKLDNN_VERBOSE": "1",
        "DNNL_VERBOSE_TIMESTAMP": "1",
        "MXNET_EXEC_BULK_EXEC_TRAIN": "0",
        "MXNET_EXEC_BULK_EXEC_INFERENCE": "0",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN": "0",
    }

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.mx: Any = None
        self.net: Any = None
        self.loss: Any = None
        self.named: List[Any] = []  # the names of the network's layers
        self.shapes: Dict[Any, Any] = {}  # block's prefix -> input shapes of its latest call
        # (weak reference to an outermost block on which hybridize() was called, its latest options)
        self._hybridized: List[Any] = []

    def configure(self) -> None:
        """Set the number of threads, then import MXNet, which reads it; make each loop end with an empty queue."""
        if self.spec.get("threads"):
            os.environ["OMP_NUM_THREADS"] = str(self.spec["threads"])
        import mxnet

        self.mx = mxnet
        self.library = Library(mxnet)
        # reading a loss waits for the forward pass only: without this, the last step's gradients and updates would run
        # after the end of that step and count nowhere
        self.recorder.settle = mxnet.nd.waitall
        # oneDNN's lines contain the time, so no markers are needed between them. Markers would split lines: oneDNN
        # prints a line in pieces, and every thread of the engine flushes
        self.recorder.marker_fd = None
        self._notice_hybridize()

    def _notice_hybridize(self) -> None:
        """Record which outermost blocks are hybridized, and how; calls that hybridize() makes for children do not count."""
        depth: List[Any] = []

        def noticing(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def hybridize(block: Any, active: bool = True, **options: Any) -> Any:
                if not depth:
                    self._hybridized = [pair for pair in self._hybridized if pair[0]() not in (None, block)]
                    self._hybridized.append((weakref.ref(block), dict(options) if active else None))
                depth.append(block)
                try:
                    return original(block, active, **options)
                finally:
                    depth.pop()

            return hybridize

        for kind in (self.mx.gluon.Block, self.mx.gluon.HybridBlock):
            kind.hybridize = noticing(kind.hybridize)

    def settings(self) -> Dict[str, Any]:
        """Return the current settings; whether blocks run as graphs follows from the calls of hybridize()."""
        known = [(reference(), options) for reference, options in self._hybridized]
        self.library.hybridized = [(block, options) for block, options in known if block is not None]
        return self.library.settings()

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the program's network, loss, trainer and waiting; return how layers and phases are found."""
        self.net, self.loss = program.net, program.loss
        self.named = [layer.name for layer in program.network.layers]
        self._attach_block(self.net, "phase", "forward", None)
        self._attach_block(self.loss, "layer", "loss", "loss")
        self.ranged(self.mx.nd.NDArray, "backward", "phase", "backward", "backward")
        self.ranged(program.trainer, "step", "phase", "optimizer step", "optimizer")
        self.range_waiting()
        if self.kernels:
            layers = "mx.profiler's operators in the order of the network's graph, bulk execution off"
        else:
            layers = "loss only: a hybridized network's layers are not called from Python"
        return {
            "layers": layers,
            "phases": "the blocks' forward hooks, NDArray.backward, Trainer.step; at the time of queueing, not of execution",
        }

    def range_waiting(self) -> None:
        """Put ranges around the functions that wait for the engine, including the wait at the end of a loop's last step."""
        self.library.range_waiting(Patches(), self.recorder)
        self.recorder.settle = self.mx.nd.waitall

    def _attach_block(self, block: Any, category: str, name: str, layer: Optional[str]) -> None:
        recorder, shapes, prefix = self.recorder, self.shapes, block.prefix

        def enter(block: Any, inputs: Any) -> None:
            shapes[prefix] = [value.shape for value in inputs if hasattr(value, "shape")]
            recorder.push(category, name, layer=layer, phase="forward")

        def leave(block: Any, inputs: Any, output: Any) -> None:
            recorder.pop()

        block.register_forward_pre_hook(enter)
        block.register_forward_hook(leave)

    def start_operators(self, program: Any) -> None:
        """Start mx.profiler. In passes with bulk execution, its rows would have no layers."""
        self.library.start_profiler(self.spec["folder"])

    def graphs(self) -> List[Dict[str, Any]]:
        """Return the graphs of the blocks that were called, once the shapes of their inputs are known."""
        network = named_prefixes(self.net, self.named) + layer_prefixes(self.net)
        prefixes = [(self.net, network), (self.loss, [(self.loss.prefix, "loss")])]
        return [self._graph(block, layers) for block, layers in prefixes if block.prefix in self.shapes]

    def _graph(self, block: Any, prefixes: Any) -> Dict[str, Any]:
        """Return the graph of a block's latest call, with layers; in training, including the backward pass."""
        shapes = self.shapes[block.prefix]
        inputs = [self.mx.sym.var("input%d" % number) for number in range(len(shapes))]
        symbol = block(*inputs)
        if isinstance(symbol, (list, tuple)):
            symbol = self.mx.sym.Group(list(symbol))
        held = {variable.name: self.mx.nd.empty(shape) for variable, shape in zip(inputs, shapes)}
        kept = os.environ.get("MXNET_SUBGRAPH_BACKEND")
        os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # else an executor fuses operators that a block does not
        try:
            nodes = parse_graph(self._bound(block, symbol, held).debug_str())
        finally:
            if kept is None:
                del os.environ["MXNET_SUBGRAPH_BACKEND"]
            else:
                os.environ["MXNET_SUBGRAPH_BACKEND"] = kept
        return {"prefix": block.prefix, "nodes": name_layers(nodes, block.prefix, prefixes)}

    def _bound(self, block: Any, symbol: Any, held: Any) -> Any:
        """Return an executor of a block's symbol, which never runs. It uses the block's own arrays, because they may be large.

        held: the inputs' arrays by name; the parameters' are added.
        """
        cpu = self.mx.cpu()
        parameters = block.collect_params()
        requests = dict.fromkeys(symbol.list_arguments(), "null")
        gradients = {}
        for name, parameter in parameters.items():
            held[name] = parameter.data().as_in_context(cpu)
            if self.spec["mode"] == "train" and parameter.grad_req != "null":
                requests[name], gradients[name] = parameter.grad_req, parameter.grad().as_in_context(cpu)
        if block is self.loss and self.spec["mode"] == "train":
            requests["input0"], gradients["input0"] = "write", self.mx.nd.empty(held["input0"].shape)
        arguments = {name: held[name] for name in symbol.list_arguments()}
        states = {name: held[name] for name in symbol.list_auxiliary_states()}
        return symbol.bind(cpu, arguments, args_grad=gradients, grad_req=requests, aux_states=states)

    def stop_operators(self) -> List[str]:
        """Stop the profiler; write its trace, compressed, and the graphs; return the names of the written files."""
        trace = self.library.stop_profiler(self.spec["folder"])
        with open(os.path.join(self.spec["folder"], GRAPH_FILE), "w") as out:
            json.dump({"graphs": self.graphs()}, out, indent=1)
        return [trace, GRAPH_FILE]
