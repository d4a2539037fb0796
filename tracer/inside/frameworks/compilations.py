"""Which functions JAX compiles while steps are recorded, and why: how the call differs from calls compiled before.

Only calls that compiled something have their arguments inspected, and only after the call: shapes, types, and the values of
arguments that the script declares static. A function that is created for each call is compiled each time. If none of this
explains a compilation, its reason is unknown. Operations that the loop calls one by one are compiled too, once for each shape.
"""

import functools
import inspect
import re
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

# kind of a reason, and the reason in words
NEW = ("new", "it is a new function each time, created by jax.jit, a lambda or a nested function within the step")
EAGER = ("eager", "its operations run one by one, and each is compiled for every shape and static value")
UNKNOWN = ("unknown", "nothing visible in its arguments changes")
FIRST = ("first", "it is called for the first time")
MOST_SEEN = 8  # signatures kept per function
_MOST_NAMED = 2  # arguments of a call that a reason names
_LONGEST = 20  # characters shown of a static string
_PROGRAM = re.compile(r"^(?:jit|pjit|pmap)(?:_+|\()(.*?)\)?$")  # the name of a function's program


class Compilations(object):
    """All compilations so far. count, ns: their number and total time. unexplained: not None if the current call compiled."""

    def __init__(self, jax: Any) -> None:
        self.count = self.ns = 0
        self.unexplained: Any = None  # (name of a program, the compiled functions being called, innermost last)
        self._jax = jax
        self._reasons: Dict[Any, Any] = {}  # (function, reason) -> [count, an example]
        # (name, code) of a function -> [(number of the compiled function, signature)], newest last
        self._seen: Dict[Any, Any] = {}

    def happened(self, program: str, stack: Sequence[Any]) -> None:
        """Note that something was compiled. stack: the open calls, outermost first."""
        self.count += 1
        name = _PROGRAM.sub(r"\1", program)
        if stack:
            self.unexplained = (name, [calls for calls in stack if calls.compiles])
        else:
            self._add(name or "operations", EAGER)

    def explain(self, calls: Any, function: Callable[..., Any], arguments: Sequence[Any], keywords: Dict[str, Any]) -> None:
        """Find out why the outermost call, which has ended, compiled something. Never raise, whatever its arguments are."""
        (name, inside), self.unexplained = self.unexplained, None
        if not inside:  # a gradient computed operation by operation
            self._add(calls.name or name, EAGER)
            return
        made = inside[0]
        name = made.name if calls is made or not name else name
        try:
            self._add(name, *self._found(name, made, function, arguments, keywords))
        except Exception:
            self._add(name, UNKNOWN)

    def _found(self, name: str, made: Any, function: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
        wrapper = getattr(function, "args", (function,))[0]  # a library may wrap the compiled function
        signature = _signature(self._jax, wrapper, arguments, keywords)
        seen = self._seen.setdefault((name, code_of(made.function)), [])
        everything = type(wrapper).__module__.startswith("equinox")  # in Equinox whatever is not an array is static
        found = _why(seen, made.number, signature, None if everything else made.static)
        seen.append((made.number, signature))
        del seen[:-MOST_SEEN]
        return found

    def _add(self, name: str, reason: Tuple[str, str], example: Optional[str] = None) -> None:
        known = self._reasons.setdefault((name, reason), [0, None])
        known[0] += 1
        known[1] = example

    def mark(self) -> Tuple[Any, Any, Dict[Any, Any]]:
        """Return a mark of this moment for `since`."""
        return self.count, self.ns, {reason: number for reason, (number, _) in self._reasons.items()}

    def since(self, mark: Any) -> Dict[str, Any]:
        """Return {"count", "ns", "functions"} of the compilations since the mark; most often compiled functions first."""
        count, ns, before = mark
        found = [
            {"name": name, "kind": kind, "why": why, "example": example, "count": number - before.get((name, (kind, why)), 0)}
            for (name, (kind, why)), (number, example) in self._reasons.items()
            if number > before.get((name, (kind, why)), 0)
        ]
        return {"count": self.count - count, "ns": self.ns - ns, "functions": sorted(found, key=lambda one: -one["count"])}


def _why(
    seen: Sequence[Tuple[int, Dict[str, Any]]], number: int, signature: Dict[str, Any], static: Optional[FrozenSet[str]]
) -> Tuple[Tuple[str, str], Optional[str]]:
    """Return why a call was compiled, and an example or None. static: names of the static arguments, None for all."""
    if not seen:
        return FIRST, None
    if all(other != number for other, _ in seen):
        return NEW, None
    changes = min((_changes(before, signature, static) for _, before in reversed(seen)), key=len)
    if not changes:
        return UNKNOWN, None
    kind = _KINDS[min(_KINDS.index(kind) for kind, _, _, _ in changes)]
    named = [change for change in changes if change[0] == kind]
    labels = ", ".join(label for _, label, _, _ in named[:_MOST_NAMED])
    more = " and %d more" % (len(named) - _MOST_NAMED) if len(named) > _MOST_NAMED else ""
    return (kind, "the %s of %s%s changes" % (kind, labels, more)), "%s after %s" % (named[0][3], named[0][2])


_KINDS = _STRUCTURE, _SHAPE, _TYPE, _VALUE = "structure", "shape", "type", "static value"  # the first that changed is named


def _changes(before: Dict[str, Any], now: Dict[str, Any], static: Optional[FrozenSet[str]]) -> List[Tuple[str, str, str, str]]:
    """List the differences between two signatures as (kind, argument, before, now)."""
    found = []
    for label in sorted(set(before) | set(now)):
        old, new = before.get(label), now.get(label)
        if old == new:
            continue
        if old is None or new is None:
            found.append((_STRUCTURE, label, _text(old), _text(new)))
        elif old[1] != new[1]:
            found.append((_SHAPE, label, _text(old), _text(new)))
        elif old[0] != new[0]:
            found.append((_TYPE, label, _text(old), _text(new)))
        elif static is None or re.split(r"[.\[]", label)[0] in static:
            found.append((_VALUE, label, _text(old), _text(new)))
    return found


def _text(described: Optional[Tuple[str, Any, Optional[str]]]) -> str:
    """Return one leaf of a signature as text."""
    if described is None:
        return "nothing"
    kind, shape, value = described
    if shape is not None:
        return "%s[%s]" % (kind, ",".join(map(str, shape)))
    return kind if value is None else value


def _signature(jax: Any, function: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
    """Return a call's {argument and path within it: (type, shape or None, value as text or None)}."""
    try:
        named = inspect.signature(function).bind(*arguments, **keywords).arguments
    except (TypeError, ValueError):
        named = {"argument %d" % place: value for place, value in enumerate(arguments)}
        named.update(keywords)
    found = {}
    for name, value in named.items():
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            found[name + jax.tree_util.keystr(path)] = _described(leaf)
    return found


def _described(leaf: Any) -> Tuple[str, Any, Optional[str]]:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return str(dtype) + (" (weak)" if getattr(leaf, "weak_type", False) else ""), shape, None
    value = None
    if leaf is None or isinstance(leaf, (bool, int, float, complex)):
        value = repr(leaf)
    elif isinstance(leaf, str):
        value = repr(leaf[:_LONGEST])
    elif callable(leaf):
        value = getattr(leaf, "__qualname__", None)
    return type(leaf).__name__, None, value


def static_arguments(function: Callable[..., Any], keywords: Dict[str, Any]) -> FrozenSet[str]:
    """Return the names of a function's static arguments. keywords: those passed to its jax.jit."""
    places, names = (keywords.get("static_arg" + what) for what in ("nums", "names"))
    found = [names] if isinstance(names, str) else list(names or ())
    places = [places] if isinstance(places, int) else list(places or ())
    if places:
        try:
            known = list(inspect.signature(function).parameters)
            found += [known[place] for place in places]
        except (TypeError, ValueError, IndexError):
            pass
    return frozenset(found)


def code_of(function: Callable[..., Any]) -> Any:
    """Return a function's code object, which all functions made by the same piece of code share; None if it has none."""
    plain = getattr(function, "__wrapped__", function)
    while isinstance(plain, functools.partial):
        plain = plain.func
    return getattr(plain, "__code__", None)
