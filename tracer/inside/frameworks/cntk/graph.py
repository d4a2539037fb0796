"""CNTK's graph as plain data: every primitive node with its operation, shape, inputs and layer.

A layer of cntk.layers is a block with a name. A node belongs to the innermost named block around it. Without such a block, the
node's own name is its layer; without a name, it belongs to the layer that uses its result, as do the parts of an unnamed
recurrence inside a named one.

`Paths` is for models whose layers may have no names: every block that is named or has parameters is a layer, with the path of
the blocks around it; unnamed ones are numbered by operation.
"""

from typing import Any, Dict, Iterable, List, Optional, Sequence, Set

from kernelscope.tracer.inside.frameworks.script import elements


def describe(roots: Sequence[Any]) -> Dict[str, Any]:
    """Return {"nodes": {uid: {...}}, "parameters": {uid: {...}}, "inputs": {uid: {...}}} of everything under these functions.

    A node has op, layer (or None), shape of its first output for one sample, and inputs (uids of nodes, parameters and inputs).
    """
    graph: Any = {"nodes": {}, "parameters": {}, "inputs": {}}
    seen = set()
    waiting = [(root.root_function, None, None) for root in reversed(roots)]
    while waiting:
        function, enclosing, user = waiting.pop()
        if function.uid in seen:
            continue
        seen.add(function.uid)
        layer = enclosing or function.name or user
        if function.is_block:
            waiting += _variables(function.inputs, graph, layer, enclosing)
            # visited first, so that a layer's own nodes and parameters are assigned before the functions that feed them
            waiting.append((function.block_root.root_function, function.name or enclosing, layer))
            continue
        graph["nodes"][function.uid] = _node(function, layer)
        waiting += _variables(function.inputs, graph, layer, enclosing)
    return graph


def _variables(variables: Iterable[Any], graph: Dict[str, Any], layer: Optional[str], enclosing: Optional[str]) -> List[Any]:
    """Add parameters and inputs among the variables to the graph; return the functions that compute the others, to visit."""
    functions = []
    for variable in variables:
        if variable.is_output:
            functions.append((variable.owner, enclosing, layer))
        elif variable.is_parameter or variable.is_constant:
            known = {"layer": layer, "name": variable.name, "shape": _shape(variable)}
            if variable.is_parameter:
                graph["parameters"].setdefault(variable.uid, known)
        elif variable.is_input:
            graph["inputs"].setdefault(variable.uid, {"layer": layer, "name": variable.name, "shape": _shape(variable)})
    return functions


def _shape(variable: Any) -> List[int]:
    return [int(size) for size in variable.shape if int(size) > 0]


def _node(function: Any, layer: Optional[str]) -> Dict[str, Any]:
    outputs = function.outputs
    sources = [variable.owner.uid if variable.is_output else variable.uid for variable in function.inputs]
    # `function.attributes` must not be read: CNTK ends the process if one of them is an axis that is not static
    return {
        "op": function.op_name,
        "layer": layer,
        "shape": _shape(outputs[0]) if outputs else [],
        "inputs": sources,
    }


_RESHAPING = ("TransposeAxes", "Reshape")  # first operations on a parameter that say little about its layer's type


class Paths(object):
    """The graph, as `describe` returns it, of models whose layers may have no names. types: layer -> (type, parameters)."""

    def __init__(self) -> None:
        self.graph: Any = {"nodes": {}, "parameters": {}, "inputs": {}}
        self.types: Dict[Any, Any] = {}
        self._seen: Set[Any] = set()
        self._numbers: Dict[Any, Any] = {}  # (enclosing path, operation) -> number of unnamed ones so far
        self._weights: Dict[Any, Any] = {}  # uid of a node computed from parameters only -> the layer that these name

    def add(self, root: Any, title: Optional[str] = None) -> None:
        """Add everything under a function, in the order of computation. title: the name of its root, if it has none."""
        waiting: List[Any] = [(root.root_function, None, False)]
        top = root.root_function
        while top.op_name == "Combine" and len(top.inputs) == 1 and top.inputs[0].is_output:
            top = top.inputs[0].owner
        while waiting:
            function, around, inputs_done = waiting.pop()
            if not inputs_done:
                if function.uid in self._seen:
                    continue
                self._seen.add(function.uid)
                waiting.append((function, around, True))
                waiting += [(v.owner, around, False) for v in reversed(function.inputs) if v.is_output]
                continue
            layer = self._layer(function, around, title if function.uid == top.uid else None)
            _variables(function.inputs, self.graph, layer, None)
            if function.is_block:
                waiting.append((function.block_root.root_function, layer, False))
            else:
                self.graph["nodes"][function.uid] = _node(function, layer)

    def _layer(self, function: Any, around: Optional[str], title: Optional[str]) -> str:
        """Return the layer of a function inside the layer `around` (None: at the top); a block may be a layer itself."""
        if around is not None and not (function.is_block and (function.name or len(function.parameters))):
            return around
        own = function.name or title
        if not own and not function.is_block and around is None:
            own = self._named_by_parameters(function)
        if not own:
            number = self._numbers[around, function.op_name] = self._numbers.get((around, function.op_name), 0) + 1
            own = "%s %d" % (function.op_name, number)
        layer = own if around is None else "%s.%s" % (around, own)
        parameters = function.parameters if function.is_block else [v for v in function.inputs if v.is_parameter]
        kind, known = self.types.get(layer, (function.op_name, 0))
        count = known + sum(elements(_shape(parameter)) for parameter in parameters)
        self.types[layer] = (function.op_name if kind in _RESHAPING else kind, count)
        return layer

    def _named_by_parameters(self, function: Any) -> Optional[str]:
        """Return the layer that a node's parameters name, as in Keras (dense_1/kernel); None if they name none or several."""
        found, only = set(), True
        for variable in function.inputs:
            if variable.is_output:
                layer = self._weights.get(variable.owner.uid)
                only = only and layer is not None
                found.update([layer] if layer else [])
            elif variable.is_parameter and "/" in variable.name:
                found.add(variable.name.rpartition("/")[0])
            else:
                only = only and (variable.is_parameter or variable.is_constant)
        if len(found) != 1:
            return None
        if only:
            self._weights[function.uid] = min(found)
        return min(found)
