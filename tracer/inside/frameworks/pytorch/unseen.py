"""Hide our own PyTorch calls from the program's modes (TorchDispatchMode, TorchFunctionMode)."""

import contextlib
from typing import Any, Iterator

_GUARDS = ("_DisableTorchDispatch", "DisableTorchFunction")  # which of them exist depends on the version


@contextlib.contextmanager
def unseen(torch: Any) -> Iterator[None]:
    """Hide calls in the block from modes, and from tensor subclasses that intercept calls."""
    dispatch, function = [getattr(torch._C, name, contextlib.suppress) for name in _GUARDS]
    with dispatch(), function():
        yield
