"""Removable wrappers around other people's functions."""

import functools
from typing import Any, Callable, List, Tuple


class Patches(object):
    """Replaced attributes; `undo` restores all of them."""

    def __init__(self) -> None:
        self._made: List[Tuple[Any, str, bool, Any, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or class."""
        self._made.append((owner, name, name in vars(owner), vars(owner).get(name), value))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by make(function), keeping its name and documentation."""
        original = getattr(owner, name)
        self.set(owner, name, functools.wraps(original)(make(original)))

    def undo(self) -> None:
        """Restore the originals. Where somebody else has replaced ours since, theirs stays: it may call ours, which then only
        forwards.
        """
        for owner, name, own, original, value in reversed(self._made):
            if vars(owner).get(name) is not value:
                continue
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)
        self._made = []
