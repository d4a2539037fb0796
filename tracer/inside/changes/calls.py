"""What changes of several frameworks share: how many results are noted, which calls are of a whole model, and silence."""

import builtins
import logging
import threading
from typing import Any, Callable

from kernelscope.tracer.inside.profiling.patches import Patches

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


def silent(_: Any, patches: Patches, seen: Callable[[str], None]) -> None:
    """Print and log nothing: what is left of a step without that."""

    def nothing(name: str) -> Callable[..., Callable[..., None]]:
        def quiet(*arguments: Any, **named: Any) -> None:
            seen(name)

        return lambda _: quiet

    patches.wrap(builtins, "print", nothing("print"))
    patches.wrap(logging.Logger, "handle", nothing("logging"))
