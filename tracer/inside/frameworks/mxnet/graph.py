"""MXNet's graphs as an executor describes them: nodes in the order of execution, with the direction given by their names."""

import re
from typing import Any, Dict, List, Tuple

GRAPH_FILE = "graph.json"


def parse_graph(text: str) -> List[Dict[str, Any]]:
    """Return [{"op", "name", "inputs"}] from an executor's description of its graph, in the order of execution."""
    nodes: List[Any] = []
    for line in text.splitlines():
        operator = re.match(r"Op:(\S+), Name=(.*)$", line)
        if operator:
            nodes.append({"op": operator.group(1), "name": operator.group(2), "inputs": []})
            continue
        argument = re.match(r"\s+arg\[\d+\]=(.*)\(\d+\)", line)
        if argument and nodes:
            nodes[-1]["inputs"].append(argument.group(1))
    return nodes


def without_direction(name: str) -> str:
    """Return the name of the forward node whose gradient this is. A product has two gradients: of its left and right side."""
    return re.sub(r"_backward(_lhs|_rhs)?$", "", name)


def phase_of(node: Any) -> str:
    """Return the node's phase: "forward" or "backward"."""
    return "backward" if without_direction(node["name"]) != node["name"] or node["op"].startswith("_backward") else "forward"


def neighbour(nodes: Any, position: int) -> Tuple[Any, bool]:
    """Return (node, whether it uses this one's result): the next one that does, else the last one that feeds it, else None.

    Names created by gradients repeat (zeros_without_dtype), but each such node precedes the one that uses it.
    """
    name, inputs = nodes[position]["name"], nodes[position]["inputs"]
    users = [other for other in nodes[position + 1 :] if name in other["inputs"]]
    sources = [other for other in nodes[:position] if other["name"] in inputs]
    return (users[:1] or sources[-1:] or [None])[0], bool(users)
