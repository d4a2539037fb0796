"""Scopes around the modules of flax.nnx and Equinox, so that what they compute bears their paths in XLA's programs.

Flax's linen and Haiku open a scope for each module themselves. nnx opens none and Equinox one with a layer's class. Here each
class's `__call__` is replaced by one that opens `jax.named_scope(path)` while a function is traced, and calls on otherwise: a
compiled function runs no Python, so that it costs nothing there. Scopes are names in a program and change nothing that it
computes. The replaced methods stay when recording is over: Equinox compares methods to find what is compiled already.
"""

import functools
import threading
import types
from typing import Any, Callable, Dict, List, Set, Tuple

# module that defines it -> the class of which modules are
BASES = {"flax.nnx.module": "Module", "equinox._module": "Module"}
# modules of these that are no layers: transformations and bound methods, which are called around layers
_NO_LAYERS = ("equinox._", "equinox.internal", "flax.nnx.transforms")
_MOST = 10000  # things that are looked at to find the paths of one model


class Scopes(object):
    """The scopes of all modules of a process. tracing: tells whether a function is being traced."""

    def __init__(self, jax: Any, tracing: Callable[..., Any]) -> None:
        self._jax = jax
        self._tracing = tracing
        self._bases: Tuple[Any, ...] = ()
        self._known: Set[Any] = set()  # classes that were looked at
        self._local = threading.local()  # stack: (module, its path, the paths of the modules of its model), innermost last

    def know(self, base: Any) -> None:
        """Make layers of the modules that are derived from this class."""
        self._bases += (base,)

    def find(self) -> None:
        """Look for classes of modules that are new; called before a function is traced for the first time."""
        waiting: List[Any] = list(self._bases)
        while waiting:
            kind = waiting.pop()
            waiting += kind.__subclasses__()
            if kind not in self._known:
                self._known.add(kind)
                call = vars(kind).get("__call__")
                if isinstance(call, types.FunctionType) and not kind.__module__.startswith(_NO_LAYERS):
                    try:
                        kind.__call__ = self._scoped(call)
                    except (AttributeError, TypeError):
                        pass  # a class that does not let its methods be replaced: it is no layer

    def _scoped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tracing, local = self._tracing, self._local

        @functools.wraps(original)
        def called(module: Any, *arguments: Any, **keywords: Any) -> Any:
            if not tracing():
                return original(module, *arguments, **keywords)
            stack = local.__dict__.setdefault("stack", [])
            if stack and stack[-1][0] is module:  # its class calls that of its base
                return original(module, *arguments, **keywords)
            name, opened = self._named(module, stack[-1] if stack else None)
            stack.append(opened)
            try:
                with self._jax.named_scope(name):
                    return original(module, *arguments, **keywords)
            finally:
                stack.pop()

        return called

    def _named(self, module: Any, around: Any) -> Any:
        """Return how a module is called within the one around it, and what to remember of it while it is called."""
        path = around[2].get(id(module)) if around is not None else None
        if path is None:  # a model, or one that was made while it is traced, as transformations do
            return type(module).__name__, (module, "", self._paths(module))
        inside = around[1] + "."
        return path[len(inside) :] if path.startswith(inside) else path, (module, path, around[2])

    def _paths(self, model: Any) -> Dict[int, str]:
        """Return {id of a module: its path in the model}, of one that has several the first."""
        found, waiting = {id(model): ""}, [("", model)]
        for path, owner in waiting:
            for name, value in _parts(owner):
                held = isinstance(value, self._bases)
                if (held or isinstance(value, (list, tuple, dict))) and id(value) not in found and len(found) < _MOST:
                    found[id(value)] = inner = "%s.%s" % (path, name) if path else str(name)
                    waiting.append((inner, value))
        return found


def _parts(owner: Any) -> Any:
    """Return (name, value) of what a module, list or dictionary holds."""
    if isinstance(owner, (list, tuple)):
        return enumerate(owner)
    return list((owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})).items())
