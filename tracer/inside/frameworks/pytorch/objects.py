"""Inspect the program's objects through methods of Python's and PyTorch's classes: their own may fail, count or lie.

A proxy claims the class of the object behind it (`__class__`), and only `type` tells the truth; a dictionary subclass may load
its values on access; a model may refuse to list its modules, draw random numbers when asked, or be unhashable; a tensor
subclass may compute its shape.
"""

from typing import Any, Iterable, Iterator, List, Optional, Tuple

# The names that PyTorch's own Module.__call__ uses: it calls the second if the first is not set
_CALL = ("_compiled_call_impl", "_call_impl")
_HELD = ((tuple, tuple.__iter__), (list, list.__iter__), (dict, dict.values))


def held(value: Any) -> Optional[Iterable[Any]]:
    """Return the values stored in a tuple, list or dictionary; None for anything else."""
    for kind, values in _HELD:
        if issubclass(type(value), kind):
            return values(value)
    return None


def stored(value: Any, name: str) -> Any:
    """Return the attribute stored in an object under this name, or a module's child of this name; None if there is neither."""
    own = object.__getattribute__(value, "__dict__")
    return own[name] if name in own else _items(value, "_modules").get(name)


def _items(module: Any, name: str) -> Any:
    """Return the stored modules or parameters of a module as a dictionary."""
    found = object.__getattribute__(module, "__dict__").get(name) or {}
    return dict(dict.items(found) if issubclass(type(found), dict) else found.items())  # TorchScript has its own types


def modules(module: Any) -> Iterator[Tuple[str, Any]]:
    """Yield (path, module) for each path within a module; the module itself comes first, with an empty path."""
    left: List[Tuple[str, Any, Tuple[int, ...]]] = [("", module, ())]
    while left:
        path, one, around = left.pop()
        yield path, one
        inside = around + (id(one),)
        children = _items(one, "_modules").items()
        left += [
            (path + "." + name if path else name, child, inside)
            for name, child in reversed(list(children))
            if child is not None and id(child) not in inside
        ]


def parameters(module: Any, recurse: bool = True) -> Iterator[Any]:
    """Yield a module's parameters, each once."""
    seen = set()
    for _, one in modules(module) if recurse else (("", module),):
        for parameter in _items(one, "_parameters").values():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                yield parameter


def only_hands_on(call: Any) -> bool:
    """Return whether this is a Module.__call__ that only calls the module's own `_call_impl`, as since PyTorch 2.1.

    A wrapper can then call `_call_impl` directly and saves a frame: modules may be nested up to Python's recursion limit.
    """
    return getattr(getattr(call, "__code__", None), "co_names", None) == _CALL


# Attributes of tensors that we use
_ASKED = frozenset(
    "shape dim dtype numel is_cuda is_meta tolist is_leaf grad_fn _version _backward_hooks register_hook".split()
    + ["__dict__", "__getattribute__"]
)


def is_tensor(torch: Any, kind: type) -> bool:
    """Return whether tensors of this class answer as PyTorch's own do: a program's subclass may compute the answer or fail."""
    if not issubclass(kind, torch.Tensor):
        return False
    return not any(_ASKED & set(vars(one)) for one in kind.__mro__[: kind.__mro__.index(torch.Tensor)])
