"""Records what each step queues on MXNet's engine, in order: imperative operators, graphs of hybridized blocks, executors.

The engine's profiler only gives an operator's type and time. Its layer follows from what Python queued, when, and what waits
for what: analysis.attribution.frameworks.mxnet_queue finds the operator that must have run. The nodes of a gradient come from
an executor of the same graph or operator, which is created for this purpose after the pass and never runs.

The file is {"graphs": [{"nodes": [...]}], "steps": [{"graph", "queued_ns", "until_ns"}]}: for each step, which graph it ran,
and when the queueing of each of its entries began and ended. A node has op, name, layer, phase, entry, and after: the numbers
of this graph's nodes for which it waits.
"""

import ctypes
import json
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks.mxnet.graph import GRAPH_FILE, neighbour, parse_graph, phase_of, without_direction
from kernelscope.tracer.inside.frameworks.mxnet.separate import REMARKS
from kernelscope.tracer.inside.frameworks.unprinted import Unprinted
from kernelscope.tracer.inside.own import open, os

OPERATOR, GRAPH, EXECUTOR, BACKWARD = "operator", "graph", "executor", "backward"
_FIRST = "operator0"  # the node's name if an operator is bound alone


class Queue(object):
    """The entries of each step and, at the end, the graphs that they stand for.

    names: its of_node(name) returns the layer of a graph's node, or None; its of_inputs(names) returns that of a fused node.
    step: returns the number of the current step. missing: what could not be described -> why.
    """

    def __init__(self, mx: Any, imperative: Any, names: Any, step: Callable[[], int]) -> None:
        self.mx = mx
        self.missing: Dict[Any, Any] = {}
        self._recorded = imperative.recorded
        self._layers = names
        self._step = step
        self._number: Any = None  # of the step whose entries are being collected
        self._entries: List[Any] = []  # (key of _known, the entries that made its inputs, counted back from it)
        self._times: List[Any] = []  # for each entry: when its queueing began and ended
        self._steps: List[Any] = []
        self._known: Dict[Any, Any] = {}  # key -> the data needed to describe the entry: see the methods that add entries
        self._names: Dict[Any, Any] = {}  # handle of an operator -> its name
        self._before: Any = None
        self._queued: Optional[int] = None
        # handle of an array -> (the entry that made it, whether a backward pass will go through that entry)
        self._made: Dict[Any, Any] = {}

    # --- while steps run -------------------------------------------------------------------------------------------------

    def opening(self) -> None:
        """Note that something is about to be queued."""
        number = self._step()
        if number != self._number:
            self._close_step()
            self._number = number
        self._before, self._queued = self._recorded(), now_ns()  # the count before MXNet records the operator

    def operator(self, handle: Any, arrays: Any, keys: Any, values: Any, layer: Optional[str], phase: str, outputs: Any) -> None:
        """Add an operator of imperative code that was queued."""
        made = self._makers(arrays)
        recorded = self._add_made(outputs)
        key = (OPERATOR, handle, tuple(keys), layer, phase, recorded)
        if key not in self._known:
            shapes = [tuple(array.shape) for array in arrays]
            self._known[key] = (list(keys), [str(value) for value in values], shapes)
        self._add(key, made)

    def graph(self, identity: Any, symbol: Any, arrays: Any, layer: Optional[str], outputs: Any) -> None:
        """Add a hybridized block's graph that was queued. layer: the block's own."""
        made = self._makers(arrays)
        taken = [self._made.get(array.handle.value, (0, False))[1] for array in arrays]
        recorded = self._add_made(outputs)
        key = (GRAPH, identity, layer, None, "forward", recorded)
        if key not in self._known:
            needed = [known or array.grad is not None for known, array in zip(taken, arrays)]
            self._known[key] = (symbol, [tuple(array.shape) for array in arrays], needed)
        self._add(key, made)

    def executor(self, executor: Any, phase: str) -> List[Any]:
        """Add an executor's forward or backward pass that is about to be queued; pass the result to `queued` afterwards."""
        self.opening()
        key = (EXECUTOR, id(executor), None, None, phase, False)
        if key not in self._known:
            self._known[key] = (executor.debug_str(),)
        return self._add(key, ())

    def backward(self) -> List[Any]:
        """Add a backward pass through the recorded entries, about to be queued; pass the result to `queued` afterwards."""
        self.opening()
        return self._add((BACKWARD,), ())

    @staticmethod
    def queued(entry: Any) -> None:
        """Note that the pass of `executor` or `backward` has been queued."""
        entry[1] = now_ns()

    def _makers(self, arrays: Any) -> Tuple[Any, ...]:
        """Return the entries that made these arrays, counted back from the entry to be added."""
        found = (self._made.get(array.handle.value) for array in arrays)
        return tuple(sorted({len(self._entries) - maker[0] for maker in found if maker is not None}))

    def _add_made(self, outputs: Any) -> bool:
        """Remember the outputs of the entry to be added; return whether a backward pass will go through it."""
        count = self._recorded()
        recorded = count != self._before if count is not None else self.mx.autograd.is_recording()
        for output in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
            self._made[output.handle.value] = (len(self._entries), recorded)
        return recorded

    def _add(self, key: Any, made: Any) -> List[Any]:
        self._entries.append((key, made))
        times = [self._queued, now_ns()]
        self._times.append(times)
        return times

    def _close_step(self) -> None:
        self._steps.append((tuple(self._entries), self._times))
        self._entries, self._times, self._made = [], [], {}

    # --- when the pass is over -------------------------------------------------------------------------------------------

    def write(self, folder: str) -> str:
        """Write each distinct graph of a step, and which one each step ran; return the file's name."""
        self._close_step()
        kinds: Dict[Any, Any] = {}
        steps = []
        for entries, times in self._steps:
            first, last = zip(*times) if times else ((), ())
            steps.append({"graph": kinds.setdefault(entries, len(kinds)), "queued_ns": first, "until_ns": last})
        graphs = [{"nodes": Nodes(self._described).of(entries)} for entries in sorted(kinds, key=kinds.__getitem__)]
        with open(os.path.join(folder, GRAPH_FILE), "w") as out:
            json.dump({"graphs": graphs, "steps": steps}, out)
        return GRAPH_FILE

    def _described(self, key: Any) -> Any:
        """Return (forward nodes, backward nodes) of an entry; both are empty for a graph that cannot be described."""
        found = self._known[key]
        if found[0] is _DONE:
            return found[1]
        try:
            describe: Any = {OPERATOR: self._of_operator, GRAPH: self._of_graph, EXECUTOR: self._of_executor}[key[0]]
            result = describe(key, *found)
        except Exception as error:  # MXNet may raise anything for a symbol that it never ran alone
            self.missing[self._name(key[1]) if key[0] == OPERATOR else str(key[2])] = str(error).split("\n")[0][:200]
            result = ([self._node(key)], []) if key[0] == OPERATOR else ([], [])
        self._known[key] = (_DONE, result)
        return result

    def _node(self, key: Any) -> Dict[str, Any]:
        return {"op": self._name(key[1]), "name": self._name(key[1]), "layer": key[3], "phase": key[4], "inputs": [""]}

    def _name(self, handle: Any) -> str:
        """Return the name of the operator with this handle."""
        if handle not in self._names:
            name: Any = ctypes.c_char_p()
            base = self.mx.base
            base.check_call(base._LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(handle), ctypes.byref(name)))
            self._names[handle] = name.value.decode("ascii")
        return self._names[handle]

    def _of_operator(self, key: Any, keys: Any, values: Any, shapes: Any) -> Any:
        """Describe an operator. Its gradient is what an executor of this operator alone adds to it."""
        if not key[-1]:
            return [self._node(key)], []
        from mxnet._ctypes.symbol import _symbol_creator

        names = ["input%d" % number for number in range(len(shapes))]
        variables = [self.mx.sym.var(name) for name in names]
        symbol = _symbol_creator(key[1], variables, {}, keys, values, _FIRST, False, False)
        back = [node for node in self._bound(symbol, names, shapes, "write") if node["name"] != _FIRST]
        for node in back:
            node.update(layer=key[3], phase="backward")
        return [self._node(key)], back

    def _of_graph(self, key: Any, symbol: Any, shapes: Any, needed: Any) -> Any:
        """Describe a graph, which runs in the order of its symbol's nodes.

        Its gradient comes from an executor, whose forward nodes are not used: it may fuse in inference.
        """
        inside = json.loads(symbol.tojson())["nodes"]
        nodes = [
            {"op": node["op"], "name": node["name"], "inputs": [inside[source[0]]["name"] for source in node["inputs"]]}
            for node in inside
            if node["op"] != "null"
        ]
        names = symbol.list_inputs()
        wanted = {name for name, need in zip(names, needed) if need} & set(symbol.list_arguments())
        if key[-1] and wanted:
            requests = {name: "write" if name in wanted else "null" for name in symbol.list_arguments()}
            nodes += self._layered(self._bound(symbol, names, shapes, requests), key[2])[1]
        return self._layered(nodes, key[2])

    def _of_executor(self, key: Any, text: str) -> Tuple[Any, List[Any]]:
        forward, back = self._layered(parse_graph(text), None)
        return (forward, []) if key[4] == "forward" else (back, [])

    def _layered(self, nodes: Any, own: Any) -> Tuple[List[Any], List[Any]]:
        """Return (forward nodes, backward nodes) with their layers. own: the layer of the graph's block."""
        for node in nodes:
            node["phase"] = phase_of(node)
            node["layer"] = self._layers.of_node(without_direction(node["name"])) or self._layers.of_inputs(node["inputs"])
        _lend(nodes, own)
        return [node for node in nodes if node["phase"] == "forward"], [node for node in nodes if node["phase"] == "backward"]

    def _bound(self, symbol: Any, names: Sequence[str], shapes: Any, requests: Any) -> List[Dict[str, Any]]:
        """Return the nodes of an executor of this symbol."""
        with Unprinted(REMARKS):
            executor = symbol.simple_bind(self.mx.cpu(), grad_req=requests, **dict(zip(names, shapes)))
        return parse_graph(executor.debug_str())


