"""Changes to JAX programs: compilation, precision, and whether a function may overwrite its arguments."""

import functools
from typing import Any, Callable, Dict, List, Sequence

from kernelscope.tracer.inside.changes.calls import VALUES, one_node, silent
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]
_ANEW = 3  # functions with the same code: if there are more, the program makes new ones in each step
_OWN = ("donate_argnums", "donate_argnames", "static_argnums", "static_argnames")  # who sets these has considered the arguments


class _Calls(object):
    """Stands for what jax.jit returned; its calls become `call(function, *arguments)`."""

    def __init__(self, function: Any, call: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._call = call

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._call(self._function, *arguments, **named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)


def _compiling(jax: Any, patches: Patches, calls: Callable[..., Any]) -> None:
    """Make jax.jit return calls(jit, function, options); jit is JAX's own."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def jit(fun: Any = None, **options: Any) -> Any:
            return functools.partial(jit, **options) if fun is None else calls(original, fun, options)

        return jit

    patches.wrap(jax, "jit", make)


def _traced(jax: Any, values: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(values))


def _kept_off(jax: Any, patches: Patches, seen: Seen, setting: str) -> None:
    """Keep a setting off, whatever the program sets."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def update(name: str, value: Any) -> None:
            on = name == setting and value
            if on:
                seen(name)
            original(name, False if on else value)

        return update

    patches.wrap(jax.config, "update", make)


def single_precision(jax: Any, patches: Patches, seen: Seen) -> None:
    """Keep double precision off, which JAX uses only on request."""
    _kept_off(jax, patches, seen, "jax_enable_x64")


def compiled(jax: Any, patches: Patches, seen: Seen) -> None:
    """Keep jax.jit on, whatever the program sets."""

    def disabling(original: Callable[[bool], Any]) -> Callable[..., Any]:
        def disable_jit(disable: bool = True) -> Any:
            if disable:
                seen("disable_jit")
            return original(False)

        return disable_jit

    _kept_off(jax, patches, seen, "jax_disable_jit")
    patches.wrap(jax, "disable_jit", disabling)


def compiled_gradients(jax: Any, patches: Patches, seen: Seen) -> None:
    """Compile gradient functions that the program does not compile; each once, however often it asks for it.

    Functions that the program makes anew in each step are left alone: they would be compiled in each step.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        made: Dict[Any, Any] = {}  # keeps the function itself, so that its id is not reused
        anew: Dict[Any, int] = {}

        def gradients(fun: Any, *arguments: Any, **named: Any) -> Any:
            plain = original(fun, *arguments, **named)
            key = (id(fun), repr((arguments, sorted(named.items()))))
            if key in made:
                return made[key][1]
            code = id(getattr(fun, "__code__", fun))
            anew[code] = anew.get(code, 0) + 1
            if anew[code] > _ANEW:
                return plain
            faster = jax.jit(plain, static_argnums=())  # so that `donated` leaves it alone: parameters are used again
            refused: List[bool] = []

            def call(*values: Any, **keywords: Any) -> Any:
                if refused or _traced(jax, (values, keywords)):
                    return plain(*values, **keywords)
                try:
                    result = faster(*values, **keywords)
                except TypeError:  # an argument is not an array
                    refused.append(True)
                    return plain(*values, **keywords)
                seen(getattr(fun, "__name__", "function"))
                return result

            made[key] = fun, functools.wraps(plain)(call)
            return made[key][1]

        return gradients

    for name in ("grad", "value_and_grad"):
        patches.wrap(jax, name, make)


def donated(jax: Any, patches: Patches, seen: Seen) -> None:
    """Let compiled functions write their results over arguments of the same shapes, such as parameters."""

    def calls(jit: Callable[..., Any], fun: Any, options: Any) -> Any:
        plain = jit(fun, **options)
        if any(name in options for name in _OWN):
            return plain
        chosen: List[Any] = []

        def call(function: Any, *values: Any, **keywords: Any) -> Any:
            if _traced(jax, (values, keywords)):
                return function(*values, **keywords)
            if chosen:
                return chosen[0](*values, **keywords)
            result = function(*values, **keywords)
            places = _returned(jax, values, result)
            chosen.append(jit(fun, donate_argnums=places, **options) if places else function)
            if places:
                seen(getattr(fun, "__name__", "function"))
            return result

        return _Calls(plain, call)

    _compiling(jax, patches, calls)


def _returned(jax: Any, values: Sequence[Any], result: Any) -> List[int]:
    """Return the positions of arguments with the structure, shapes and types of one of the results."""

    def kind(value: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten(value)
        return structure, [(getattr(leaf, "shape", None), getattr(leaf, "dtype", None)) for leaf in leaves]

    results = [kind(one) for one in (result if isinstance(result, (tuple, list)) else (result,))]
    arrays = [any(getattr(leaf, "ndim", 0) for leaf in jax.tree_util.tree_leaves(value)) for value in values]
    return [place for place, value in enumerate(values) if arrays[place] and kind(value) in results]


def values(jax: Any, patches: Patches, seen: Seen) -> None:
    """Note the first losses: the first number that a compiled function, or a gradient with its value, returns to the program."""
    noted: List[int] = []
    within: List[int] = []  # calls of ours that are under way: what they call returns nothing to the program

    def call(function: Any, *arguments: Any, **named: Any) -> Any:
        within.append(1)
        try:
            result = function(*arguments, **named)
        finally:
            within.pop()
        if not within and len(noted) < VALUES and not _traced(jax, result):
            found = [leaf for leaf in jax.tree_util.tree_leaves(result) if _number(jax, leaf)]
            if found:
                noted.append(1)
                seen(repr(float(found[0])))
        return result

    def with_value(original: Callable[..., Any]) -> Callable[..., Any]:
        def value_and_grad(*arguments: Any, **named: Any) -> Any:
            plain = original(*arguments, **named)
            return functools.wraps(plain)(functools.partial(call, plain))

        return value_and_grad

    patches.wrap(jax, "value_and_grad", with_value)
    _compiling(jax, patches, lambda jit, fun, options: _Calls(jit(fun, **options), call))


def _number(jax: Any, leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and leaf.ndim == 0 and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)


CHANGES = {
    "one node": one_node,
    "compiled": compiled,
    "compiled gradients": compiled_gradients,
    "donated": donated,
    "silent": silent,
    "single precision": single_precision,
    "values": values,
}
