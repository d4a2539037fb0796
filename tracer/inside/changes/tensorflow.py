"""Changes to TensorFlow programs: eager mode, compilation and the input pipeline."""

from typing import Any, Callable, List

from kernelscope.tracer.inside.changes.calls import VALUES, around_outermost, one_node, silent
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def graphs(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Run functions as graphs, whatever the program sets."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def run(eagerly: bool) -> None:
            if eagerly:
                seen("run_functions_eagerly")
            original(False)

        return run

    patches.wrap(tensorflow.config, "run_functions_eagerly", make)


def compiled(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Compile functions with XLA."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def function(func: Any = None, *arguments: Any, **named: Any) -> Any:
            named["jit_compile"] = True
            seen("tf.function")
            return original(func, *arguments, **named)

        return function

    patches.wrap(tensorflow, "function", make)


def parallel_input(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Map in parallel and prefetch batches."""
    automatic = tensorflow.data.AUTOTUNE

    def mapping(original: Callable[..., Any]) -> Callable[..., Any]:
        def mapped(self: Any, function: Any, num_parallel_calls: Any = None, *arguments: Any, **named: Any) -> Any:
            if num_parallel_calls is None:
                seen("Dataset.map")
            return original(self, function, num_parallel_calls or automatic, *arguments, **named)

        return mapped

    def batching(original: Callable[..., Any]) -> Callable[..., Any]:
        def batched(self: Any, *arguments: Any, **named: Any) -> Any:
            seen("Dataset.batch")
            return original(self, *arguments, **named).prefetch(automatic)

        return batched

    patches.wrap(tensorflow.data.Dataset, "map", mapping)
    patches.wrap(tensorflow.data.Dataset, "batch", batching)


def cached_input(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Cache batches in memory."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def batched(self: Any, *arguments: Any, **named: Any) -> Any:
            seen("Dataset.batch")
            return original(self, *arguments, **named).cache()

        return batched

    patches.wrap(tensorflow.data.Dataset, "batch", make)


def one_batch(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Return a data set's first batch again and again: shows what remains of a step without loading."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def batched(self: Any, *arguments: Any, **named: Any) -> Any:
            seen("Dataset.batch")
            return original(self, *arguments, **named).take(1).cache().repeat()

        return batched

    patches.wrap(tensorflow.data.Dataset, "batch", make)


def values(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Note the first losses that functions return: the first number. Keras reports those of its own to its callbacks, too."""
    noted: List[int] = []

    def outermost(call: Callable[..., Any], function: Any, *arguments: Any, **named: Any) -> Any:
        result = call(function, *arguments, **named)
        if len(noted) < VALUES and not isinstance(result, dict) and tensorflow.executing_eagerly():
            found = [leaf for leaf in tensorflow.nest.flatten(result) if _number(tensorflow, leaf)]
            if found:
                noted.append(1)
                seen(repr(float(found[0])))
        return result

    kind = type(tensorflow.function(lambda: None))
    patches.wrap(kind, "__call__", lambda original: around_outermost(original, outermost))


def _number(tensorflow: Any, leaf: Any) -> bool:
    return tensorflow.is_tensor(leaf) and leaf.shape.rank == 0 and leaf.dtype.is_floating


CHANGES = {
    "one node": one_node,
    "graphs": graphs,
    "compiled": compiled,
    "cached input": cached_input,
    "parallel input": parallel_input,
    "one batch": one_batch,
    "silent": silent,
    "values": values,
}
