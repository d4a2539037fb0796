"""What can be changed of a program of Keras: how its models are compiled."""

from typing import Any, Callable

from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def _compile(keras: Any, patches: Patches, seen: Seen, **settings: Any) -> None:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        def compile_(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **dict(named, **settings))
            seen(type(self).__name__)

        return compile_

    patches.wrap(keras.Model, "compile", make)


def graphs(keras: Any, patches: Patches, seen: Seen) -> None:
    """Run models as graphs, whatever the program says."""
    _compile(keras, patches, seen, run_eagerly=False)


def compiled(keras: Any, patches: Patches, seen: Seen) -> None:
    """Compile models with XLA."""
    _compile(keras, patches, seen, run_eagerly=False, jit_compile=True)


CHANGES = {"graphs": graphs, "compiled": compiled}
