"""What changes share: how many results are noted, and which calls are of the whole model and not of a part of it."""

import threading
from typing import Any, Callable

VALUES = 5  # losses, or outputs, that are noted


def around_outermost(call: Callable[..., Any], outermost: Callable[..., Any]) -> Callable[..., Any]:
    """Return what is put in place of `call`: outermost(call, *arguments) for calls that stand in no other of their thread."""
    state = threading.local()

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if getattr(state, "inside", False):
            return call(*arguments, **named)
        state.inside = True
        try:
            return outermost(call, *arguments, **named)
        finally:
            state.inside = False

    return wrapped
