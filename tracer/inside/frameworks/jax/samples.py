"""How many samples a step of a script has: by the first axis of what the function that ends a step is called with."""

from typing import Any, Dict, Iterable, List, Optional, Tuple

SOURCE = "the first axis of the function's input"
_LOOKED_AT = 3  # calls of a function: others are as these, or there is nothing to say

Shapes = Tuple[Any, Tuple[Tuple[int, ...], ...]]  # how an argument is nested, and the shapes of its arrays


class Samples(object):
    """What the first calls of each function were given, apart from what it returns anew, as weights and an optimizer's state."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self._seen: Dict[int, List[Optional[int]]] = {}  # number of a function -> samples of its calls

    def called(self, number: int, given: Iterable[Any], output: Any) -> None:
        """Look at one of the first calls of a function."""
        seen = self._seen.setdefault(number, [])
        if len(seen) < _LOOKED_AT:
            try:
                seen.append(self._samples(given, output))
            except Exception:  # of containers of the program's own, which need not be hashable: the program goes on as without us
                seen.append(None)

    def of_step(self, functions: List[Tuple[int, int]]) -> Optional[int]:
        """Return the samples of a step in which each of these functions, numbers and counts of calls, is called once.

        None where they are not called equally often, or where not exactly one of them takes samples.
        """
        counts = [count for _, count in functions]
        if not counts or max(counts) - min(counts) > 1:
            return None
        taking = [seen for seen in (self._seen.get(number, []) for number, _ in functions) if any(seen)]
        if len(taking) != 1 or len(set(taking[0])) != 1:
            return None
        return taking[0][0]

    def _samples(self, given: Iterable[Any], output: Any) -> Optional[int]:
        """Return the first axis that all arrays of a call have which it does not return anew; None where they differ."""
        returned = {self._shapes(one) for one in (output if isinstance(output, tuple) else (output,))} | {self._shapes(output)}
        firsts = set()
        deepest = 0
        for argument in given:
            if self._shapes(argument) in returned:
                continue
            for leaf in self._jax.tree_util.tree_leaves(argument):
                shape: Tuple[int, ...] = getattr(leaf, "shape", ())
                if len(shape) and not self._is_key(leaf):
                    firsts.add(int(shape[0]))
                    deepest = max(deepest, len(shape))
        return firsts.pop() if len(firsts) == 1 and deepest > 1 else None

    def _shapes(self, value: Any) -> Shapes:
        leaves, nested = self._jax.tree_util.tree_flatten(value)
        return nested, tuple(tuple(getattr(leaf, "shape", ())) for leaf in leaves)

    def _is_key(self, leaf: Any) -> bool:
        """Return whether an array is a key for random numbers, of the new kind or the old."""
        kind = str(getattr(leaf, "dtype", ""))
        return kind.startswith("key") or (kind == "uint32" and tuple(leaf.shape) == (2,))
