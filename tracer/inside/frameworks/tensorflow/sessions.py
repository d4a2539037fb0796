"""Calls of sessions, as TensorFlow 1 has them: which of them train, by the graph that they run.

A call trains if what it fetches depends on an operator of an optimizer (ResourceApplyAdam), or on both an assignment and a
gradient, where the script updates variables itself.
"""

import re
import weakref
from typing import Any, Callable, List, Optional, Tuple

_UPDATES = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")  # types of optimizers' operators
_ASSIGNS = re.compile(r"Assign|ScatterSub|ScatterAdd|ResourceScatter")
_GRADIENTS = re.compile(r"(^|/)gradients(_\d+)?/")  # names that tf.gradients gives
CALL = "Session.run"  # ends steps where nothing trains


class Fetches(object):
    """What calls fetch. flatten: returns the leaves of nested lists and dictionaries."""

    def __init__(self, flatten: Callable[[Any], List[Any]]) -> None:
        self.seen = False  # whether a session was called
        self._flatten = flatten
        self._graphs: Any = (
            weakref.WeakKeyDictionary()
        )  # graph -> {name of what is fetched: whether it trains; None for no value}

    def step_end(self, graph: Any, fetches: Any) -> Optional[Tuple[Any, bool]]:
        """Return (key, whether it trains) of the step that such a call ends; None for one that only runs an initializer or so."""
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
    """Return whether computing this tensor or operator trains; None for an operator that does not and has no value."""
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
