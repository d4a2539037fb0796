"""What a step queues on MXNet's engine, in order: operators of imperative code, graphs of hybridized blocks, executors.

The engine's profiler tells an operator's type and time only. What Python queued tells whose it is: the k-th operator of a type
that runs is the k-th of that type that was queued. What a graph consists of, and what an operator's gradient is made of, an
executor of the same symbol says, which is made for that when the pass is over and never runs.
"""

import ctypes
import json
import os

from kernelscope.tracer.inside.hooks import mxnet as hooks

OPERATOR, GRAPH, EXECUTOR, BACKWARD = "operator", "graph", "executor", "backward"
_FIRST = "operator0"  # how the node of an operator that is bound alone is called


class Queue(object):
    """The entries of each step, and at the end the graphs that they stand for.

    layer_of(name) returns the layer of a graph's node by its name, or None; step() the number of the present step.
    """

    def __init__(self, mx, imperative, layer_of, step):
        self.mx = mx
        self.missing = {}  # what could not be described -> why
        self._recorded = imperative.recorded
        self._layer_of = layer_of
        self._step = step
        self._number = None  # of the step whose entries are being collected
        self._entries = []  # keys of _known, or (BACKWARD,)
        self._steps = []
        self._known = {}  # key -> what an entry needs to be described: see the adding methods
        self._names = {}  # handle of an operator -> its name
        self._before = None
        self._made = set()  # handles of arrays that recorded entries of this step made

    # --- while steps run -------------------------------------------------------------------------------------------------

    def opening(self):
        """Before an operator or graph is queued: nothing is recorded yet."""
        self._before = self._recorded()

    def _is_recorded(self, outputs):
        """Return whether what was queued last is taken back by a backward pass, and remember what it made."""
        recorded = self._recorded() != self._before
        for output in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
            (self._made.add if recorded else self._made.discard)(output.handle.value)
        return recorded

    def operator(self, handle, arrays, keys, values, is_np, layer, phase, outputs):
        """An operator of imperative code was queued."""
        recorded = self._is_recorded(outputs)
        key = (OPERATOR, handle, tuple(keys), layer, phase, recorded)
        if key not in self._known:
            shapes = [tuple(array.shape) for array in arrays]
            self._known[key] = (list(keys), [str(value) for value in values], shapes, is_np)
        self._add(key)

    def graph(self, identity, symbol, arrays, layer, outputs):
        """A graph was queued: that of a hybridized block, `layer` being the block's own."""
        made = [array.handle.value in self._made for array in arrays]
        recorded = self._is_recorded(outputs)
        key = (GRAPH, identity, layer, None, "forward", recorded)
        if key not in self._known:
            needed = [known or array.grad is not None for known, array in zip(made, arrays)]
            self._known[key] = (symbol, [tuple(array.shape) for array in arrays], needed)
        self._add(key)

    def executor(self, executor, phase):
        """An executor's forward or backward pass was queued."""
        key = (EXECUTOR, id(executor), None, None, phase, False)
        if key not in self._known:
            self._known[key] = (executor.debug_str(),)
        self._add(key)

    def backward(self):
        """A backward pass of what was recorded is queued."""
        self._add((BACKWARD,))

    def _add(self, entry):
        number = self._step()
        if number != self._number:
            self._close_step()
            self._number = number
        self._entries.append(entry)

    def _close_step(self):
        self._steps.append(tuple(self._entries))
        self._entries, self._made = [], set()

    # --- when the pass is over -------------------------------------------------------------------------------------------

    def write(self, folder):
        """Write the graph of each kind of step, and which kind each step was; return the file's name."""
        self._close_step()
        kinds = {}
        sequence = [kinds.setdefault(step, len(kinds)) for step in self._steps]
        graphs = [{"nodes": self._nodes(step)} for step in sorted(kinds, key=kinds.get)]
        with open(os.path.join(folder, hooks.GRAPH_FILE), "w") as out:
            json.dump({"graphs": graphs, "sequence": sequence}, out)
        return hooks.GRAPH_FILE

    def _nodes(self, step):
        """Return a step's nodes in the order in which they are queued; backward passes take back what was recorded."""
        nodes, tape = [], []
        for key in step:
            if key[0] == BACKWARD:
                for back in reversed(tape):
                    nodes += back
                tape = []
                continue
            forward, back = self._described(key)
            nodes += forward
            if key[-1]:
                tape.append(back)
        return nodes

    def _described(self, key):
        """Return (forward nodes, backward nodes) of an entry; of a graph that cannot be described none are known."""
        found = self._known[key]
        if found and found[0] is _DONE:
            return found[1]
        try:
            result = {OPERATOR: self._of_operator, GRAPH: self._of_graph, EXECUTOR: self._of_executor}[key[0]](key, *found)
        except Exception as error:  # whatever MXNet makes of a symbol that it never ran alone
            self.missing[self._name(key[1]) if key[0] == OPERATOR else str(key[2])] = str(error).split("\n")[0][:200]
            result = ([self._node(key)], []) if key[0] == OPERATOR else ([], [])
        self._known[key] = (_DONE, result)
        return result

    def _node(self, key):
        return {"op": self._name(key[1]), "name": self._name(key[1]), "layer": key[3], "phase": key[4], "inputs": []}

    def _name(self, handle):
        """Return an operator's name by its handle."""
        if handle not in self._names:
            name = ctypes.c_char_p()
            self.mx.base.check_call(self.mx.base._LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(handle), ctypes.byref(name)))
            self._names[handle] = name.value.decode("ascii")
        return self._names[handle]

    def _of_operator(self, key, keys, values, shapes, is_np):
        """An operator's gradient is what an executor of this operator alone adds to it."""
        if not key[-1]:
            return [self._node(key)], []
        from mxnet._ctypes.symbol import _symbol_creator

        inputs = [self.mx.sym.var("input%d" % number) for number in range(len(shapes))]
        symbol = _symbol_creator(key[1], inputs, {}, keys, values, _FIRST, False, False)
        back = [node for node in self._bound(symbol, shapes, "write") if node["name"] != _FIRST]
        for node in back:
            node.update(layer=key[3], phase="backward", name=self._name(key[1]) + "_backward")
        return [self._node(key)], back

    def _of_graph(self, key, symbol, shapes, needed):
        names = symbol.list_inputs()
        requests = "null"
        if key[-1]:
            wanted = dict(zip(names, needed))
            requests = dict((name, "write" if wanted.get(name) else "null") for name in symbol.list_arguments())
        return self._parted(self._bound(symbol, shapes, requests, names), key[2])

    def _of_executor(self, key, text):
        parts = self._parted(hooks.parse_graph(text), None)
        return (parts[0] if key[4] == "forward" else parts[1]), []

    def _parted(self, nodes, own):
        """Return the nodes of both directions with their layers; `own` is the layer of the block that the graph is of."""
        for node in nodes:
            base = node["name"][: -len("_backward")] if node["name"].endswith("_backward") else node["name"]
            node["phase"] = "backward" if base != node["name"] or node["op"].startswith("_backward") else "forward"
            node["layer"] = self._layer_of(base)
        _lend(nodes, own)
        return [node for node in nodes if node["phase"] == "forward"], [node for node in nodes if node["phase"] == "backward"]

    def _bound(self, symbol, shapes, requests, names=None):
        """Return the nodes of an executor of this symbol."""
        names = names or symbol.list_inputs()
        kept = os.environ.get("MXNET_SUBGRAPH_BACKEND")
        os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # an executor would fuse operators that a block does not
        try:
            executor = symbol.simple_bind(self.mx.cpu(), grad_req=requests, **dict(zip(names, shapes)))
            return hooks.parse_graph(executor.debug_str())
        finally:
            if kept is None:
                del os.environ["MXNET_SUBGRAPH_BACKEND"]
            else:
                os.environ["MXNET_SUBGRAPH_BACKEND"] = kept


_DONE = object()


def _lend(nodes, own):
    """Give nodes that MXNet adds to a graph, such as zeros for a gradient, the layer of the next that uses them, or that feeds them."""
    for position, node in enumerate(nodes):
        if node["layer"] is not None:
            continue
        users = [other for other in nodes[position:] if node["name"] in other["inputs"]]
        sources = [other for other in nodes[:position] if other["name"] in node["inputs"]]
        neighbour = (users[:1] or sources[-1:] or [None])[0]
        if neighbour is not None and neighbour["layer"] is not None:
            node["layer"] = neighbour["layer"]
            node["phase"] = neighbour["phase"] if users else node["phase"]
        else:
            node["layer"] = own
