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

        A function that is not plain Python is replaced as by `wrap`, and before Python 3.8 one that uses variables of another.
        """
        function: Any = vars(owner).get(name)
        code: Any = getattr(function, "__code__", None) if isinstance(function, types.FunctionType) else None
        ours = None if code is None else _forwarding(name, code.co_freevars)
        if ours is None or _INSTEAD in (function.__kwdefaults__ or ()):
            self.wrap(owner, name, make)
            return
        original: Any = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
        original.__kwdefaults__ = function.__kwdefaults__
        kept = vars(function).get("__wrapped__")
        functools.update_wrapper(original, function)
        original.__wrapped__ = kept
        if kept is None:
            del original.__wrapped__
        self._codes.append((function, (code, function.__kwdefaults__, kept), ours))
        function.__kwdefaults__ = {_INSTEAD: make(original)}
        function.__code__ = ours
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
        for function, (code, defaults, kept), ours in reversed(self._codes):
            if function.__code__ is ours:
                function.__code__, function.__kwdefaults__, function.__wrapped__ = code, defaults, kept
                if kept is None:
                    del function.__wrapped__
        self._codes = []


def _forwarding(name: str, variables: Tuple[str, ...]) -> Any:
    """Return the code of a function that only calls what its keyword-only argument holds; None if there can be none.

    variables: of another function, which the code that it replaces uses: both need as many.
    """

    def forwarding(*arguments: Any, _kernelscope: Any = None, **keywords: Any) -> Any:
        return _kernelscope(*arguments, **keywords)

    code = forwarding.__code__
    if not hasattr(code, "replace"):  # before Python 3.8
        return None if variables else code
    return code.replace(co_name=name, co_freevars=variables)
