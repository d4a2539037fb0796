"""Untrusted pickles, read without running anything: plain values, and stand-ins for classes that a format names."""

from __future__ import annotations

import pickletools
from collections.abc import Collection
from typing import Any

_OPERATIONS = 3_000_000  # a few seconds of reading


class Stood:
    """A stand-in for an object of a class that a format names. It only holds the object's state."""

    def __init__(self) -> None:
        self.state: Any = None


def read(content: bytes, classes: Collection[str] = ()) -> Any:
    """Return the content of a pickle: dicts, lists, tuples, texts, numbers, true, false and None.

    classes: "module name" of the classes whose objects become a Stood; no others are allowed. Raise ValueError, IndexError or
    KeyError if the pickle asks for anything else, has too many operations, or is damaged.
    """
    return _Machine(classes).run(content)


def of_kind(value: Any, kind: type) -> Any:
    """Return a value; raise ValueError if it has another type."""
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__} where a {kind.__name__} is needed")
    return value


class _Mark:
    """The marker that MARK pushes onto the stack."""


class _Machine:
    """Executes only the few operations that plain values need.

    It imports nothing and calls nothing. Keys are checked before they are hashed, sizes are bounded by the file's, and nothing is
    copied, so a hostile file can do no more than be refused.
    """

    def __init__(self, classes: Collection[str]) -> None:
        self.classes = classes
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Return the value that a pickle builds."""
        for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
            if count >= _OPERATIONS:
                raise ValueError(f"more than {_OPERATIONS} operations")
            if operation.name == "STOP":
                return self.stack.pop()
            self._step(operation.name, argument)
        raise ValueError("no end")

    def _step(self, name: str, argument: Any) -> None:
        if name in ("PROTO", "FRAME"):
            return
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name in _TUPLES:
            size = _TUPLES[name]
            self.stack[-size:] = [tuple(self.stack[-size:])]
        else:
            self._build(name, argument)

    def _build(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name in ("APPEND", "APPENDS"):
            values = self._marked() if name == "APPENDS" else [stack.pop()]
            of_kind(stack[-1], list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self._marked() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            target = of_kind(stack[-1], dict)
            target.update({_key(key): value for key, value in zip(values[::2], values[1::2], strict=True)})
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            function = stack.pop() if name == "STACK_GLOBAL" else ""
            wanted = argument if name == "GLOBAL" else f"{of_kind(stack.pop(), str)} {of_kind(function, str)}"
            if wanted not in self.classes:
                raise ValueError(f"wants {wanted[:100]!r}, which is not allowed")
            stack.append(Stood)
        elif name in ("NEWOBJ", "REDUCE"):
            if stack.pop() != () or stack.pop() is not Stood:
                raise ValueError(f"{name} of something other than an allowed class")
            stack.append(Stood())
        elif name == "BUILD":
            state = stack.pop()
            of_kind(stack[-1], Stood).state = state
        else:
            raise ValueError(f"operation {name}, which plain values do not have")

    def _marked(self) -> list[Any]:
        """Pop the values above the last mark off the stack, and the mark; return the values."""
        for place in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[place], _Mark):
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise ValueError("no mark")


_VALUES = frozenset(
    (
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    )
)  # fmt: skip
_CONSTANTS: dict[str, Any] = {
    "MARK": _Mark, "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_DICT": dict,
    "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _key(value: Any) -> Any:
    """Return a key that is cheap to hash: a text or a number, or a tuple of up to three of them."""
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) > 3 or not all(isinstance(part, str | int) for part in parts):
        raise ValueError("a key that is neither a text nor up to three texts and numbers")
    return value
