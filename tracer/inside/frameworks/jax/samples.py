"""The number of samples in a script's step, from the first axis of the inputs of the step's functions."""

from typing import Any, Dict, Iterable, List, Optional, Tuple

SOURCE = "the first axis of the function's input"
_LOOKED_AT = 3  # calls of a function; if others differ from these, nothing can be said

Shapes = Tuple[Any, Tuple[Tuple[int, ...], ...]]  # an argument's nesting, and the shapes of its arrays


class Samples(object):
    """The inputs of each function's first calls, except those that it returns updated, such as weights and optimizer state."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self._seen: Dict[int, List[Optional[int]]] = {}  # number of a function -> samples of its calls

    def called(self, number: int, given: Iterable[Any], output: Any) -> None:
        """Look at one of the first calls of a function."""
        seen = self._seen.setdefault(number, [])
        if len(seen) < _LOOKED_AT:
            try:
                seen.append(self._samples(given, output))
            except Exception:  # a program's own containers need not be hashable, and must not fail because of us
                seen.append(None)

    def of_step(self, functions: List[Tuple[int, int]]) -> Optional[int]:
        """Return the samples of a step that calls each of these functions once. functions: (number, count of calls) of each.

        None unless they are called equally often (to within one call) and exactly one of them takes samples.
        """
        counts = [count for _, count in functions]
        if not counts or max(counts) - min(counts) > 1:
            return None
        taking = [seen for seen in (self._seen.get(number, []) for number, _ in functions) if any(seen)]
        if len(taking) != 1 or len(set(taking[0])) != 1:
            return None
        return taking[0][0]

    def _samples(self, given: Iterable[Any], output: Any) -> Optional[int]:
        """Return the first axis that all inputs share, except those that the call returns updated.

        None if the first axes differ or no input has a second axis.
        """
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
        """Return whether an array is a random key, new-style or old-style."""
        kind = str(getattr(leaf, "dtype", ""))
        return kind.startswith("key") or (kind == "uint32" and tuple(leaf.shape) == (2,))
