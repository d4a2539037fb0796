"""Which of several recurring events ends a step.

One optimizer: each of its steps ends one, however many forward and backward passes were accumulated for it. Several that take
turns (two networks trained against each other, an encoder and a decoder that infer): a step is a round of all of them, and the
one seen last ends it. One that no longer ends anything while others go on gives way to them.
"""

from typing import Any, Set

SILENT = 50  # ends of others, without one of its own, before it gives way: rounds of up to this many ends are recognised
REMEMBERED = 1000  # a loop that makes a new optimizer for each step must not fill the memory


class Rounds(object):
    """The events so far; `closing` is the key that ends steps."""

    def __init__(self) -> None:
        self.closing: Any = None
        self.known: Set[Any] = set()
        self._others = 0
        self._noted = 0

    def noted(self, count: int) -> None:
        """Report how many ends of `closing` were only noted since the last call of `ends`: if that has changed, it is not
        silent.
        """
        if count != self._noted:
            self._noted, self._others = count, 0

    def ends(self, key: Any) -> bool:
        """Report that `key` has ended something; return whether that ends a step."""
        if key not in self.known:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            self.known.add(key)
            self.closing = key
        elif key != self.closing:
            self._others += 1
            if self._others < SILENT:
                return False
            self.closing, self.known = key, {key}
        self._others = 0
        return True
