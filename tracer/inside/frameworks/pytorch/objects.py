"""What the program's own objects hold, asked of Python's and PyTorch's classes: their own may fail, count or lie when asked.

A proxy says that it is of the class of what it stands for (`__class__`), so that only `type` tells; a dictionary's own kind may
load its values when it is asked for them; a model may refuse to tell its parameters.
"""

from typing import Any, Iterable, Iterator, Optional

_HELD = ((tuple, tuple.__iter__), (list, list.__iter__), (dict, dict.values))


def held(value: Any) -> Optional[Iterable[Any]]:
    """Return what a tuple, list or dictionary has stored; None for all else."""
    for kind, stored in _HELD:
        if issubclass(type(value), kind):
            return stored(value)
    return None


def parameters(torch: Any, module: Any, recurse: bool = True) -> Iterator[Any]:
    """Yield a module's parameters."""
    for _, parameter in torch.nn.Module.named_parameters(module, recurse=recurse):
        yield parameter
