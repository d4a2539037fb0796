"""Removable wrappers around other people's functions."""

import functools
import types
from typing import Any, Callable, List, Tuple

_INSTEAD = "_kernelscope"  # keyword-only argument of a function while its code is replaced: what is called instead


class Patches(object):
    """Replaced attributes; `undo` restores all of them."""

    def __init__(self) -> None:
        self._made: List[Tuple[Any, str, bool, Any, Any]] = []
        self._codes: List[Tuple[Any, Any, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or class."""
        self._made.append((owner, name, name in vars(owner), vars(owner).get(name), value))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by make(function), keeping its name and documentation."""
        original = getattr(owner, name)
        self.set(owner, name, functools.wraps(original)(make(original)))

    def wrap_code(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Let a function do what make(function) does, and stay the same object: it may be compared, pickled, or a key.

        A function that is not plain Python, or that uses variables of another function, is replaced as by `wrap`.
        """
        function: Any = vars(owner).get(name)
        plain = isinstance(function, types.FunctionType) and not function.__code__.co_freevars
        if not plain or _INSTEAD in (function.__kwdefaults__ or ()):
            self.wrap(owner, name, make)
            return
        before = function.__code__, function.__kwdefaults__
        original: Any = types.FunctionType(before[0], function.__globals__, function.__name__, function.__defaults__)
        original.__kwdefaults__ = before[1]
        functools.update_wrapper(original, function)
        del original.__wrapped__
        self._codes.append((function, before, _forwarding(name)))
        function.__kwdefaults__ = {_INSTEAD: make(original)}
        function.__code__ = self._codes[-1][2]
        function.__wrapped__ = original  # what inspect shows

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
        for function, (code, defaults), ours in reversed(self._codes):
            if function.__code__ is ours:
                function.__code__, function.__kwdefaults__ = code, defaults
                del function.__wrapped__
        self._codes = []


def _forwarding(name: str) -> Any:
    """Return the code of a function that only calls what its keyword-only argument holds."""

    def forwarding(*arguments: Any, _kernelscope: Any = None, **keywords: Any) -> Any:
        return _kernelscope(*arguments, **keywords)

    code = forwarding.__code__
    return code.replace(co_name=name) if hasattr(code, "replace") else code  # since Python 3.8
