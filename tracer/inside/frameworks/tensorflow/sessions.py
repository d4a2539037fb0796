"""TensorFlow 1 session calls, and which of them train, judged by the graph that they run.

A call trains if its fetches depend on an optimizer's operator (ResourceApplyAdam), or on both an assignment and a gradient, as
when the script updates variables itself.
"""

import re
import weakref
from typing import Any, Callable, List, Optional, Tuple

_UPDATES = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")  # operator types of optimizers
_ASSIGNS = re.compile(r"Assign|ScatterSub|ScatterAdd|ResourceScatter")
_GRADIENTS = re.compile(r"(^|/)gradients(_\d+)?/")  # names given by tf.gradients
CALL = "Session.run"  # the key of steps if nothing trains


class Fetches(object):
    """The fetches of session calls. flatten: returns the leaves of nested lists and dictionaries."""

    def __init__(self, flatten: Callable[[Any], List[Any]]) -> None:
        self.seen = False  # whether a session was called
        self._flatten = flatten
        self._graphs: Any = weakref.WeakKeyDictionary()  # graph -> {name of a fetch: whether it trains; None if it has no value}

    def step_end(self, graph: Any, fetches: Any) -> Optional[Tuple[Any, bool]]:
        """Return (key, whether it trains) of the step that this call ends; None if it only runs an initializer or the like."""
        self.seen = True
        known = self._graphs.setdefault(graph, {})
        names = [one if isinstance(one, str) else one.name for one in self._flatten(fetches)]
        for name in names:
            if name not in known:
                known[name] = _trains(graph.as_graph_element(name))
        training = tuple(name for name in names if known[name])
        if training:
            return training, True
        return None if all(known[name] is None for name in names) else (CALL, False)


def _trains(fetched: Any) -> Optional[bool]:
    """Return whether computing this tensor or operator trains; None for an operator (no value) that does not."""
    operator = getattr(fetched, "op", fetched)
    waiting, seen, assigns, gradients = [operator], {operator}, False, False
    while waiting:
        one = waiting.pop()
        if _UPDATES.match(one.type):
            return True
        assigns = assigns or bool(_ASSIGNS.match(one.type))
        gradients = gradients or bool(_GRADIENTS.search(one.name))
        needed = {tensor.op for tensor in one.inputs}.union(one.control_inputs) - seen
        seen |= needed
        waiting += needed
    if assigns and gradients:
        return True
    return None if operator is fetched else False
