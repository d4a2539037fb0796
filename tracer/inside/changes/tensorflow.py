"""What can be changed of a program of TensorFlow: eager mode, compilation, its input pipeline."""

from typing import Any, Callable

from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def graphs(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Run functions as graphs, whatever the program says."""

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


def one_batch(tensorflow: Any, patches: Patches, seen: Seen) -> None:
    """Hand out a data set's first batch again and again: what is left of a step without loading."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def batched(self: Any, *arguments: Any, **named: Any) -> Any:
            seen("Dataset.batch")
            return original(self, *arguments, **named).take(1).cache().repeat()

        return batched

    patches.wrap(tensorflow.data.Dataset, "batch", make)


CHANGES = {"graphs": graphs, "compiled": compiled, "parallel input": parallel_input, "one batch": one_batch}
