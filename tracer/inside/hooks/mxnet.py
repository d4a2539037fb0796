"""MXNet: ranges around phases, mx.profiler with the network's own graph, and the settings that matter.

MXNet's engine is asynchronous: Python only queues operators, threads of the engine run them, and a hybridized block's
children are not called at all. So Python ranges tell what the host does (queueing a phase, waiting), and layers come from the
operators that mx.profiler saw run: an engine with one worker runs a graph's operators of one type in the graph's order, and
every node's name begins with the prefix of the block that made it. The graph, backward pass included, is written down beside
the trace.

As an engine bulks operators into one row by default, the kernels pass switches that off; its cost is the pass's overhead.
"""

import contextlib
import functools
import gzip
import json
import mmap
import os
import re
import shutil
import weakref

from kernelscope.tracer.inside import hooks

TRACE_FILE = "operators.mxnet.json"
GRAPH_FILE = "graph.json"
_SYNCHRONISING = ("asnumpy", "wait_to_read")  # methods of an array that wait for its value; asscalar calls asnumpy
# how many nodes of a graph run as one at most; for training each direction has its own, which goes first
_BULK_NODES = (
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN",
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD",
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD",
)
_ONEDNN_BANNER = b"dnnl_verbose,info,oneDNN v%d"


def environment(pass_name):
    """Return the variables that make oneDNN print each primitive and the engine run each operator by itself."""
    if pass_name != "kernels":
        return {}
    return {
        "DNNL_VERBOSE": "1",
        "MKLDNN_VERBOSE": "1",
        "DNNL_VERBOSE_TIMESTAMP": "1",
        "MXNET_EXEC_BULK_EXEC_TRAIN": "0",
        "MXNET_EXEC_BULK_EXEC_INFERENCE": "0",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN": "0",
    }


def layer_prefixes(root):
    """Return [(prefix, layer)] of the blocks that count as layers under `root`: those without children or with parameters.

    A layer's name is its block's prefix without the prefixes of the blocks around it; longer prefixes come first.
    """
    found, start = [], root.prefix

    def visit(block):
        children = list(block._children.values())
        if not children or list(block.params.values()):
            name = block.prefix[len(start) :] if block.prefix.startswith(start) else block.prefix
            found.append((block.prefix, name.rstrip("_") or type(block).__name__.lower()))
        for child in children:
            visit(child)

    visit(root)
    return sorted(found, key=lambda pair: -len(pair[0]))


def named_prefixes(root, names):
    """Return [(prefix, layer)] of layers that have a name already, longer prefixes first.

    Such a layer need not be a block: a concatenation is an operator of the block around it, named as the layer.
    """
    return [(root.prefix + name + "_", name) for name in sorted(names, key=len, reverse=True)]


def parse_graph(text):
    """Return [{"op", "name", "inputs"}] from an executor's description of its graph, in the order of execution."""
    nodes = []
    for line in text.splitlines():
        operator = re.match(r"Op:(\S+), Name=(.*)$", line)
        if operator:
            nodes.append({"op": operator.group(1), "name": operator.group(2), "inputs": []})
            continue
        argument = re.match(r"\s+arg\[\d+\]=(.*)\(\d+\)", line)
        if argument and nodes:
            nodes[-1]["inputs"].append(argument.group(1))
    return nodes


def without_direction(name):
    """Return the name of the forward node whose gradient this is; a product has two, of its left and right side."""
    return re.sub(r"_backward(_lhs|_rhs)?$", "", name)


def name_layers(nodes, root, prefixes):
    """Add "layer" and "phase" to the nodes: by their name's prefix.

    What stands in the root block itself, such as an addition, has no layer. What MXNet adds to a graph, such as zeros for a
    gradient, has no prefix at all: it belongs to the node that uses it next, or else to the one that feeds it.
    """
    for node in nodes:
        base = without_direction(node["name"])
        node["phase"] = "backward" if base != node["name"] or node["op"].startswith("_backward") else "forward"
        starting = [layer for prefix, layer in prefixes if (base + "_").startswith(prefix)]
        containing = [layer for prefix, layer in prefixes if prefix in base]
        node["layer"] = (starting or containing or [None])[0]
    for position, node in reversed(list(enumerate(nodes))):  # the last first, for one may use another (sum_grad)
        if node["layer"] is None and not node["name"].startswith(root):
            # names made by gradients repeat (zeros_without_dtype), but each such node stands before the one that uses it
            users = [other for other in nodes[position + 1 :] if node["name"] in other["inputs"]]
            sources = [other for other in nodes[:position] if other["name"] in node["inputs"]]
            neighbour = (users[:1] or sources[-1:] or [None])[0]
            if neighbour is not None:
                node["layer"] = neighbour["layer"]
                node["phase"] = neighbour["phase"] if users else node["phase"]
    return nodes


