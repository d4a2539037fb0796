"""The meaning of the names in TensorFlow's graphs, noted while a graph is built because the names alone are ambiguous later.

A graph numbers a scope that is opened again, and Keras opens each layer's scope twice, so "conv2d_1" may be the layer conv2d or
the layer conv2d_1. Who opened a scope is certain: a layer call or an optimizer. Work without a scope of its own (sums of
gradients, metrics, losses called as functions) is identified by the order in which operators are made: those made during a call
of `GradientTape.gradient` or `Metric.update_state` belong to it.

The table of a graph, as written for the readers of the trace:

    {"scopes": {scope: [layer, phase]}, "operators": {name: [layer, phase]},
     "fused": {name: [name, ...]}, "calls": [function, ...]}

TensorFlow fuses a convolution with the operators after it and names the result after the last one: "fused" lists, for each
operator that can be that last one, the convolutions or products before it. "calls" lists the functions called: they have tables
of their own, unless they were built together with this graph. Layers and phases are null if unknown.

A layer is kept as (model, path, number) until the number of models is known; see `rendered`.
"""

import re
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Union

from kernelscope.tracer.inside.frameworks.script import MOST_NUMBERED, elements, numbered

LayerName = Tuple[str, str, int]  # (model, path, number of the call)
Owner = Tuple[Union[LayerName, str, None], Optional[str]]  # (layer, phase)
BACKWARD: Owner = (None, "backward")
PREFIX = "gradient_tape/"
_PRODUCTS = ("Conv", "DepthwiseConv", "MatMul", "BatchMatMul")  # prefixes of the types that others are fused into
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_NUMBERED = re.compile(r"^__(inference|forward|backward)_|_\d+$")
_ACTIVATIONS = ("Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Tanh", "Sigmoid")  # only as the last operator of a fusion
_SUMS = ("Add", "AddV2")  # at most one in a fusion
_BETWEEN = ("BiasAdd", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Identity")
MOST_OPERATORS = 20000  # most operators listed individually per graph


class Calls(object):
    """The open layer calls of each thread, with the name of each.

    types: {(model, path, number): (class, parameters)} of all calls, in the order of first calls. models: names of the
    outermost layers called in eager code, where no call merely builds a model.
    """

    def __init__(self) -> None:
        self.types: Dict[Any, Any] = {}
        self.models: Set[Any] = set()
        self._local = threading.local()
        self._owners: Dict[Any, Any] = {}  # (model, path) -> weak reference to the layer at this path

    def _stack(self) -> List[Tuple[Any, LayerName]]:
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack, self._local.counts = [], {}
            return self._local.stack

    def depth(self) -> int:
        """Return how many calls are open on this thread."""
        return len(self._stack())

    def enter(self, layer: Any, eager: bool) -> LayerName:
        """Begin a call, in eager code or while a graph is built; return its name as (model, path, number)."""
        stack, own = self._stack(), str(getattr(layer, "name", type(layer).__name__))
        if not stack:
            self._local.counts = {}
            model, path = own, ""
        else:
            model, around, _ = stack[-1][1]
            path = around + "." + own if around else own
        model, path = self._own(layer, model, path)
        if eager and not stack:
            self.models.add(model)
        counts = self._local.counts
        number = counts[path] = min(counts.get(path, 0) + 1, MOST_NUMBERED + 1)
        name = (model, path, number)
        if name not in self.types:
            self.types[name] = (type(layer).__name__, _own_parameters(layer) if number == 1 else 0)
        stack.append((layer, name))
        return name

    def _own(self, layer: Any, model: str, path: str) -> Tuple[str, str]:
        """Return the layer's model and path, made unique if another live layer has the same."""
        place, number = (model, path), 1
        while True:
            known = self._owners.get(place)
            known = known() if known is not None else None
            if known is layer:
                return place
            if known is None:
                self._owners[place] = weakref.ref(layer)
                return place
            number += 1
            place = (model, "%s #%d" % (path, number)) if path else ("%s #%d" % (model, number), path)

    def leave(self) -> None:
        """End the innermost call."""
        self._stack().pop()

    def innermost(self) -> Tuple[Any, Optional[LayerName]]:
        """Return (layer, name) of the innermost call, or (None, None)."""
        stack = self._stack()
        return stack[-1] if stack else (None, None)


class Table(object):
    """The table of a graph and of the graphs nested in it.

    models: names of the models called; batch: the last one's batch size, if fixed; trains: whether it calls a function that
    computes gradients; graphs: those nested in it, and itself.
    """

    def __init__(self) -> None:
        self.scopes: Dict[Any, Any] = {}
        self.operators: Dict[Any, Any] = {}
        self.models: Set[Any] = set()
        self.batch: Any = None
        self.trains = False
        self.graphs: Any = weakref.WeakSet()

    def written(self, render: Callable[[Any], Optional[str]]) -> Dict[str, Any]:
        """Return the table as written to the file. render: returns a layer's text."""
        operators, fused, calls = dict(self.operators), {}, set()
        for graph in list(self.graphs):
            for operator in graph.get_operations():
                if operator.type in _ACTIVATIONS + _SUMS + _BETWEEN:
                    found = _products(operator, _ACTIVATIONS + _SUMS + _BETWEEN)
                    if found:
                        fused[operator.name] = sorted(found)
                elif operator.type in _CALLS:
                    calls.add(_NUMBERED.sub("", operator.get_attr("f").name))
                elif operator.type == "AddN" and operators.get(operator.name) == BACKWARD:
                    operators[operator.name] = self._sum_owner(operator)
        owners = {"scopes": self.scopes, "operators": operators}
        table: Dict[str, Any] = {
            part: {name: [render(one[0]), one[1]] for name, one in of.items()} for part, of in owners.items()
        }
        table.update(fused=fused, calls=sorted(calls))
        return table

    def _sum_owner(self, operator: Any) -> Owner:
        """Return the owner of a sum of gradients: the layer whose output they are gradients of, if it is the only consumer."""
        takers = {self._scoped(taker.name) for output in operator.outputs for taker in output.consumers()}
        owner = takers.pop() if len(takers) == 1 else None
        return (owner[0], BACKWARD[1]) if owner is not None else BACKWARD

    def _scoped(self, name: str) -> Optional[Owner]:
        parts = (name[len(PREFIX) :] if name.startswith(PREFIX) else name).split("/")
        while len(parts) > 1:
            parts.pop()
            owner = self.scopes.get("/".join(parts))
            if owner is not None:
                return owner
        return None


def _products(operator: Any, following: Tuple[str, ...]) -> Set[str]:
    """Return the names of the products that an operator of one of the `following` types can be fused with."""
    if operator.type.startswith(_PRODUCTS) and "Backprop" not in operator.type:
        return {operator.name}
    if operator.type not in following:
        return set()
    rest = tuple(kind for kind in following if kind not in _ACTIVATIONS)
    if operator.type in _SUMS:
        rest = _BETWEEN
    return set().union(*(_products(value.op, rest) for value in operator.inputs))


class Graphs(object):
    """The tables of all graphs, kept as long as the graphs live."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._tables: Any = weakref.WeakKeyDictionary()  # outermost graph -> Table

    def table(self) -> Table:
        """Return the table of the graph now being built; for a nested graph, the outermost one's."""
        innermost = graph = self._tf.compat.v1.get_default_graph()
        while getattr(graph, "outer_graph", None) is not None and _is_function(graph.outer_graph):
            graph = graph.outer_graph
        table = self._tables.get(graph)
        if table is None:
            table = self._tables[graph] = Table()
        table.graphs.add(innermost)
        return table

    def scope(self, owner: Owner) -> None:
        """Note the owner of the scope now open: (layer's name or None, phase or None)."""
        scope, table = self._tf.get_current_name_scope(), self.table()
        if scope:
            table.scopes[scope] = owner
        if isinstance(owner[0], tuple):
            table.models.add(owner[0][0])

    def begin(self) -> Tuple[Any, int]:
        """Return the graph now being built and how many operators it has."""
        graph = self._tf.compat.v1.get_default_graph()
        return graph, len(graph.get_operations())

    def end(self, begun: Tuple[Any, int], owner: Owner) -> None:
        """Note that the operators made since `begin` belong to `owner`, unless an inner owner has claimed them."""
        graph, start = begun
        if graph is not self._tf.compat.v1.get_default_graph():
            return
        operators = self.table().operators
        for operator in graph.get_operations()[start:]:
            if len(operators) < MOST_OPERATORS:
                operators.setdefault(operator.name, owner)

    def of(self, graph: Any) -> Optional[Table]:
        """Return the table of a graph, or None."""
        return self._tables.get(graph)


def _is_function(graph: Any) -> bool:
    return hasattr(graph, "outer_graph")


def _own_parameters(layer: Any) -> int:
    """Return the number of elements in the layer's own weights, excluding those of its inner layers."""
    weights = getattr(layer, "_trainable_variables", None) or getattr(layer, "_trainable_weights", None) or ()
    return sum(elements(weight.shape) for weight in list(weights))


def rendered(name: Union[LayerName, str, None], several: bool) -> Optional[str]:
    """Return a layer's name as shown. several: there are several models, so the name includes the model's."""
    if name is None or isinstance(name, str):
        return name
    model, path, number = name
    text = model if not path else model + "." + path if several else path
    return numbered(text, number)
