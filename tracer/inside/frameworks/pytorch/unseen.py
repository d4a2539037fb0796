"""What we call of PyTorch in between, which modes of the program's own (TorchDispatchMode, TorchFunctionMode) are not to see."""

import contextlib
from typing import Any, Iterator

_GUARDS = ("_DisableTorchDispatch", "DisableTorchFunction")  # which there are depends on the version


@contextlib.contextmanager
def unseen(torch: Any) -> Iterator[None]:
    """Keep what is called in the block from modes, and from tensors' own kinds that take part in calls."""
    dispatch, function = [getattr(torch._C, name, contextlib.suppress) for name in _GUARDS]
    with dispatch(), function():
        yield
