"""Changes to Keras programs: how models are compiled, precision, and what `fit` prints."""

from typing import Any, Callable, List

from kernelscope.tracer.inside.changes.calls import VALUES
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]
_OURS = "kernelscope"  # an attribute of our own callbacks
_BEFORE_CALLBACKS = 5  # arguments of `fit`: x, y, batch_size, epochs, verbose


def _compile(keras: Any, patches: Patches, seen: Seen, **settings: Any) -> None:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        def compile_(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **dict(named, **settings))
            seen(type(self).__name__)

        return compile_

    patches.wrap(keras.Model, "compile", make)


def graphs(keras: Any, patches: Patches, seen: Seen) -> None:
    """Run models as graphs, whatever the program sets."""
    _compile(keras, patches, seen, run_eagerly=False)


def compiled(keras: Any, patches: Patches, seen: Seen) -> None:
    """Compile models with XLA."""
    _compile(keras, patches, seen, run_eagerly=False, jit_compile=True)


def single_precision(keras: Any, patches: Patches, seen: Seen) -> None:
    """Keep models in single precision, whatever policy or type the program sets."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def set_(value: Any) -> None:
            double = getattr(value, "name", value) == "float64"
            if double:
                seen("float64")
            original("float32" if double else value)

        return set_

    for owner, name in (
        (keras.backend, "set_floatx"), (keras.config, "set_floatx"), (keras.mixed_precision, "set_global_policy"),
        (keras.config, "set_dtype_policy"),
    ):  # fmt: skip
        if hasattr(owner, name):
            patches.wrap(owner, name, make)


def bfloat16(keras: Any, patches: Patches, seen: Seen) -> None:
    """Let layers compute in bfloat16 and keep their parameters in float32, unless the program sets a policy itself."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    seen("mixed_bfloat16")


def silent(keras: Any, patches: Patches, seen: Seen) -> None:
    """Let `fit` print nothing and call no callbacks but ours."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def fit(self: Any, *arguments: Any, **named: Any) -> Any:
            if len(arguments) <= _BEFORE_CALLBACKS - 1:
                others = named.get("callbacks") or []
                named["callbacks"] = [one for one in others if hasattr(one, _OURS)] if isinstance(others, (list, tuple)) else None
                named["verbose"] = 0
                seen("fit")
            return original(self, *arguments, **named)

        return fit

    patches.wrap(keras.Model, "fit", make)


def values(keras: Any, patches: Patches, seen: Seen) -> None:
    """Note the first losses of `fit`, as it reports them to callbacks: means since the epoch began."""
    noted: List[int] = []

    class Losses(keras.callbacks.Callback):  # type: ignore[misc]
        kernelscope = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if len(noted) < VALUES and logs and "loss" in logs:
                noted.append(1)
                seen(repr(float(logs["loss"])))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def fit(self: Any, *arguments: Any, **named: Any) -> Any:
            others = named.get("callbacks") or []
            if len(arguments) <= _BEFORE_CALLBACKS and isinstance(others, (list, tuple)):
                named["callbacks"] = [*others, Losses()]
            return original(self, *arguments, **named)

        return fit

    patches.wrap(keras.Model, "fit", make)


CHANGES = {
    "graphs": graphs,
    "compiled": compiled,
    "silent": silent,
    "single precision": single_precision,
    "bfloat16": bfloat16,
    "values": values,
}
