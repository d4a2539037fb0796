"""Scopes around flax.nnx and Equinox modules, so that their operations carry the modules' paths in XLA's programs.

Flax's linen and Haiku open a scope for each module themselves. nnx opens none, and Equinox opens one with the layer's class.
Here each class's `__call__` is replaced by one that opens `jax.named_scope(path)` while a function is traced and otherwise just
calls the original. Compiled functions run no Python, so it costs nothing there. Scopes are only names in a program: they do not
change its results. The replacements stay after recording: Equinox compares methods to find what is already compiled.
"""

import functools
import threading
import types
from typing import Any, Callable, Dict, List, Set, Tuple

# defining module -> base class of the library's modules
BASES = {"flax.nnx.module": "Module", "equinox._module": "Module"}
# Python modules whose classes are not layers: transformations and bound methods, called around layers
_NO_LAYERS = ("equinox._", "equinox.internal", "flax.nnx.transforms")
_MOST = 10000  # most objects examined to find the paths of one model


class Scopes(object):
    """The scopes of all modules of a process. tracing: tells whether a function is being traced."""

    def __init__(self, jax: Any, tracing: Callable[..., Any]) -> None:
        self._jax = jax
        self._tracing = tracing
        self._bases: Tuple[Any, ...] = ()
        self._known: Set[Any] = set()  # classes already examined
        self._local = threading.local()  # stack: (module, its path, the paths of the modules of its model), innermost last

    def know(self, base: Any) -> None:
        """Treat modules derived from this class as layers."""
        self._bases += (base,)

    def find(self) -> None:
        """Look for new module classes; called before a function is first traced."""
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
                        pass  # the class does not allow its methods to be replaced: not a layer

    def _scoped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tracing, local = self._tracing, self._local

        @functools.wraps(original)
        def called(module: Any, *arguments: Any, **keywords: Any) -> Any:
            if not tracing():
                return original(module, *arguments, **keywords)
            stack = local.__dict__.setdefault("stack", [])
            if stack and stack[-1][0] is module:  # a class's __call__ calls its base's
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
        """Return a module's name within the enclosing one, and its stack entry for the duration of the call."""
        path = around[2].get(id(module)) if around is not None else None
        if path is None:  # a model, or a module made during tracing, as transformations do
            return type(module).__name__, (module, "", self._paths(module))
        inside = around[1] + "."
        return path[len(inside) :] if path.startswith(inside) else path, (module, path, around[2])

    def _paths(self, model: Any) -> Dict[int, str]:
        """Return {id of a module: its path in the model}; the first path if there are several."""
        found, waiting = {id(model): ""}, [("", model)]
        for path, owner in waiting:
            for name, value in _parts(owner):
                held = isinstance(value, self._bases)
                if (held or isinstance(value, (list, tuple, dict))) and id(value) not in found and len(found) < _MOST:
                    found[id(value)] = inner = "%s.%s" % (path, name) if path else str(name)
                    waiting.append((inner, value))
        return found


def _parts(owner: Any) -> Any:
    """Return the (name, value) pairs that a module, list or dictionary holds."""
    if isinstance(owner, (list, tuple)):
        return enumerate(owner)
    return list((owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})).items())
