"""CNTK's graph as plain data: every primitive node with its operation, shape, inputs and layer.

A layer of cntk.layers is a block with a name. A node belongs to the innermost named block around it; where there is none, to
its own name; where it has none, to the layer that uses its result, as the parts of an unnamed recurrence inside a named one do.
"""


def describe(roots):
    """Return {"nodes": {uid: {...}}, "parameters": {uid: {...}}, "inputs": {uid: {...}}} of everything under these functions.

    A node has op, layer (or None), shape of its first output for one sample, and inputs (uids of nodes, parameters and inputs).
    """
    graph = {"nodes": {}, "parameters": {}, "inputs": {}}
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
            # visited first: a layer's own nodes and parameters are its own before anything is said of what feeds them
            waiting.append((function.block_root.root_function, function.name or enclosing, layer))
            continue
        graph["nodes"][function.uid] = _node(function, layer)
        waiting += _variables(function.inputs, graph, layer, enclosing)
    return graph


def _variables(variables, graph, layer, enclosing):
    """Note parameters and inputs among the variables; return the functions that make the others, to be visited."""
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


def _shape(variable):
    return [int(size) for size in variable.shape if int(size) > 0]


def _node(function, layer):
    outputs = function.outputs
    sources = [variable.owner.uid if variable.is_output else variable.uid for variable in function.inputs]
    # `function.attributes` is left alone: CNTK ends the process when one of them is an axis that is not static
    return {
        "op": function.op_name,
        "layer": layer,
        "shape": _shape(outputs[0]) if outputs else [],
        "inputs": sources,
    }
