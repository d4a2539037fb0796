"""Finds the layer of each node in Theano's compiled graphs, by marking variables when they are created.

A graph is built layer by layer, then differentiated, then rewritten: nodes are replaced and fused. Theano keeps the place in
the source that created a variable in `tag.trace`, and copies it to whatever replaces the variable. We add an entry to that
trace: the layer whose method is running, found among the call's frames, or the differentiated node's layer while theano.grad
runs.
"""

import functools
import sys
from types import FrameType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

MARK = "kernelscope"
_PRODUCTS = ("Dot22", "Gemm", "Gemv", "Ger", "CorrMM", "BatchedDot")  # prefixes of operators that multiply matrices
_COMPILING = "theano.compile.function_module"
_GRADIENT = "access_term_cache"  # theano.gradient's function that differentiates one node


class Origins(object):
    """Marks variables with their layer and phase when they are created.

    methods: names of the methods in which a layer (an instance of `kind`) computes its output. modules: pairs of a prefix of
    module names and the (layer or "", phase) of the variables that these modules' functions create.
    """

    def __init__(self, kind: Any, methods: Iterable[str], modules: Any) -> None:
        self._kind = kind
        self._methods = frozenset(methods)
        self._modules = modules

    def install(self, theano: Any) -> None:
        """Hook the functions that Theano calls for each new variable (to add the mark) and each replaced one (to keep it)."""
        self._mark_new(theano.gof.utils)
        self._keep_replaced(theano.gof.fg.FunctionGraph)

    def _mark_new(self, utils: Any) -> None:
        original = utils.add_tag_trace

        def add_tag_trace(thing: Any, user_line: Any = None) -> Any:
            original(thing, user_line)
            found = self._origin(sys._getframe(1))
            if found is not None:
                thing.tag.trace = list(thing.tag.trace or []) + [[(MARK, 0) + found]]
            return thing

        utils.add_tag_trace = add_tag_trace

    @staticmethod
    def _keep_replaced(graph: Any) -> None:
        """Give a variable's marks to its replacement, for fusions and other rewriting that copies no trace."""
        original = graph.replace

        @functools.wraps(original)
        def replace(self: Any, old: Any, new: Any, *arguments: Any, **keywords: Any) -> Any:
            if not marks([new]):
                entries = [[(MARK, 0) + found] for found in marks([old])]
                if entries:
                    new.tag.trace = list(getattr(new.tag, "trace", None) or []) + entries
            return original(self, old, new, *arguments, **keywords)

        graph.replace = replace

    def _origin(self, frame: Optional[FrameType]) -> Optional[Tuple[str, str]]:
        """Return (layer or "", phase) of the innermost layer or differentiated node among the frames, else of a module."""
        of_module = None
        while frame is not None:
            code = frame.f_code
            if code.co_name == _GRADIENT and "node" in frame.f_locals:
                layers = [layer for layer, _ in marks(frame.f_locals["node"].outputs)]
                return (layers[0] if layers else "", "backward")
            if code.co_name in self._methods and isinstance(frame.f_locals.get("self"), self._kind):
                return (frame.f_locals["self"].name or "", "forward")
            module = frame.f_globals.get("__name__", "")
            if module == _COMPILING:
                return None  # a variable that rewriting creates gets the marks of the one that it replaces
            if of_module is None:
                of_module = next((origin for beginning, origin in self._modules if module.startswith(beginning)), None)
            frame = frame.f_back
        return of_module


def marks(variables: Iterable[Any]) -> List[Tuple[str, str]]:
    """Return the variables' marks as [(layer or "", phase)], without repetitions."""
    found = []
    for variable in variables:
        for trace in getattr(variable.tag, "trace", None) or ():
            for entry in trace if isinstance(trace, (list, tuple)) else ():
                if entry and entry[0] == MARK and entry[2:4] not in found:
                    found.append(tuple(entry[2:4]))
    return found


def execution_order(nodes: Sequence[Any], graph: Any) -> List[Any]:
    """Return the nodes of a FunctionGraph in the order in which Theano's C virtual machine runs them, if none of them is lazy.

    It computes output by output. Before each node it computes the nodes that must precede it, then its inputs (lazylinker_c.c).
    """
    numbers: Dict[Any, int] = {}
    done, order = set(), []
    for node in nodes:
        for variable in node.inputs + node.outputs:
            numbers.setdefault(variable, len(numbers))
    before = graph.orderings()
    # two visits per node instead of recursion, which would overflow the interpreter's stack in deep networks
    waiting = [(variable.owner, False) for variable in reversed(graph.outputs)]
    while waiting:
        node, ready = waiting.pop()
        if node is None or node in done:
            continue
        if ready:
            done.add(node)
            order.append(node)
            continue
        first = {variable for other in before.get(node, ()) for variable in other.outputs}
        needed = sorted(first, key=lambda variable: numbers[variable]) + list(node.inputs)
        waiting.append((node, True))
        waiting += [(variable.owner, False) for variable in reversed(needed)]
    return order


def describe(nodes: Sequence[Any]) -> List[Dict[str, Any]]:
    """Return [{"op", "layer", "phase", "method"}] of a function's nodes, given in the order of execution.

    A fusion belongs to the layer of its result. A node without a mark was created by rewriting: it belongs to the layer of the
    next node that uses its result, or else of one that feeds it ("graph order"). So does a product fused with its update.
    """
    users: Dict[Any, List[Any]] = {}
    rows = []
    for node in nodes:
        for variable in node.inputs:
            if variable.owner is not None:
                users.setdefault(variable.owner, []).append(node)
        found = marks(node.outputs)
        layer, phase = found[0] if found else ("", "")
        rows.append({"op": _name(node.op), "layer": layer, "phase": phase, "method": "operator name" if layer else "none"})
    place = {node: number for number, node in enumerate(nodes)}
    for number in reversed(range(len(nodes))):
        if not rows[number]["phase"]:
            _inherit(rows[number], [rows[place[user]] for user in users.get(nodes[number], ()) if user in place])
    for number, node in enumerate(nodes):
        if rows[number]["phase"] == "optimizer" and rows[number]["op"].startswith(_PRODUCTS):
            rows[number]["phase"] = ""  # a weight gradient, fused with the multiplication by the learning rate
        if not rows[number]["phase"]:
            sources = [variable.owner for variable in node.inputs if variable.owner is not None]
            _inherit(rows[number], [rows[place[source]] for source in sources if source in place])
    return rows


def _inherit(row: Dict[str, Any], others: Iterable[Dict[str, Any]]) -> None:
    for other in others:
        if other["phase"] and not row["phase"]:
            row.update(layer=other["layer"], phase=other["phase"], method="graph order" if other["layer"] else "none")


def _name(op: Any) -> str:
    text = str(op)
    return text if len(text) <= 120 else text[:117] + "..."
