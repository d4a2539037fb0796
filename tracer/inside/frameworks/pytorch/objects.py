"""What the program's own objects hold, asked of Python's and PyTorch's classes: their own may fail, count or lie when asked.

A proxy says that it is of the class of what it stands for (`__class__`), so that only `type` tells; a dictionary's own kind may
load its values when it is asked for them; a model may refuse to tell its modules, draw random numbers when it is asked, or have
no hash; a tensor's kind may compute its shape.
"""

from typing import Any, Iterable, Iterator, List, Optional, Tuple

# What PyTorch's own Module.__call__ asks for: it calls the second without the first
_CALL = ("_compiled_call_impl", "_call_impl")
_HELD = ((tuple, tuple.__iter__), (list, list.__iter__), (dict, dict.values))


def held(value: Any) -> Optional[Iterable[Any]]:
    """Return what a tuple, list or dictionary has stored; None for all else."""
    for kind, values in _HELD:
        if issubclass(type(value), kind):
            return values(value)
    return None


def stored(value: Any, name: str) -> Any:
    """Return what an object has stored under a name, a module also as its child; None where that is nothing."""
    own = object.__getattribute__(value, "__dict__")
    return own[name] if name in own else _items(value, "_modules").get(name)


def _items(module: Any, name: str) -> Any:
    """Return a dictionary of what a module has stored as its modules or parameters."""
    found = object.__getattribute__(module, "__dict__").get(name) or {}
    return dict(dict.items(found) if issubclass(type(found), dict) else found.items())  # TorchScript has kinds of its own


def modules(module: Any) -> Iterator[Tuple[str, Any]]:
    """Yield each path to a module within a module, and what is there; the module itself, with an empty path, comes first."""
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

    A wrapper can call that in its place: modules may be nested as deeply in one another as Python's limit of recursion allows.
    """
    return getattr(getattr(call, "__code__", None), "co_names", None) == _CALL


# What we ask of tensors
_ASKED = frozenset(
    "shape dim dtype numel is_cuda is_meta tolist is_leaf grad_fn _version _backward_hooks register_hook".split()
    + ["__dict__", "__getattribute__"]
)


def is_tensor(torch: Any, kind: type) -> bool:
    """Return whether this kind is one of tensors that answer as PyTorch does: the program's own may compute it, or fail."""
    if not issubclass(kind, torch.Tensor):
        return False
    return not any(_ASKED & set(vars(one)) for one in kind.__mro__[: kind.__mro__.index(torch.Tensor)])