class Hooks(object):
    """What a pass records of MXNet; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.mx = None
        self.net = None
        self.loss = None
        self.named = []  # the names of the network's layers
        self.shapes = {}  # block's prefix -> shapes of the inputs of its latest call
        self.tracing = False
        self.hybridized = []  # outermost blocks on which hybridize() was called, with the options of the latest call

    def configure(self):
        """Set the number of threads and import mxnet, which reads it then; have each loop end with nothing queued."""
        if self.spec.get("threads"):
            os.environ["OMP_NUM_THREADS"] = str(self.spec["threads"])
        import mxnet

        self.mx = mxnet
        # reading a loss waits for the forward pass only: without this the last step's gradients and updates would run
        # after the last step's end, in nobody's time
        self.recorder.settle = mxnet.nd.waitall
        # oneDNN's lines carry the time, so nothing needs markers between them, and these would cut lines in two: oneDNN
        # prints a line in pieces, and every thread of the engine flushes
        self.recorder.marker_fd = None
        self._notice_hybridize()

    def _notice_hybridize(self):
        """Keep which blocks are hybridized and how; a call of a block goes on to its children, which count with it."""
        depth = []

        def noticing(original):
            @functools.wraps(original)
            def hybridize(block, active=True, **options):
                if not depth:
                    self.hybridized = [pair for pair in self.hybridized if pair[0]() not in (None, block)]
                    self.hybridized.append((weakref.ref(block), dict(options) if active else None))
                depth.append(block)
                try:
                    return original(block, active, **options)
                finally:
                    depth.pop()

            return hybridize

        for kind in (self.mx.gluon.Block, self.mx.gluon.HybridBlock):
            kind.hybridize = noticing(kind.hybridize)

    def versions(self):
        """Return the versions of mxnet and numpy, and the commit of the oneDNN inside of mxnet's library: it tells no number."""
        found = {"mxnet": self.mx.__version__}
        try:
            import numpy

            found["numpy"] = numpy.__version__
        except ImportError:
            pass
        onednn = _onednn_commit(self.mx.libinfo.find_lib_path()[0])
        if onednn:
            found["onednn"] = "commit " + onednn[:12]
        return found

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        features = self.mx.runtime.Features()
        variable = os.environ.get
        return {
            "threads": int(variable("OMP_NUM_THREADS", "0")) or None,
            "cores": hooks.cores(),
            "engine": variable("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
            "engine_workers": int(variable("MXNET_CPU_WORKER_NTHREADS", "1")),
            "bulk_execution_train": variable("MXNET_EXEC_BULK_EXEC_TRAIN", "1") != "0",
            "bulk_execution_inference": variable("MXNET_EXEC_BULK_EXEC_INFERENCE", "1") != "0",
            "bulk_execution_nodes": _bulk_nodes(),
            "bulk_size": self._bulk_size(),
            "onednn": features.is_enabled("MKLDNN") and variable("MXNET_MKLDNN_ENABLED", "1") != "0",
            "blas": [name for name in ("BLAS_MKL", "BLAS_OPEN", "BLAS_ATLAS", "BLAS_APPLE") if features.is_enabled(name)],
            "default_dtype": "float32",
            "memory_format": "channels first",
            "cudnn_autotune": variable("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1") if features.is_enabled("CUDNN") else None,
            "tf32": variable("NVIDIA_TF32_OVERRIDE", "1") != "0" if features.is_enabled("CUDA") else None,
            "execution": self._execution(),
        }

    def _execution(self):
        """Return whether blocks run as graphs, with the options that decide how much is planned ahead.

        Of several blocks on which hybridize() was called, the one with most parameters is the network.
        """
        blocks = [(reference(), options) for reference, options in self.hybridized if reference() is not None]
        if not blocks:
            return "imperative"
        options = max(blocks, key=lambda pair: len(pair[0].collect_params().keys()))[1]
        if options is None:
            return "imperative"
        return " ".join(["hybridized"] + ["%s=%s" % pair for pair in sorted(options.items())])

    def _bulk_size(self):
        """Return how many imperative operators this thread's engine runs as one; asking means setting it, for an instant."""
        set_bulk_size = self.mx.engine.set_bulk_size
        size = set_bulk_size(0)
        set_bulk_size(size)
        return size

    def attach_layers(self, program):
        """Hook the program's network, loss and trainer and what waits; return how layers and phases are found."""
        self.net, self.loss = program.net, program.loss
        self.named = [layer.name for layer in program.network.layers]
        self._attach_block(self.net, "phase", "forward", None)
        self._attach_block(self.loss, "layer", "loss", "loss")
        array = self.mx.nd.NDArray
        array.backward = self.recorder.ranged(array.backward, "phase", "backward", "backward")
        program.trainer.step = self.recorder.ranged(program.trainer.step, "phase", "optimizer step", "optimizer")
        for name in _SYNCHRONISING:
            setattr(array, name, self.recorder.ranged(getattr(array, name), "sync", name, "other"))
        self.mx.nd.waitall = self.recorder.ranged(self.mx.nd.waitall, "sync", "waitall", "other")
        self.recorder.settle = self.mx.nd.waitall
        if self.spec["pass"] == "kernels":
            layers = "mx.profiler's operators in the order of the network's graph, bulk execution off"
        else:
            layers = "loss only: a hybridized network's layers are not called from Python"
        return {
            "layers": layers,
            "phases": "the blocks' forward hooks, NDArray.backward, Trainer.step; when queued, not when run",
        }

    def _attach_block(self, block, category, name, layer):
        recorder, shapes, prefix = self.recorder, self.shapes, block.prefix

        def enter(block, inputs):
            shapes[prefix] = [value.shape for value in inputs if hasattr(value, "shape")]
            recorder.push(category, name, layer=layer, phase="forward")

        def leave(block, inputs, output):
            recorder.pop()

        block.register_forward_pre_hook(enter)
        block.register_forward_hook(leave)

    def start_operators(self, program):
        """Start mx.profiler in the kernels pass; with bulk execution its rows would hold no layers."""
        if self.spec["pass"] != "kernels":
            return
        mx = self.mx
        mx.profiler.set_config(
            profile_symbolic=True,
            profile_imperative=True,
            profile_memory=False,
            profile_api=False,
            continuous_dump=False,
            aggregate_stats=False,
            filename=os.path.join(self.spec["folder"], TRACE_FILE),
        )
        mx.nd.waitall()
        mx.profiler.set_state("run")
        self.tracing = True

    def _write_graphs(self):
        """Write the graphs of the blocks that were called, now that the shapes of their inputs are known."""
        network = named_prefixes(self.net, self.named) + layer_prefixes(self.net)
        prefixes = [(self.net, network), (self.loss, [(self.loss.prefix, "loss")])]
        graphs = [self._graph(block, layers) for block, layers in prefixes if block.prefix in self.shapes]
        with open(os.path.join(self.spec["folder"], GRAPH_FILE), "w") as out:
            json.dump({"graphs": graphs}, out, indent=1)

    def _graph(self, block, prefixes):
        """Return the graph of a block's latest call with its layers; of the backward pass too when training."""
        shapes = self.shapes[block.prefix]
        inputs = [self.mx.sym.var("input%d" % number) for number in range(len(shapes))]
        symbol = block(*inputs)
        if isinstance(symbol, (list, tuple)):
            symbol = self.mx.sym.Group(list(symbol))
        held = {variable.name: self.mx.nd.empty(shape) for variable, shape in zip(inputs, shapes)}
        kept = os.environ.get("MXNET_SUBGRAPH_BACKEND")
        os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # an executor would fuse operators that a block does not
        try:
            nodes = parse_graph(self._bound(block, symbol, held).debug_str())
        finally:
            if kept is None:
                del os.environ["MXNET_SUBGRAPH_BACKEND"]
            else:
                os.environ["MXNET_SUBGRAPH_BACKEND"] = kept
        return {"prefix": block.prefix, "nodes": name_layers(nodes, block.prefix, prefixes)}

    def _bound(self, block, symbol, held):
        """Return an executor of a block's symbol, which never runs: on the block's own arrays, for a large network has many.

        held: the inputs' arrays by name.
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

    def stop_operators(self):
        """Stop the profiler, write its trace compressed and the graphs; return the names of the files written."""
        if not self.tracing:
            return []
        trace = self.stop_profiler()
        self._write_graphs()
        return [trace, GRAPH_FILE]

    def stop_profiler(self):
        """Stop the profiler and write its trace compressed; return the file's name."""
        mx = self.mx
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        path = os.path.join(self.spec["folder"], TRACE_FILE)
        with open(path, "rb") as plain, gzip.open(path + ".gz", "wb", compresslevel=3) as packed:
            shutil.copyfileobj(plain, packed)
        os.remove(path)
        return TRACE_FILE + ".gz"


def _bulk_nodes():
    """Return what was set of how many nodes of a graph run as one, or None where nothing was."""
    values = [os.environ.get(name) for name in _BULK_NODES]
    return None if values == [None] * len(values) else " ".join(value or "default" for value in values)


def _onednn_commit(path):
    """Return the commit of the oneDNN inside the library at `path`, which stands before its banner's text, or None."""
    with open(path, "rb") as library, contextlib.closing(mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)) as text:
        banner = text.find(_ONEDNN_BANNER)
        match = re.search(rb"([0-9a-f]{40})\0+$", text[max(banner - 64, 0) : banner]) if banner >= 0 else None
    return match.group(1).decode("ascii") if match else None