class Nodes(object):
    """The nodes of a step, in the order in which they were queued. A backward pass goes back through the recorded entries."""

    def __init__(self, described: Callable[[Any], Any]) -> None:
        self._described = described
        self._nodes: List[Any] = []
        self._last: Dict[Any, Any] = {}  # entry -> position of its last forward node
        self._tape: List[Any] = []  # (entry, the entries that made its inputs, its backward nodes)

    def of(self, entries: Any) -> List[Dict[str, Any]]:
        """Return the nodes of these entries."""
        for number, (key, made) in enumerate(entries):
            if key[0] == BACKWARD:
                self._take_back(number)
                continue
            forward, back = self._described(key)
            makers = [number - distance for distance in made]
            sources = [self._last[maker] for maker in makers if maker in self._last]
            self._append(forward, number, sources)
            if forward:
                self._last[number] = len(self._nodes) - 1
            if key[-1]:
                self._tape.append((number, makers, back))
        return self._nodes

    def _take_back(self, number: int) -> None:
        """Append the recorded entries' backward nodes; each entry's wait for those of the entries that used its results."""
        users: Dict[Any, Any] = {}
        for entry, makers, back in reversed(self._tape):
            self._append(back, number, users.get(entry, []))
            last = [len(self._nodes) - 1] if back else users.get(entry, [])
            for maker in makers:
                users.setdefault(maker, []).extend(last)
        self._tape = []

    def _append(self, nodes: Any, entry: Any, sources: Any) -> None:
        """Append an entry's nodes. Nodes whose inputs come from none of the entry's own nodes wait for `sources`."""
        known: Dict[Any, Any] = {}
        for node in nodes:
            own = sorted({known[name] for name in node["inputs"] if name in known})
            known[node["name"]] = len(self._nodes)
            described = {field: node[field] for field in ("op", "name", "layer", "phase")}
            after = own or (sources if node["inputs"] else [])  # zeros for a gradient wait for nothing
            self._nodes.append(dict(described, entry=entry, after=after))


_DONE = object()


def _lend(nodes: Any, own: Any) -> None:
    """Give nodes that MXNet adds, such as zeros for a gradient, the layer of the node that uses or feeds them, else `own`."""
    for position, node in reversed(list(enumerate(nodes))):  # last first, because one may use another (sum_grad)
        if node["layer"] is not None:
            continue
        found, uses = neighbour(nodes, position)
        if found is not None and found["layer"] is not None:
            node["layer"] = found["layer"]
            node["phase"] = found["phase"] if uses else node["phase"]
        else:
            node["layer"] = own
